//! The life of the vector index: made when there are vectors enough to train it, watched until it is ready, never waited for, and made anew when
//! it is outgrown.
//!
//! ArangoDB trains an index once, on the vectors that are there (up to 3.12.8 while it is made, later by itself in the background), and
//! an index that was trained on few stays coarse. So it is made after the data with every release; until it is ready, searches
//! compare one by one. When it has become too coarse, a second one is made beside it under another name (two with other parameters are two
//! indexes); searches go through the first until the second is ready, then the first goes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::cells::measured;
use crate::store::{
    Admin, Fault, FaultKind, Ro, VectorIndexState, drop_vector_index, index_state, make_index_of,
    note_lists, note_measured, setting_of, vector_index, vector_rows,
};
use vctx_base::clock;
use vctx_core::limits::{RETRAIN_MS, RETRAIN_PATIENCE_MS, SAMPLE_MS_MAX};
use vctx_core::memory::archive::VectorSetting;
use vctx_core::policy::{Measured, is_due, is_outgrown, lists_for};

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
    /// Growth of the archive since its index was trained after which it is trained anew, beside the old one; 0 never.
    pub retrain_growth: u64,
}

/// What holds unless the configuration says otherwise.
pub(super) const ARCHIVE_SETTINGS: ArchiveSettings = ArchiveSettings {
    exact_rows_max: 20_000,
    index_rows_min: 1_000,
    filters_first: false,
    retrain_growth: 2,
};

/// Who looks after the index.
pub(super) struct ArchiveIndex {
    pub(super) admin: Option<Admin>,
    pub(super) settings: ArchiveSettings,
    busy: AtomicBool,
    /// Whether this server has seen to it that the cells are measured and that no index waits for its turn.
    settled: AtomicBool,
    /// The attribute whose index was ready when it was looked at last: it stays ready until it is taken away, and a search that finds it gone
    /// says so.
    ready: Mutex<Option<String>>,
    told: Mutex<Told>,
}

/// What readiness tells beside what the database says.
#[derive(Default)]
struct Told {
    /// Why it was not made, when that was tried last.
    obstacle: Option<String>,
    /// What was measured last.
    measured: Option<Measured>,
}

impl ArchiveIndex {
    /// `admin` reaches the database as the user that may make an index, if there is one.
    pub(super) fn new(admin: Option<Admin>, settings: ArchiveSettings) -> Arc<Self> {
        let obstacle = match &admin {
            Some(_) => None,
            None => Some("this server was given no user that may make an index".to_owned()),
        };
        let told = Mutex::new(Told { obstacle, measured: None });
        let (busy, settled) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { admin, settings, busy, settled, ready: Mutex::default(), told })
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

    /// Makes the index if it is missing and there are vectors enough, and anew if it is outgrown; measures it.
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
            self.told.lock().expect("no holder panics").measured = None;
            self.settled.store(false, Ordering::Release);
            tracing::info!(rows, n_lists, "the vector index of the archive is being trained");
            return Ok(());
        }
        if there.next.is_some() {
            self.take_over(admin, &setting).await?;
        }
        let last = self.measure(admin).await?;
        // Vectors that will be others soon are not worth a training.
        let stays = there.next.is_none() && there.ready() && setting.next.is_none();
        let Some(n_lists) = there.n_lists.filter(|_| stays) else { return Ok(()) };
        if is_outgrown(n_lists, rows, self.settings.retrain_growth, last.as_ref()) {
            self.settled.store(false, Ordering::Release);
            let finer = lists_for(rows);
            make_index_of(admin, &setting, &there, finer, self.settings.filters_first).await?;
            tracing::info!(rows, n_lists, finer, "the vector index is trained anew");
            self.take_over(admin, &setting).await?;
            self.measure(admin).await?;
        }
        Ok(())
    }

    /// Begins to train the index anew beside the one that serves, outgrown or not; whoever looks after it takes the earlier one away. Nothing is
    /// begun where there is no index yet, or one waits for its turn already.
    pub(super) async fn train_anew(self: &Arc<Self>, admin: &Admin) -> Result<(), Fault> {
        let rows = vector_rows(admin).await?;
        let Some(setting) = setting_of(admin).await? else { return Ok(()) };
        let there = index_state(admin, &setting.attribute()).await?;
        if let (true, Some(n_lists), None) = (there.ready(), there.n_lists, &there.next) {
            // Two indexes with the same parameters would be one.
            let wanted = lists_for(rows);
            let wanted = if wanted == n_lists { wanted + 1 } else { wanted };
            make_index_of(admin, &setting, &there, wanted, self.settings.filters_first).await?;
            tracing::info!(rows, n_lists, wanted, "the vector index is trained anew, as asked");
        }
        self.settled.store(false, Ordering::Release);
        self.nudge();
        Ok(())
    }

    /// Waits until the index that was made later is ready, and takes the earlier one away. Whoever comes to a half of this goes on.
    async fn take_over(&self, admin: &Admin, setting: &VectorSetting) -> Result<(), Fault> {
        let (longest, pause) = RETRAIN_MS;
        let begun = clock::now();
        while begun.elapsed() < Duration::from_millis(longest) {
            let there = index_state(admin, &setting.attribute()).await?;
            let (Some(old), Some(next)) = (&there.id, &there.next) else { return Ok(()) };
            if next.ready() {
                drop_vector_index(admin, old).await?;
                let n_lists = next.n_lists.unwrap_or(1);
                note_lists(admin, setting, n_lists, Some(&Measured::unknown(n_lists))).await?;
                tracing::info!(n_lists, "the vector index that was trained anew serves now");
                return Ok(());
            }
            // An index that nobody has begun to train yet is unusable for a moment, too.
            let fails =
                next.failed() && begun.elapsed() > Duration::from_millis(RETRAIN_PATIENCE_MS);
            let why = || format!("the index cannot be trained anew yet: {}", next.error_message);
            self.tell_obstacle(fails.then(why));
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        Ok(())
    }

    /// Whether it is not known yet how many cells a search needs, or an index waits for its turn.
    pub(super) fn unsettled(&self) -> bool {
        self.admin.is_some() && !self.settled.load(Ordering::Acquire)
    }

    /// Measures how many cells a search must look into, once the index is ready and when the archive has grown; tells what is known.
    async fn measure(&self, admin: &Admin) -> Result<Option<Measured>, Fault> {
        let rows = vector_rows(admin).await?;
        let Some(setting) = setting_of(admin).await? else { return Ok(None) };
        let state = index_state(admin, &setting.attribute()).await?;
        let Some(lists) = state.n_lists.filter(|_| state.ready()) else { return Ok(None) };
        // What is no measurement of ours is measured again.
        let mut last = setting.measured.clone().and_then(|last| serde_json::from_value(last).ok());
        if is_due(last.as_ref(), rows, lists) {
            let limit = Duration::from_millis(SAMPLE_MS_MAX);
            match tokio::time::timeout(limit, measured(admin, &setting, lists, rows)).await {
                Ok(found) => {
                    if let Some(found) = found? {
                        note_measured(admin, &found).await?;
                        let Measured { n_probe, recall, scanned, .. } = found;
                        tracing::info!(
                            rows,
                            n_lists = lists,
                            n_probe,
                            recall,
                            scanned,
                            "cells were measured"
                        );
                        last = Some(found);
                    }
                }
                Err(_) => {
                    tracing::info!(
                        rows,
                        after_ms = SAMPLE_MS_MAX,
                        "cells were not measured in time"
                    );
                }
            }
        }
        self.told.lock().expect("no holder panics").measured = last;
        self.settled.store(state.next.is_none(), Ordering::Release);
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
        let mut told = self.told.lock().expect("no holder panics");
        if let Some(text) = obstacle.as_ref().filter(|_| told.obstacle != obstacle) {
            tracing::info!(reason = text, "the vector index of the archive is not as it should be");
        }
        told.obstacle = obstacle;
    }

    /// What readiness tells of the index; a server without one serves all the same.
    pub(super) fn report(&self, state: &VectorIndexState) -> Value {
        let name = match (&state.id, state.ready()) {
            (None, _) => "none",
            (Some(_), true) => "ready",
            (Some(_), false) => state.training_state.as_str(),
        };
        let told = self.told.lock().expect("no holder panics");
        let next = state
            .next
            .as_ref()
            .map(|next| json!({"state": next.training_state, "nLists": next.n_lists}));
        json!({
            "state": name, "nLists": state.n_lists, "reason": told.obstacle.clone().or_else(|| {
                (!state.error_message.is_empty()).then(|| state.error_message.clone())
            }),
            "search": if state.ready() { "vector above exact_rows_max" } else { "exact" },
            "filters": if self.settings.filters_first { "first" } else { "behind" },
            "exact_rows_max": self.settings.exact_rows_max, "index_rows_min": self.settings.index_rows_min,
            "retrain_growth": self.settings.retrain_growth, "next": next, "measured": told.measured,
        })
    }
}
