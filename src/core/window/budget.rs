//! The token budget of the window: the warning and flush marks for a window's size, and the cost of
//! each section.

use std::ops::Index;

use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::working::count_block;
use super::{Section, summary};
use crate::limits::CONVERSATION_PERCENT_MIN;
use crate::memory::core::{Core, TokenBudget};
use crate::memory::markup::has_block_markup;
use crate::memory::tokens::TokenCounter;

/// Token counts of the window's sections: `tokens[Section::Queue]` is the cost of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokens {
    sections: [u64; Section::ALL.len()],
    /// Number of free tokens in the window; 0 if the window is overfull.
    pub free: u64,
    /// Number of tokens of all sections together.
    pub occupancy: u64,
}

impl Tokens {
    /// Returns the number of tokens of all sections except the given ones.
    pub fn without(&self, left_out: &[Section]) -> u64 {
        self.occupancy - left_out.iter().map(|section| self[*section]).sum::<u64>()
    }
}

impl Index<Section> for Tokens {
    type Output = u64;

    fn index(&self, section: Section) -> &u64 {
        &self.sections[section as usize]
    }
}

/// Serializes the tokens as an object with one field for each section, then `free` and `occupancy`.
impl Serialize for Tokens {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let is_shown = |section: &Section| section.is_always_reported() || self[*section] > 0;
        for section in Section::reported().filter(is_shown) {
            map.serialize_entry(section.name(), &self[section])?;
        }
        map.serialize_entry("free", &self.free)?;
        map.serialize_entry("occupancy", &self.occupancy)?;
        map.end()
    }
}

/// State of the window relative to the warning and flush marks; an occupancy equal to a mark counts
/// as above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pressure {
    /// Occupancy below the warning mark.
    Ok,
    /// Occupancy at or above the warning mark.
    Warning,
    /// Occupancy at or above the flush mark.
    Flush,
}

/// Returns the warning mark, flush mark and target of a window: 70, 90 and 50 % of its tokens,
/// rounded down (MemGPT, arXiv 2310.08560, §2.2).
pub fn budget_for(window: u64) -> TokenBudget {
    let share = |percent: u64| window * percent / 100;
    TokenBudget { warning: share(70), flush: share(90), target: share(50), max: window }
}

/// Returns the maximum number of tokens that the rendered summary may take: 15 % of the window,
/// rounded down.
pub fn summary_tokens_max(window: u64) -> u64 {
    window * 15 / 100
}

/// Percentage of the summary's token limit that facts from the old summary may fill as long as the
/// evicted messages have new facts. Tokens up to this percentage are reserved for the old summary,
/// so that other sections cannot fill them. The percentage was tuned together with the weights of
/// the local summariser.
pub const OLD_SUMMARY_PERCENT: u64 = 60;

/// Returns the minimum number of tokens that an eviction leaves for the summary: the size of the
/// old summary, but at most `OLD_SUMMARY_PERCENT` of the summary's limit. A text that does not fit
/// into the window together with such a summary is refused.
pub fn summary_tokens_min(core: &Core) -> u64 {
    let floor = summary_tokens_max(core.context_window) * OLD_SUMMARY_PERCENT / 100;
    core.queue_head_summary.token_estimate.min(floor)
}

/// Returns the token counts of the sections of a core's window.
pub fn tokens(core: &Core) -> Tokens {
    let sections = Section::ALL.map(|section| (section.spec().tokens)(core));
    let occupancy = sections.iter().sum();
    Tokens { sections, free: core.token_budget.max.saturating_sub(occupancy), occupancy }
}

/// Returns a warning with the numbers if the fixed sections leave less of the window for the
/// conversation than [`CONVERSATION_PERCENT_MIN`]; `None` if they leave enough.
pub fn narrow_window(core: &Core) -> Option<String> {
    let (now, window) = (tokens(core), core.token_budget.max);
    let moving = [Section::Queue, Section::Summary];
    let fixed = now.without(&moving);
    let left = window.saturating_sub(fixed);
    if left * 100 >= window * CONVERSATION_PERCENT_MIN {
        return None;
    }
    let sections = Section::ALL.into_iter();
    let parts = sections.filter(|section| !moving.contains(section) && now[*section] > 0);
    let parts = parts.map(|section| format!("{} {}", section.name(), now[section]));
    let parts = parts.collect::<Vec<String>>().join(", ");
    let enough = fixed * 100 / (100 - CONVERSATION_PERCENT_MIN);
    Some(format!(
        "the fixed part takes {fixed} of {window} tokens ({parts}), so only {left} are left for the conversation: use a window of {enough} tokens or more, or shorten the fixed part"
    ))
}

/// Counts the tokens of a core's texts again. The core does not contain the messages of the queue,
/// so these are not counted.
pub fn recount(counter: &dyn TokenCounter, core: &mut Core) {
    for section in Section::ALL {
        (section.spec().recount)(counter, core);
    }
}

/// Escapes block markup in a core's texts that an older server wrote without escaping, and counts
/// the tokens of these texts again.
pub fn escape_old(counter: &dyn TokenCounter, core: &mut Core) {
    let form = core.form;
    for block in &mut core.working_blocks {
        if !block.escaped && has_block_markup(&block.content) {
            count_block(counter, form, block);
        }
    }
    let old = &mut core.queue_head_summary;
    if !old.escaped && has_block_markup(&old.content) {
        summary::count_summary(counter, form, old);
    }
}

/// Returns the state of a window with the given occupancy, in tokens.
pub fn pressure(budget: &TokenBudget, occupancy: u64) -> Pressure {
    if occupancy >= budget.flush {
        Pressure::Flush
    } else if occupancy >= budget.warning {
        Pressure::Warning
    } else {
        Pressure::Ok
    }
}
