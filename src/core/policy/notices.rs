//! Standing notices: one of each kind, counted like everything else in the window, and never in the way of it.

use crate::limits::SPOOL_IDS_NAMED_MAX;
use crate::memory::core::{Core, Notice};
use crate::memory::render;
use crate::memory::tokens::TokenCounter;

/// Kind of the notice that the budget sets and drops.
pub(super) const PRESSURE: &str = "pressure";
/// Kind of the notice that names where a result lies that was too large for the window.
pub(super) const SPOOL: &str = "spool";

/// The notice of memory pressure in a window of this core's size.
pub(super) fn pressure_notice(counter: &dyn TokenCounter, core: &Core) -> Notice {
    let (window, budget) = (core.context_window, core.token_budget);
    let (warning, flush, target) = (budget.warning, budget.flush, budget.target);
    notice(
        counter,
        PRESSURE,
        format!(
            "Memory pressure: this window of {window} tokens has passed {warning}. At {flush} the oldest messages move to recall \
             storage until {target} are in use. Keep what must stay in view with store_core now."
        ),
    )
}

/// The notice of a result that lies in recall storage under these ids.
pub(super) fn spool_notice(counter: &dyn TokenCounter, tool: &str, ids: &[String]) -> Notice {
    let named = ids[..ids.len().min(SPOOL_IDS_NAMED_MAX)].join(", ");
    let more = match ids.len().saturating_sub(SPOOL_IDS_NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    notice(
        counter,
        SPOOL,
        format!(
            "A result of {tool} was too large for this window: only its beginning was shown. The whole lies in recall storage as {named}{more}."
        ),
    )
}

/// Puts a notice in the place of the one of its kind.
pub(super) fn set(core: &mut Core, notice: Notice) {
    core.notices.retain(|n| n.kind != notice.kind);
    core.notices.push(notice);
}

/// Takes the notice of a kind away.
pub(super) fn drop_kind(core: &mut Core, kind: &str) {
    core.notices.retain(|n| n.kind != kind);
}

/// Whether a notice of a kind stands.
pub(super) fn stands(core: &Core, kind: &str) -> bool {
    core.notices.iter().any(|n| n.kind == kind)
}

/// What the notice of a kind costs; 0 where none stands.
pub(super) fn cost(core: &Core, kind: &str) -> u64 {
    core.notices.iter().filter(|n| n.kind == kind).map(|n| n.token_estimate).sum()
}

fn notice(counter: &dyn TokenCounter, kind: &str, content: String) -> Notice {
    let token_estimate = render::notice_cost(counter, &content);
    Notice { kind: kind.into(), content, token_estimate }
}
