//! Replaces the summary of an eviction by a summary that a model wrote in the background.

use serde_json::Value;

use super::Draft;
use crate::limits::SUMMARY_ROWS_MAX;
use crate::memory::change::Refinable;
use crate::memory::event::EventType;
use crate::memory::message::Message;
use crate::policy::question::{Answers, Question, SummaryWriter};
use crate::policy::step::Stop;
use crate::window::{Section, summary_tokens_max, tokens};

/// Field of a summary's details with the reason why no answer of the model was used.
pub const DEGRADED: &str = "degraded";

/// A model's summary with less than the local summary's tokens divided by this number has lost too
/// much.
const SHRINK_MAX: u64 = 4;

impl Draft<'_> {
    /// Replaces the summary by one that a model makes from the summary before the eviction and from
    /// the evicted messages. If there are too many messages, the model reads the newest ones and
    /// the local summary, which contains all of them. Returns the reason if no answer of the model
    /// is usable.
    pub fn refine_summary(
        &mut self,
        of: &Refinable,
        evicted: &[Message],
        answers: &Answers,
    ) -> Result<Result<(), Value>, Stop> {
        let in_batch = |m: &&Message| (of.first_seq..=of.last_seq).contains(&m.seq);
        let batch: Vec<Message> = evicted.iter().filter(in_batch).cloned().collect();
        let lines = self.lines_of(&batch);
        if lines.is_empty() {
            return Ok(Err(Value::Null));
        }
        let cap = self.refined_tokens_max();
        let names = (of.first_seq, of.last_seq + 1, of.revision);
        let answer = answers.summary.as_ref();
        // Messages may have arrived while the model wrote, so the limit may differ.
        let Some(answer) = answer.filter(|found| (found.of.0, found.of.1, found.of.2) == names)
        else {
            let frame = self.summary_frame();
            let local = &self.before.queue_head_summary;
            let stands = local.token_estimate.saturating_sub(frame);
            let is_whole = self.before.queue.head_seq - of.first_seq <= SUMMARY_ROWS_MAX;
            return Err(Question::Summary {
                of: (names.0, names.1, names.2, cap),
                previous: if is_whole { &of.previous } else { &local.content }.clone(),
                lines,
                tokens: stands / SHRINK_MAX..=cap.saturating_sub(frame),
                by: SummaryWriter::Model,
            }
            .into());
        };
        if let Some(reason) = answer.details.get(DEGRADED) {
            return Ok(Err(reason.clone()));
        }
        if !self.take_summary(&answer.content, cap, batch.first().map(|message| message.seq)) {
            return Ok(Err("too_long".into()));
        }
        self.fold(&batch, &of.batch_id);
        let mut details = answer.details.clone();
        let summary = &self.after.queue_head_summary;
        if summary.content.len() < answer.content.trim().len() {
            details.insert("cut".into(), true.into());
        }
        details.insert("reason".into(), "background".into());
        details.insert("revision".into(), summary.revision.into());
        details.insert("tokens".into(), summary.token_estimate.into());
        details.insert("tokens_max".into(), cap.into());
        details.insert("evicted_batch_id".into(), of.batch_id.as_str().into());
        self.event(EventType::Summarize, Value::Object(details));
        Ok(Ok(()))
    }

    /// Returns the maximum size of the new summary: it must not cause an eviction.
    pub(super) fn refined_tokens_max(&self) -> u64 {
        let now = tokens(&self.after);
        let others = now.without(&[Section::Summary]);
        let room = self.after.token_budget.flush.saturating_sub(others + 1);
        let stands = self.before.queue_head_summary.token_estimate;
        summary_tokens_max(self.after.context_window).min(room.max(stands))
    }
}
