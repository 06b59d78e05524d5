//! A search of recall storage: what its questions to the database are, and in which order.

use super::answer::stopped;
use super::executor::Executor;
use crate::store;
use vctx_core::error::{Code, Error, Result};
use vctx_core::policy::{Found, RecallMode, RecallNear, RecallQuery, Scope, Sources, listed};

impl Executor {
    /// What matches a query, in its order. One look finds it by words and brings what it takes to weigh it. Where there are vectors, what is
    /// near to the question comes in addition by a second one; only what was found by words tells which names are to be left out of it.
    pub(super) async fn recall(
        &self,
        scope: &Scope,
        query: RecallQuery,
        now_ms: u64,
    ) -> Result<Found> {
        let query = query.settled(&self.recall);
        let digest = self.embeds_recall().then(|| self.embedders.fingerprint().digest());
        let mut sources =
            store::search_recall(&self.ro, scope, &query, digest.as_deref(), now_ms).await?;
        let mut near = self.near(scope, &query, &sources).await?;
        sources.near = std::mem::take(&mut near.hits);
        sources.rows.append(&mut near.rows);
        let list = move || listed(&query, sources, now_ms);
        let found = tokio::task::spawn_blocking(list).await.map_err(stopped)?;
        let degraded = near.missing.filter(|why| *why != NO_MODEL);
        let incomplete = near.plan.is_some() && !near.complete;
        Ok(Found { near: near.plan, incomplete, degraded, ..found }
            .at_most(self.recall.max_memories))
    }

    /// What is near to the question, with what was said beside it.
    async fn near(
        &self,
        scope: &Scope,
        query: &RecallQuery,
        found: &Sources,
    ) -> Result<RecallNear> {
        let asked = matches!(query.mode, RecallMode::Vector { .. } | RecallMode::Hybrid);
        if query.mode == RecallMode::Text || (!asked && !self.embeds_recall()) {
            return Ok(RecallNear::nothing(NO_MODEL));
        }
        let names = found.rows.iter().filter_map(|row| row.name.as_deref());
        let near = self.recall_near(scope, &query.nameless(names), found).await?;
        if asked && near.missing == Some(NO_MODEL) {
            return Err(Error::new(
                Code::ModeUnavailable,
                "mode: no model gives vectors of recall storage here: leave it out, or configure an embedder",
            )
            .with("field", "mode"));
        }
        Ok(near)
    }
}

/// As [`Executor::recall_near`] says it.
const NO_MODEL: &str = "no_model";
