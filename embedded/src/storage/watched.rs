//! A store for tests that records the first key of each scan, and the number of open snapshots at
//! each commit.

use std::sync::{Arc, Mutex, Weak};

use super::kv::Pairs;
use super::{Batch, Bytes, FjallStore, Snapshot, Store};
use crate::encode::Space;
use crate::error::Result;

/// A store that records scans and commits.
pub(crate) struct RecordingStore {
    store: FjallStore,
    /// The first key of each recorded scan.
    pub(crate) scans: Arc<Mutex<Vec<Vec<u8>>>>,
    /// Number of open snapshots at each commit.
    pub(crate) held: Mutex<Vec<usize>>,
    snapshots: Mutex<Vec<Weak<WatchedSnapshot>>>,
}

struct WatchedSnapshot(Arc<dyn Snapshot>, Arc<Mutex<Vec<Vec<u8>>>>);

impl RecordingStore {
    pub(crate) fn new(store: FjallStore) -> Self {
        let (scans, held, snapshots) = Default::default();
        Self { store, scans, held, snapshots }
    }
}

impl Store for RecordingStore {
    fn snapshot(&self) -> Arc<dyn Snapshot> {
        let snapshot = Arc::new(WatchedSnapshot(self.store.snapshot(), self.scans.clone()));
        self.snapshots.lock().expect("only moves inside").push(Arc::downgrade(&snapshot));
        snapshot
    }

    fn commit(&self, batch: Batch, sync: bool) -> Result<()> {
        let mut snapshots = self.snapshots.lock().expect("only moves inside");
        snapshots.retain(|snapshot| snapshot.strong_count() > 0);
        self.held.lock().expect("only moves inside").push(snapshots.len());
        self.store.commit(batch, sync)
    }
}

impl Snapshot for WatchedSnapshot {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        self.0.get(space, key)
    }

    fn scan(&self, space: Space, lower: &[u8], upper: &[u8], backwards: bool) -> Pairs<'_> {
        self.1.lock().expect("only moves inside").push(lower.to_vec());
        self.0.scan(space, lower, upper, backwards)
    }

    fn is_latest(&self) -> bool {
        self.0.is_latest()
    }
}
