//! What can be set of the drop-in.

use serde::{Deserialize, Serialize};

use crate::limits::{WINDOW_TOKENS_MAX, WINDOW_TOKENS_MIN};

/// Settings of the drop-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DropinSettings {
    /// Window of an agent that a conversation makes, in tokens.
    pub context_window: u64,
}

impl DropinSettings {
    /// What is wrong with them, each with its key.
    pub fn faults(&self) -> Vec<String> {
        let allowed = WINDOW_TOKENS_MIN..=WINDOW_TOKENS_MAX;
        let fault =
            || format!("dropin.context_window: use {WINDOW_TOKENS_MIN} to {WINDOW_TOKENS_MAX}");
        (!allowed.contains(&self.context_window)).then(fault).into_iter().collect()
    }
}
