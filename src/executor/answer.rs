//! Who answers what a tool asks: the store knows queue and archive, a summariser the summary, an embedder the vectors.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::error::{Code, Error, Result};
use crate::limits::QUEUE_ROWS_MAX;
use crate::memory::TokenCounter;
use crate::models::{Gateway, lexical, local};
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
            let vectors =
                tokio::task::spawn_blocking(move || lexical::embed_document(&texts, dimension));
            answers.embeddings =
                Some(vectors.await.map_err(|e| {
                    Error::new(Code::Internal, "the embedder stopped").caused_by(e)
                })?);
        }
        Question::Page { handle } => {
            answers.page = Some(result_page(ro, scope, &handle).await?);
        }
        Question::Summary { of, previous, lines, tokens_max, may_wait } => {
            if let Some(model) = model.filter(|_| may_wait) {
                match model.summarise(&previous, &lines, tokens_max).await {
                    Ok(content) => {
                        let details = details("model", tokens_max, None);
                        answers.summary = Some(SummaryAnswer { of, content, details });
                        return Ok(());
                    }
                    Err(error) => tracing::warn!(
                        error = error.chain(),
                        "summary model failed; the local summariser answers"
                    ),
                }
            }
            let content = tokio::task::spawn_blocking(move || {
                let borrowed: Vec<local::Line<'_>> = lines
                    .iter()
                    .map(|l| local::Line { speaker: &l.speaker, text: &l.text })
                    .collect();
                local::summarise(&previous, &borrowed, tokens_max, &*counter)
            })
            .await
            .map_err(|e| Error::new(Code::Internal, "the summariser stopped").caused_by(e))?;
            let drift = Some((content.information_drift, content.random_drift, content.facts_kept));
            answers.summary = Some(SummaryAnswer {
                of,
                content: content.content,
                details: details("local", tokens_max, drift),
            });
        }
    }
    Ok(())
}

fn details(by: &str, tokens_max: u64, drift: Option<(f64, f64, usize)>) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("by".into(), by.into());
    map.insert("text_tokens_max".into(), tokens_max.into());
    if let Some((information, random, facts)) = drift {
        map.insert("information_drift".into(), json!(information));
        map.insert("random_drift".into(), json!(random));
        map.insert("facts".into(), facts.into());
    }
    map
}
