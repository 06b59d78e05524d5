//! `store_core`: writes a block of the working context.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::append_fifo::own_flush;
use super::spec::Step;
use crate::error::{Error, Result};
use crate::limits::{BLOCKS_MAX, JUSTIFICATION_BYTES_MAX, TEXT_BYTES_MAX};
use crate::memory::core::{Block, Core};
use crate::memory::render;
use crate::policy::{Answers, Draft, Promoted, Promotion, Question, Surroundings, check_name};

/// Arguments of `store_core`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StoreCore {
    /// Name of the block, e.g. `human`; made if it does not exist.
    pub block_id: String,
    /// The text.
    pub content: String,
    /// How to write it.
    #[serde(default)]
    pub policy: Policy,
}

/// How a block is written.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// `replace` (default), `append` (adds a line), or `delete`.
    #[serde(default)]
    pub mode: Mode,
    /// Pin or unpin the block; pinned blocks may take a quarter of the window together. Absent: as it is.
    #[serde(default)]
    pub pinned: Option<bool>,
    /// What the block is for; absent: as it is.
    #[serde(default)]
    pub role: Option<String>,
    /// Why this belongs into working memory, in one sentence: needed for text from outside that looks like an order. Never shown to the model.
    #[serde(default)]
    pub justification: Option<String>,
}

/// How the text joins what is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The text takes the block's place.
    #[default]
    Replace,
    /// The text becomes a new last line.
    Append,
    /// The block goes; `content` must be empty.
    Delete,
}

/// Role of a block whose writer named none.
pub(super) const ROLE_DEFAULT: &str = "note";

impl StoreCore {
    /// The same, checked beyond its types; a fault names the argument.
    pub(super) fn checked(self) -> Result<Self> {
        check_name("block_id", &self.block_id)?;
        if self.content.len() > TEXT_BYTES_MAX {
            return Err(Error::argument(
                "content",
                format!("longer than {TEXT_BYTES_MAX} bytes: split it"),
            ));
        }
        if let Some(role) = &self.policy.role {
            check_name("policy.role", role)?;
        }
        self.policy.justification.as_deref().map_or(Ok(()), check_justification)?;
        if self.policy.mode == Mode::Delete && !self.content.is_empty() {
            return Err(Error::argument("content", "must be empty when policy.mode is delete"));
        }
        Ok(self)
    }

    /// Thinks: what the call does to this core.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        let mut draft = Draft::new(around, core);
        let token_estimate = match self.policy.mode {
            Mode::Delete => {
                super::fetch_core::find(core, &self.block_id)?;
                draft.remove_block(&self.block_id);
                0
            }
            Mode::Replace | Mode::Append => match self.write(&mut draft, around, core, answers)? {
                Ok(token_estimate) => token_estimate,
                Err(question) => return Ok(Step::Ask(question)),
            },
        };
        let result = result(&self.block_id, token_estimate);
        Ok(draft.finish(own_flush(core), answers, result)?.into())
    }

    /// Writes the block; gives its cost, or what must be known first.
    fn write(
        &self,
        draft: &mut Draft<'_>,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<std::result::Result<u64, Question>> {
        let old = core.block(&self.block_id);
        if old.is_none() && core.working_blocks.len() >= BLOCKS_MAX {
            return Err(Error::argument(
                "block_id",
                format!("there are {BLOCKS_MAX} blocks already: delete one"),
            ));
        }
        let content = match (self.policy.mode, old) {
            (Mode::Append, Some(old)) if !old.content.is_empty() => {
                format!("{}\n{}", old.content, self.content)
            }
            _ => self.content.clone(),
        };
        let promotion = Promotion {
            block_id: &self.block_id,
            piece: &self.content,
            before: old.map_or("", |old| &old.content),
            after: &content,
            justification: self.policy.justification.as_deref(),
        };
        let kept = old.filter(|_| self.policy.mode == Mode::Append);
        let taint = match draft.promote(promotion, answers)? {
            Promoted::Ask(question) => return Ok(Err(question)),
            Promoted::Clean => kept.and_then(|old| old.taint.clone()),
            Promoted::Justified(taint) => Some(taint),
        };
        let role = self.policy.role.clone().or(old.map(|b| b.role.clone()));
        let mut block = Block {
            id: self.block_id.clone(),
            role: role.unwrap_or_else(|| ROLE_DEFAULT.into()),
            content,
            token_estimate: 0,
            pinned: self.policy.pinned.unwrap_or(old.is_some_and(|b| b.pinned)),
            changed_at_version: draft.version(),
            taint,
            escaped: false,
        };
        render::settle_block(around.counter, &mut block);
        let cost = block.token_estimate;
        match draft.after.working_blocks.iter_mut().find(|b| b.id == self.block_id) {
            Some(slot) => *slot = block,
            None => draft.after.working_blocks.push(block),
        }
        Ok(Ok(cost))
    }
}

/// A justification is one line of so many bytes that says something.
fn check_justification(text: &str) -> Result<()> {
    let fault = |why: String| Err(Error::argument("policy.justification", why));
    if text.trim().is_empty() || text.len() > JUSTIFICATION_BYTES_MAX {
        return fault(format!("give one sentence of at most {JUSTIFICATION_BYTES_MAX} bytes"));
    }
    if text.chars().any(char::is_control) {
        return fault("give one sentence, without line breaks and control characters".into());
    }
    Ok(())
}

fn result(block_id: &str, token_estimate: u64) -> Map<String, Value> {
    let value = json!({"block_id": block_id, "_rev": null, "token_estimate": token_estimate});
    value.as_object().cloned().unwrap_or_default()
}
