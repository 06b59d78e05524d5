//! Removes texts by age with their copies in the window, and makes the summary again from which
//! such a text is gone.

use serde_json::json;

use super::Draft;
use super::flush::cut_to;
use crate::error::Result;
use crate::memory::change::{Expire, Part};
use crate::memory::core::Summary;
use crate::memory::edges::version_key;
use crate::memory::event::EventType;
use crate::memory::markup::has_block_markup;
use crate::memory::message::Message;
use crate::policy::question::{Answers, Question, SummaryWriter};
use crate::policy::retention::{Due, ShownCopy};
use crate::policy::step::Stop;
use crate::window::summary_tokens_max;

impl Draft<'_> {
    /// Removes the texts that are due for removal by retention, and returns the number of messages
    /// that lost their text.
    pub fn expire(&mut self, due: &Due) -> u64 {
        let messages = due.messages.iter().map(|one| one.key.clone());
        let keys: Vec<String> = messages.chain(due.copies.iter().cloned()).collect();
        let expired = &mut self.after.expired;
        if let Some(place) = due.settled(expired.through_seq) {
            expired.through_seq = place.seq;
            expired.through_at.clone_from(&place.at);
        }
        let count = keys.len() as u64;
        expired.messages += count;
        if let Some(last) = due.versions.last() {
            expired.through_version = last.version;
        }
        self.parts.push(Part::Expire(Expire {
            keys,
            seqs: due.messages.iter().map(|one| one.seq).collect(),
            versions: due.versions.iter().map(|one| one.key.clone()).collect(),
            answers: due.answers.clone(),
            expired_at: self.after.updated_at.clone(),
            forgotten_version: None,
        }));
        self.expire_shown(&due.shown);
        count
    }

    /// Makes a summary again that contains texts which are removed by age.
    pub fn renew_expired(&mut self, left: &[Message], answers: &Answers) -> Result<(), Stop> {
        // The new summary is never longer than the old one, so the window cannot overflow.
        let stands = self.before.queue_head_summary.token_estimate;
        let cap = summary_tokens_max(self.after.context_window).min(stands);
        self.renew_summary(left, answers, "retention", cap)
    }

    /// Removes copies from the window, because the text of their originals goes by age. Their
    /// positions stay, as after a forget operation.
    fn expire_shown(&mut self, shown: &[ShownCopy]) {
        if shown.is_empty() {
            return;
        }
        for copy in shown {
            self.drop_shown(copy.token_estimate, copy.frame_tokens);
        }
        self.after.forgotten.messages += shown.len() as u64;
        self.parts.push(Part::Expire(Expire {
            keys: shown.iter().map(|copy| copy.key.clone()).collect(),
            expired_at: self.after.updated_at.clone(),
            forgotten_version: Some(self.after.version),
            ..Expire::default()
        }));
    }

    /// Replaces the summary by one that the local summariser makes from the given messages alone:
    /// evicted messages, oldest first, that still have their texts. Without such messages the
    /// summary is removed. An event says so in both cases.
    pub(super) fn renew_summary(
        &mut self,
        left: &[Message],
        answers: &Answers,
        reason: &'static str,
        cap: u64,
    ) -> Result<(), Stop> {
        let revision = self.before.queue_head_summary.revision;
        let lines = self.lines_of(left);
        let mut told = json!({"by": "local", "reason": reason, "messages": lines.len()});
        let mut made = String::new();
        if !lines.is_empty() {
            let first = left.first().map_or(0, |message| message.seq);
            let of = (first, self.before.queue.head_seq, revision, cap);
            let answer = answers.summary.as_ref().filter(|summary| summary.of == of);
            let Some(answer) = answer else {
                let tokens = 0..=cap.saturating_sub(self.summary_frame());
                let previous = String::new();
                let by = SummaryWriter::Local;
                return Err(Question::Summary { of, previous, lines, tokens, by }.into());
            };
            made.clone_from(&answer.content);
        }
        let (content, token_estimate) = cut_to(self.around.counter, self.after.form, &made, cap);
        let version = self.after.version;
        let is_empty = content.is_empty();
        self.after.queue_head_summary = Summary {
            escaped: has_block_markup(&content),
            content,
            token_estimate: if is_empty { 0 } else { token_estimate },
            revision: revision + 1,
            changed_at_version: version,
            kept: (!is_empty).then(|| version_key(&self.after.agent_id, version)),
            first_seq: left.first().map(|message| message.seq).filter(|_| !is_empty),
        };
        told["revision"] = (revision + 1).into();
        told["tokens"] = self.after.queue_head_summary.token_estimate.into();
        told["tokens_max"] = cap.into();
        self.event(EventType::Summarize, told);
        Ok(())
    }
}
