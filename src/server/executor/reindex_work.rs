//! The work of a change of all vectors, in bounded pieces that any server may do: documents get the next vectors, their index is made, they serve,
//! those of before go. Whatever ends it leaves nothing half: the next look finds what is still to do.

use std::time::{Duration, Instant};

use serde_json::json;

use super::cells::measured;
use super::embedding;
use super::executor::Executor;
use super::reindex::{patch, switched};
use crate::store::{self, Admin, Fault, FaultKind, Lagging};
use vctx_base::clock;
use vctx_base::metric;
use vctx_core::chunk::restored;
use vctx_core::error::{Code, Result};
use vctx_core::limits::{
    CHUNKS_MAX, PART_CHUNKS, PART_MARGIN, REINDEX_CLEAN_ROWS, REINDEX_DOCUMENTS,
    REINDEX_FAILURES_MAX, REINDEX_MEASURE_MS, REINDEX_SETTLE_MS,
};
use vctx_core::memory::archive::{VectorSetting, attribute};
use vctx_core::memory::reindex::{LeavingSetting, NextSetting};
use vctx_core::policy::{Actor, Principal, Scope, admit, lists_for};

/// Whether there is more to do at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reindexed {
    /// Nothing is to do, or nothing before some time has passed.
    Rests,
    /// There is more to do.
    GoesOn,
}

impl Executor {
    /// Does a piece of a change, if one is under way, until about a moment.
    pub async fn reindex_work(&self, actor: &Actor, until: Instant) -> Result<Reindexed> {
        let Some(setting) = store::under_way(&self.ro).await? else {
            return Ok(Reindexed::Rests);
        };
        let outcome = match (&setting.leaving, &setting.next) {
            (Some(leaving), _) => self.clean(&setting, leaving, until).await,
            (None, Some(next)) if !next.stopped => self.advance(&setting, next, actor, until).await,
            (None, _) => return Ok(Reindexed::Rests),
        };
        if let Err(error) = &outcome {
            self.reindex.note(Some(error.message.clone()));
        }
        outcome
    }

    /// Gives documents the next vectors; when none lacks them, sees to their index and lets them serve.
    async fn advance(
        &self,
        setting: &VectorSetting,
        next: &NextSetting,
        actor: &Actor,
        until: Instant,
    ) -> Result<Reindexed> {
        if self.embedders.of(&next.setting.fingerprint()).is_err() {
            let text = "this server has no embedder for the next vectors: configure embedder.next";
            self.reindex.note(Some(text.into()));
            return Ok(Reindexed::Rests);
        }
        let number = next.setting.number;
        let mut behind = store::lagging(&self.ro, number, REINDEX_DOCUMENTS).await?;
        if behind.is_empty() {
            return self.let_serve(setting, next).await;
        }
        let (mut failures, mut moved) = (Ok(()), false);
        let mut failed = 0;
        while !behind.is_empty() {
            // Of two servers each begins somewhere else.
            let at = self.ids.below(behind.len() as u64) as usize;
            let document = behind.swap_remove(at);
            match self.embed_document(&next.setting, &document, actor, until).await {
                Ok(did) => moved |= did,
                Err(error) if error.code == Code::EmbedderUnavailable => {
                    failed += 1;
                    let of = &document.key;
                    tracing::debug!(document = of, error = error.chain(), "no next vectors");
                    failures = Err(error);
                }
                Err(error) => return Err(error),
            }
            if failed >= REINDEX_FAILURES_MAX {
                break;
            }
            let stands = store::under_way(&self.ro).await?;
            let stands = stands.and_then(|now| now.next).filter(|now| !now.stopped);
            if stands.is_none_or(|now| now.setting.number != number) || clock::now() >= until {
                break;
            }
        }
        failures?;
        self.reindex.note(None);
        Ok(if moved { Reindexed::GoesOn } else { Reindexed::Rests })
    }

    /// The next vectors of one document, part by part. A document that was taken in anew meanwhile is left to the next look. False if it must wait,
    /// since so many chunks of its agent were changed a moment ago.
    async fn embed_document(
        &self,
        next: &VectorSetting,
        document: &Lagging,
        actor: &Actor,
        until: Instant,
    ) -> Result<bool> {
        let scope = scope_of(document, actor)?;
        let part = if document.splits { PART_CHUNKS } else { CHUNKS_MAX } as u64;
        let mut from = 0;
        while from < document.chunks {
            let to = (from + part).min(document.chunks);
            match self.embed_part_of(next, document, &scope, from, to).await {
                Ok(Part::Done) => {}
                Ok(Part::Waits) => return Ok(false),
                Ok(Part::Gone) => return Ok(true),
                Err(Failed::Store(fault)) if fault.raced() => return Ok(true),
                Err(Failed::Store(fault)) if is_refused_by_index(&fault) => {
                    return self.without_next_index(next, fault).await.map(|()| true);
                }
                Err(failed) => return Err(failed.into()),
            }
            from = to;
            if from < document.chunks && clock::now() >= until {
                // The parts that are done are found done by the next look.
                return Ok(true);
            }
        }
        match store::note_embedded(&self.rw, &scope, document, next.number).await {
            Ok(true) => {
                metrics::counter!(metric::REINDEX_DOCUMENTS).increment(1);
                Ok(true)
            }
            Ok(false) => Ok(true),
            Err(fault) if fault.raced() => Ok(true),
            Err(fault) => Err(fault.into()),
        }
    }

    /// The vectors of the chunks `from..to`, in the light of the text around them.
    async fn embed_part_of(
        &self,
        next: &VectorSetting,
        document: &Lagging,
        scope: &Scope,
        from: u64,
        to: u64,
    ) -> std::result::Result<Part, Failed> {
        let (margin, attribute) = (PART_MARGIN as u64, next.attribute());
        let around = (from.saturating_sub(margin), (to + margin).min(document.chunks));
        let ask = store::chunk_texts(&self.ro, scope, document, &attribute, around.0, around.1);
        let chunks = ask.await?;
        if chunks.len() as u64 != around.1 - around.0 {
            return Ok(Part::Gone);
        }
        let wanted = |index: u64| (from..to).contains(&index);
        if chunks.iter().filter(|chunk| wanted(chunk.index)).all(|chunk| chunk.made) {
            return Ok(Part::Done);
        }
        if !self.reindex.may_change(scope.key(), to - from, self.clock.unix_ms()) {
            return Ok(Part::Waits);
        }
        let texts: Vec<_> = chunks.iter().map(|c| (c.text.as_str(), c.offset)).collect();
        let (text, spans) = restored(&texts);
        let with = next.fingerprint();
        let made = embedding::spans(&self.embedders, &text, &spans, &with).await?;
        let vectors = chunks.iter().zip(made).filter(|(chunk, _)| wanted(chunk.index));
        let vectors: Vec<(String, Vec<f64>)> =
            vectors.map(|(chunk, vector)| (chunk.key.clone(), vector)).collect();
        let written = store::write_vectors(
            &self.rw,
            scope,
            document,
            &attribute,
            &vectors,
            self.clock.unix_ms(),
        )
        .await?;
        metrics::counter!(metric::REINDEX_CHUNKS).increment(vectors.len() as u64);
        Ok(if written { Part::Done } else { Part::Gone })
    }

    /// An index of a release before 3.12.9 takes no vector for a chunk that had none: it goes, and is made again when all have theirs.
    async fn without_next_index(&self, next: &VectorSetting, fault: Fault) -> Result<()> {
        let Some(admin) = &self.archive.admin else { return Err(fault.into()) };
        match store::drop_vector_indexes(admin, &next.attribute()).await? {
            true => Ok(()),
            false => Err(fault.into()),
        }
    }

    /// Makes the index over the next vectors where there are enough of them, waits for it, and lets them serve.
    async fn let_serve(&self, setting: &VectorSetting, next: &NextSetting) -> Result<Reindexed> {
        if !next.complete {
            let next = NextSetting { complete: true, ..next.clone() };
            store::patch_setting(&self.rw, setting, &patch([("next", json!(next))])).await?;
            tracing::info!(number = next.setting.number, "every document has the next vectors");
            return Ok(Reindexed::GoesOn);
        }
        let Some(next) = self.with_index(setting, next).await? else {
            return Ok(Reindexed::Rests);
        };
        self.drop_if_dense(setting).await?;
        let patch = switched(setting, &next, self.clock.unix_ms());
        let number = next.setting.number;
        if store::switch_setting(&self.rw, setting, number, &patch).await? {
            metrics::counter!(metric::REINDEX_SWITCHES).increment(1);
            tracing::info!(number, was = setting.number, "the next vectors serve");
        }
        Ok(Reindexed::GoesOn)
    }

    /// The next setting with what is known of its index, once that can serve; at once where there are too few chunks for one, or where none is
    /// permitted and those of now have none either.
    async fn with_index(
        &self,
        setting: &VectorSetting,
        next: &NextSetting,
    ) -> Result<Option<NextSetting>> {
        let settings = &self.archive.settings;
        let Some(admin) = &self.archive.admin else { return Ok(Some(next.clone())) };
        let rows = store::vector_rows(admin).await?;
        if rows < settings.index_rows_min {
            return Ok(Some(next.clone()));
        }
        let index = store::index_state(admin, &next.setting.attribute()).await?;
        if index.id.is_none() {
            let lists = lists_for(rows);
            let made =
                store::make_index_of(admin, &next.setting, &index, lists, settings.filters_first);
            return match made.await {
                Ok(()) => {
                    tracing::info!(
                        rows,
                        n_lists = lists,
                        "the index over the next vectors is being trained"
                    );
                    Ok(None)
                }
                Err(fault) if is_forbidden(&fault) => {
                    let now = store::index_state(admin, &setting.attribute()).await?;
                    if now.id.is_none() { Ok(Some(next.clone())) } else { Err(fault.into()) }
                }
                Err(fault) => Err(fault.into()),
            };
        }
        let Some(lists) = index.n_lists.filter(|_| index.ready()) else {
            self.reindex.note(Some(index.error_message).filter(|text| !text.is_empty()));
            return Ok(None);
        };
        let measured = match &next.setting.measured {
            Some(known) => Some(known.clone()),
            None => measured_in_time(admin, &next.setting, lists, rows).await?,
        };
        let known = VectorSetting { n_lists: Some(lists), measured, ..next.setting.clone() };
        let known = NextSetting { setting: known, ..next.clone() };
        if known == *next || known.setting.measured.is_none() {
            return Ok(Some(known));
        }
        // Kept at once, so that nobody measures again what takes its time.
        store::patch_setting(&self.rw, setting, &patch([("next", json!(known))])).await?;
        Ok(None)
    }

    /// An index that takes no chunk without its vector would refuse ingests once other vectors serve, so it goes just before: searches compare
    /// one by one for that moment.
    async fn drop_if_dense(&self, setting: &VectorSetting) -> Result<()> {
        let Some(admin) = &self.archive.admin else { return Ok(()) };
        let index = store::index_state(admin, &setting.attribute()).await?;
        if index.id.is_some() && !index.sparse {
            store::drop_vector_indexes(admin, &setting.attribute()).await?;
        }
        Ok(())
    }

    /// Takes vectors away that serve nobody: their index at once, themselves when no search of before can look at them any more.
    async fn clean(
        &self,
        setting: &VectorSetting,
        leaving: &LeavingSetting,
        until: Instant,
    ) -> Result<Reindexed> {
        let name = attribute(leaving.number);
        if let Some(admin) = &self.archive.admin {
            match store::drop_vector_indexes(admin, &name).await {
                Ok(true) => {
                    tracing::info!(number = leaving.number, "an index that serves nobody is gone")
                }
                Ok(false) => {}
                Err(fault) => return Err(fault.into()),
            }
        }
        if self.clock.unix_ms() < leaving.since_ms + REINDEX_SETTLE_MS {
            return Ok(Reindexed::Rests);
        }
        let mut setting = setting.clone();
        while let Some(leaving) = setting.leaving.clone() {
            // Whose they are is not told: they count as one agent's.
            if leaving.manifests_after.is_none()
                && !self.reindex.may_change("", REINDEX_CLEAN_ROWS, self.clock.unix_ms())
            {
                return Ok(Reindexed::Rests);
            }
            let Some(now) = self.clean_some(&setting, &leaving, &name).await? else {
                return Ok(Reindexed::GoesOn);
            };
            let leaving = json!(now);
            if !store::patch_setting(&self.rw, &setting, &patch([("leaving", leaving)])).await? {
                // Another server did as much, or more.
                return Ok(Reindexed::GoesOn);
            }
            if now.is_none() {
                tracing::info!(number = setting.number, "vectors that served nobody are gone");
                self.reindex.note(None);
                return Ok(Reindexed::Rests);
            }
            if clock::now() >= until {
                return Ok(Reindexed::GoesOn);
            }
            match store::under_way(&self.ro).await? {
                Some(read) => setting = read,
                None => return Ok(Reindexed::Rests),
            }
        }
        Ok(Reindexed::Rests)
    }

    /// One batch; gives how far it is then: nothing in nothing where another writer was faster, nothing in something at the end.
    #[allow(clippy::option_option, reason = "raced, done, or so far")]
    async fn clean_some(
        &self,
        setting: &VectorSetting,
        leaving: &LeavingSetting,
        name: &str,
    ) -> Result<Option<Option<LeavingSetting>>> {
        let (mut now, now_ms) = (leaving.clone(), self.clock.unix_ms());
        if let Some(after) = &leaving.manifests_after {
            let described =
                store::describe_manifests(&self.rw, setting, after, REINDEX_CLEAN_ROWS).await;
            match described {
                Ok(last) => now.manifests_after = last,
                Err(fault) if fault.raced() => return Ok(None),
                Err(fault) => return Err(fault.into()),
            }
            return Ok(Some(Some(now)));
        }
        let cleaned = store::clean_vectors(
            &self.rw,
            setting,
            name,
            &leaving.after,
            REINDEX_CLEAN_ROWS,
            now_ms,
        )
        .await;
        match cleaned {
            Ok((looked, Some(last))) => {
                (now.looked, now.after) = (leaving.looked + looked, last);
                Ok(Some(Some(now)))
            }
            Ok((_, None)) => Ok(Some(None)),
            Err(fault) if fault.raced() => Ok(None),
            Err(fault) => Err(fault.into()),
        }
    }
}

/// What became of a part of a document.
enum Part {
    /// Its chunks have their vectors.
    Done,
    /// It must wait: too much of its agent was changed a moment ago.
    Waits,
    /// It is another document by now.
    Gone,
}

/// What ended a part of a document.
enum Failed {
    Store(Fault),
    Other(vctx_core::error::Error),
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self::Store(fault)
    }
}

impl From<vctx_core::error::Error> for Failed {
    fn from(error: vctx_core::error::Error) -> Self {
        Self::Other(error)
    }
}

impl From<Failed> for vctx_core::error::Error {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Store(fault) => fault.into(),
            Failed::Other(error) => error,
        }
    }
}

/// 10: an index of a release before 3.12.9 wants no change of a chunk that it does not hold.
fn is_refused_by_index(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::Arango { num: 10, .. })
}

/// 11: this user may not.
fn is_forbidden(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::Arango { num: 11, .. })
}

async fn measured_in_time(
    admin: &Admin,
    setting: &VectorSetting,
    lists: u64,
    rows: u64,
) -> Result<Option<serde_json::Value>> {
    let limit = Duration::from_millis(REINDEX_MEASURE_MS);
    match tokio::time::timeout(limit, measured(admin, setting, lists, rows)).await {
        Ok(found) => Ok(found?.map(|found| json!(found))),
        // It is measured when it serves.
        Err(_) => Ok(None),
    }
}

/// A server admits itself to the agents whose documents it finds.
fn scope_of(document: &Lagging, actor: &Actor) -> Result<Scope> {
    let tenant = document.tenant.clone().unwrap_or_default();
    let prefix = format!("{tenant}:");
    let name = match tenant.as_str() {
        "" => document.agent_id.as_str(),
        _ => document.agent_id.strip_prefix(&prefix).unwrap_or(&document.agent_id),
    };
    admit(&Principal { actor: actor.clone(), tenant }, name)
}
