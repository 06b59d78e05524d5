//! The settings of cores.

use serde::{Deserialize, Serialize};

use vctx_core::limits::BLOCKS_BYTES;

/// Limits of the cores of all agents.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreSettings {
    /// Maximum length of the texts of all blocks of an agent together, in bytes.
    pub blocks_bytes_max: u64,
}

impl CoreSettings {
    /// Returns a description of an invalid setting.
    pub fn fault(&self) -> Option<String> {
        let (least, most) = BLOCKS_BYTES;
        let within = (least..=most).contains(&self.blocks_bytes_max);
        (!within).then(|| format!("core.blocks_bytes_max: use {least} to {most}"))
    }
}
