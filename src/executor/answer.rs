//! Who answers what a tool asks: the store knows the queue, a summariser the summary.

use std::sync::Arc;

use super::summary::{Wanted, summarised};
use crate::error::Result;
use crate::limits::QUEUE_ROWS_MAX;
use crate::memory::TokenCounter;
use crate::models::Gateway;
use crate::policy::{Answers, Question, Scope, SummaryAnswer};
use crate::store::{Ro, queue, result_page};

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
