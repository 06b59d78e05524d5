//! Decides whether a call may build on an older revision, which is stale only if a part of the core
//! that the call depends on has changed.

use std::collections::BTreeSet;

use crate::memory::block_path::{MemoryPath, lies_in};
use crate::memory::core::Core;

/// The parts of the core that a call depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Depends {
    /// One block.
    Block(String),
    /// The named blocks and all blocks below them. Block names are read as file paths here.
    Tree(Vec<String>),
    /// The queue's messages and their order.
    Queue,
    /// Queue and summary.
    Eviction,
    /// The manifest of an archived document; the manifest has its own revision, so the core's
    /// revision is irrelevant.
    Manifest,
    /// The whole core (window, system text, encoding).
    All,
}

impl Depends {
    /// Returns the names of the blocks that the call depends on.
    pub fn blocks(self) -> Vec<String> {
        match self {
            Self::Block(block) => vec![block],
            Self::Tree(blocks) => blocks,
            Self::Queue | Self::Eviction | Self::Manifest | Self::All => Vec::new(),
        }
    }
}

/// Returns the names of those parts that changed after `version` of the core and that the call
/// depends on. The list is empty if the call is still valid. Version `None` means an unknown
/// revision, after which everything may have changed.
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
                ids.iter().any(|id| id == name || lies_in(name, &MemoryPath::Named(id.clone())))
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
