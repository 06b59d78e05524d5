//! Who answers what a tool asks: the store knows queue and archive, a summariser the summary, an embedder the vectors.

use std::sync::Arc;

use super::summary::{Wanted, summarised};
use crate::clock;
use crate::error::{Code, Error, Result};
use crate::limits::{
    QUEUE_ROWS_MAX, RECALL_AROUND_CHARS_MAX, RECALL_PAIR_SEQS_MAX, RECALL_TAIL_CHARS_MAX,
};
use crate::memory::TokenCounter;
use crate::meters;
use crate::models::{Gateway, lexical};
use crate::policy::{
    Answers, ArchiveAnswer, Found, Near, NearPlan, Nearest, Question, RecallQuery, Scope,
    SummaryAnswer, listed, to_weigh,
};
use crate::store::{
    Ro, entries, load_archive, nearest, pairs, passages, queue, rarity, recall_tail, result_page,
    search_view, spoken, vector_index,
};

/// Answers a question into `answers`. Local answers are computed off the IO threads.
pub(super) async fn answer(
    question: Question,
    answers: &mut Answers,
    ro: &Ro,
    scope: &Scope,
    counter: Arc<dyn TokenCounter>,
    model: Option<&Gateway>,
) -> Result<()> {
    match question {
        Question::Queue { head_seq } => {
            answers.queue = Some(queue(ro, scope, head_seq, QUEUE_ROWS_MAX).await?);
        }
        Question::Recall { query, now_ms } => {
            answers.recall = Some(found(query, now_ms, ro, scope).await?);
        }
        Question::Entries { ids, head_seq, pairs: false } => {
            answers.entries = Some(entries(ro, scope, &ids, head_seq).await?);
        }
        Question::Entries { ids, head_seq, pairs: true } => {
            let (mut found, partners) = tokio::try_join!(
                entries(ro, scope, &ids, head_seq),
                pairs(ro, scope, &ids, RECALL_PAIR_SEQS_MAX)
            )?;
            found.pairs = partners;
            answers.entries = Some(found);
        }
        Question::Archive { manifest_key, messages } => {
            let loaded = load_archive(ro, scope, &manifest_key, &messages).await?;
            let index_ready = loaded.setting.is_some() && vector_index(ro).await?.ready();
            answers.archive = Some(ArchiveAnswer {
                manifest: loaded.manifest,
                setting: loaded.setting,
                messages: loaded.messages,
                index_ready,
            });
        }
        Question::Vectors { .. } => {
            return Err(Error::new(Code::Internal, "the executor itself knows the vectors"));
        }
        Question::Nearest(near) => {
            let found = nearest(ro, scope, &near).await?;
            report_look(&near, &found);
            answers.nearest = Some(found);
        }
        Question::Passages { keys } => {
            answers.passages = Some(passages(ro, scope, &keys).await?);
        }
        Question::EmbedQuery { text, dimension } => {
            let dimension = dimension as usize;
            let begun = clock::now();
            answers.embeddings = Some(vec![lexical::embed_query(&text, dimension)]);
            metrics::histogram!(meters::EMBEDDING_SECONDS).record(begun.elapsed().as_secs_f64());
        }
        Question::Embed { texts, dimension } => {
            let dimension = dimension as usize;
            let begun = clock::now();
            let vectors =
                tokio::task::spawn_blocking(move || lexical::embed_document(&texts, dimension));
            answers.embeddings = Some(vectors.await.map_err(stopped)?);
            metrics::histogram!(meters::EMBEDDING_SECONDS).record(begun.elapsed().as_secs_f64());
        }
        Question::Page { handle } => {
            answers.page = Some(result_page(ro, scope, &handle).await?);
        }
        Question::Summary { of, previous, lines, tokens_max, may_wait } => {
            let wanted = Wanted { previous, lines, tokens_max };
            let model = model.filter(|_| may_wait);
            let (content, details) = summarised(wanted, counter, model).await?;
            answers.summary = Some(SummaryAnswer { of, content, details });
        }
    }
    Ok(())
}

/// Two rounds: what the view and the moments before it hold, and how rare the words are; then the entries themselves with what was said
/// beside them. An entry that is logged meanwhile is in view or tail: the view shows it late, the collection at once.
async fn found(query: RecallQuery, now_ms: u64, ro: &Ro, scope: &Scope) -> Result<Found> {
    let (view, tail, rarity) = tokio::try_join!(
        search_view(ro, scope, &query),
        recall_tail(ro, scope, &query, now_ms),
        rarity(ro, scope, &query)
    )?;
    let weighed = to_weigh(&view, &tail);
    let mut rows = Vec::new();
    if !weighed.hits.is_empty() {
        let (hits, around) = tokio::try_join!(
            spoken(ro, scope, &weighed.hits, RECALL_TAIL_CHARS_MAX),
            spoken(ro, scope, &weighed.around, RECALL_AROUND_CHARS_MAX)
        )?;
        rows.extend(hits.into_iter().chain(around));
    }
    let list = move || listed(&query, view, &tail, rarity, rows, now_ms);
    tokio::task::spawn_blocking(list).await.map_err(stopped)
}

fn stopped(error: tokio::task::JoinError) -> Error {
    Error::new(Code::Internal, "a computation stopped").caused_by(error)
}

/// Figures of one look for the nearest chunks.
fn report_look(near: &Near, found: &Nearest) {
    let dropped = found.looked.dropped - near.before.dropped;
    let fetched = found.looked.fetched - near.before.fetched;
    let n_probe = match found.plan {
        NearPlan::Exact => 0,
        NearPlan::Vector { n_probe, .. } => n_probe,
    };
    metrics::counter!(meters::ARCHIVAL_PLANS, "plan" => found.plan.text()).increment(1);
    metrics::histogram!(meters::ARCHIVAL_NPROBE).record(f64::from(n_probe));
    metrics::counter!(meters::ARCHIVAL_FETCHED).increment(fetched);
    metrics::counter!(meters::ARCHIVAL_DROPPED).increment(dropped);
    if n_probe > 0 && near.before.retries > 0 {
        metrics::counter!(meters::NPROBE_OVERRIDES, "by" => "retry").increment(1);
    }
}
