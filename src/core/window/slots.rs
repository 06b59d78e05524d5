//! Slots: the shares of the window that its sections and a context get when a context is built.

use serde::{Deserialize, Serialize};

use super::Section;
use super::budget::Tokens;
use crate::error::{Error, Result};
use crate::limits::{CONTEXT_PERCENT, CONTEXT_RESERVE_PERCENT};

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
        let (system, history, summary) = (5, 20, 10);
        let (documents, reserve) = (CONTEXT_PERCENT, CONTEXT_RESERVE_PERCENT);
        Self { system, history, summary, documents, reserve }
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

    /// Returns the maximum number of tokens of a context in a window with these sections.
    pub fn context_tokens_max(self, window: u64, now: &Tokens) -> u64 {
        let share = |percent: u64| window * percent / 100;
        let moving = now[Section::Queue] + now[Section::Summary];
        let left = share(self.system).saturating_sub(now.occupancy.saturating_sub(moving))
            + share(self.history).saturating_sub(now[Section::Queue])
            + share(self.summary).saturating_sub(now[Section::Summary]);
        let free = window.saturating_sub(now.occupancy + share(self.reserve));
        free.min(share(self.documents) + left)
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
