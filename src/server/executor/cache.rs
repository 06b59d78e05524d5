//! Cores as they were last written or read here. A cached core is only ever a guess: the write checks its revision.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use vctx_core::limits::CORES_CACHED_MAX;
use vctx_core::memory::core::Core;

/// Cores by key, at most `CORES_CACHED_MAX`.
#[derive(Default)]
pub(super) struct Cores {
    held: Mutex<HashMap<String, Arc<Core>>>,
}

impl Cores {
    /// The core of a key, if it is held.
    pub(super) fn get(&self, key: &str) -> Option<Arc<Core>> {
        self.held.lock().expect("no holder panics").get(key).cloned()
    }

    /// Holds a core in place of an earlier one.
    pub(super) fn put(&self, core: Arc<Core>) {
        let mut held = self.held.lock().expect("no holder panics");
        if held.len() >= CORES_CACHED_MAX && !held.contains_key(&core.key) {
            // Any one may go: a miss costs one read.
            if let Some(key) = held.keys().next().cloned() {
                held.remove(&key);
            }
        }
        held.insert(core.key.clone(), core);
    }

    /// Forgets a core that may be wrong.
    pub(super) fn drop(&self, key: &str) {
        self.held.lock().expect("no holder panics").remove(key);
    }
}
