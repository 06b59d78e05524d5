//! A branch: a new agent with the texts that another one had at a moment.

use super::patch_agent::{NewAgent, check_room, new_core};
use crate::error::Result;
use crate::memory::core::{Block, Branch, Core};
use crate::memory::render;
use crate::memory::tokens::TokenCounter;
use crate::policy::{Scope, check_pins};

/// The core of a branch of `parent`: its window, encoding and limits, the given system text and blocks; nothing was said in it yet, and its archive is empty.
pub fn branch_core(
    scope: &Scope,
    parent: &Core,
    texts: (String, Vec<Block>),
    counter: &dyn TokenCounter,
    unix_ms: u64,
    branch: Branch,
) -> Result<Core> {
    let (system, blocks) = texts;
    let body =
        NewAgent { context_window: parent.context_window, system, encoding: parent.encoding };
    let mut core = new_core(scope, &body, counter, unix_ms)?;
    let taken_along = |block: Block| Block { changed_at_version: core.version, ..block };
    core.working_blocks = blocks.into_iter().map(taken_along).collect();
    core.heartbeat.limits = parent.heartbeat.limits;
    core.branch = Some(branch);
    render::recount(counter, &mut core);
    check_pins(&core)?;
    check_room(&core)?;
    Ok(core)
}
