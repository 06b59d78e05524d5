//! Who answers what a tool asks: the store knows queue and archive, a summariser the summary, an embedder the vectors.

use std::sync::Arc;

use super::summary::{Wanted, summarised};
use crate::clock;
use crate::error::{Code, Error, Result};
use crate::limits::QUEUE_ROWS_MAX;
use crate::memory::TokenCounter;
use crate::meters;
use crate::models::{Gateway, lexical};
use crate::policy::{Answers, ArchiveAnswer, Question, Scope, SummaryAnswer};
use crate::store::{Ro, load_archive, queue, result_page, vector_index};

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
        Question::Embed { texts, dimension } => {
            let dimension = dimension as usize;
            let begun = clock::now();
            let vectors =
                tokio::task::spawn_blocking(move || lexical::embed_document(&texts, dimension));
            answers.embeddings =
                Some(vectors.await.map_err(|e| {
                    Error::new(Code::Internal, "the embedder stopped").caused_by(e)
                })?);
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
