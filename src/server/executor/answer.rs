//! Answers the questions (requests for data) that a step of a call asks. The data come from the
//! store, a summariser, an embedder or the archive.

use std::sync::Arc;

use super::embedding;
use super::executor::Executor;
use super::summary::{Wanted, summarised};
use crate::executor::limits::QUEUE_ROWS_MAX;
use crate::store;
use vctx_base::clock;
use vctx_base::metric;
use vctx_core::error::Result;
use vctx_core::memory::archive::VectorSetting;
use vctx_core::memory::core::Core;
use vctx_core::policy::{Answers, ArchiveAnswer, Question, SummaryAnswer, VectorsAnswer};
use vctx_core::search::{NearPlan, NearQuery, NearResult};
use vctx_core::trust::Scope;

/// Maximum distance between an entry of recall storage and the reply to it, in positions.
pub(super) const RECALL_PAIR_SEQS_MAX: u64 = 8;

impl Executor {
    /// Answers a step's question, and stores the answer in `answers`.
    pub(super) async fn answer(
        &self,
        question: Question,
        answers: &mut Answers,
        scope: &Scope,
        core: &Core,
    ) -> Result<()> {
        let ro = &self.kernel.ro;
        match question {
            Question::Queue { head_seq } => {
                let mut queue = store::queue(ro, scope, head_seq, QUEUE_ROWS_MAX).await?;
                // The queue is read after the core. Messages that another server appended between
                // the two reads belong to a later revision, so they are left out. The revision
                // check of the write detects that another server has written.
                queue.retain(|message| message.seq < core.queue.next_seq);
                answers.queue = Some(queue);
            }
            Question::Calls { first_seq, last_seq } => {
                let calls = store::calls_between(ro, scope, first_seq, last_seq).await?;
                answers.calls = Some(calls);
            }
            Question::Recall { query, queue, now_ms } => {
                answers.recall =
                    Some(self.recall(scope, core.outbound(), query, queue, now_ms).await?);
            }
            Question::Looks { looks } => {
                let begun = clock::now();
                let found = self.looks(scope, core, &looks).await?;
                metrics::histogram!(metric::CONTEXT_SECONDS, "step" => "gather")
                    .record(begun.elapsed().as_secs_f64());
                answers.looks.get_or_insert_default().push(found);
            }
            Question::Entries { ids, head_seq, pairs: false } => {
                answers.entries = Some(store::entries(ro, scope, &ids, head_seq).await?);
            }
            Question::Entries { ids, head_seq, pairs: true } => {
                let (mut found, partners) = tokio::try_join!(
                    store::entries(ro, scope, &ids, head_seq),
                    store::pairs(ro, scope, &ids, RECALL_PAIR_SEQS_MAX)
                )?;
                found.pairs = partners;
                answers.entries = Some(found);
            }
            Question::Page { handle } => {
                answers.page = Some(store::result_page(ro, scope, &handle).await?);
            }
            Question::Summary { of, previous, lines, tokens, by } => {
                let wanted = Wanted { previous, lines, tokens };
                let model = self.kernel.summariser_of(core);
                let counter = Arc::clone(self.kernel.counters.of(core.encoding));
                let (content, details) = summarised(wanted, counter, model, by).await?;
                self.summary_health.note(&details, self.kernel.clock.unix_ms());
                answers.summary = Some(SummaryAnswer { of, content, details });
            }
            Question::Archive { manifest_key, messages } => {
                answers.archive = Some(self.stored(scope, &manifest_key, &messages).await?);
            }
            Question::Vectors { chunks } => {
                let setting = store::vector_setting(ro).await?;
                let exact_rows_max = self.archive.settings.exact_rows_max;
                answers.vectors = Some(self.vectors(setting, chunks, exact_rows_max).await?);
            }
            Question::Nearest(near) => {
                let found = store::nearest(ro, scope, &near).await?;
                report_look(&near, &found);
                if found.rows.is_none() {
                    self.archive.failed();
                }
                answers.nearest = Some(found);
            }
            Question::Words(words) => {
                answers.worded = Some(store::worded(ro, scope, &words).await?);
            }
            Question::Passages { keys } => {
                answers.passages = Some(store::passages(ro, scope, &keys).await?);
            }
            Question::Cited { keys } => {
                answers.cited = Some(store::passages(ro, scope, &keys).await?);
            }
            Question::Schedule { name } => {
                let seen = self.kernel.patiently(|| store::looked_at(ro, scope, &name)).await?;
                answers.schedule = Some(seen);
            }
            Question::Dated(dated) => {
                answers.dated = Some(store::entries_dated(ro, scope, &dated).await?);
            }
            Question::Due { before } => {
                answers.due = Some(store::due(ro, scope, core, &before).await?);
            }
            Question::Evicted { since } => {
                answers.evicted = Some(store::evicted(ro, scope, core, &since).await?);
            }
            Question::Forget(asked) => {
                answers.forget = Some(self.forget_found(scope, core, &asked).await?);
            }
            Question::ForgetStep { key } => {
                answers.forget_step = Some(self.forget_look(scope, &key).await?);
            }
            Question::Trace(query) => answers.traced = Some(self.trace(scope, &query).await?),
            Question::Traced { places } => {
                answers.vertices = Some(self.vertices(scope, &places).await?);
            }
            Question::EmbedQuery { text, with } => {
                embedding::query(&self.kernel.embedders_of(core), text, &with, answers).await?;
            }
            Question::Embed { document, spans, with } => {
                let made =
                    embedding::spans(&self.kernel.embedders_of(core), &document, &spans, &with)
                        .await?;
                answers.embeddings = Some(made);
                answers.embedded_with = Some(with);
            }
            Question::EmbedParts(upload) => {
                answers.embeddings = Some(self.embed_parts(&upload, scope, core).await?);
                answers.embedded_with = Some(upload.with);
            }
            Question::EmbedAlone { texts, with } => {
                answers.alone =
                    Some(embedding::alone(&self.kernel.embedders_of(core), &texts, &with).await?);
            }
            Question::Compare { questions, texts } => {
                let embedders = self.kernel.embedders_of(core);
                let texts = self.for_embedder(texts);
                let begun = clock::now();
                let (likeness, failed) = embedding::compare(&embedders, &questions, &texts).await?;
                metrics::histogram!(metric::CONTEXT_SECONDS, "step" => "compare")
                    .record(begun.elapsed().as_secs_f64());
                answers.likeness = Some(likeness);
                answers.degraded = answers.degraded.or(failed);
            }
            Question::AskModel(ask) => {
                let answer = self.kernel.ask_model(core, &ask).await;
                answers.models.get_or_insert_default().push(answer);
            }
            Question::EmbedNext { document, spans, with } => {
                let made =
                    embedding::next(&self.kernel.embedders_of(core), &document, &spans, &with)
                        .await?;
                answers.next_embeddings = Some((with, made));
            }
            Question::KeepPart(given) => {
                answers.gathered = Some(self.gather(&given, scope).await?);
            }
        }
        Ok(())
    }

    /// Loads the data that an ingest needs at its beginning: the document's manifest, the vector
    /// setting and the cited messages.
    async fn stored(
        &self,
        scope: &Scope,
        manifest_key: &str,
        messages: &[String],
    ) -> Result<ArchiveAnswer> {
        let loaded = store::load_archive(&self.kernel.ro, scope, manifest_key, messages).await?;
        let index_ready = match &loaded.setting {
            Some(setting) => {
                store::vector_index(&self.kernel.ro, &setting.attribute()).await?.ready()
            }
            None => false,
        };
        Ok(ArchiveAnswer {
            manifest: loaded.manifest,
            setting: loaded.setting,
            messages: loaded.messages,
            index_ready,
        })
    }

    /// Returns how this database searches vectors: exactly or with the vector index. Reads the
    /// index's state only for an archive of more than `exact_rows_max` chunks.
    pub(super) async fn vectors(
        &self,
        setting: Option<VectorSetting>,
        chunks: u64,
        exact_rows_max: u64,
    ) -> Result<VectorsAnswer> {
        let index_ready = match &setting {
            Some(setting) if chunks > exact_rows_max => {
                self.archive.serves(&self.kernel.ro, &setting.attribute()).await?
            }
            Some(_) | None => false,
        };
        if index_ready && self.archive.is_unchecked() {
            self.archive.nudge();
        }
        let filters_first = self.archive.settings.filters_first;
        Ok(VectorsAnswer { setting, index_ready, exact_rows_max, filters_first })
    }
}

/// Records the metrics of one search for the nearest chunks.
fn report_look(near: &NearQuery, found: &NearResult) {
    let dropped = found.looked.dropped - near.before.dropped;
    let fetched = found.looked.fetched - near.before.fetched;
    let n_probe = match found.plan {
        NearPlan::Exact => 0,
        NearPlan::Vector { n_probe, .. } | NearPlan::First { n_probe, .. } => n_probe,
    };
    metrics::counter!(metric::ARCHIVAL_PLANS, "plan" => found.plan.text()).increment(1);
    metrics::histogram!(metric::ARCHIVAL_NPROBE).record(f64::from(n_probe));
    metrics::counter!(metric::ARCHIVAL_FETCHED).increment(fetched);
    metrics::counter!(metric::ARCHIVAL_DROPPED).increment(dropped);
    if n_probe > 0 && near.before.retries > 0 {
        metrics::counter!(metric::NPROBE_OVERRIDES, "by" => "retry").increment(1);
    }
}
