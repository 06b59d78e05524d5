//! The life of the vector index: made when there are vectors enough to train it, watched until it is ready, never waited for.
//!
//! ArangoDB trains an index once, on the vectors that are there (up to 3.12.8 while it is made, later by itself in the background), and
//! an index that was trained on few stays coarse. So it is made after the data with every release; until it is ready, searches
//! compare one by one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::limits::{SAMPLE_MS_MAX, SAMPLE_NEAREST, SAMPLE_QUESTIONS_MIN, SAMPLE_ROWS};
use crate::memory::archive::{Metric, VectorSetting};
use crate::policy::{Measured, RECALL_WANTED, is_due, ladder, questions, recall};
use crate::store::{
    Admin, Fault, FaultKind, Ro, VectorIndexState, index_state, make_vector_index, note_measured,
    sample, sample_near, setting_of, vector_index, vector_rows,
};

/// When the archive is compared one by one and when its index is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchiveSettings {
    /// Chunks of one agent up to which its archive is compared one by one.
    pub exact_rows_max: u64,
    /// Chunks of the database from which on the vector index is made.
    pub index_rows_min: u64,
    /// Whether conditions stand before a search through the index instead of behind it: needs ArangoDB ≥ 3.12.7 and an index that was made so.
    pub filters_first: bool,
}

/// What holds unless the configuration says otherwise.
pub(super) const ARCHIVE_SETTINGS: ArchiveSettings =
    ArchiveSettings { exact_rows_max: 20_000, index_rows_min: 1_000, filters_first: false };

/// Who looks after the index.
pub(super) struct ArchiveIndex {
    pub(super) admin: Option<Admin>,
    pub(super) settings: ArchiveSettings,
    busy: AtomicBool,
    /// Whether this server has seen to it that the cells are measured.
    measured: AtomicBool,
    /// The attribute whose index was ready when it was looked at last: it stays ready until it is taken away, and a search that finds it gone
    /// says so.
    ready: Mutex<Option<String>>,
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
        let (busy, measured) = (AtomicBool::new(false), AtomicBool::new(false));
        let (ready, obstacle) = (Mutex::default(), Mutex::new(obstacle));
        Arc::new(Self { admin, settings, busy, measured, ready, obstacle })
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

    /// Whether the index over an attribute serves searches: once it does, it is not looked at again until one fails.
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

    /// A search found that the index cannot serve it.
    pub(super) fn failed(&self) {
        *self.ready.lock().expect("no holder panics") = None;
    }

    /// Makes the index if it is missing and there are vectors enough.
    async fn look_after(&self) -> Result<(), Fault> {
        let Some(admin) = &self.admin else { return Ok(()) };
        let rows = vector_rows(admin).await?;
        if rows < self.settings.index_rows_min {
            return Ok(());
        }
        let first = self.settings.filters_first;
        if let Some(made) = make_vector_index(admin, n_lists(rows), first).await? {
            tracing::info!(
                rows,
                n_lists = made,
                "the vector index of the archive is being trained"
            );
        }
        self.measure(admin, rows).await
    }

    /// Whether it is not known yet how many cells a search needs.
    pub(super) fn unmeasured(&self) -> bool {
        self.admin.is_some() && !self.measured.load(Ordering::Acquire)
    }

    /// Measures how many cells a search must look into, once the index is ready and when the archive has grown.
    async fn measure(&self, admin: &Admin, rows: u64) -> Result<(), Fault> {
        let Some(setting) = setting_of(admin).await? else { return Ok(()) };
        let state = index_state(admin, &setting.attribute()).await?;
        let Some(lists) = state.n_lists.filter(|_| state.ready()) else { return Ok(()) };
        // What is no measurement of ours is measured again.
        let last = setting.measured.clone().and_then(|last| serde_json::from_value(last).ok());
        if !is_due(last.as_ref(), rows) {
            self.measured.store(true, Ordering::Release);
            return Ok(());
        }
        let limit = Duration::from_millis(SAMPLE_MS_MAX);
        match tokio::time::timeout(limit, measured(admin, &setting, lists, rows)).await {
            Ok(found) => {
                if let Some(found) = found? {
                    note_measured(admin, &found).await?;
                    let (n_probe, recall) = (found.n_probe, found.recall);
                    tracing::info!(rows, n_lists = lists, n_probe, recall, "cells were measured");
                }
            }
            Err(_) => {
                tracing::info!(rows, after_ms = SAMPLE_MS_MAX, "cells were not measured in time")
            }
        }
        self.measured.store(true, Ordering::Release);
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
            "filters": if self.settings.filters_first { "first" } else { "behind" },
            "exact_rows_max": self.settings.exact_rows_max, "index_rows_min": self.settings.index_rows_min,
        })
    }
}

/// Asks a sample of questions through fewer and fewer cells; none if there is too little to draw from. All cells together are the truth.
pub(super) async fn measured(
    admin: &Admin,
    setting: &VectorSetting,
    lists: u64,
    rows: u64,
) -> Result<Option<Measured>, Fault> {
    // Keys are hashes in hex: any two digits begin as many of them as any others.
    let from = format!("{:02x}", rows % 191);
    let questions = questions(&sample(admin, &setting.attribute(), &from, SAMPLE_ROWS).await?);
    if questions.len() < SAMPLE_QUESTIONS_MIN {
        return Ok(None);
    }
    let rising = setting.metric == Metric::L2;
    let mut truths = Vec::with_capacity(questions.len());
    for question in &questions {
        truths.push(sample_near(admin, setting, question, lists, SAMPLE_NEAREST).await?);
    }
    let ladder = ladder(lists);
    let (mut low, mut high) = (0, ladder.len() - 1);
    let mut best = None;
    while low <= high {
        let at = usize::midpoint(low, high);
        let mut sum = 0.0;
        for (question, truth) in questions.iter().zip(&truths) {
            let cells = u64::from(ladder[at]);
            let found = sample_near(admin, setting, question, cells, SAMPLE_NEAREST).await?;
            sum += recall(truth, &found, rising);
        }
        let mean = sum / questions.len() as f64;
        let found =
            Measured { n_probe: ladder[at], recall: mean, questions: questions.len() as u64, rows };
        // Where not even the last step is enough, it is what there is.
        if mean >= RECALL_WANTED || at == ladder.len() - 1 {
            best = Some(found);
        }
        match (mean >= RECALL_WANTED, at) {
            (true, 0) => break,
            (true, _) => high = at - 1,
            (false, _) => low = at + 1,
        }
    }
    Ok(best)
}

/// Cells for so many vectors: four times the square root (the rule of ArangoDB's `autoSqrt` and of FAISS's guidelines for up to a million),
/// but so that each cell is trained on some ten. Finer cells find more for the same share of vectors looked at.
pub(super) fn n_lists(rows: u64) -> u64 {
    (4 * rows.isqrt()).min(rows / 10).max(1)
}

#[cfg(test)]
mod tests {
    use super::n_lists;

    #[test]
    fn lists_grow_with_the_root_and_never_starve() {
        for (rows, lists) in [(1, 1), (19, 1), (1_000, 100), (10_000, 400), (1_000_000, 4_000)] {
            assert_eq!(n_lists(rows), lists, "{rows}");
        }
    }
}
