//! Caches the cores that this server last wrote or read.
//!
//! A cached core may be outdated, since another server may have changed it, so each write checks
//! the revision.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use vctx_core::memory::core::Core;

/// Maximum number of cores in the cache.
const CORES_CACHED_MAX: usize = 4_096;

/// Cores by key, at most `CORES_CACHED_MAX`.
#[derive(Default)]
pub(super) struct Cores {
    held: Mutex<HashMap<String, Arc<Core>>>,
    /// Revisions of the cores that were refused last, by key, at most `CORES_CACHED_MAX`.
    refused: Mutex<HashMap<String, String>>,
}

impl Cores {
    /// Returns the cached core with the given key, if any.
    pub(super) fn get(&self, key: &str) -> Option<Arc<Core>> {
        self.held.lock().expect("no holder panics").get(key).cloned()
    }

    /// Caches a core, replacing an earlier version.
    pub(super) fn put(&self, core: Arc<Core>) {
        let mut held = self.held.lock().expect("no holder panics");
        if held.len() >= CORES_CACHED_MAX && !held.contains_key(&core.key) {
            // If the cache is full, an arbitrary core is removed, since a missing core costs only
            // one read.
            if let Some(key) = held.keys().next().cloned() {
                held.remove(&key);
            }
        }
        held.insert(core.key.clone(), core);
    }

    /// Notes that a core was refused. Returns whether this is new.
    pub(super) fn is_newly_refused(&self, key: &str, rev: &str) -> bool {
        let mut refused = self.refused.lock().expect("no holder panics");
        if refused.len() >= CORES_CACHED_MAX && !refused.contains_key(key) {
            refused.clear();
        }
        refused.insert(key.to_owned(), rev.to_owned()).as_deref() != Some(rev)
    }

    /// Removes a core that may be outdated from the cache.
    pub(super) fn drop(&self, key: &str) {
        self.held.lock().expect("no holder panics").remove(key);
    }
}
