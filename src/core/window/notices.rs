//! The window's section of notices from the server, with at most one notice of each kind.

use super::section::{Item, Position, Spec};
use super::system::server_message;
use crate::memory::core::{Core, Notice};
use crate::memory::form::Form;
use crate::memory::strict::NOTICE;
use crate::memory::tokens::{TokenCounter, message_cost};

/// Maximum number of ids that a spool notice names; the notice only says how many further ids there
/// are.
const SPOOL_IDS_NAMED_MAX: usize = 8;

/// Kind of the notice of memory pressure, which warns that the window is nearly full.
pub(crate) const PRESSURE: &str = "pressure";
/// Kind of the spool notice, which gives the ids under which recall storage contains a result that
/// was too large for the window.
pub(crate) const SPOOL: &str = "spool";

pub(super) const SECTION: Spec = Spec {
    name: "notices",
    gauge: "token.notices",
    help: "Tokens of notices in the window last written",
    kept: None,
    tokens: |core| core.notices.iter().map(|notice| notice.token_estimate).sum(),
    recount: |counter, core| {
        let form = core.form;
        for notice in &mut core.notices {
            let message = server_message(form, &notice.content);
            notice.token_estimate = message_cost(counter, &message);
        }
    },
    items: |core, _| core.notices.iter().map(|notice| item(core.form, notice)).collect(),
    restore: |past, core| {
        core.notices.clone_from(&past.window.notices);
        None
    },
};

fn item(form: Form, notice: &Notice) -> Item {
    let (message, at) = (server_message(form, &notice.content), (Position::Fence, NOTICE));
    Item::new(&notice.kind, notice.token_estimate, message, "standing notice", at)
}

/// Returns the notice of memory pressure, which names the warning and flush marks of the core's
/// window.
pub(crate) fn pressure_notice(counter: &dyn TokenCounter, core: &Core) -> Notice {
    let (warning, flush) = (core.token_budget.warning, core.token_budget.flush);
    notice(
        counter,
        core.form,
        PRESSURE,
        format!(
            "Memory pressure: over {warning} tokens are in use. At {flush} the oldest messages leave the window. Keep what must stay with store_core now."
        ),
    )
}

/// Returns the spool notice for a tool's result that recall storage contains under the given ids.
pub(crate) fn spool_notice(
    counter: &dyn TokenCounter,
    form: Form,
    tool: &str,
    ids: &[String],
) -> Notice {
    let named = ids[..ids.len().min(SPOOL_IDS_NAMED_MAX)].join(", ");
    let more = match ids.len().saturating_sub(SPOOL_IDS_NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let notice = notice(
        counter,
        form,
        SPOOL,
        format!(
            "A result of {tool} was too large: you saw its beginning, all of it is in recall storage as {named}{more}."
        ),
    );
    Notice { entries: ids.to_vec(), ..notice }
}

/// Returns the ids of the entries that the core's spool notice points to.
pub(crate) fn spooled_entries(core: &Core) -> &[String] {
    core.notices.iter().find(|n| n.kind == SPOOL).map_or(&[], |n| &n.entries)
}

/// Adds a notice, and removes an earlier notice of the same kind.
pub(crate) fn set(core: &mut Core, notice: Notice) {
    drop_kind(core, &notice.kind);
    core.notices.push(notice);
}

/// Removes the notice of the given kind, if any.
pub(crate) fn drop_kind(core: &mut Core, kind: &str) {
    core.notices.retain(|n| n.kind != kind);
}

/// Whether the window has a notice of the given kind.
pub(crate) fn stands(core: &Core, kind: &str) -> bool {
    core.notices.iter().any(|n| n.kind == kind)
}

/// Returns the cost of the notice of the given kind in tokens; 0 if there is none.
pub(crate) fn cost(core: &Core, kind: &str) -> u64 {
    core.notices.iter().filter(|n| n.kind == kind).map(|n| n.token_estimate).sum()
}

fn notice(counter: &dyn TokenCounter, form: Form, kind: &str, content: String) -> Notice {
    let token_estimate = message_cost(counter, &server_message(form, &content));
    Notice { kind: kind.into(), content, token_estimate, entries: Vec::new() }
}
