//! The life of the vector index: made when there are vectors enough to train it, watched until it is ready, never waited for.
//!
//! ArangoDB trains an index once, on the vectors that are there (up to 3.12.8 while it is made, later by itself in the background), and
//! an index that was trained on few stays coarse. So it is made after the data with every release; until it is ready, searches
//! compare one by one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::store::{Admin, Fault, FaultKind, VectorIndexState, make_vector_index, vector_rows};

/// When the archive is compared one by one and when its index is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchiveSettings {
    /// Chunks of one agent up to which its archive is compared one by one.
    pub exact_rows_max: u64,
    /// Chunks of the database from which on the vector index is made.
    pub index_rows_min: u64,
}

/// What holds unless the configuration says otherwise.
pub(super) const ARCHIVE_SETTINGS: ArchiveSettings =
    ArchiveSettings { exact_rows_max: 20_000, index_rows_min: 1_000 };

/// Who looks after the index.
pub(super) struct ArchiveIndex {
    pub(super) admin: Option<Admin>,
    pub(super) settings: ArchiveSettings,
    busy: AtomicBool,
    /// Why it was not made, when that was tried last.
    obstacle: Mutex<Option<String>>,
}

impl ArchiveIndex {
    /// `admin` reaches the database as the user that may make an index, if there is one.
    pub(super) fn new(admin: Option<Admin>, settings: ArchiveSettings) -> Arc<Self> {
        let obstacle = match &admin {
            Some(_) => None,
            None => Some("this server was given no user that may make an index".to_owned()),
        };
        let (busy, obstacle) = (AtomicBool::new(false), Mutex::new(obstacle));
        Arc::new(Self { admin, settings, busy, obstacle })
    }

    /// Looks after the index in the background, once at a time: after an ingest there may be vectors enough.
    pub(super) fn nudge(self: &Arc<Self>) {
        if self.admin.is_none() || self.busy.swap(true, Ordering::AcqRel) {
            return;
        }
        let own = Arc::clone(self);
        tokio::spawn(async move {
            let outcome = own.look_after().await;
            own.note(outcome);
            own.busy.store(false, Ordering::Release);
        });
    }

    /// Makes the index if it is missing and there are vectors enough.
    async fn look_after(&self) -> Result<(), Fault> {
        let Some(admin) = &self.admin else { return Ok(()) };
        let rows = vector_rows(admin).await?;
        if rows < self.settings.index_rows_min {
            return Ok(());
        }
        if let Some(made) = make_vector_index(admin, n_lists(rows)).await? {
            tracing::info!(
                rows,
                n_lists = made,
                "the vector index of the archive is being trained"
            );
        }
        Ok(())
    }

    fn note(&self, outcome: Result<(), Fault>) {
        let obstacle = outcome.err().map(|fault| match fault.kind {
            FaultKind::Arango { num: 11, .. } => {
                "the server's user may not make an index: run `vctx setup` as administrator"
                    .to_owned()
            }
            _ => fault.to_string(),
        });
        let mut last = self.obstacle.lock().expect("no holder panics");
        if let Some(text) = obstacle.as_ref().filter(|_| *last != obstacle) {
            tracing::info!(reason = text, "the archive is searched without a vector index");
        }
        *last = obstacle;
    }

    /// What readiness tells of the index; a server without one serves all the same.
    pub(super) fn report(&self, state: &VectorIndexState) -> Value {
        let name = match (&state.id, state.ready()) {
            (None, _) => "none",
            (Some(_), true) => "ready",
            (Some(_), false) => state.training_state.as_str(),
        };
        let obstacle = self.obstacle.lock().expect("no holder panics").clone();
        json!({
            "state": name, "nLists": state.n_lists, "reason": obstacle.or_else(|| {
                (!state.error_message.is_empty()).then(|| state.error_message.clone())
            }),
            "search": if state.ready() { "vector above exact_rows_max" } else { "exact" },
            "exact_rows_max": self.settings.exact_rows_max, "index_rows_min": self.settings.index_rows_min,
        })
    }
}

/// Cells for so many vectors: four times the square root (the rule of ArangoDB's `autoSqrt` and of FAISS's guidelines for up to a million),
/// but so that each cell is trained on some forty.
pub(super) fn n_lists(rows: u64) -> u64 {
    (4 * rows.isqrt()).min(rows / 40).max(1)
}

#[cfg(test)]
mod tests {
    use super::n_lists;

    #[test]
    fn lists_grow_with_the_root_and_never_starve() {
        for (rows, lists) in [(1, 1), (39, 1), (1_000, 25), (10_000, 250), (1_000_000, 4_000)] {
            assert_eq!(n_lists(rows), lists, "{rows}");
        }
    }
}
