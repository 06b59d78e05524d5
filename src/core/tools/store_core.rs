//! `store_core`: writes a block of the working context.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::spec::{Access, Arguments, COST, Card, Command, Spec};
use crate::error::{Error, Result};
use crate::limits::{BLOCKS_MAX, TEXT_BYTES_MAX};
use crate::memory::core::Block;
use crate::policy::{Ctx, Depends, Draft, Promotion, Step, Stop};
use crate::trust::check_name;
use crate::window::count_block;

/// Maximum length in bytes of the justification for tainted text in the core, enough for one
/// sentence.
const JUSTIFICATION_BYTES_MAX: usize = 400;

/// Arguments of `store_core`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StoreCore {
    /// Name of the block, e.g. `human`; made if it does not exist.
    #[schemars(extend("x-model" = "name, e.g. human"))]
    pub block_id: String,
    /// The text.
    #[schemars(extend("x-model" = ""))]
    pub content: String,
    /// How to write the block.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    pub policy: Policy,
}

/// How a block is written.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// `replace` (default), `append` (adds a line), or `delete`.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    pub mode: Mode,
    /// Pin or unpin the block; all pinned blocks together may take a quarter of the window. Absent:
    /// unchanged.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    pub pinned: Option<bool>,
    /// Purpose of the block; absent: unchanged.
    #[serde(default)]
    pub role: Option<String>,
    /// Why this belongs into working memory, in one sentence: required for text from outside that
    /// looks like an order. Never shown to the model.
    #[serde(default)]
    #[schemars(extend("x-model" = "why a text from outside belongs in view"))]
    pub justification: Option<String>,
}

/// How the text changes the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The text replaces the block's content.
    #[default]
    Replace,
    /// The text becomes a new last line.
    Append,
    /// The block is removed; `content` must be empty.
    Delete,
}

/// Role of a block whose writer gives none.
pub(super) const ROLE_DEFAULT: &str = "note";

impl Arguments for StoreCore {
    const CARD: Card = Card {
        title: "Write core memory",
        description: "Keep a fact, preference or plan in view: write, extend or delete a named block of working memory.",
        destructive: true,
        in_chat: true,
        of_blocks: true,
        example: r#"{"block_id": "human", "content": "Likes sailing."}"#,
        result: &[
            ("block_id", "string", "the block"),
            ("_rev", "string", "revision of the memory"),
            ("token_estimate", "integer", COST),
        ],
        told: |_| "Done.".to_owned(),
        ..Card::NEW
    };

    fn checked(self) -> Result<Self> {
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
}

impl Command for StoreCore {
    const SPEC: Spec = Spec::tool("store_core", Access::Write);

    fn depends(&self) -> Depends {
        Depends::Block(self.block_id.clone())
    }

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let mut draft = ctx.draft();
        let token_estimate = match self.policy.mode {
            Mode::Delete => {
                super::fetch_core::find(ctx.core, &self.block_id)?;
                draft.remove_block(&self.block_id);
                0
            }
            Mode::Replace | Mode::Append => self.write(&mut draft, ctx)?,
        };
        let result =
            json!({"block_id": self.block_id, "_rev": null, "token_estimate": token_estimate});
        ctx.finish(draft, result)
    }
}

impl StoreCore {
    /// Writes the block, and returns its cost in tokens.
    fn write(&self, draft: &mut Draft<'_>, ctx: &Ctx<'_>) -> Result<u64, Stop> {
        let old = ctx.core.block(&self.block_id);
        if old.is_none() && ctx.core.working_blocks.len() >= BLOCKS_MAX {
            return Err(Error::argument(
                "block_id",
                format!("there are {BLOCKS_MAX} blocks already: delete one"),
            )
            .into());
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
        let taint = draft.promote(promotion, ctx.answers)?;
        let taint = taint.or_else(|| kept.and_then(|old| old.taint.clone()));
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
        count_block(ctx.around.counter, ctx.core.form, &mut block);
        let cost = block.token_estimate;
        match draft.after.working_blocks.iter_mut().find(|b| b.id == self.block_id) {
            Some(slot) => *slot = block,
            None => draft.after.working_blocks.push(block),
        }
        Ok(cost)
    }
}

/// Checks that a justification is one non-empty line of at most [`JUSTIFICATION_BYTES_MAX`] bytes.
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
