//! Manages the archive's vector index in the background: creates the index when enough vectors
//! exist, and trains a new index when the archive has outgrown the old one.
//!
//! ArangoDB trains a vector index once, with the existing vectors. Releases up to 3.12.8 train an
//! index while they create it; later releases train it in the background. Training with few vectors
//! makes a coarse index, so the server creates the index only after enough data has arrived. No
//! call waits for the creation or the training. Until the vector index is ready, searches compare
//! all vectors exactly. When the archive has outgrown the index, the server creates a second index
//! with other parameters under another name. Searches use the first index until the second is
//! ready; then the server drops the first.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::cells::measured;
use crate::store::{
    Admin, Fault, FaultKind, Ro, VectorIndexState, drop_vector_index, index_state, make_index_of,
    note_lists, note_measured, setting_of, vector_index, vector_rows,
};
use vctx_base::clock;
use vctx_core::memory::archive::VectorSetting;
use vctx_core::search::{ListMeasurement, is_due, is_outgrown, lists_for};

/// Time limit for one measurement of the vector index, in milliseconds; a measurement that takes
/// longer is abandoned.
const SAMPLE_MS_MAX: u64 = 60_000;
/// Longest wait for a new index, and the pause between two polls, in milliseconds. If the index is
/// not ready within this time, a later round of the job waits again.
const RETRAIN_MS: (u64, u64) = (3_600_000, 500);
/// Time after which a failing training of the new vector index is reported, in milliseconds.
const RETRAIN_PATIENCE_MS: u64 = 10_000;

/// Settings that decide when searches of the archive are exact, and when the vector index is
/// created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchiveSettings {
    /// Maximum number of an agent's chunks at which searches still compare all vectors exactly.
    pub exact_rows_max: u64,
    /// Minimum number of chunks in the database at which the vector index is created.
    pub index_rows_min: u64,
    /// Whether filters apply before the vector-index search instead of after it. This needs
    /// ArangoDB ≥ 3.12.7 and an index created for such filters.
    pub filters_first: bool,
    /// Factor by which the archive must have grown since the last training before a new index is
    /// trained; 0 means that no new index is trained. During the training, searches use the old
    /// index.
    pub retrain_growth: u64,
}

/// Default settings of the archive.
pub(super) const ARCHIVE_SETTINGS: ArchiveSettings = ArchiveSettings {
    exact_rows_max: 20_000,
    index_rows_min: 1_000,
    filters_first: false,
    retrain_growth: 2,
};

/// The job that creates, replaces and measures the vector index.
pub(super) struct ArchiveIndex {
    pub(super) admin: Option<Admin>,
    pub(super) settings: ArchiveSettings,
    busy: AtomicBool,
    /// Whether the job was requested since its current run began.
    again: AtomicBool,
    /// Number of reasons to check the index: the start, and every change of the index.
    changes: AtomicU64,
    /// Value of `changes` at the begin of the last check that found both that the number of lists
    /// that a search must read is measured and that no new index is pending. A change during a
    /// check therefore causes another check.
    checked: AtomicU64,
    /// The attribute whose vector index was ready at the last check. An index stays ready until it
    /// is dropped. A search that finds the index unusable clears this field.
    ready: Mutex<Option<String>>,
    notes: Mutex<ReadinessNotes>,
}

/// The facts about the vector index that `/readyz` shows but the database does not report.
#[derive(Default)]
struct ReadinessNotes {
    /// Why the last attempt to create the vector index failed.
    obstacle: Option<String>,
    /// The last measurement of how many lists of the vector index a search must read.
    measured: Option<ListMeasurement>,
}

impl ArchiveIndex {
    /// Makes the job. `admin` is a connection as the user that may create an index, if configured.
    pub(super) fn new(admin: Option<Admin>, settings: ArchiveSettings) -> Arc<Self> {
        let obstacle = match &admin {
            Some(_) => None,
            None => Some("this server has no database user that may create an index".to_owned()),
        };
        let notes = Mutex::new(ReadinessNotes { obstacle, measured: None });
        let (changes, checked) = (AtomicU64::new(1), AtomicU64::new(0));
        let (busy, again) = (AtomicBool::new(false), AtomicBool::new(false));
        let ready = Mutex::default();
        Arc::new(Self { admin, settings, busy, again, changes, checked, ready, notes })
    }

    /// Runs the vector index job in the background; if the job is already running, it runs once
    /// more afterwards. Called after an ingest, which may have written enough vectors for an index.
    pub(super) fn nudge(self: &Arc<Self>) {
        // The request is stored before `busy` is read, and the job reads the request after it has
        // cleared `busy`. So no request is lost.
        self.again.store(true, Ordering::SeqCst);
        if self.admin.is_none() || self.busy.swap(true, Ordering::SeqCst) {
            return;
        }
        let own = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                own.again.store(false, Ordering::SeqCst);
                let outcome = own.look_after().await;
                own.note(outcome);
                own.busy.store(false, Ordering::SeqCst);
                if !own.again.load(Ordering::SeqCst) || own.busy.swap(true, Ordering::SeqCst) {
                    return;
                }
            }
        });
    }

    /// Returns whether the vector index over an attribute is ready. A ready index is checked again
    /// only after a search was unable to use it.
    pub(super) async fn serves(&self, ro: &Ro, attribute: &str) -> Result<bool, Fault> {
        let known = || self.ready.lock().expect("no holder panics");
        if known().as_deref() == Some(attribute) {
            return Ok(true);
        }
        let ready = vector_index(ro, attribute).await?.ready();
        if ready {
            *known() = Some(attribute.to_owned());
        }
        Ok(ready)
    }

    /// Records that a search was unable to use the vector index.
    pub(super) fn failed(&self) {
        *self.ready.lock().expect("no holder panics") = None;
    }

    /// Creates the vector index if enough vectors exist, replaces an index that the archive has
    /// outgrown, and measures how many lists a search must read.
    async fn look_after(&self) -> Result<(), Fault> {
        let Some(admin) = &self.admin else { return Ok(()) };
        let rows = vector_rows(admin).await?;
        if rows < self.settings.index_rows_min {
            return Ok(());
        }
        let Some(setting) = setting_of(admin).await? else { return Ok(()) };
        let there = index_state(admin, &setting.attribute()).await?;
        if there.id.is_none() {
            let n_lists = lists_for(rows);
            make_index_of(admin, &setting, &there, n_lists, self.settings.filters_first).await?;
            note_lists(admin, &setting, n_lists, None).await?;
            self.notes.lock().expect("no holder panics").measured = None;
            self.changes.fetch_add(1, Ordering::AcqRel);
            tracing::info!(rows, n_lists, "the vector index of the archive is being trained");
            return Ok(());
        }
        if there.next.is_some() {
            self.take_over(admin, &setting).await?;
        }
        let last = self.measure(admin).await?;
        // While a reindex is under way, no index over the current vectors is trained, since these
        // vectors will soon be replaced.
        let stays = there.next.is_none() && there.ready() && setting.next.is_none();
        let Some(n_lists) = there.n_lists.filter(|_| stays) else { return Ok(()) };
        if is_outgrown(n_lists, rows, self.settings.retrain_growth, last.as_ref()) {
            self.changes.fetch_add(1, Ordering::AcqRel);
            let finer = lists_for(rows);
            make_index_of(admin, &setting, &there, finer, self.settings.filters_first).await?;
            tracing::info!(rows, n_lists, finer, "the vector index is trained again");
            self.take_over(admin, &setting).await?;
            self.measure(admin).await?;
        }
        Ok(())
    }

    /// Begins to train a new vector index while searches still use the old one; when the new index
    /// is ready, the job drops the old one. Does nothing if there is no vector index, or if a new
    /// index is already pending.
    pub(super) async fn train_anew(self: &Arc<Self>, admin: &Admin) -> Result<(), Fault> {
        let rows = vector_rows(admin).await?;
        let Some(setting) = setting_of(admin).await? else { return Ok(()) };
        let there = index_state(admin, &setting.attribute()).await?;
        if let (true, Some(n_lists), None) = (there.ready(), there.n_lists, &there.next) {
            // ArangoDB treats two indexes with equal parameters as one index, so the new index
            // needs other parameters.
            let wanted = lists_for(rows);
            let wanted = if wanted == n_lists { wanted + 1 } else { wanted };
            make_index_of(admin, &setting, &there, wanted, self.settings.filters_first).await?;
            tracing::info!(rows, n_lists, wanted, "the vector index is trained again on request");
        }
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.nudge();
        Ok(())
    }

    /// Waits until the newer vector index is ready, then drops the older one. Also completes a
    /// replacement that another server began.
    async fn take_over(&self, admin: &Admin, setting: &VectorSetting) -> Result<(), Fault> {
        let (longest, pause) = RETRAIN_MS;
        let begun = clock::now();
        while begun.elapsed() < Duration::from_millis(longest) {
            let there = index_state(admin, &setting.attribute()).await?;
            let (Some(old), Some(next)) = (&there.id, &there.next) else { return Ok(()) };
            if next.ready() {
                drop_vector_index(admin, old).await?;
                let n_lists = next.n_lists.unwrap_or(1);
                note_lists(admin, setting, n_lists, Some(&ListMeasurement::unknown(n_lists)))
                    .await?;
                tracing::info!(n_lists, "searches use the new vector index now");
                return Ok(());
            }
            // For a short time before its training begins, a new vector index also reports a
            // failure.
            let fails =
                next.failed() && begun.elapsed() > Duration::from_millis(RETRAIN_PATIENCE_MS);
            let why = || format!("the index cannot be trained again yet: {}", next.error_message);
            self.tell_obstacle(fails.then(why));
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        Ok(())
    }

    /// Returns whether this server has not yet checked how many lists a search must read and
    /// whether a new vector index is pending.
    pub(super) fn is_unchecked(&self) -> bool {
        let changes = self.changes.load(Ordering::Acquire);
        self.admin.is_some() && self.checked.load(Ordering::Acquire) < changes
    }

    /// Measures how many lists of the vector index a search must read: once when the index is
    /// ready, and again when the archive has grown. Returns the last measurement.
    async fn measure(&self, admin: &Admin) -> Result<Option<ListMeasurement>, Fault> {
        let changes = self.changes.load(Ordering::Acquire);
        let rows = vector_rows(admin).await?;
        let Some(setting) = setting_of(admin).await? else { return Ok(None) };
        let state = index_state(admin, &setting.attribute()).await?;
        let Some(lists) = state.n_lists.filter(|_| state.ready()) else { return Ok(None) };
        // A stored measurement in an unknown form is ignored and replaced.
        let mut last = setting.measured.clone().and_then(|last| serde_json::from_value(last).ok());
        if is_due(last.as_ref(), rows, lists) {
            let limit = Duration::from_millis(SAMPLE_MS_MAX);
            match tokio::time::timeout(limit, measured(admin, &setting, lists, rows)).await {
                Ok(found) => {
                    if let Some(found) = found? {
                        note_measured(admin, &found).await?;
                        let ListMeasurement { n_probe, recall, scanned, .. } = found;
                        tracing::info!(
                            rows,
                            n_lists = lists,
                            n_probe,
                            recall,
                            scanned,
                            "the lists of the vector index were measured"
                        );
                        last = Some(found);
                    }
                }
                Err(_) => {
                    tracing::info!(
                        rows,
                        after_ms = SAMPLE_MS_MAX,
                        "the lists of the vector index were not measured in time"
                    );
                }
            }
        }
        self.notes.lock().expect("no holder panics").measured = last;
        if state.next.is_none() {
            self.checked.fetch_max(changes, Ordering::AcqRel);
        } else {
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
        Ok(last)
    }

    fn note(&self, outcome: Result<(), Fault>) {
        let obstacle = outcome.err().map(|fault| match fault.kind {
            FaultKind::Arango { num: 11, .. } => {
                "the user for writes may not make an index: give the server, or its proxy for writes, the password of vctx_index \
                 (ARANGO_INDEX_PASSWORD; `vctx setup --users` makes that user)"
                    .to_owned()
            }
            _ => fault.to_string(),
        });
        self.tell_obstacle(obstacle);
    }

    fn tell_obstacle(&self, obstacle: Option<String>) {
        let mut notes = self.notes.lock().expect("no holder panics");
        if let Some(text) = obstacle.as_ref().filter(|_| notes.obstacle != obstacle) {
            tracing::info!(reason = text, "the vector index of the archive has a problem");
        }
        notes.obstacle = obstacle;
    }

    /// Returns the vector index's state for `/readyz`. The server is ready even without a vector
    /// index.
    pub(super) fn report(&self, state: &VectorIndexState) -> Value {
        let name = match (&state.id, state.ready()) {
            (None, _) => "none",
            (Some(_), true) => "ready",
            (Some(_), false) => state.training_state.as_str(),
        };
        let notes = self.notes.lock().expect("no holder panics");
        let next = state
            .next
            .as_ref()
            .map(|next| json!({"state": next.training_state, "nLists": next.n_lists}));
        json!({
            "state": name, "nLists": state.n_lists, "reason": notes.obstacle.clone().or_else(|| {
                (!state.error_message.is_empty()).then(|| state.error_message.clone())
            }),
            "search": if state.ready() { "vector above exact_rows_max" } else { "exact" },
            "filters": if self.settings.filters_first { "first" } else { "behind" },
            "exact_rows_max": self.settings.exact_rows_max, "index_rows_min": self.settings.index_rows_min,
            "retrain_growth": self.settings.retrain_growth, "next": next, "measured": notes.measured,
        })
    }
}
