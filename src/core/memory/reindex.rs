//! A change of all vectors of a database to another setting, as it stands beside the setting that serves (`vctx_meta/vector`).

use serde::{Deserialize, Serialize};

use super::archive::VectorSetting;

/// The setting that will serve, and how far its vectors are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NextSetting {
    /// What its vectors have in common.
    pub setting: VectorSetting,
    /// Whether somebody told the change to wait.
    #[serde(default)]
    pub stopped: bool,
    /// Whether every document had its vectors once; what lacks them since was taken in meanwhile.
    #[serde(default)]
    pub complete: bool,
    /// When the change was begun or gone on with last, in milliseconds of server time.
    pub since_ms: u64,
    /// Chunks that had their vectors at that time.
    #[serde(default)]
    pub since_chunks: u64,
}

/// A setting whose vectors serve nobody any more and go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeavingSetting {
    /// Its number.
    pub number: u64,
    /// When it became that, in milliseconds of server time: searches that began before still look at its vectors.
    pub since_ms: u64,
    /// Manifests up to this key are looked through; none any more when all are.
    #[serde(default)]
    pub manifests_after: Option<String>,
    /// Chunks up to this key are looked through.
    #[serde(default)]
    pub after: String,
    /// How many those are.
    #[serde(default)]
    pub looked: u64,
}

impl LeavingSetting {
    /// A setting that leaves now.
    pub fn new(number: u64, since_ms: u64) -> Self {
        Self {
            number,
            since_ms,
            manifests_after: Some(String::new()),
            after: String::new(),
            looked: 0,
        }
    }
}
