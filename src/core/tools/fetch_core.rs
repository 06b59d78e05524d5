//! `fetch_core`: reads a block of the working context.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::spec::{Access, Arguments, COST, Card, Command, Spec};
use super::told;
use crate::error::{Code, Error, Result};
use crate::memory::core::{Block, Core};
use crate::policy::{Ctx, Step, Stop};
use crate::trust::check_name;

/// Arguments of `fetch_core`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FetchCore {
    /// Name of the block.
    #[schemars(extend("x-model" = ""))]
    pub block_id: String,
}

impl Arguments for FetchCore {
    const CARD: Card = Card {
        title: "Read core memory",
        description: "Read a block of working memory.",
        idempotent: true,
        of_blocks: true,
        example: r#"{"block_id": "human"}"#,
        result: &[
            ("block_id", "string", "the block"),
            ("content", "string", "its text"),
            ("_rev", "string", "revision of the memory"),
            ("token_estimate", "integer", COST),
            ("role", "string", "what the block is for"),
            ("pinned", "boolean", "whether it stays when room is needed"),
        ],
        told: |result| told::text(result, "content").to_owned(),
        ..Card::NEW
    };

    fn checked(self) -> Result<Self> {
        check_name("block_id", &self.block_id)?;
        Ok(self)
    }
}

impl Command for FetchCore {
    const SPEC: Spec = Spec::tool("fetch_core", Access::Read);

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let block = find(ctx.core, &self.block_id)?;
        let mut value = json!({"block_id": block.id, "content": block.content, "_rev": ctx.core.rev,
            "token_estimate": block.token_estimate, "role": block.role, "pinned": block.pinned});
        if let Some(taint) = &block.taint {
            value["tainted"] = json!(taint.rules);
        }
        Ok(Step::Read(value.as_object().cloned().unwrap_or_default()))
    }
}
/// Returns the block with this name; if there is none, an error lists the existing blocks.
pub(super) fn find<'a>(core: &'a Core, id: &str) -> Result<&'a Block> {
    core.block(id).ok_or_else(|| {
        let names: Vec<&str> = core.working_blocks.iter().map(|b| b.id.as_str()).collect();
        Error::new(
            Code::BlockNotFound,
            "no such block: use one of `blocks`, or make it with store_core",
        )
        .with("blocks", names)
    })
}
