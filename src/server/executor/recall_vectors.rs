//! Makes vectors of recall storage in the background, and finds the passages nearest to a query.

use std::time::{Duration, Instant};

use super::embedding::{failed, widened, works};
use super::executor::Executor;
use super::request::scope_of;
use crate::limits::RECALL_TAIL_MS;
use crate::models::Kind;
use crate::store::{self, AgentVersion, NearLook, Unembedded};
use vctx_base::clock;
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::RECALL_NEAR_MAX;
use vctx_core::memory::message::Kind as MessageKind;
use vctx_core::memory::recall_vector::{
    Claim, NearPassage, RecallMark, RecallVector, Refused, vector_key,
};
use vctx_core::search::{NearPlan, RecallEntry, RecallNear, RecallRows, passages, recall_plan};
use vctx_core::trust::{Actor, Scope};

/// Maximum number of entries in one request to the database.
const RECALL_EMBED_ENTRIES: u64 = 128;
/// Maximum number of messages of the queue in one request to the database.
const QUEUE_EMBED_ROWS: u64 = 128;
/// Maximum number of passages of the queue that a search compares with the question. A search may
/// have to wait until the embedder has made their vectors, if the background job has not.
const QUEUE_NEAR_PASSAGES_MAX: usize = 512;
/// Lease of the server that makes an agent's vectors, in milliseconds. If the server with the lease
/// is killed, other servers wait until the lease expires.
const RECALL_CLAIM_MS: u64 = 5_000;
/// Maximum number of passages in a batch of several entries; an entry with more passages is
/// embedded alone.
const RECALL_EMBED_PASSAGES: usize = 256;
/// Maximum number of an agent's entries that are skipped because the model refused them.
const RECALL_REFUSED_MAX: usize = 256;
/// Pause before entries that the model refused are tried again, in milliseconds.
const RECALL_REFUSED_MS: u64 = 3_600_000;

/// State of an agent's vectors after a round of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Embedded {
    /// Every entry of the agent has vectors.
    All,
    /// Some entries of the agent still lack vectors.
    Some,
}

/// This server's work on one agent's vectors.
struct Work<'a> {
    scope: &'a Scope,
    /// Deadline of the work on the agent's vectors.
    until: Instant,
    /// When this server last renewed the lease on the agent's vectors; `None` without the lease.
    claimed: Option<Instant>,
}

impl Executor {
    /// Returns whether recall storage has vectors; this requires a model as embedder.
    pub fn embeds_recall(&self) -> bool {
        self.kernel.embedders.has_model()
    }

    /// Returns the agents whose keys come after the key `after`, in the order of their keys.
    pub async fn agents_behind(&self, after: &str, limit: u64) -> Result<Vec<AgentVersion>> {
        self.kernel.read(|ro| store::agents(ro, after, limit)).await
    }

    /// Makes the missing vectors of an agent's entries, in log order, until none is missing or a
    /// deadline passes. Written vectors stay, and the next round continues after them. An entry
    /// that the model refuses does not block the others. Only one server at a time makes an agent's
    /// vectors.
    pub async fn embed_recall(
        &self,
        agent: &AgentVersion,
        actor: &Actor,
        until: Instant,
    ) -> Result<Embedded> {
        if !self.kernel.may_embed(agent.outbound.unwrap_or_default()) {
            return Ok(Embedded::All);
        }
        let scope = scope_of(actor, &agent.tenant, &agent.key)?;
        let mut mark = self.recall_mark(&scope).await?;
        let mut work = Work { scope: &scope, until, claimed: None };
        loop {
            // A transaction may commit later than its entries' timestamps say, so the search begins
            // `RECALL_TAIL_MS` before the time in the mark, up to which vectors are made.
            let since = mark.logged_ms.map(|ms| ms.saturating_sub(RECALL_TAIL_MS));
            let (looked, limit) = (&mark, RECALL_EMBED_ENTRIES);
            let entries =
                self.kernel.read(|ro| store::unembedded(ro, &scope, looked, since, limit)).await?;
            if entries.is_empty() {
                return Ok(Embedded::All);
            }
            if work.claimed.is_none() {
                if !self.claim(&mut work).await? {
                    return Ok(Embedded::Some);
                }
                // The previous owner of the lease may have made more vectors since this server read
                // `mark`.
                mark = self.recall_mark(&scope).await?;
                continue;
            }
            let (mut rest, refused) = (&entries[..], mark.refused.len());
            while !rest.is_empty() {
                let (batch, tail) = rest.split_at(batch(rest));
                let outcome = self.embed_batch(&mut work, batch, &mut mark).await;
                if !matches!(outcome, Ok(Embedded::All)) {
                    if mark.refused.len() > refused {
                        store::write_recall_mark(&self.kernel.rw, &scope, &mark).await?;
                    }
                    return outcome;
                }
                rest = tail;
            }
            mark.logged_ms = entries.last().and_then(|entry| entry.logged_ms).max(mark.logged_ms);
            store::write_recall_mark(&self.kernel.rw, &scope, &mark).await?;
            if (entries.len() as u64) < RECALL_EMBED_ENTRIES {
                return Ok(Embedded::All);
            }
        }
    }

    /// Makes the vectors of an agent's queue from a position on, until a deadline. The vectors are
    /// only in the embedder's cache, so that the first search need not wait for them. Returns the
    /// position from which to continue, and whether vectors are still missing.
    pub async fn embed_queue(
        &self,
        agent: &AgentVersion,
        actor: &Actor,
        from_seq: u64,
        until: Instant,
    ) -> Result<(u64, Embedded)> {
        let scope = scope_of(actor, &agent.tenant, &agent.key)?;
        let mut next = from_seq.max(agent.head_seq);
        if !self.kernel.may_embed(agent.outbound.unwrap_or_default()) {
            return Ok((next, Embedded::All));
        }
        while clock::now() < until {
            let (from, limit) = (next, QUEUE_EMBED_ROWS);
            let rows = self.kernel.read(|ro| store::queue(ro, &scope, from, limit)).await?;
            let Some(last) = rows.last() else { return Ok((next, Embedded::All)) };
            next = last.seq + 1;
            let texts: Vec<String> = rows
                .iter()
                .filter(|message| matches!(message.kind, MessageKind::Turn | MessageKind::Event))
                .flat_map(|message| {
                    passages(&message.content)
                        .into_iter()
                        .map(|place| message.content[place].to_owned())
                })
                .collect();
            match self.kernel.embedders.configured().embed(&texts, Kind::Passage).await {
                Ok(_) => {}
                // A search asks the embedder again, for the messages that it ranks.
                Err(error) if error.code == Code::EmbedderUnavailable => failed("queue", &error),
                Err(error) => return Err(error),
            }
        }
        Ok((next, Embedded::Some))
    }

    /// Returns the mark that says up to which entry the agent's vectors are made; another
    /// embedder's mark is ignored.
    async fn recall_mark(&self, scope: &Scope) -> Result<RecallMark> {
        let fingerprint = self.kernel.embedders.fingerprint().digest();
        let known = self.kernel.read(|ro| store::recall_mark(ro, scope)).await?;
        let known = known.filter(|mark| mark.fingerprint == fingerprint);
        let mut mark = known.unwrap_or(RecallMark { fingerprint, ..RecallMark::default() });
        mark.try_again(self.kernel.clock.unix_ms(), RECALL_REFUSED_MS);
        Ok(mark)
    }

    /// Returns whether this server has the lease on an agent's vectors. Takes the lease, or renews
    /// it once half of its period is over.
    async fn claim(&self, work: &mut Work<'_>) -> Result<bool> {
        let half = Duration::from_millis(RECALL_CLAIM_MS / 2);
        if work.claimed.is_some_and(|since| since.elapsed() < half) {
            return Ok(true);
        }
        let (begun, now_ms) = (clock::now(), self.kernel.clock.unix_ms());
        let claim = Claim { by: self.kernel.instance.clone(), until_ms: now_ms + RECALL_CLAIM_MS };
        let got = store::claim_recall(&self.kernel.rw, work.scope, &claim, now_ms).await?;
        work.claimed = got.then_some(begun);
        Ok(got)
    }

    /// Writes the vectors of several entries in one batch. If the batch fails because of a text,
    /// embeds the entries one by one to find those that the model refuses.
    async fn embed_batch(
        &self,
        work: &mut Work<'_>,
        entries: &[Unembedded],
        mark: &mut RecallMark,
    ) -> Result<Embedded> {
        match self.embed_entries(work, entries, mark).await {
            Err(error) if self.refuses(&error).await => {}
            outcome => return outcome,
        }
        for entry in entries {
            match self.embed_entries(work, std::slice::from_ref(entry), mark).await {
                Ok(Embedded::All) => {}
                Err(error)
                    if mark.refused.len() < RECALL_REFUSED_MAX && self.refuses(&error).await =>
                {
                    let (agent, error) = (work.scope.key(), error.chain());
                    tracing::warn!(
                        agent,
                        entry = entry.id,
                        error,
                        "the model makes no vectors of an entry: only words find this entry"
                    );
                    mark.refused.push(Refused { id: entry.id.clone(), logged_ms: entry.logged_ms });
                    mark.refused_ms = self.kernel.clock.unix_ms();
                }
                outcome => return outcome,
            }
        }
        Ok(Embedded::All)
    }

    /// Returns whether the texts caused the failure: the embedder failed on them but accepts a
    /// harmless text.
    async fn refuses(&self, error: &Error) -> bool {
        let harmless = [format!("Good morning {}", self.kernel.ids.key())];
        error.code == Code::EmbedderUnavailable
            && self.kernel.embedders.configured().embed(&harmless, Kind::Passage).await.is_ok()
    }

    /// Writes the vectors of entries until the deadline, or until another server has taken over. A
    /// long entry's vectors are written in several requests, from the entry's end to its beginning.
    /// Thus, the first passage gets its vector last, and only an entry whose first passage has a
    /// vector counts as done.
    async fn embed_entries(
        &self,
        work: &mut Work<'_>,
        entries: &[Unembedded],
        mark: &mut RecallMark,
    ) -> Result<Embedded> {
        let mut rows: Vec<(RecallVector, &str)> = Vec::new();
        for entry in entries {
            for (at, place) in passages(&entry.content).into_iter().enumerate() {
                let row = RecallVector {
                    key: vector_key(&entry.id, at),
                    id: entry.id.clone(),
                    seq: entry.seq,
                    passage: at as u64,
                    start: place.start as u64,
                    end: place.end as u64,
                    of: Some(entry.of.clone()),
                    embedding: Vec::new(),
                    fingerprint: mark.fingerprint.clone(),
                };
                rows.push((row, &entry.content[place]));
            }
        }
        for part in rows.rchunks(RECALL_EMBED_PASSAGES) {
            if clock::now() >= work.until || !self.claim(work).await? {
                return Ok(Embedded::Some);
            }
            let texts: Vec<String> = part.iter().map(|(_, text)| (*text).to_owned()).collect();
            let made = self.kernel.embedders.configured().embed(&texts, Kind::Passage).await;
            if made.is_err() {
                metrics::counter!(metric::EMBEDDER_FAILURES, "of" => "recall").increment(1);
            }
            let vectors = widened(&made?).into_iter();
            let filled = part.iter().zip(vectors);
            let filled: Vec<RecallVector> = filled
                .map(|((row, _), embedding)| RecallVector { embedding, ..row.clone() })
                .collect();
            store::write_recall_vectors(&self.kernel.rw, work.scope, &filled).await?;
            metrics::counter!(metric::RECALL_VECTORS).increment(filled.len() as u64);
            mark.passages += filled.len() as u64;
        }
        Ok(Embedded::All)
    }

    /// Examines the next few vectors of an agent, and removes those of removed entries. Returns the
    /// position from which to continue, or `None` after the agent's last vector.
    pub async fn trim_recall_vectors(
        &self,
        agent: &AgentVersion,
        actor: &Actor,
        from_seq: u64,
        limit: u64,
    ) -> Result<Option<u64>> {
        let scope = scope_of(actor, &agent.tenant, &agent.key)?;
        let (_, next) =
            store::trim_recall_vectors(&self.kernel.rw, &self.kernel.ro, &scope, from_seq, limit)
                .await?;
        Ok(next)
    }

    /// Maintains the vector index of recall storage: drops an index for vectors of another length,
    /// and creates an index if there are too many passages for an exact search.
    pub async fn look_after_recall_index(&self) -> Result<()> {
        self.archive.look_after_recall(self.kernel.embedders.fingerprint().dimension).await?;
        Ok(())
    }

    /// Returns an agent's passages nearest to a text, and their entries except those already found
    /// by words. Messages of the queue, which begins at `head_seq`, have no stored vectors; the
    /// embedder's cache has them. If the model fails, returns no passages and the reason.
    pub(super) async fn recall_near(
        &self,
        scope: &Scope,
        text: &str,
        known: &RecallRows,
        head_seq: u64,
    ) -> Result<RecallNear> {
        let fingerprint = self.kernel.embedders.fingerprint().digest();
        let begun = clock::now();
        let made = self.kernel.embedders.configured().embed(&[text.to_owned()], Kind::Query).await;
        metrics::histogram!(metric::EMBEDDING_SECONDS).record(begun.elapsed().as_secs_f64());
        let vector = match made {
            Ok(made) => {
                works();
                widened(&made).remove(0)
            }
            Err(error) if error.code == Code::EmbedderUnavailable => {
                failed("query", &error);
                return Ok(RecallNear::nothing("embedder"));
            }
            Err(error) => return Err(error),
        };
        let passages = known.mark.as_ref().map_or(0, |mark| mark.passages);
        let limit = RECALL_NEAR_MAX as u64;
        let seqs: Vec<u64> = known.rows.iter().map(|row| row.seq).collect();
        let (ro, print) = (&self.kernel.ro, fingerprint.as_str());
        let look = |plan| store::near_passages(ro, scope, print, &vector, plan, &seqs);
        let mut plan = recall_plan(passages, self.archive.settings.exact_rows_max, limit);
        let mut found = look(plan).await?;
        let few = found.as_ref().is_none_or(|one| (one.near.len() as u64) < limit.min(passages));
        if plan != NearPlan::Exact && few {
            plan = NearPlan::Exact;
            found = look(plan).await?;
        }
        let NearLook { near: mut hits, rows } = found.unwrap_or_default();
        let queued = known.rows.iter().filter(|row| row.seq >= head_seq && row.dialog);
        let queued = self.near_in_queue(&vector, queued).await?;
        add(&mut hits, queued);
        let (plan, complete) = (Some(plan.text()), known.complete);
        Ok(RecallNear { hits, rows, plan, complete, missing: None })
    }

    /// Returns the similarity to a question's vector of the first [`QUEUE_NEAR_PASSAGES_MAX`]
    /// passages of messages of the queue; of none if the embedder fails.
    async fn near_in_queue(
        &self,
        vector: &[f64],
        rows: impl Iterator<Item = &RecallEntry>,
    ) -> Result<Vec<NearPassage>> {
        let mut found = Vec::new();
        let mut texts = Vec::new();
        let places = rows.flat_map(|row| {
            passages(&row.content).into_iter().enumerate().map(move |(at, place)| (row, at, place))
        });
        for (row, at, place) in places.take(QUEUE_NEAR_PASSAGES_MAX) {
            texts.push(row.content[place.clone()].to_owned());
            found.push(NearPassage {
                id: row.id.clone(),
                seq: row.seq,
                passage: at as u64,
                start: place.start as u64,
                end: place.end as u64,
                similarity: 0.0,
            });
        }
        let made = self.kernel.embedders.configured().embed(&texts, Kind::Passage).await;
        let vectors = match made {
            Ok(made) => made,
            Err(error) if error.code == Code::EmbedderUnavailable => {
                failed("queue", &error);
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        for (passage, other) in found.iter_mut().zip(&vectors) {
            passage.similarity = cosine(vector, other);
        }
        Ok(found)
    }
}

fn cosine(a: &[f64], b: &[f32]) -> f64 {
    let b = || b.iter().map(|x| f64::from(*x));
    let product: f64 = a.iter().zip(b()).map(|(x, y)| x * y).sum();
    let squares = a.iter().map(|x| x * x).sum::<f64>() * b().map(|y| y * y).sum::<f64>();
    if squares > 0.0 { product / squares.sqrt() } else { 0.0 }
}

/// Adds passages to the nearest passages. If the list of these is full, only passages that are as
/// near are added, because others of the same similarity are not in the list.
fn add(nearest: &mut Vec<NearPassage>, others: Vec<NearPassage>) {
    let least = nearest.last().filter(|_| nearest.len() >= RECALL_NEAR_MAX);
    let least = least.map_or(f64::MIN, |last| last.similarity);
    nearest.extend(others.into_iter().filter(|other| other.similarity >= least));
    nearest.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
}

/// Returns the size of the next batch: as many entries as fit in the passage limit, but at least
/// one.
fn batch(entries: &[Unembedded]) -> usize {
    let mut count = 0;
    let fitting = entries.iter().take_while(|entry| {
        count += passages(&entry.content).len();
        count <= RECALL_EMBED_PASSAGES
    });
    fitting.count().max(1)
}

impl super::archive_index::ArchiveIndex {
    async fn look_after_recall(&self, dimension: u32) -> store::Result<()> {
        let Some(admin) = &self.admin else { return Ok(()) };
        if store::drop_foreign_index(admin, dimension).await? {
            tracing::info!(dimension, "a vector index for vectors of another length was removed");
        }
        let rows = store::recall_vector_rows(admin).await?;
        if rows <= self.settings.exact_rows_max {
            return Ok(());
        }
        let n_lists = vctx_core::search::lists_for(rows);
        if store::make_recall_index(admin, dimension, n_lists).await? {
            tracing::info!(rows, n_lists, "the vector index of recall storage is being trained");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vctx_core::memory::recall_vector::VectorOf;

    fn entry(passages: usize) -> Unembedded {
        let sentence = "The harbour master wants fourteen euros for every berth beside the old buoy, and no card is taken on Sundays \
            or in the winter months when the little office beside the bridge stays closed until ten. ";
        Unembedded {
            id: "m".into(),
            seq: 1,
            logged_ms: None,
            of: VectorOf {
                source: "message".into(),
                role: "user".into(),
                created_at: "2026-03-01T10:00:00.000Z".into(),
            },
            content: sentence.repeat(passages * 2),
        }
    }

    #[test]
    fn entries_are_embedded_together_up_to_the_limit_and_a_long_one_alone() {
        let small: Vec<Unembedded> = (0..3).map(|_| entry(1)).collect();
        assert_eq!(batch(&small), 3);
        let large = entry(RECALL_EMBED_PASSAGES);
        assert!(passages(&large.content).len() > RECALL_EMBED_PASSAGES);
        assert_eq!(batch(&[entry(1), large.clone(), entry(1)]), 1);
        assert_eq!(batch(&[large, entry(1)]), 1);
    }
}
