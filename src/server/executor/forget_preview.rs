//! Counts the rows that a forget operation would remove or change, without changing any.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::executor::Executor;
use super::forget::Names;
use crate::limits::FORGET_SCAN_ROWS;
use crate::store::{self, Going};
use vctx_core::error::Result;
use vctx_core::limits::FORGET_ROWS;
use vctx_core::memory::core::Core;
use vctx_core::policy::{ForgetAsked, ForgetFound, ForgetPreview};
use vctx_core::trust::Scope;

impl Executor {
    /// Returns what a forget operation would remove: the same rows as its steps find.
    pub(super) async fn forget_preview(
        &self,
        scope: &Scope,
        core: &Core,
        asked: &ForgetAsked,
        found: &ForgetFound,
    ) -> Result<ForgetPreview> {
        let keys: Vec<String> = found.messages.iter().map(|one| one.id.clone()).collect();
        let seqs: Vec<u64> = found.messages.iter().map(|one| one.seq).collect();
        let mut from = found.in_summary.then_some(0);
        for part in keys.chunks(FORGET_ROWS as usize) {
            let standing = store::standing(&self.kernel.ro, scope, part).await?;
            let firsts = standing.iter().filter_map(|one| one.summary_from(core.queue.head_seq));
            from = from.into_iter().chain(firsts).min();
        }
        let summary = &core.queue_head_summary;
        let summary = !summary.content.is_empty() && from.is_some_and(|it| summary.revision >= it);
        let versions: Vec<String> = found.versions.iter().map(|one| one.key.clone()).collect();
        let going = Going {
            keys: &keys,
            seqs: &seqs,
            documents: &found.documents,
            versions: &versions,
            summary_from: from,
        };
        let mut places = store::forget_counts(&self.kernel.ro, scope, going).await?;
        let blocks = if asked.blocks { found.quoted.blocks.len() } else { 0 };
        for (collection, count) in [
            ("messages", found.messages.len() as u64),
            ("core_memory", blocks as u64 + u64::from(summary)),
            ("schedules", found.schedules.len() as u64),
            ("tool_sets", found.tool_sets.len() as u64),
            ("context_packs", self.packs_about(scope, found).await?),
            ("idempotency", self.answers_about(scope, found).await?),
            ("prompts", self.prompts_about(scope, &seqs, found).await?),
        ] {
            places.insert(collection.to_owned(), count);
        }
        places.retain(|_, count| *count > 0);
        Ok(ForgetPreview { summary, places })
    }

    /// Returns the number of context packs that quote a text to forget or name a document to
    /// forget; of the latter at most one page is counted.
    async fn packs_about(&self, scope: &Scope, found: &ForgetFound) -> Result<u64> {
        let mut about: BTreeSet<String> = found.packs.iter().cloned().collect();
        if !found.documents.is_empty() {
            about.extend(store::packs_with(&self.kernel.ro, scope, &found.documents).await?.0);
        }
        Ok(about.len() as u64)
    }

    /// Returns the number of stored answers that quote a text to forget or name an item to forget.
    async fn answers_about(&self, scope: &Scope, found: &ForgetFound) -> Result<u64> {
        let names = Names {
            seqs: found.messages.iter().map(|one| one.seq).collect(),
            ids: found.messages.iter().map(|one| one.id.as_str()).collect(),
            documents: found.documents.iter().map(String::as_str).collect(),
        };
        let mut about: BTreeSet<String> = found.answers.iter().cloned().collect();
        let mut after = String::new();
        // The loop ends, since each page of answers begins after the previous page.
        loop {
            let page = store::stored_answers(&self.kernel.ro, scope, &after).await?;
            let full = page.len() as u64 == FORGET_SCAN_ROWS;
            let Some(last) = page.last().map(|one| one.key.clone()) else { break };
            let named = page.into_iter().filter(|one| names.are_told(&one.response));
            about.extend(named.map(|one| one.key));
            if !full {
                break;
            }
            after = last;
        }
        Ok(about.len() as u64)
    }

    /// Returns the number of prompts that quote a text to forget or showed a message to forget.
    async fn prompts_about(&self, scope: &Scope, seqs: &[u64], found: &ForgetFound) -> Result<u64> {
        let mut about: BTreeSet<String> = found.prompts.iter().cloned().collect();
        let seqs: BTreeSet<u64> = seqs.iter().copied().collect();
        let (Some(first), Some(last)) = (seqs.first(), seqs.last()) else {
            return Ok(about.len() as u64);
        };
        let mut after = Some(0);
        // The loop ends, since each page of prompts begins after the previous page.
        while let Some(turn) = after {
            let (page, next) =
                store::shown_between(&self.kernel.ro, scope, turn, (*first, *last)).await?;
            let shows = page
                .into_iter()
                .filter(|one| seqs.range(one.head_seq..one.next_seq).next().is_some());
            about.extend(shows.map(|one| one.key));
            after = next;
        }
        Ok(about.len() as u64)
    }
}

/// Returns what would be removed with a whole agent, by the figures of its core.
pub(super) fn whole_preview(scope: &Scope, core: &Core) -> Value {
    let archived = &core.archived;
    let places = json!({"core_memory": 1, "messages": core.chain.length, "prompts": core.turns,
        "archival_docs": archived.chunks, "archival_manifests": archived.documents});
    let blocks: Vec<&String> = core.working_blocks.iter().map(|block| &block.id).collect();
    json!({"dry_run": true, "what": "agent", "agent": scope.agent(), "_rev": core.rev,
        "summary": !core.queue_head_summary.content.is_empty(), "places": places,
        "messages": core.chain.length, "documents": archived.documents, "chunks": archived.chunks,
        "blocks": blocks, "prompts": core.turns, "versions": core.version})
}
