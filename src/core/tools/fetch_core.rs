//! `fetch_core`: reads one block of the working context, or all blocks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

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
    /// Name of the block; all blocks unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-model" = ""))]
    pub block_id: Option<String>,
}

impl Arguments for FetchCore {
    const CARD: Card = Card {
        title: "Read core memory",
        description: "Read a block of working memory, or all of them.",
        idempotent: true,
        of_blocks: true,
        example: r#"{"block_id": "human"}"#,
        result: &[
            ("block_id", "string?", "the block"),
            ("content", "string?", "its text"),
            ("_rev", "string", "revision of the memory"),
            ("token_estimate", "integer?", COST),
            ("role", "string?", "what the block is for"),
            ("pinned", "boolean?", "whether it stays when room is needed"),
            ("blocks", "array?", "all blocks with these fields, if no block is named"),
        ],
        told: |result| match result.get("blocks").and_then(Value::as_array) {
            Some(blocks) if blocks.is_empty() => "No blocks.".to_owned(),
            Some(blocks) => told::blocks(blocks),
            None => told::text(result, "content").to_owned(),
        },
        ..Card::NEW
    };

    fn checked(self) -> Result<Self> {
        self.block_id.as_deref().map_or(Ok(()), |id| check_name("block_id", id))?;
        Ok(self)
    }
}

impl Command for FetchCore {
    const SPEC: Spec = Spec::tool("fetch_core", Access::Read);

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let result = match &self.block_id {
            Some(id) => {
                let mut result = fields_of(find(ctx.core, id)?);
                // The revision follows the text.
                result.shift_insert(2, "_rev".to_owned(), json!(ctx.core.rev));
                result
            }
            None => {
                let blocks: Vec<_> = ctx.core.working_blocks.iter().map(fields_of).collect();
                Map::from_iter([
                    ("blocks".to_owned(), json!(blocks)),
                    ("_rev".to_owned(), json!(ctx.core.rev)),
                ])
            }
        };
        Ok(Step::Read(result))
    }
}

/// Returns the fields in which an answer shows a block.
fn fields_of(block: &Block) -> Map<String, Value> {
    let mut value = json!({"block_id": block.id, "content": block.content,
        "token_estimate": block.token_estimate, "role": block.role, "pinned": block.pinned});
    if let Some(taint) = &block.taint {
        value["tainted"] = json!(taint.rules);
    }
    value.as_object().cloned().unwrap_or_default()
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
