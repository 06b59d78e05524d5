//! Whether a revision that is no longer the newest still serves: only what a call depends on counts.

use std::collections::BTreeSet;

use crate::memory::block_path::{Place, lies_in};
use crate::memory::core::Core;

/// What a call builds on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Depends {
    /// One block.
    Block(String),
    /// Some blocks, and those that lie in them as files lie in a directory.
    Tree(Vec<String>),
    /// The queue: its messages and their order.
    Queue,
    /// Queue and summary.
    Eviction,
    /// The manifest of an archived document, which has a revision of its own.
    Manifest,
    /// Everything (window, system text, encoding).
    All,
}

/// What a call depends on and what changed since the given version, by name; empty means that the call still holds.
/// `None` for the version means that nobody remembers the revision: everything may have changed.
pub fn changed_since(core: &Core, version: Option<u64>, depends: &Depends) -> Vec<String> {
    let Some(version) = version else {
        return vec!["unknown".into()];
    };
    let mut changed = Vec::new();
    let mut note = |name: String, at: u64| {
        if at > version {
            changed.push(name);
        }
    };
    match depends {
        Depends::Block(id) => {
            note(format!("block:{id}"), core.block_changed_at(id));
        }
        Depends::Tree(ids) => {
            let there = core.working_blocks.iter().map(|block| block.id.as_str());
            let gone = core.removed_blocks.iter().map(|block| block.id.as_str());
            let meant = |name: &&str| {
                ids.iter().any(|id| id == name || lies_in(name, &Place::Named(id.clone())))
            };
            let named: BTreeSet<&str> = there.chain(gone).filter(meant).collect();
            for id in named {
                note(format!("block:{id}"), core.block_changed_at(id));
            }
        }
        Depends::Queue => note("queue".into(), core.queue.changed_at_version),
        Depends::Eviction => {
            note("queue".into(), core.queue.changed_at_version);
            note("summary".into(), core.queue_head_summary.changed_at_version);
        }
        Depends::Manifest => {}
        Depends::All => note("agent".into(), core.version),
    }
    changed
}
