//! A search of recall storage: what its questions to the database are, and in which order.

use super::answer::stopped;
use super::executor::Executor;
use crate::error::{Code, Error, Result};
use crate::limits::{RECALL_AROUND_CHARS_MAX, RECALL_NEAR_MAX, RECALL_TAIL_CHARS_MAX};
use crate::policy::{
    Found, RecallMode, RecallNear, RecallQuery, Scope, Sources, ViewHit, listed, to_weigh,
};
use crate::store;

impl Executor {
    /// What matches a query, in its order. By words that is two rounds: what the view and the moments before it hold, and how rare the
    /// words are; then the entries themselves with what was said beside them. An entry that is logged meanwhile is in view or tail: the
    /// view shows it late, the collection at once. Where there are vectors, what is near to the question comes in addition; only what
    /// was found by words tells which names are to be left out of it.
    pub(super) async fn recall(
        &self,
        scope: &Scope,
        query: RecallQuery,
        now_ms: u64,
    ) -> Result<Found> {
        let query = query.settled(&self.recall);
        let (view, tail, rarity) = tokio::try_join!(
            store::search_view(&self.ro, scope, &query),
            store::recall_tail(&self.ro, scope, &query, now_ms),
            store::rarity(&self.ro, scope, &query)
        )?;
        let weighed = to_weigh(&view, &tail);
        let (hits, around) = tokio::try_join!(
            store::spoken(&self.ro, scope, &weighed.hits, RECALL_TAIL_CHARS_MAX),
            store::spoken(&self.ro, scope, &weighed.around, RECALL_AROUND_CHARS_MAX)
        )?;
        let mut sources = Sources { view, tail, rarity, ..Sources::default() };
        sources.rows.extend(hits.into_iter().chain(around));
        let near = self.near(scope, &query, &mut sources).await?;
        let list = move || listed(&query, sources, now_ms);
        let found = tokio::task::spawn_blocking(list).await.map_err(stopped)?;
        let degraded = near.missing.filter(|why| *why != NO_MODEL);
        Ok(Found { near: near.plan, degraded, ..found }.at_most(self.recall.max_memories))
    }

    /// Adds what is near to the question, with what was said beside it.
    async fn near(
        &self,
        scope: &Scope,
        query: &RecallQuery,
        sources: &mut Sources,
    ) -> Result<RecallNear> {
        let asked = matches!(query.mode, RecallMode::Vector { .. } | RecallMode::Hybrid);
        if query.mode == RecallMode::Text || (!asked && !self.embeds_recall()) {
            return Ok(RecallNear::nothing(NO_MODEL));
        }
        let names = sources.rows.iter().filter_map(|row| row.name.as_deref());
        let text = query.nameless(names);
        let mut near = self.recall_near(scope, &text, RECALL_NEAR_MAX as u64).await?;
        if asked && near.missing == Some(NO_MODEL) {
            return Err(Error::new(
                Code::ModeUnavailable,
                "mode: no model gives vectors of recall storage here: leave it out, or configure an embedder",
            )
            .with("field", "mode"));
        }
        sources.near = std::mem::take(&mut near.hits);
        let unknown = |seq: &u64| sources.rows.iter().all(|row| row.seq != *seq);
        let as_hits = sources.near.iter().map(|passage| ViewHit {
            id: passage.id.clone(),
            seq: passage.seq,
            score: passage.similarity,
        });
        let mut places = to_weigh(&as_hits.collect::<Vec<_>>(), &[]);
        places.hits.sort_unstable();
        places.hits.dedup();
        places.hits.retain(unknown);
        places.around.retain(unknown);
        let (hits, around) = tokio::try_join!(
            store::spoken(&self.ro, scope, &places.hits, RECALL_TAIL_CHARS_MAX),
            store::spoken(&self.ro, scope, &places.around, RECALL_AROUND_CHARS_MAX)
        )?;
        sources.rows.extend(hits.into_iter().chain(around));
        Ok(near)
    }
}

/// As [`Executor::recall_near`] says it.
const NO_MODEL: &str = "no_model";
