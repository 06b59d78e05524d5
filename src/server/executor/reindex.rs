//! Begins, pauses, cancels and reports a reindex: a change of the archive's vectors to another
//! embedder, dimension or metric.
//!
//! During the reindex, searches use the current vectors.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};

use super::archive_index::ArchiveIndex;
use super::kernel::Kernel;
use crate::limits::ARCHIVAL_TAIL_MS;
use crate::models::Kind;
use crate::store::{self, Counts};
use vctx_base::clock::iso8601;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::ARCHIVAL_TAIL_ROWS_MAX;
use vctx_core::memory::archive::{Metric, VectorSetting, attribute};
use vctx_core::memory::reindex::{LeavingSetting, NextSetting};

/// Maximum number of an agent's chunks that one server changes within [`ARCHIVAL_TAIL_MS`]. The
/// view does not show recently changed chunks, so a search reads them separately, and the changes
/// of all servers must fit in [`ARCHIVAL_TAIL_ROWS_MAX`].
const REINDEX_TAIL_ROWS: u64 = ARCHIVAL_TAIL_ROWS_MAX as u64 / 4;
/// Maximum number of agents whose changed chunks are counted at the same time.
const REINDEX_AGENTS_KEPT: usize = 4_096;
/// Maximum number of attempts to begin, pause or cancel a reindex while other writers change the
/// vector setting.
const REINDEX_TRIES_MAX: u32 = 8;

/// This server's notes about the current reindex.
#[derive(Debug, Default)]
pub(super) struct ReindexNotes {
    /// Why the reindex makes no progress on this server.
    obstacle: Mutex<Option<String>>,
    /// For each agent, the start of the current interval, and the number of chunks changed in it.
    changed: Mutex<HashMap<String, (u64, u64)>>,
}

impl ReindexNotes {
    /// Records why the reindex makes no progress; `None` means that it makes progress.
    pub(super) fn note(&self, obstacle: Option<String>) {
        *self.obstacle.lock().expect("no holder panics") = obstacle;
    }

    /// Returns whether `rows` chunks of an agent may be changed now; if so, counts them. If no
    /// chunk of the agent was changed in the current interval, any number is allowed.
    pub(super) fn may_change(&self, agent: &str, rows: u64, now_ms: u64) -> bool {
        let mut changed = self.changed.lock().expect("no holder panics");
        if changed.len() >= REINDEX_AGENTS_KEPT {
            changed.retain(|_, (since, _)| now_ms < *since + ARCHIVAL_TAIL_MS);
        }
        let (since, sum) = changed.entry(agent.to_owned()).or_insert((now_ms, 0));
        if now_ms >= *since + ARCHIVAL_TAIL_MS {
            (*since, *sum) = (now_ms, 0);
        }
        let fits = *sum == 0 || *sum + rows <= REINDEX_TAIL_ROWS;
        *sum += if fits { rows } else { 0 };
        fits
    }

    fn obstacle(&self) -> Option<String> {
        self.obstacle.lock().expect("no holder panics").clone()
    }
}

/// Handles requests that concern a reindex, and carries out the reindex.
pub struct Reindex<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) archive: &'a Arc<ArchiveIndex>,
    pub(super) notes: &'a ReindexNotes,
}

/// Phase of a reindex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Documents get vectors of the next setting.
    Embedding,
    /// At one time, all documents had vectors of the next setting; the documents ingested since
    /// then now get such vectors too.
    CatchingUp,
    /// The vector index of the next setting is created, trained and measured.
    Training,
    /// Searches use the new vectors, and the old ones are being removed.
    Cleaning,
}

impl Phase {
    fn of(setting: &VectorSetting, counts: &Counts) -> Option<Self> {
        if setting.leaving.is_some() {
            return Some(Self::Cleaning);
        }
        let next = setting.next.as_ref()?;
        let lags = counts.made_documents.unwrap_or(0) < counts.documents.unwrap_or(0);
        Some(match (next.complete, lags) {
            (false, true) => Self::Embedding,
            (true, true) => Self::CatchingUp,
            (_, false) => Self::Training,
        })
    }

    fn text(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::CatchingUp => "catching_up",
            Self::Training => "training",
            Self::Cleaning => "cleaning",
        }
    }
}

impl Reindex<'_> {
    /// Returns the status of the current reindex.
    pub async fn status(&self) -> Result<Value> {
        let setting = self.kernel.read(store::vector_setting).await?;
        let Some(setting) = setting else {
            return Ok(json!({"state": "none", "serving": null, "next": null}));
        };
        let next = setting.next.as_deref();
        let number = next.map_or(setting.number, |next| next.setting.number);
        let counts = self.kernel.read(|ro| store::reindex_counts(ro, number)).await?;
        let now_ms = self.kernel.clock.unix_ms();
        let state = match (next, &setting.leaving) {
            (Some(next), _) if next.stopped => "stopped",
            (Some(_), _) => "running",
            (None, Some(_)) => "cleaning",
            (None, None) => "none",
        };
        let mut told = json!({
            "state": state, "phase": Phase::of(&setting, &counts).map(Phase::text),
            "serving": described(&setting), "next": next.map(|next| described(&next.setting)),
            "documents": counts.documents.unwrap_or(0), "chunks": counts.chunks.unwrap_or(0),
            "obstacle": self.notes.obstacle().filter(|_| state != "none" && state != "stopped"),
        });
        if let Some(next) = next {
            let index = store::vector_index(&self.kernel.ro, &next.setting.attribute()).await?;
            let state = if index.id.is_some() { index.training_state.as_str() } else { "none" };
            told["next"]["index"] = state.into();
            told["embedder_here"] =
                self.kernel.embedders.of(&next.setting.fingerprint()).is_ok().into();
            // Number of documents whose current vectors a caller made; the server itself makes the
            // vectors of the next setting for these documents.
            told["documents_by_caller"] = counts.by_caller.unwrap_or(0).into();
            told["documents_done"] = counts.made_documents.unwrap_or(0).into();
            told["chunks_done"] = counts.made_chunks.unwrap_or(0).into();
            add_rate(&mut told, next, &counts, now_ms);
        }
        if let Some(leaving) = &setting.leaving {
            told["chunks_cleaned"] = leaving.looked.into();
        }
        Ok(told)
    }

    /// Begins a reindex to the configured next embedder, or continues a paused reindex.
    pub async fn start(&self, metric: Option<Metric>) -> Result<Value> {
        for _ in 0..REINDEX_TRIES_MAX {
            let setting = self.serving().await?;
            let made_by = self.kernel.embedders.next().ok_or_else(|| {
                Error::argument(
                    "embedder.next",
                    "is not configured: name the embedder to change to, and restart the server",
                )
            })?;
            let metric = metric.unwrap_or(setting.metric);
            let number = setting.last.unwrap_or(0).max(setting.number) + 1;
            let now_ms = self.kernel.clock.unix_ms();
            let wanted = VectorSetting::of(made_by, metric, number, iso8601(now_ms));
            if setting.leaving.is_some() {
                let text = "vectors of an earlier reindex are still being removed: try again when `vctx reindex status` shows none";
                return Err(Error::new(Code::Conflict, text));
            }
            if setting.serves(&wanted) && setting.next.is_none() {
                let text = "the archive's vectors already have this vector setting";
                return Err(Error::argument("embedder.next", text));
            }
            let next = match &setting.next {
                Some(next) if !next.setting.serves(&wanted) => {
                    let text = "a reindex to another vector setting is under way: let it finish, or cancel it with `vctx reindex cancel`";
                    return Err(Error::new(Code::VectorSettingMismatch, text)
                        .with("next", next.setting.described())
                        .with("given", wanted.described()));
                }
                Some(next) if !next.stopped => return self.status().await,
                Some(next) => (**next).clone(),
                None => NextSetting {
                    setting: wanted,
                    stopped: false,
                    complete: false,
                    since_ms: now_ms,
                    since_chunks: 0,
                },
            };
            self.try_next_embedder().await?;
            let counts = store::reindex_counts(&self.kernel.ro, next.setting.number).await?;
            let since_chunks = counts.made_chunks.unwrap_or(0);
            let next = NextSetting { stopped: false, since_ms: now_ms, since_chunks, ..next };
            let patch = patch([("last", next.setting.number.into()), ("next", json!(next))]);
            if store::patch_setting(&self.kernel.rw, &setting, &patch).await? {
                self.notes.note(None);
                let (number, to) = (next.setting.number, next.setting.described());
                tracing::info!(number, %to, chunks = counts.chunks, "a reindex continues");
                return self.status().await;
            }
        }
        Err(busy())
    }

    /// Pauses a reindex. The vectors made so far stay until the reindex continues.
    pub async fn stop(&self) -> Result<Value> {
        for _ in 0..REINDEX_TRIES_MAX {
            let setting = self.serving().await?;
            let Some(next) = &setting.next else { return Err(nothing()) };
            let stopped = NextSetting { stopped: true, ..(**next).clone() };
            let patch = patch([("next", json!(stopped))]);
            if next.stopped || store::patch_setting(&self.kernel.rw, &setting, &patch).await? {
                tracing::info!(number = next.setting.number, "a reindex is stopped");
                return self.status().await;
            }
        }
        Err(busy())
    }

    /// Cancels a reindex, and removes the vectors made for it.
    pub async fn cancel(&self) -> Result<Value> {
        for _ in 0..REINDEX_TRIES_MAX {
            let setting = self.serving().await?;
            let Some(next) = &setting.next else { return Err(nothing()) };
            let number = next.setting.number;
            let leaving = LeavingSetting::new(number, self.kernel.clock.unix_ms());
            let patch = patch([("next", Value::Null), ("leaving", json!(leaving))]);
            if store::patch_setting(&self.kernel.rw, &setting, &patch).await? {
                tracing::info!(number, "a reindex is given up");
                return self.status().await;
            }
        }
        Err(busy())
    }

    /// Trains a new vector index over the current vectors; until the new index is ready, searches
    /// use the old one.
    pub async fn index(&self) -> Result<Value> {
        let setting = self.serving().await?;
        if setting.next.is_some() {
            let text = "a reindex is under way, and trains an index of its own";
            return Err(Error::new(Code::Conflict, text));
        }
        let Some(admin) = &self.archive.admin else {
            let text = "this server has no database user that may create an index";
            return Err(Error::new(Code::Forbidden, text));
        };
        let (rows, least) =
            (store::vector_rows(admin).await?, self.archive.settings.index_rows_min);
        if rows < least {
            let text = format!(
                "{rows} chunks need no index: an index is made from {least} on (archive.index_rows_min)"
            );
            return Err(Error::argument("action", text));
        }
        self.archive.train_anew(admin).await?;
        let index = store::vector_index(&self.kernel.ro, &setting.attribute()).await?;
        Ok(json!({"vector_index": self.archive.report(&index)}))
    }

    async fn serving(&self) -> Result<VectorSetting> {
        let setting = self.kernel.read(store::vector_setting).await?;
        setting.ok_or_else(|| {
            Error::argument(
                "embedder.next",
                "the archive is empty: the first ingest decides its vector setting",
            )
        })
    }

    /// Tests the embedder of the next vector setting with one text, before a reindex begins.
    async fn try_next_embedder(&self) -> Result<()> {
        let Some(made_by) = self.kernel.embedders.next() else { return Ok(()) };
        let embedder = self.kernel.embedders.of(made_by)?;
        embedder.embed(&["a lighthouse".to_owned()], Kind::Passage).await.map(drop)
    }
}

/// Returns the given names and values as a patch of the vector setting.
pub(super) fn patch<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns a patch of the vector setting. The patch makes the next setting current, so that
/// searches use the next vectors, and marks the old vectors for removal.
pub(super) fn switched(
    setting: &VectorSetting,
    next: &NextSetting,
    now_ms: u64,
) -> Map<String, Value> {
    let mut patch = match json!(next.setting) {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    patch.insert("nLists".into(), json!(next.setting.n_lists));
    patch.insert("measured".into(), json!(next.setting.measured));
    patch.insert("last".into(), setting.last.unwrap_or(0).max(next.setting.number).into());
    patch.insert("next".into(), Value::Null);
    patch.insert("leaving".into(), json!(LeavingSetting::new(setting.number, now_ms)));
    patch
}

fn described(setting: &VectorSetting) -> Value {
    let mut told = setting.described();
    told["number"] = setting.number.into();
    told["attribute"] = attribute(setting.number).into();
    told["nLists"] = json!(setting.n_lists);
    told["nProbe"] = setting.n_probe().into();
    told
}

/// Adds the rate of the reindex in chunks per second since it began or last continued, and the
/// seconds that the remaining chunks take at this rate.
fn add_rate(told: &mut Value, next: &NextSetting, counts: &Counts, now_ms: u64) {
    let (all, made) = (counts.chunks.unwrap_or(0), counts.made_chunks.unwrap_or(0));
    let passed_ms = now_ms.saturating_sub(next.since_ms);
    let done = made.saturating_sub(next.since_chunks);
    if next.stopped || passed_ms == 0 || done == 0 {
        return;
    }
    let rate = done as f64 * 1e3 / passed_ms as f64;
    told["chunks_per_s"] = json!((rate * 10.0).round() / 10.0);
    told["left_s"] = json!((all.saturating_sub(made) as f64 / rate).ceil());
}

fn nothing() -> Error {
    Error::argument("action", "no reindex is under way")
}

fn busy() -> Error {
    Error::new(Code::Conflict, "at each attempt, another write changed the memory first: try again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use vctx_core::memory::Fingerprint;

    fn setting(number: u64) -> VectorSetting {
        let made_by =
            Fingerprint { model_id: "m".into(), embedding_version: "1".into(), dimension: 2 };
        VectorSetting::of(&made_by, Metric::Cosine, number, String::new())
    }

    fn next(complete: bool) -> NextSetting {
        let (setting, stopped) = (setting(2), false);
        NextSetting { setting, stopped, complete, since_ms: 1_000, since_chunks: 10 }
    }

    fn counts(made: u64) -> Counts {
        Counts {
            documents: Some(10),
            chunks: Some(100),
            made_documents: Some(made),
            made_chunks: Some(made * 10),
            by_caller: None,
        }
    }

    #[test]
    fn phases_follow_from_what_is_known() {
        let leaving = Some(LeavingSetting::new(1, 0));
        for (next, leaving, made, phase) in [
            (None, None, 0, None),
            (Some(next(false)), None, 3, Some("embedding")),
            (Some(next(true)), None, 9, Some("catching_up")),
            (Some(next(false)), None, 10, Some("training")),
            (Some(next(true)), None, 10, Some("training")),
            (None, leaving, 10, Some("cleaning")),
        ] {
            let setting = VectorSetting { next: next.map(Box::new), leaving, ..setting(1) };
            assert_eq!(Phase::of(&setting, &counts(made)).map(Phase::text), phase);
        }
    }

    #[test]
    fn the_rate_counts_from_the_last_beginning() {
        let mut told = json!({});
        add_rate(&mut told, &next(false), &counts(3), 3_000);
        assert_eq!((&told["chunks_per_s"], &told["left_s"]), (&json!(10.0), &json!(7.0)));
        let mut told = json!({});
        add_rate(&mut told, &next(false), &counts(1), 3_000);
        assert_eq!(told, json!({}));
    }

    #[test]
    fn no_more_chunks_change_in_a_moment_than_are_looked_at_beside_the_view() {
        let notes = ReindexNotes::default();
        let later = 5 + ARCHIVAL_TAIL_MS;
        for (agent, rows, now_ms, may) in [
            ("a", REINDEX_TAIL_ROWS - 1, 5, true),
            ("a", 1, 6, true),
            ("a", 1, later - 1, false),
            ("b", 2 * REINDEX_TAIL_ROWS, 7, true),
            ("b", 1, 8, false),
            ("a", 1, later, true),
        ] {
            assert_eq!(notes.may_change(agent, rows, now_ms), may, "{agent} {rows} {now_ms}");
        }
    }

    #[test]
    fn what_served_leaves_when_the_next_serves() {
        let before = VectorSetting { n_lists: Some(7), last: Some(2), ..setting(1) };
        let patch = switched(&before, &next(true), 9);
        assert_eq!((&patch["number"], &patch["last"]), (&json!(2), &json!(2)));
        assert_eq!((&patch["nLists"], &patch["next"]), (&Value::Null, &Value::Null));
        assert_eq!((&patch["leaving"]["number"], patch.get("_rev")), (&json!(1), None));
    }
}
