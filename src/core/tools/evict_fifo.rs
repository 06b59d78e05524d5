//! `evict_fifo`: moves the oldest messages into recall storage on request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::spec::Step;
use crate::error::{Error, Result};
use crate::limits::WINDOW_TOKENS_MAX;
use crate::memory::core::Core;
use crate::policy::{Answers, Draft, Flush, Surroundings};

/// Arguments of `evict_fifo`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvictFifo {
    /// Which messages go first.
    #[serde(default)]
    pub strategy: Strategy,
    /// Occupancy of the whole window to reach, in tokens; absent: half of the window.
    #[serde(default)]
    #[schemars(range(min = 0, max = 4_000_000))]
    pub target_tokens: Option<u64>,
    /// Whether the summary takes up what leaves.
    #[serde(default = "yes")]
    pub summarize: bool,
}

/// Which messages go first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// The oldest.
    #[default]
    Fifo,
}

fn yes() -> bool {
    true
}

impl EvictFifo {
    /// The same, checked beyond its types; a fault names the argument.
    pub(super) fn checked(self) -> Result<Self> {
        match self.target_tokens {
            Some(target) if target > WINDOW_TOKENS_MAX => {
                Err(Error::argument("target_tokens", format!("at most {WINDOW_TOKENS_MAX}")))
            }
            _ => Ok(self),
        }
    }

    /// Thinks: what the call does to this core.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        let target = self.target_tokens.unwrap_or(core.token_budget.target);
        let flush = Flush { always: true, target, summarize: self.summarize, may_wait: true };
        Ok(Draft::new(around, core).finish(flush, answers, Map::new())?.into())
    }
}
