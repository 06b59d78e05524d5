//! Creates a branch, which is a new agent with the system text and blocks that another agent had at
//! an earlier message.

use super::patch_agent::{NewAgent, check_room, new_core};
use crate::error::Result;
use crate::memory::core::{Block, Branch, Core};
use crate::memory::form::Form;
use crate::memory::outbound::Spending;
use crate::memory::tokens::TokenCounter;
use crate::trust::Scope;
use crate::window::{check_pins, recount};

/// Returns the core of a branch of `parent`. The branch has the window, encoding, zone and
/// heartbeat limits of the parent, the given system text and blocks, no messages, and an empty
/// archive.
pub fn branch_core(
    scope: &Scope,
    parent: &Core,
    texts: (String, Vec<Block>),
    counter: &dyn TokenCounter,
    unix_ms: u64,
    branch: Branch,
) -> Result<Core> {
    let (system, blocks) = texts;
    let clock = parent.window_clock.as_ref();
    let body = NewAgent {
        context_window: parent.context_window,
        system: Some(system),
        encoding: parent.encoding,
        form: Some(parent.form).filter(|form| *form != Form::One),
        zone: clock.map(|clock| clock.zone.clone()),
        outbound: parent.outbound,
        engineer: parent.engineer,
        user: parent.user.clone(),
        incarnation: None,
    };
    let mut core = new_core(scope, &body, counter, unix_ms)?;
    let taken_along = |block: Block| Block { changed_at_version: core.version, ..block };
    core.working_blocks = blocks.into_iter().map(taken_along).collect();
    core.heartbeat.limits = parent.heartbeat.limits;
    let tokens_per_day = parent.spending().tokens_per_day;
    core.spending = Spending { tokens_per_day, ..Spending::default() }.stored();
    core.branch = Some(branch);
    recount(counter, &mut core);
    check_pins(&core)?;
    check_room(&core)?;
    Ok(core)
}
