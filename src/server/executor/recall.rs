//! Searches recall storage by words, then by vectors.

use std::ops::Range;

use super::cutting::stopped;
use super::executor::Executor;
use crate::store::{self, RecallLook};
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::outbound::Outbound;
use vctx_core::search::{RecallList, RecallMode, RecallNear, RecallQuery, RecallRows, listed};
use vctx_core::trust::Scope;

impl Executor {
    /// Returns the entries that match a query, the best first. The first database request finds
    /// entries by words, together with the data for ranking. If there are vectors, a second request
    /// adds the nearest entries. The second request must wait for the first: it uses the query
    /// without the speakers' names, and the names come from the results of the first request.
    pub(super) async fn recall(
        &self,
        scope: &Scope,
        outbound: Outbound,
        query: RecallQuery,
        queue: Range<u64>,
        now_ms: u64,
    ) -> Result<RecallList> {
        let query = query.settled(&self.recall);
        let embeds = self.embeds_recall() && self.kernel.may_embed(outbound);
        let digest = embeds.then(|| self.kernel.embedders.fingerprint().digest());
        let head_seq = queue.start;
        let look = RecallLook { query: &query, queue, fingerprint: digest.as_deref(), now_ms };
        let mut sources = store::search_recall(&self.kernel.ro, scope, look).await?;
        let mut near = self.near(scope, embeds, &query, &sources, head_seq).await?;
        sources.near = std::mem::take(&mut near.hits);
        sources.rows.append(&mut near.rows);
        let list = move || listed(&query, sources, now_ms);
        let found = tokio::task::spawn_blocking(list).await.map_err(stopped)?;
        let degraded = near.missing.filter(|why| *why != NO_MODEL);
        let incomplete = near.plan.is_some() && !near.complete;
        Ok(RecallList { near: near.plan, incomplete, degraded, ..found }
            .at_most(self.recall.max_memories))
    }

    /// Returns the passages nearest to the query, with their neighbouring messages.
    async fn near(
        &self,
        scope: &Scope,
        embeds: bool,
        query: &RecallQuery,
        found: &RecallRows,
        head_seq: u64,
    ) -> Result<RecallNear> {
        let asked = matches!(query.mode, RecallMode::Vector { .. } | RecallMode::Hybrid);
        if query.mode == RecallMode::Text || (!asked && !embeds) {
            return Ok(RecallNear::nothing(NO_MODEL));
        }
        if !embeds {
            return Err(Error::new(
                Code::ModeUnavailable,
                "mode: no model makes vectors of recall storage here: leave the mode out, or configure an embedder",
            )
            .with("field", "mode"));
        }
        let names = found.rows.iter().filter_map(|row| row.name.as_deref());
        self.recall_near(scope, &query.nameless(names), found, head_seq).await
    }
}

/// Value of `missing` without an embedding model that may receive the agent's texts.
const NO_MODEL: &str = "no_model";
