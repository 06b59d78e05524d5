//! What the shares of a window leave for a context.

use super::Section;
use super::budget::Tokens;
use crate::memory::slots::Slots;

/// Returns the maximum number of tokens of a context in a window with these sections.
pub fn context_tokens_max(slots: Slots, window: u64, now: &Tokens) -> u64 {
    let share = |percent: u64| window * percent / 100;
    let moving = now[Section::Queue] + now[Section::Summary];
    let left = share(slots.system).saturating_sub(now.occupancy.saturating_sub(moving))
        + share(slots.history).saturating_sub(now[Section::Queue])
        + share(slots.summary).saturating_sub(now[Section::Summary]);
    let free = window.saturating_sub(now.occupancy + share(slots.reserve));
    free.min(share(slots.documents) + left)
}
