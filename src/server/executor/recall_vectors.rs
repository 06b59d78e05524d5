//! Vectors of recall storage: made in the background for what was logged, asked for the passages near to a question.

use std::time::{Duration, Instant};

use super::embedding::{failed, widened, works};
use super::executor::Executor;
use crate::models::Kind;
use crate::store::{self, AgentVersion, Fault, NearLook, Unembedded};
use vctx_base::clock;
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{
    RECALL_CLAIM_MS, RECALL_EMBED_ENTRIES, RECALL_EMBED_PASSAGES, RECALL_NEAR_MAX,
    RECALL_REFUSED_MAX, RECALL_REFUSED_MS, RECALL_TAIL_MS,
};
use vctx_core::memory::recall_vector::{Claim, RecallMark, RecallVector, Refused, vector_key};
use vctx_core::policy::{
    Actor, Principal, RecallNear, RecallPlan, Scope, Sources, admit, passages,
};

/// How an agent's recall storage stands after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Embedded {
    /// Every entry has its vectors.
    All,
    /// There is more to do.
    Some,
}

/// A server at the vectors of an agent.
struct Work<'a> {
    scope: &'a Scope,
    /// When it is to end.
    until: Instant,
    /// When it said last that it is at it.
    claimed: Option<Instant>,
}

impl Executor {
    /// Whether recall storage gets vectors: only of a real model.
    pub fn embeds_recall(&self) -> bool {
        self.embedders.has_model()
    }

    /// Agents behind a key, by their keys.
    pub async fn agents_behind(&self, after: &str, limit: u64) -> Result<Vec<AgentVersion>> {
        self.patiently(|| store::agents(&self.ro, after, limit)).await
    }

    /// Makes vectors for entries of an agent that have none, in the order in which they were logged, until all have or a moment has come.
    /// What was written stands, whenever it ends: the next look goes on behind it. An entry that the model refuses though it answers for others
    /// is in nobody's way. Of several servers one does this at a time.
    pub async fn embed_recall(
        &self,
        agent: &AgentVersion,
        actor: &Actor,
        until: Instant,
    ) -> Result<Embedded> {
        let scope = scope_of(agent, actor)?;
        let mut mark = self.recall_mark(&scope).await?;
        let mut work = Work { scope: &scope, until, claimed: None };
        loop {
            // A transaction may commit a while after the moment that its entries bear.
            let since = mark.logged_ms.map(|ms| ms.saturating_sub(RECALL_TAIL_MS));
            let (looked, limit) = (&mark, RECALL_EMBED_ENTRIES);
            let ask = || store::unembedded(&self.ro, &scope, looked, since, limit);
            let entries = self.patiently(ask).await?;
            if entries.is_empty() {
                return Ok(Embedded::All);
            }
            if work.claimed.is_none() {
                if !self.claim(&mut work).await? {
                    return Ok(Embedded::Some);
                }
                // Who had it before may have gone on meanwhile.
                mark = self.recall_mark(&scope).await?;
                continue;
            }
            let (mut rest, refused) = (&entries[..], mark.refused.len());
            while !rest.is_empty() {
                let (batch, tail) = rest.split_at(batch(rest));
                let outcome = self.embed_batch(&mut work, batch, &mut mark).await;
                if !matches!(outcome, Ok(Embedded::All)) {
                    if mark.refused.len() > refused {
                        store::write_recall_mark(&self.rw, &scope, &mark).await?;
                    }
                    return outcome;
                }
                rest = tail;
            }
            mark.logged_ms = entries.last().and_then(|entry| entry.logged_ms).max(mark.logged_ms);
            store::write_recall_mark(&self.rw, &scope, &mark).await?;
            if (entries.len() as u64) < RECALL_EMBED_ENTRIES {
                return Ok(Embedded::All);
            }
        }
    }

    /// How far an agent's vectors are made; the mark of another embedder says nothing of ours.
    async fn recall_mark(&self, scope: &Scope) -> Result<RecallMark> {
        let fingerprint = self.embedders.fingerprint().digest();
        let known = self.patiently(|| store::recall_mark(&self.ro, scope)).await?;
        let known = known.filter(|mark| mark.fingerprint == fingerprint);
        let mut mark = known.unwrap_or(RecallMark { fingerprint, ..RecallMark::default() });
        mark.try_again(self.clock.unix_ms(), RECALL_REFUSED_MS);
        Ok(mark)
    }

    /// Whether it is this server that makes an agent's vectors; says so again when half of the time is over.
    async fn claim(&self, work: &mut Work<'_>) -> Result<bool> {
        let half = Duration::from_millis(RECALL_CLAIM_MS / 2);
        if work.claimed.is_some_and(|since| since.elapsed() < half) {
            return Ok(true);
        }
        let (begun, now_ms) = (clock::now(), self.clock.unix_ms());
        let claim = Claim { by: self.instance.clone(), until_ms: now_ms + RECALL_CLAIM_MS };
        let got = store::claim_recall(&self.rw, work.scope, &claim, now_ms).await?;
        work.claimed = got.then_some(begun);
        Ok(got)
    }

    /// Writes the vectors of some entries: together, and where that fails one by one, to know which of them the model refuses.
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
                        "the model makes no vectors of an entry: it is found by words alone"
                    );
                    mark.refused.push(Refused { id: entry.id.clone(), logged_ms: entry.logged_ms });
                    mark.refused_ms = self.clock.unix_ms();
                }
                outcome => return outcome,
            }
        }
        Ok(Embedded::All)
    }

    /// Whether a failure lies in the texts and not in the model: it answers for a text that nobody asked about before.
    async fn refuses(&self, error: &Error) -> bool {
        let harmless = [format!("Good morning {}", self.ids.key())];
        error.code == Code::EmbedderUnavailable
            && self.embedders.configured().embed(&harmless, Kind::Passage).await.is_ok()
    }

    /// Writes the vectors of some entries, those of a long one in parts, its end first, until a moment has come or another server has taken over.
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
            let made = self.embedders.configured().embed(&texts, Kind::Passage).await;
            if made.is_err() {
                metrics::counter!(metric::EMBEDDER_FAILURES, "of" => "recall").increment(1);
            }
            let vectors = widened(&made?).into_iter();
            let filled = part.iter().zip(vectors);
            let filled: Vec<RecallVector> = filled
                .map(|((row, _), embedding)| RecallVector { embedding, ..row.clone() })
                .collect();
            store::write_recall_vectors(&self.rw, work.scope, &filled).await?;
            metrics::counter!(metric::RECALL_VECTORS).increment(filled.len() as u64);
            mark.passages += filled.len() as u64;
        }
        Ok(Embedded::All)
    }

    /// Takes away vectors whose entries are gone, among the next few of an agent; gives the place to go on from, none at the agent's end.
    pub async fn trim_recall_vectors(
        &self,
        agent: &AgentVersion,
        actor: &Actor,
        from_seq: u64,
        limit: u64,
    ) -> Result<Option<u64>> {
        let scope = scope_of(agent, actor)?;
        let (_, next) =
            store::trim_recall_vectors(&self.rw, &self.ro, &scope, from_seq, limit).await?;
        Ok(next)
    }

    /// Looks after the vector index of recall storage: one that was made for vectors of another length goes, and one is made where there are
    /// more passages than are compared one by one.
    pub async fn look_after_recall_index(&self) -> Result<()> {
        self.archive.look_after_recall(self.embedders.fingerprint().dimension).await?;
        Ok(())
    }

    /// The passages of an agent nearest to a text, and their entries but for those that a look at the words has brought. Without a model,
    /// or while it fails, there are none, and the answer says why.
    pub(super) async fn recall_near(
        &self,
        scope: &Scope,
        text: &str,
        known: &Sources,
    ) -> Result<RecallNear> {
        if !self.embeds_recall() {
            return Ok(RecallNear::nothing("no_model"));
        }
        let fingerprint = self.embedders.fingerprint().digest();
        let begun = clock::now();
        let made = self.embedders.configured().embed(&[text.to_owned()], Kind::Query).await;
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
        let (ro, print) = (&self.ro, fingerprint.as_str());
        let look = |plan| store::near_passages(ro, scope, print, &vector, plan, &seqs);
        let mut plan = RecallPlan::of(passages, self.archive.settings.exact_rows_max, limit);
        let mut found = look(plan).await?;
        let few = found.as_ref().is_none_or(|one| (one.near.len() as u64) < limit.min(passages));
        if plan != RecallPlan::Exact && few {
            plan = RecallPlan::Exact;
            found = look(plan).await?;
        }
        let NearLook { near: hits, rows } = found.unwrap_or_default();
        let (plan, complete) = (Some(plan.text()), known.complete);
        Ok(RecallNear { hits, rows, plan, complete, missing: None })
    }
}

/// How many of the next entries are embedded together: as many as stay below the limit of passages, and one at least.
fn batch(entries: &[Unembedded]) -> usize {
    let mut count = 0;
    let fitting = entries.iter().take_while(|entry| {
        count += passages(&entry.content).len();
        count <= RECALL_EMBED_PASSAGES
    });
    fitting.count().max(1)
}

/// A server admits itself to the agents whose entries it finds.
fn scope_of(agent: &AgentVersion, actor: &Actor) -> Result<Scope> {
    let prefix = format!("{}:", agent.tenant);
    let name = match agent.tenant.as_str() {
        "" => agent.key.as_str(),
        _ => agent.key.strip_prefix(&prefix).unwrap_or(&agent.key),
    };
    admit(&Principal { actor: actor.clone(), tenant: agent.tenant.clone() }, name)
}

impl super::archive_index::ArchiveIndex {
    async fn look_after_recall(&self, dimension: u32) -> std::result::Result<(), Fault> {
        let Some(admin) = &self.admin else { return Ok(()) };
        if store::drop_foreign_index(admin, dimension).await? {
            tracing::info!(
                dimension,
                "a vector index for vectors of another length was taken away"
            );
        }
        let rows = store::recall_vector_rows(admin).await?;
        if rows <= self.settings.exact_rows_max {
            return Ok(());
        }
        let n_lists = vctx_core::policy::lists_for(rows);
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
