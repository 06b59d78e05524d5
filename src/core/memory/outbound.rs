//! How far an agent's texts may go, and how many tokens it may use per day.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::iso8601;

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;
/// Number of characters of a day (`YYYY-MM-DD`) at the beginning of a time.
const DAY_CHARS: usize = 10;

/// Which models may receive an agent's texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outbound {
    /// All models that the configuration names.
    #[default]
    Configured,
    /// Models on this machine only.
    None,
}

impl Outbound {
    /// Returns the value that a core stores; all models that the configuration names need none.
    pub(crate) fn stored(self) -> Option<Self> {
        Some(self).filter(|outbound| *outbound != Self::Configured)
    }
}

/// The tokens that an agent's prompts and answers took on one day, and the agent's own limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending {
    /// Maximum number of tokens per day; 0 if only the limit of the configuration holds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tokens_per_day: u64,
    /// The day of `tokens`, in UTC; empty before the first answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub day: String,
    /// Tokens on that day, by the provider's count, or else by the server's.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tokens: u64,
}

impl Spending {
    /// Returns the value that a core stores; no tokens and no limit need none.
    pub(crate) fn stored(self) -> Option<Self> {
        Some(self).filter(|spending| *spending != Self::default())
    }

    /// Returns the tokens of the day of the given time.
    pub fn on(&self, unix_ms: u64) -> u64 {
        if self.day == day_of(unix_ms) { self.tokens } else { 0 }
    }

    /// Adds tokens at the given time.
    pub(crate) fn add(&mut self, unix_ms: u64, tokens: u64) {
        self.tokens = self.on(unix_ms).saturating_add(tokens);
        self.day = day_of(unix_ms);
    }

    /// Returns the limit that holds: the lower one of the agent's own and of the configuration's,
    /// in which 0 means no limit.
    pub fn limit(&self, configured: u64) -> Option<u64> {
        [self.tokens_per_day, configured].into_iter().filter(|limit| *limit > 0).min()
    }
}

/// Returns the time until the next day, in milliseconds.
pub(crate) fn until_tomorrow(unix_ms: u64) -> u64 {
    DAY_MS - unix_ms % DAY_MS
}

fn day_of(unix_ms: u64) -> String {
    iso8601(unix_ms)[..DAY_CHARS].to_owned()
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_add_up_within_a_day_of_utc() {
        let noon = 20_000 * DAY_MS + DAY_MS / 2;
        let mut spending = Spending::default();
        assert_eq!(spending.clone().stored(), None);
        spending.add(noon, 5);
        spending.add(noon + 1, 6);
        assert_eq!((spending.on(noon + 2), spending.on(noon + DAY_MS)), (11, 0));
        spending.add(noon + DAY_MS, 1);
        assert_eq!((spending.on(noon + DAY_MS), spending.day.as_str()), (1, "2024-10-05"));
        assert_eq!(until_tomorrow(noon), DAY_MS / 2);
    }

    #[test]
    fn the_lower_limit_holds() {
        let own = |tokens_per_day| Spending { tokens_per_day, ..Spending::default() };
        for (agent, configured, limit) in
            [(0, 0, None), (5, 0, Some(5)), (0, 7, Some(7)), (5, 7, Some(5)), (9, 7, Some(7))]
        {
            assert_eq!(own(agent).limit(configured), limit);
        }
    }
}
