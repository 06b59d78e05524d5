//! The window's account: thresholds by its size, and what each section of it costs now.

use serde::{Deserialize, Serialize};

use crate::memory::core::{Core, TokenBudget};

/// What the window holds, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// System instructions and the priming of the reply.
    pub system: u64,
    /// Working blocks.
    pub working: u64,
    /// Messages in the queue, and what stands in the places of results that did not come yet.
    pub fifo: u64,
    /// The recursive summary.
    pub summary: u64,
    /// Notices.
    pub notices: u64,
    /// Tools that are offered to the model.
    #[serde(default)]
    pub tools: u64,
    /// What is left of the window; 0 when it is broken.
    pub free: u64,
    /// The sum of the sections.
    pub occupancy: u64,
}

/// How full the window is; crossing means reaching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pressure {
    /// Below the warning threshold.
    Ok,
    /// At or above it.
    Warning,
    /// At or above the flush threshold.
    Flush,
}

/// Thresholds of a window: 70, 90 and 50 of 100, rounded down (seed 002; MemGPT, arXiv 2310.08560, §2.2 for the idea).
pub fn budget_for(window: u64) -> TokenBudget {
    let share = |percent: u64| window * percent / 100;
    TokenBudget { warning: share(70), flush: share(90), target: share(50), max: window }
}

/// Most tokens the rendered summary may take: 15 of 100, rounded down (seed 002).
pub fn summary_tokens_max(window: u64) -> u64 {
    window * 15 / 100
}

/// Share of its cap, in percent, that a summary may fill with the old one while the batch has
/// something to say, and down to which it keeps its room, whatever comes into the window. Chosen
/// with the weights in `models::local`.
pub const OLD_SUMMARY_PERCENT: u64 = 60;

/// Tokens that an eviction leaves for the summary at least: what the old one takes, up to
/// `OLD_SUMMARY_PERCENT` of its cap. A text that does not fit beside them is refused.
pub fn summary_tokens_min(core: &Core) -> u64 {
    let floor = summary_tokens_max(core.context_window) * OLD_SUMMARY_PERCENT / 100;
    core.queue_head_summary.token_estimate.min(floor)
}

/// The account of a core.
pub fn tokens(core: &Core) -> Tokens {
    let working = core.working_blocks.iter().map(|b| b.token_estimate).sum();
    let notices = core.notices.iter().map(|n| n.token_estimate).sum();
    let (system, fifo) = (core.system.token_estimate, core.queue.tokens + core.open_call_tokens());
    let summary = core.queue_head_summary.token_estimate;
    let tools = core.tools.token_estimate;
    let occupancy = system + working + fifo + summary + notices + tools;
    let free = core.token_budget.max.saturating_sub(occupancy);
    Tokens { system, working, fifo, summary, notices, tools, free, occupancy }
}

/// How full a window is.
pub fn pressure(budget: &TokenBudget, occupancy: u64) -> Pressure {
    if occupancy >= budget.flush {
        Pressure::Flush
    } else if occupancy >= budget.warning {
        Pressure::Warning
    } else {
        Pressure::Ok
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_floors_of_the_window() {
        for (window, warning, flush, target) in [
            (4096, 2867, 3686, 2048),
            (8192, 5734, 7372, 4096),
            (32768, 22937, 29491, 16384),
            (128_000, 89_600, 115_200, 64_000),
        ] {
            let expected = TokenBudget { warning, flush, target, max: window };
            assert_eq!(budget_for(window), expected);
        }
        assert_eq!(summary_tokens_max(8192), 1228);
    }

    #[test]
    fn reaching_a_threshold_is_crossing_it() {
        let budget = budget_for(8192);
        for (occupancy, expected) in [
            (5733, Pressure::Ok),
            (5734, Pressure::Warning),
            (7371, Pressure::Warning),
            (7372, Pressure::Flush),
        ] {
            assert_eq!(pressure(&budget, occupancy), expected, "{occupancy}");
        }
    }
}
