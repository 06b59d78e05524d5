//! Does the work of a reindex of the archive in short steps.
//!
//! Any server may do a step: make vectors of documents, create the vector index, switch searches to
//! the new vectors, or remove the old ones. After an interruption, the next step continues.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;

use super::cells::measured;
use super::embedding;
use super::kernel::patience;
use super::reindex::{Reindex, patch, switched};
use super::request::scope_of;
use crate::executor::limits::PART_MARGIN;
use crate::limits::STORE_ANSWER_MS_MAX;
use crate::store::{self, Admin, Broken, Fault, FaultKind, Lagging, LeftRow};
use vctx_base::clock;
use vctx_base::metric;
use vctx_core::chunk::restored;
use vctx_core::error::{Code, Result};
use vctx_core::limits::{CALL_MS_MAX, CHUNKS_MAX, PART_CHUNKS};
use vctx_core::memory::archive::{VectorSetting, attribute};
use vctx_core::memory::reindex::{LeavingSetting, NextSetting};
use vctx_core::search::lists_for;
use vctx_core::trust::{Actor, Scope};

/// Maximum number of documents without vectors of the next setting that one database request
/// returns.
const REINDEX_DOCUMENTS: u64 = 256;
/// Number of embedder failures after which a round of work ends.
const REINDEX_FAILURES_MAX: u32 = 3;
/// Time limit for measuring a new vector index before searches use it, in milliseconds. If the
/// measurement takes longer, the index is measured after searches have begun to use it.
const REINDEX_MEASURE_MS: u64 = 30_000;
/// Time from the switch to the new vectors until the old ones may be removed, in milliseconds.
/// Running searches may still use the old vectors, so this time is the sum of two limits: of a
/// call's duration, and of the wait for the database's answer.
const REINDEX_QUIET_MS: u64 = CALL_MS_MAX + STORE_ANSWER_MS_MAX;
/// Maximum number of rows (chunks, or manifests of documents) from which one step removes the old
/// vectors.
const REINDEX_CLEAN_ROWS: u64 = 256;

/// Whether a reindex has more work for the next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reindexed {
    /// There is no work, or the remaining work must wait for some time.
    Rests,
    /// There is more work for the next round.
    GoesOn,
}

impl Reindex<'_> {
    /// Continues the current reindex, if there is one, and stops at about the deadline.
    pub async fn work(&self, actor: &Actor, until: Instant) -> Result<Reindexed> {
        let Some(setting) = store::under_way(&self.kernel.ro).await? else {
            return Ok(Reindexed::Rests);
        };
        let outcome = match (&setting.leaving, &setting.next) {
            (Some(leaving), _) => self.clean(&setting, leaving, actor, until).await,
            (None, Some(next)) if !next.stopped => self.advance(&setting, next, actor, until).await,
            (None, _) => return Ok(Reindexed::Rests),
        };
        if let Err(error) = &outcome {
            self.notes.note(Some(error.message.clone()));
        }
        outcome
    }

    /// Makes the documents' vectors for the next vector setting. Once all documents have them,
    /// creates the vector index over them and switches searches to these vectors.
    async fn advance(
        &self,
        setting: &VectorSetting,
        next: &NextSetting,
        actor: &Actor,
        until: Instant,
    ) -> Result<Reindexed> {
        if self.kernel.embedders.of(&next.setting.fingerprint()).is_err() {
            let text = "this server has no embedder for the next vectors: configure embedder.next";
            self.notes.note(Some(text.into()));
            return Ok(Reindexed::Rests);
        }
        let number = next.setting.number;
        let mut behind = store::lagging(&self.kernel.ro, number, REINDEX_DOCUMENTS).await?;
        if behind.is_empty() {
            return self.let_serve(setting, next).await;
        }
        let (mut failures, mut moved) = (Ok(()), false);
        let mut failed = 0;
        while !behind.is_empty() {
            // Documents are taken in random order, so that two servers seldom do the same work.
            let at = self.kernel.ids.below(behind.len() as u64) as usize;
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
            let stands = store::under_way(&self.kernel.ro).await?;
            let stands = stands.and_then(|now| now.next).filter(|now| !now.stopped);
            if stands.is_none_or(|now| now.setting.number != number) || clock::now() >= until {
                break;
            }
        }
        failures?;
        self.notes.note(None);
        Ok(if moved { Reindexed::GoesOn } else { Reindexed::Rests })
    }

    /// Makes the vectors of one document for the next vector setting, part by part. If the document
    /// was replaced during the work, skips its remaining parts; the next round finds the new
    /// document. Returns `false` if the document must wait because too many of the agent's chunks
    /// were changed recently.
    async fn embed_document(
        &self,
        next: &VectorSetting,
        document: &Lagging,
        actor: &Actor,
        until: Instant,
    ) -> Result<bool> {
        let scope =
            scope_of(actor, document.tenant.as_deref().unwrap_or_default(), &document.agent_id)?;
        let part = if document.splits { PART_CHUNKS } else { CHUNKS_MAX } as u64;
        let mut from = 0;
        while from < document.chunks {
            let to = (from + part).min(document.chunks);
            match self.embed_part_of(next, document, &scope, from, to).await {
                Ok(Part::Done) => {}
                Ok(Part::Waits) => return Ok(false),
                Ok(Part::Gone) => return Ok(true),
                Err(Broken::Store(fault)) if fault.raced() => return Ok(true),
                Err(Broken::Store(fault)) if is_refused_by_index(&fault) => {
                    return self.without_next_index(next, fault).await.map(|()| true);
                }
                Err(failed) => return Err(failed.into()),
            }
            from = to;
            if from < document.chunks && clock::now() >= until {
                // The next round skips the document's completed parts.
                return Ok(true);
            }
        }
        match store::note_embedded(&self.kernel.rw, &scope, document, next.number).await {
            Ok(true) => {
                metrics::counter!(metric::REINDEX_DOCUMENTS).increment(1);
                Ok(true)
            }
            Ok(false) => Ok(true),
            Err(fault) if fault.raced() => Ok(true),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Writes the vectors of the chunks `from..to`, each computed with the surrounding text.
    async fn embed_part_of(
        &self,
        next: &VectorSetting,
        document: &Lagging,
        scope: &Scope,
        from: u64,
        to: u64,
    ) -> std::result::Result<Part, Broken> {
        let (margin, attribute) = (PART_MARGIN as u64, next.attribute());
        let around = (from.saturating_sub(margin), (to + margin).min(document.chunks));
        let ask =
            store::chunk_texts(&self.kernel.ro, scope, document, &attribute, around.0, around.1);
        let chunks = ask.await?;
        if chunks.len() as u64 != around.1 - around.0 {
            return Ok(Part::Gone);
        }
        let wanted = |index: u64| (from..to).contains(&index);
        if chunks.iter().filter(|chunk| wanted(chunk.index)).all(|chunk| chunk.made) {
            return Ok(Part::Done);
        }
        if !self.notes.may_change(scope.key(), to - from, self.kernel.clock.unix_ms()) {
            return Ok(Part::Waits);
        }
        let texts: Vec<_> = chunks.iter().map(|c| (c.text.as_str(), c.offset)).collect();
        let (text, spans) = restored(&texts);
        let with = next.fingerprint();
        let (core, _) = self.kernel.fresh(scope, &[], patience()).await?;
        let embedders = self.kernel.embedders_of(&core);
        let made = embedding::spans(&embedders, &text, &spans, &with).await?;
        let vectors = chunks.iter().zip(made).filter(|(chunk, _)| wanted(chunk.index));
        let vectors: Vec<(String, Vec<f64>)> =
            vectors.map(|(chunk, vector)| (chunk.key.clone(), vector)).collect();
        let written = store::write_vectors(
            &self.kernel.rw,
            scope,
            document,
            &attribute,
            &vectors,
            self.kernel.clock.unix_ms(),
        )
        .await?;
        metrics::counter!(metric::REINDEX_CHUNKS).increment(vectors.len() as u64);
        Ok(if written { Part::Done } else { Part::Gone })
    }

    /// Drops the index over the next vectors; the index is created again when all chunks have these
    /// vectors. The drop is necessary for ArangoDB releases before 3.12.9, in which a vector index
    /// refuses to add a vector to a chunk that had none.
    async fn without_next_index(&self, next: &VectorSetting, fault: Fault) -> Result<()> {
        let Some(admin) = &self.archive.admin else { return Err(fault.into()) };
        match store::drop_vector_indexes(admin, &next.attribute()).await? {
            true => Ok(()),
            false => Err(fault.into()),
        }
    }

    /// Creates the index over the vectors of the next vector setting if there are enough of them.
    /// Once the index is ready, switches searches to the next vectors.
    async fn let_serve(&self, setting: &VectorSetting, next: &NextSetting) -> Result<Reindexed> {
        if !next.complete {
            let next = NextSetting { complete: true, ..next.clone() };
            store::patch_setting(&self.kernel.rw, setting, &patch([("next", json!(next))])).await?;
            tracing::info!(number = next.setting.number, "every document has the next vectors");
            return Ok(Reindexed::GoesOn);
        }
        let Some(next) = self.with_index(setting, next).await? else {
            return Ok(Reindexed::Rests);
        };
        self.drop_if_dense(setting).await?;
        let patch = switched(setting, &next, self.kernel.clock.unix_ms());
        let number = next.setting.number;
        if store::switch_setting(&self.kernel.rw, setting, number, &patch).await? {
            metrics::counter!(metric::REINDEX_SWITCHES).increment(1);
            tracing::info!(number, was = setting.number, "the next vectors serve");
        }
        Ok(Reindexed::GoesOn)
    }

    /// Returns the next vector setting once its vector index is ready, together with the index's
    /// state. Returns the setting immediately if there are too few chunks for an index or no user
    /// that creates indexes is configured. Also returns the setting immediately if this user may
    /// not create an index and the current vectors have no index either.
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
            self.notes.note(Some(index.error_message).filter(|text| !text.is_empty()));
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
        // The measurement is stored immediately, since a repetition would be slow.
        store::patch_setting(&self.kernel.rw, setting, &patch([("next", json!(known))])).await?;
        Ok(None)
    }

    /// Drops the old index just before the switch if this index refuses chunks without a vector.
    /// After the switch, such an index would block ingests. Between the drop and the switch,
    /// searches are exact.
    async fn drop_if_dense(&self, setting: &VectorSetting) -> Result<()> {
        let Some(admin) = &self.archive.admin else { return Ok(()) };
        let index = store::index_state(admin, &setting.attribute()).await?;
        if index.id.is_some() && !index.sparse {
            store::drop_vector_indexes(admin, &setting.attribute()).await?;
        }
        Ok(())
    }

    /// Removes the old vectors at the end of a reindex: their index immediately, and the vectors
    /// themselves once no running search can use them.
    async fn clean(
        &self,
        setting: &VectorSetting,
        leaving: &LeavingSetting,
        actor: &Actor,
        until: Instant,
    ) -> Result<Reindexed> {
        let name = attribute(leaving.number);
        if let Some(admin) = &self.archive.admin {
            match store::drop_vector_indexes(admin, &name).await {
                Ok(true) => {
                    tracing::info!(number = leaving.number, "an unused index was removed")
                }
                Ok(false) => {}
                Err(fault) => return Err(fault.into()),
            }
        }
        if self.kernel.clock.unix_ms() < leaving.since_ms + REINDEX_QUIET_MS {
            return Ok(Reindexed::Rests);
        }
        let mut setting = setting.clone();
        while let Some(leaving) = setting.leaving.clone() {
            // The agents of these chunks are unknown here, so the chunks count as those of a single
            // agent.
            if leaving.manifests_after.is_none()
                && !self.notes.may_change("", REINDEX_CLEAN_ROWS, self.kernel.clock.unix_ms())
            {
                return Ok(Reindexed::Rests);
            }
            let Some(now) = self.clean_some(&setting, &leaving, &name, actor).await? else {
                return Ok(Reindexed::GoesOn);
            };
            let leaving = json!(now);
            if !store::patch_setting(&self.kernel.rw, &setting, &patch([("leaving", leaving)]))
                .await?
            {
                // Another server has already recorded this step.
                return Ok(Reindexed::GoesOn);
            }
            if now.is_none() {
                tracing::info!(number = setting.number, "unused vectors were removed");
                self.notes.note(None);
                return Ok(Reindexed::Rests);
            }
            if clock::now() >= until {
                return Ok(Reindexed::GoesOn);
            }
            match store::under_way(&self.kernel.ro).await? {
                Some(read) => setting = read,
                None => return Ok(Reindexed::Rests),
            }
        }
        Ok(Reindexed::Rests)
    }

    /// Removes one batch of old vectors. Returns the progress of the removal, `Some(None)` if it is
    /// complete, or `None` if another writer was faster.
    #[allow(clippy::option_option, reason = "another writer, complete, or progress")]
    async fn clean_some(
        &self,
        setting: &VectorSetting,
        leaving: &LeavingSetting,
        name: &str,
        actor: &Actor,
    ) -> Result<Option<Option<LeavingSetting>>> {
        let mut now = leaving.clone();
        let cleaned = match &leaving.manifests_after {
            Some(after) => self.describe_some(setting, after, actor).await.map(|last| {
                now.manifests_after = last;
                Some(now)
            }),
            None => self.clean_chunks(setting, leaving, name, actor).await,
        };
        match cleaned {
            Ok(now) => Ok(Some(now)),
            Err(Broken::Store(fault)) if fault.raced() => Ok(None),
            Err(broken) => Err(broken.into()),
        }
    }

    /// Makes some manifests describe the current vectors. Returns the key of the last one, or
    /// `None` if no manifest was left.
    async fn describe_some(
        &self,
        setting: &VectorSetting,
        after: &str,
        actor: &Actor,
    ) -> std::result::Result<Option<String>, Broken> {
        let rw = &self.kernel.rw;
        let stale = store::stale_manifests(rw, setting, after, REINDEX_CLEAN_ROWS).await?;
        let last = stale.last().map(|row| row.key.clone());
        for (scope, keys) in by_agent(&stale, actor)? {
            store::describe_manifests(rw, &scope, setting, &keys).await?;
        }
        Ok(last)
    }

    /// Removes old vectors from some chunks. Returns the progress, or `None` if no chunk is left.
    async fn clean_chunks(
        &self,
        setting: &VectorSetting,
        leaving: &LeavingSetting,
        name: &str,
        actor: &Actor,
    ) -> std::result::Result<Option<LeavingSetting>, Broken> {
        let (rw, now_ms) = (&self.kernel.rw, self.kernel.clock.unix_ms());
        let found = store::left_vectors(rw, name, &leaving.after, REINDEX_CLEAN_ROWS).await?;
        for (scope, keys) in by_agent(&found.rows, actor)? {
            store::clean_vectors(rw, &scope, setting, name, &keys, now_ms).await?;
        }
        let looked = leaving.looked + found.looked;
        Ok(found.last.map(|after| LeavingSetting { looked, after, ..leaving.clone() }))
    }
}

/// Groups rows by agent. Leaves out rows of agents that do not exist any more, which will be
/// removed.
fn by_agent<'a>(rows: &'a [LeftRow], actor: &Actor) -> Result<Vec<(Scope, Vec<&'a str>)>> {
    let mut groups: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for row in rows {
        if let Some(tenant) = &row.tenant {
            groups.entry((tenant, &row.agent_id)).or_default().push(&row.key);
        }
    }
    let scoped = |((tenant, agent), keys)| Ok((scope_of(actor, tenant, agent)?, keys));
    groups.into_iter().map(scoped).collect()
}

/// Outcome of the work on one part of a document.
enum Part {
    /// The chunks of the document part have their vectors.
    Done,
    /// The document part must wait, since too many of the agent's chunks were changed recently.
    Waits,
    /// The document was replaced or removed meanwhile.
    Gone,
}

/// Error 10: the vector index of a release before 3.12.9 refuses to change a chunk that it does not
/// contain.
fn is_refused_by_index(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::Arango { num: 10, .. })
}

/// Error 11: the database user lacks a right.
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
        // The measurement took too long. The index is measured later, when searches already use it.
        Err(_) => Ok(None),
    }
}
