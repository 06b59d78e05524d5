//! `fetch_core`: reads a block of the working context.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::spec::Step;
use crate::error::{Code, Error, Result};
use crate::memory::core::{Block, Core};
use crate::policy::check_name;

/// Arguments of `fetch_core`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FetchCore {
    /// Name of the block.
    pub block_id: String,
}

impl FetchCore {
    /// The same, checked beyond its types; a fault names the argument.
    pub(super) fn checked(self) -> Result<Self> {
        check_name("block_id", &self.block_id)?;
        Ok(self)
    }

    /// Reads the block from this core.
    pub(super) fn step(&self, core: &Core) -> Result<Step> {
        let block = find(core, &self.block_id)?;
        let mut value = json!({"block_id": block.id, "content": block.content, "_rev": core.rev,
            "token_estimate": block.token_estimate, "role": block.role, "pinned": block.pinned});
        if let Some(taint) = &block.taint {
            value["tainted"] = json!(taint.rules);
        }
        Ok(Step::Read(value.as_object().cloned().unwrap_or_default()))
    }
}

/// The block, or an error that lists the ones there are.
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
