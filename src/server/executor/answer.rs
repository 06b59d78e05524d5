//! Who answers what a tool asks: the store knows queue and archive, a summariser the summary, an embedder the vectors.

use std::sync::Arc;

use super::summary::{Wanted, summarised};
use crate::models::Gateway;
use crate::store::{
    Ro, calls_between, entries, entries_dated, load_archive, nearest, pairs, passages, queue,
    result_page, vector_index, worded,
};
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{QUEUE_ROWS_MAX, RECALL_PAIR_SEQS_MAX};
use vctx_core::memory::TokenCounter;
use vctx_core::policy::{
    Answers, ArchiveAnswer, Near, NearPlan, Nearest, Question, Scope, SummaryAnswer,
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
        Question::Calls { first_seq, last_seq } => {
            answers.calls = Some(calls_between(ro, scope, first_seq, last_seq).await?);
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
        Question::Dated(dated) => answers.dated = Some(entries_dated(ro, scope, &dated).await?),
        Question::Archive { manifest_key, messages } => {
            let loaded = load_archive(ro, scope, &manifest_key, &messages).await?;
            let index_ready = match &loaded.setting {
                Some(setting) => vector_index(ro, &setting.attribute()).await?.ready(),
                None => false,
            };
            answers.archive = Some(ArchiveAnswer {
                manifest: loaded.manifest,
                setting: loaded.setting,
                messages: loaded.messages,
                index_ready,
            });
        }
        Question::Recall { .. }
        | Question::Vectors { .. }
        | Question::EmbedQuery { .. }
        | Question::EmbedParts(_)
        | Question::KeepPart(_)
        | Question::Embed { .. }
        | Question::EmbedAlone { .. }
        | Question::EmbedNext { .. }
        | Question::Trace(_)
        | Question::Due { .. }
        | Question::Forget(_)
        | Question::ForgetStep { .. }
        | Question::Schedule { .. }
        | Question::Traced { .. } => {
            return Err(Error::new(Code::Internal, "the executor itself answers this"));
        }
        Question::Nearest(near) => {
            let found = nearest(ro, scope, &near).await?;
            report_look(&near, &found);
            answers.nearest = Some(found);
        }
        Question::Words(words) => {
            answers.worded = Some(worded(ro, scope, &words).await?);
        }
        Question::Passages { keys } => {
            answers.passages = Some(passages(ro, scope, &keys).await?);
        }
        Question::Cited { keys } => {
            answers.cited = Some(passages(ro, scope, &keys).await?);
        }
        Question::Page { handle } => {
            answers.page = Some(result_page(ro, scope, &handle).await?);
        }
        Question::Summary { of, previous, lines, tokens, may_wait } => {
            let wanted = Wanted { previous, lines, tokens };
            let model = model.filter(|_| may_wait);
            let (content, details) = summarised(wanted, counter, model).await?;
            answers.summary = Some(SummaryAnswer { of, content, details });
        }
    }
    Ok(())
}

pub(super) fn stopped(error: tokio::task::JoinError) -> Error {
    Error::new(Code::Internal, "a computation stopped").caused_by(error)
}

/// Figures of one look for the nearest chunks.
fn report_look(near: &Near, found: &Nearest) {
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
