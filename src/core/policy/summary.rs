//! The setting for the number of messages that one summary takes in.

use serde::{Deserialize, Serialize};

use crate::limits::{BATCH_MESSAGES_MIN, EVICT_ROWS_MAX};

/// An eviction of more than this number of batches has larger batches instead, so that the number
/// of its transactions is bounded.
const BATCHES_MAX: usize = 64;

/// Settings of summaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SummarySettings {
    /// Maximum number of messages that one summary takes in. A larger eviction is split into parts,
    /// and each part has a summary and a transaction.
    pub batch_messages: usize,
}

impl Default for SummarySettings {
    /// Returns the default, the largest batch that one transaction can evict.
    fn default() -> Self {
        Self { batch_messages: EVICT_ROWS_MAX }
    }
}

impl SummarySettings {
    /// Returns a description of the invalid value, or `None` if the settings are valid.
    pub fn fault(&self) -> Option<String> {
        let fits = (BATCH_MESSAGES_MIN..=EVICT_ROWS_MAX).contains(&self.batch_messages);
        let text = format!("summary.batch_messages: use {BATCH_MESSAGES_MIN} to {EVICT_ROWS_MAX}");
        (!fits).then_some(text)
    }

    /// Returns the maximum number of messages in the next part of an eviction of `leave` messages.
    pub(super) fn batch_of(&self, leave: usize) -> usize {
        self.batch_messages.max(leave.div_ceil(BATCHES_MAX)).min(EVICT_ROWS_MAX)
    }
}
