//! `evict_fifo`: moves the oldest messages into recall storage on request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::spec::{Access, Arguments, Card, Command, Spec};
use super::told;
use crate::error::{Error, Result};
use crate::limits::WINDOW_TOKENS_MAX;
use crate::policy::{Ctx, Depends, Flush, Step, Stop};

/// Arguments of `evict_fifo`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvictFifo {
    /// Which messages are evicted first.
    #[serde(default)]
    pub strategy: Strategy,
    /// Occupancy of the whole window to reach, in tokens; absent: half of the window.
    #[serde(default)]
    #[schemars(range(min = 0, max = 4_000_000), extend("x-model" = "tokens in view afterwards"))]
    pub target_tokens: Option<u64>,
    /// Whether the evicted messages are summarized.
    #[serde(default = "yes")]
    pub summarize: bool,
    /// Whether the call must not wait for a model; a run sets this.
    #[serde(skip)]
    pub at_once: bool,
}

/// Which messages are evicted first.
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

impl Arguments for EvictFifo {
    const CARD: Card = Card {
        title: "Move old messages to recall",
        description: "Make room: move the oldest messages out of view, into recall storage and the summary.",
        example: r#"{"target_tokens": 2000}"#,
        result: &[
            ("evicted_count", "integer", "messages that left the window"),
            ("new_summary_tokens", "integer", "tokens of the summary afterwards"),
            ("after_occupancy", "integer", "tokens of the whole window afterwards"),
        ],
        told: |result| {
            let moved = told::counted(told::number(result, "evicted_count"), "message");
            let after = told::number(result, "after_occupancy");
            format!("{moved} moved out of view; {after} tokens are in view.")
        },
        ..Card::NEW
    };

    fn checked(self) -> Result<Self> {
        match self.target_tokens {
            Some(target) if target > WINDOW_TOKENS_MAX => {
                Err(Error::argument("target_tokens", format!("at most {WINDOW_TOKENS_MAX}")))
            }
            _ => Ok(self),
        }
    }
}

impl Command for EvictFifo {
    const SPEC: Spec = Spec::tool("evict_fifo", Access::Write);

    fn depends(&self) -> Depends {
        Depends::Eviction
    }

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let target = self.target_tokens.unwrap_or(ctx.core.token_budget.target);
        let (summarize, may_wait) = (self.summarize, !self.at_once);
        let flush = Flush { always: true, target, summarize, may_wait };
        ctx.draft().finish(flush, ctx.answers, Map::new())
    }
}
