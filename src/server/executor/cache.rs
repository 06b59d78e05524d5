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

    /// Removes a core that may be outdated from the cache.
    pub(super) fn drop(&self, key: &str) {
        self.held.lock().expect("no holder panics").remove(key);
    }
}
