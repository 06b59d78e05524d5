//! Slots: the shares of the window that its sections and a context get when a context is built.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Shares of the window, in percent. Together they are 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Slots {
    /// System text, tools, blocks, notices and clock.
    pub system: u64,
    /// The queue.
    pub history: u64,
    /// The summary.
    pub summary: u64,
    /// The context, which also gets what the sections above leave of their shares.
    pub documents: u64,
    /// The question's answer; nothing else takes of it.
    pub reserve: u64,
}

impl Default for Slots {
    fn default() -> Self {
        Self { system: 5, history: 20, summary: 10, documents: 45, reserve: 20 }
    }
}

impl Slots {
    /// Checks that the shares are 100 percent together.
    pub fn checked(self) -> Result<Self> {
        let Self { system, history, summary, documents, reserve } = self;
        let all = [system, history, summary, documents, reserve];
        let sum = all.iter().fold(0_u64, |sum, share| sum.saturating_add(*share));
        if sum == 100 {
            return Ok(self);
        }
        let text = format!(
            "system {system}, history {history}, summary {summary}, documents {documents} and reserve {reserve} are {sum} percent: make them 100"
        );
        Err(Error::argument("slots", text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_that_do_not_add_up_are_refused() {
        assert!(Slots::default().checked().is_ok());
        for wrong in [
            Slots { documents: 46, ..Slots::default() },
            Slots { system: u64::MAX, ..Slots::default() },
            Slots { reserve: 0, ..Slots::default() },
        ] {
            let error = wrong.checked().unwrap_err();
            assert!(error.message.contains("make them 100"), "{error}");
        }
    }
}
