//! The progress of a reindex, which computes all vectors again under the next vector setting. The
//! progress is stored with the current vector setting in `vctx_meta/vector`.

use serde::{Deserialize, Serialize};

use super::archive::VectorSetting;

/// The next vector setting, and how far its vectors are computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NextSetting {
    /// The next vector setting.
    pub setting: VectorSetting,
    /// Whether the reindex is paused.
    #[serde(default)]
    pub stopped: bool,
    /// Whether every document had vectors of the next setting at some moment of the reindex. If so,
    /// a document without such vectors was ingested after that moment.
    #[serde(default)]
    pub complete: bool,
    /// Server time when the reindex started or last resumed, in milliseconds.
    pub since_ms: u64,
    /// Number of chunks with vectors of the next setting at the time `since_ms`.
    #[serde(default)]
    pub since_chunks: u64,
}

/// A replaced vector setting whose vectors the server is removing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeavingSetting {
    /// Number of the vector setting.
    pub number: u64,
    /// Server time when the vector setting was replaced, in milliseconds; searches that began
    /// earlier still read the setting's vectors.
    pub since_ms: u64,
    /// Key of the last document manifest that was read; `None` once all manifests are read.
    #[serde(default)]
    pub manifests_after: Option<String>,
    /// Key of the last chunk that was read.
    #[serde(default)]
    pub after: String,
    /// Number of chunks read so far.
    #[serde(default)]
    pub looked: u64,
}

impl LeavingSetting {
    /// Returns the initial state of the removal of a setting's vectors.
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
