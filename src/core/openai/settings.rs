//! Settings of the OpenAI API.

use serde::{Deserialize, Serialize};

use crate::limits::{WINDOW_TOKENS_MAX, WINDOW_TOKENS_MIN};

/// Settings of the OpenAI API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DropinSettings {
    /// Window size of a new agent, in tokens.
    pub context_window: u64,
}

impl DropinSettings {
    /// Returns one description for each invalid setting. A description begins with the setting's
    /// key.
    pub fn faults(&self) -> Vec<String> {
        let allowed = WINDOW_TOKENS_MIN..=WINDOW_TOKENS_MAX;
        let fault =
            || format!("dropin.context_window: use {WINDOW_TOKENS_MIN} to {WINDOW_TOKENS_MAX}");
        (!allowed.contains(&self.context_window)).then(fault).into_iter().collect()
    }
}
