//! Adds an eviction to a change: selects the messages that leave the queue, stores their new
//! summary, and splits a large eviction into several transactions.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use super::overflow::overflow;
use super::refine::DEGRADED;
use super::times::time_of_message;
use super::{Draft, Flush};
use crate::error::{Code, Error, Result};
use crate::memory::change::{Change, Evict, Part, Recount, Refinable};
use crate::memory::core::{Core, Summary};
use crate::memory::edges::{SummaryEdge, joined_key, version_key};
use crate::memory::event::EventType;
use crate::memory::form::Form;
use crate::memory::markup::has_block_markup;
use crate::memory::message::Message;
use crate::memory::tokens::TokenCounter;
use crate::policy::question::{Answers, Line, Question, SummaryWriter};
use crate::policy::step::Stop;
use crate::trust::shows_outside;
use crate::window::notices::{self, PRESSURE, SPOOL};
use crate::window::{
    Bounds, GrowingReserve, Plan, QueueItem, Section, Tokens, allowed_cuts, opening_tokens, plan,
    summary_cost, summary_tokens_max, summary_tokens_min, tokens,
};

/// Maximum number of bytes of message text in an eviction transaction. The bound is far below a
/// transaction's limit of 128 MB, because each row is written twice.
const EVICT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum number of attempts to shorten a summary to its maximum size before the summary is left
/// out.
const SUMMARY_TRIES_MAX: usize = 6;

/// Sections of the window that an eviction changes.
const CHANGED: [Section; 2] = [Section::Queue, Section::Summary];

/// Outcome of an eviction in a change.
pub(super) enum Flushed {
    Part(Box<Change>),
    Done,
}

/// Data about an eviction, kept until the change is complete and its answer and events can report
/// the eviction.
#[derive(Clone)]
pub(super) struct Untold {
    flush: Flush,
    before_occupancy: u64,
    /// Fields about the summary, for the answer and the events.
    details: Map<String, Value>,
    /// Maximum number of tokens in the summary.
    cap: u64,
}

/// Fields about the summary that the event of a flush repeats.
const MEASURES: [&str; 5] =
    ["similarity", "information_drift", "random_drift", "drift_alarm", "alarm"];

/// Reason of a drift alarm when no new summary was written. A drift alarm reports that evicted text
/// is missing from the summary.
const LOST: &str = "lost";

impl Draft<'_> {
    pub(super) fn flush(
        &mut self,
        flush: Flush,
        answers: &Answers,
        now: &Tokens,
    ) -> Result<Flushed, Stop> {
        let head_seq = self.before.queue.head_seq;
        let stored = answers.queue(|| Question::Queue { head_seq })?;
        let queue = self.queue_with_new(stored)?;
        let keep_last = self.messages.iter().filter(|m| m.kind.queued()).count();
        let cap = summary_tokens_max(self.after.context_window);
        // An eviction with a target below the warning mark removes notices; otherwise the notices
        // stay, and their tokens count.
        let stays = flush.target >= self.after.token_budget.warning;
        let passing = if stays { 0 } else { self.passing_notices() };
        // The line before the queue costs tokens as long as a message stays in the queue.
        let opening = opening_tokens(&self.after);
        let with_opening = |kept: u64| if kept > 0 { kept + opening } else { 0 };
        let fixed = now.without(&CHANGED) - passing;
        let summary = now[Section::Summary];
        let floor = if flush.summarize { summary_tokens_min(&self.after) } else { summary };
        let reserve = match flush {
            Flush { summarize: false, .. } => summary,
            // An explicit eviction often has a small target. A reserve for the longest summary
            // would then evict far more messages than the target needs, so the summary gets at most
            // half of the tokens, and less if few messages leave.
            Flush { always: true, .. } => {
                let half = flush.target.saturating_sub(fixed) / 2;
                cap.min(half.max(summary).max(floor))
            }
            Flush { .. } => cap,
        };
        let items = self.items(&queue);
        let max = self.after.token_budget.max;
        let bounds = Bounds {
            fixed: fixed + opening + reserve,
            // An explicit eviction (by `evict_fifo`) must free tokens, even if the only message
            // that can leave has a tool call without a result.
            fixed_whole: fixed + opening + if flush.always { reserve } else { summary },
            target: flush.target,
            must: max,
            relaxed: (!flush.always).then(|| {
                let taken = fixed + opening + reserve;
                taken + self.after.token_budget.flush.saturating_sub(taken) / 2
            }),
            growing: (flush.always && flush.summarize)
                .then(|| GrowingReserve { least: summary.max(floor).min(reserve), most: reserve }),
        };
        let mut found = plan(&items, bounds, keep_last);
        let kept = with_opening(found.kept_tokens);
        let least = now.without(&CHANGED) - now[Section::Notices] + kept + floor;
        if least > max {
            // A call that will be refused needs neither a summary nor a first part of an eviction.
            return Err(overflow(least, max).into());
        }
        // The summary gets the tokens that the other sections of the window leave free, up to its
        // maximum. If they leave fewer tokens than the summary's minimum, notices are dropped.
        let room = |kept: u64| cap.min(max.saturating_sub(fixed + with_opening(kept))).max(floor);
        // The summary must not exceed a target that the eviction reaches with the smaller reserve.
        let summary_max = |found: &Plan| match flush.always && found.target_reached {
            true => {
                let left = flush.target.saturating_sub(fixed + with_opening(found.kept_tokens));
                room(found.kept_tokens).min(left.max(floor))
            }
            false => room(found.kept_tokens),
        };
        let answered = answered_cut(answers, &self.before, &items, found.leave);
        let batch = self.around.summary.batch_of(found.leave);
        if let Some(leave) = too_much_for_one(&items, found.leave, batch)
            && answered.is_none_or(|cut| cut == leave)
        {
            let cap = summary_max(&found);
            return self.part(flush, answers, &queue, leave, cap);
        }
        if let Some(leave) = answered {
            let kept_tokens = items[leave..].iter().map(|i| i.tokens).sum();
            found = Plan { leave, kept_tokens, target_reached: false };
        }
        if found.leave == 0 {
            return Ok(Flushed::Done);
        }
        // A summary that is already written keeps the maximum size with which it was requested.
        let asked = answers.summary.as_ref().filter(|_| answered.is_some());
        let cap = summary_max(&found).min(asked.map_or(u64::MAX, |summary| summary.of.3));
        self.evict(flush, answers, &queue, &found, cap, now.occupancy)
    }

    /// Removes the messages that the plan selects from the queue, and adds them to the summary.
    fn evict(
        &mut self,
        flush: Flush,
        answers: &Answers,
        queue: &[Message],
        found: &Plan,
        cap: u64,
        occupancy: u64,
    ) -> Result<Flushed, Stop> {
        let leaving = &queue[..found.leave];
        let head_seq = self.before.queue.head_seq;
        let new_head_seq = queue.get(found.leave).map_or(self.after.queue.next_seq, |m| m.seq);
        let mut details = Map::new();
        if flush.summarize {
            let of = (head_seq, new_head_seq, self.before.queue_head_summary.revision, cap);
            let Some(summary) = answers.summary.as_ref().filter(|s| s.of == of) else {
                return Err(self.summary_question(of, leaving, flush.may_wait).into());
            };
            details.clone_from(&summary.details);
            let first_seq = leaving.first().map(|message| message.seq);
            let is_new = self.take_summary(&summary.content, cap, first_seq);
            let taken = self.after.queue_head_summary.content.len();
            if is_new && taken < summary.content.trim().len() {
                details.insert("cut".into(), true.into());
            }
            if !is_new && lost(&self.before.queue_head_summary, &details) {
                details.insert("drift_alarm".into(), true.into());
                details.insert("alarm".into(), LOST.into());
            }
        }
        let batch_id = self.around.ids.key();
        let logged = leaving.iter().filter(|m| m.kind.logged() && !m.is_frame()).count() as u64;
        self.after.queue.head_seq = new_head_seq;
        if let Some(calls) = &mut self.after.open_calls {
            calls.retain(|call| call.seq >= new_head_seq);
        }
        self.note_opening(&queue[found.leave..]);
        self.after.queue.count -= found.leave as u64;
        self.after.queue.tokens = found.kept_tokens - self.after.open_call_tokens();
        self.after.queue.changed_at_version = self.after.version;
        self.after.counters.flushes += 1;
        self.after.counters.evicted += logged;
        if tokens(&self.after).occupancy - self.passing_notices() < self.after.token_budget.warning
        {
            notices::drop_kind(&mut self.after, PRESSURE);
            if !self.spooled {
                notices::drop_kind(&mut self.after, SPOOL);
            }
        }
        if flush.summarize {
            self.fold(leaving, &batch_id);
        }
        if flush.summarize && !flush.may_wait {
            self.refinable = Some(Refinable {
                previous: self.before.queue_head_summary.content.clone(),
                revision: self.after.queue_head_summary.revision,
                forgotten: self.after.forgotten.messages,
                first_seq: head_seq,
                last_seq: new_head_seq - 1,
                batch_id: batch_id.clone(),
            });
        }
        self.parts.push(Part::Evict(Evict {
            logged_ms: self.around.unix_ms,
            head_seq,
            new_head_seq,
            batch_id,
            summary_rev: self.after.queue_head_summary.revision,
            evicted_count: logged,
        }));
        self.untold = Some(Untold { flush, before_occupancy: occupancy, details, cap });
        Ok(Flushed::Done)
    }

    /// Reports the eviction, if any, in the answer and in the events. The report must follow all
    /// other steps of the change, because dropped notices and a captured result change the reported
    /// occupancy.
    pub(super) fn tell_flush(&mut self) {
        let Some(Untold { flush, before_occupancy, mut details, cap }) = self.untold.take() else {
            return;
        };
        let Some(evict) = self.eviction() else { return };
        let after = tokens(&self.after);
        let batch_id = evict.batch_id.clone();
        let summary_rev = evict.summary_rev;
        let report = json!({
            "evicted_count": evict.evicted_count, "evicted_batch_id": batch_id,
            "first_seq": evict.head_seq, "last_seq": evict.new_head_seq - 1,
            "new_summary_tokens": after[Section::Summary], "after_occupancy": after.occupancy,
            "target_reached": after.occupancy <= flush.target,
        });
        let mut flush_details = report.clone();
        let mut told = report;
        if let Some(reason) = details.get(DEGRADED) {
            told[DEGRADED] = reason.clone();
        }
        self.envelope.insert("flush".into(), told);
        flush_details["before_occupancy"] = before_occupancy.into();
        flush_details["target"] = flush.target.into();
        flush_details["summary_rev"] = summary_rev.into();
        for measure in MEASURES {
            if let Some(value) = details.get(measure) {
                flush_details[measure] = value.clone();
            }
        }
        self.event(EventType::Flush, flush_details);
        if flush.summarize {
            details.insert("revision".into(), summary_rev.into());
            details.insert("tokens".into(), after[Section::Summary].into());
            details.insert("tokens_max".into(), cap.into());
            details.insert("evicted_batch_id".into(), batch_id.into());
            self.event(EventType::Summarize, Value::Object(details));
        }
    }

    /// Adds edges from the new summary to the first evicted message and to the previous summary.
    /// The first evicted message represents all evicted messages, because their entries in recall
    /// storage contain the eviction's id.
    pub(super) fn fold(&mut self, leaving: &[Message], batch_id: &str) {
        let summary = &self.after.queue_head_summary;
        let Some(kept) = &summary.kept else { return };
        let from = format!("core_versions/{kept}");
        let first = leaving.iter().find(|m| m.kind.logged() && !m.is_frame());
        let first = first.map(|m| format!("messages/{}", m.key));
        let before = self.before.queue_head_summary.kept.as_ref();
        let before = before.map(|kept| format!("core_versions/{kept}"));
        let seq = |message: Option<&Message>| message.map_or(0, |m| m.seq);
        let edges = first.into_iter().chain(before).map(|to| SummaryEdge {
            key: joined_key(&from, &to),
            from: from.clone(),
            to,
            agent_id: self.after.agent_id.clone(),
            summary_rev: summary.revision,
            evicted_batch_id: batch_id.to_owned(),
            first_seq: seq(leaving.first()),
            last_seq: seq(leaving.last()),
        });
        let edges: Vec<Part> = edges.map(Part::Fold).collect();
        self.parts.extend(edges);
    }

    /// Returns a change that evicts only the first messages of a flush that is too large for one
    /// transaction. `cap` is the number of tokens that the whole flush leaves for the summary. A
    /// larger summary in one part of the flush would make the rest of the flush fail.
    fn part(
        &self,
        flush: Flush,
        answers: &Answers,
        queue: &[Message],
        leave: usize,
        cap: u64,
    ) -> Result<Flushed, Stop> {
        let stored = queue.len() - self.messages.iter().filter(|m| m.kind.queued()).count();
        let mut part = Draft::new(self.around, &self.before);
        let stands = || answers.queue.iter().flatten().filter(|m| m.kind.queued());
        let leaving: u64 = stands().take(leave).map(|m| m.token_estimate).sum();
        let stays = stands().nth(leave).map_or(self.before.queue.next_seq, |m| m.seq);
        let waiting = self.before.open_calls.iter().flatten().filter(|call| call.seq >= stays);
        let waiting: u64 = waiting.map(|call| call.token_estimate).sum();
        let kept_tokens = self.before.queue.tokens.saturating_sub(leaving) + waiting;
        let found = Plan { leave, kept_tokens, target_reached: false };
        let before = tokens(&part.before);
        let opening = opening_tokens(&self.before);
        let fixed = before.without(&CHANGED) - before[Section::Notices] + opening;
        let cap = cap
            .min(summary_tokens_max(self.before.context_window))
            .min(self.before.token_budget.max.saturating_sub(fixed + kept_tokens))
            .max(summary_tokens_min(&self.before));
        part.evict(flush, answers, &queue[..stored], &found, cap, before.occupancy)?;
        part.give_way();
        part.tell_flush();
        part.audit(&before, None);
        Ok(Flushed::Part(Box::new(part.close(Map::new()))))
    }

    /// Returns the queue's messages as input for the eviction plan. The cost of a message with an
    /// open call (a tool call without a result) includes the placeholder for the missing result.
    fn items(&self, queue: &[Message]) -> Vec<QueueItem> {
        let mut items: Vec<QueueItem> = queue.iter().map(QueueItem::from).collect();
        for call in self.after.open_calls.iter().flatten() {
            if let Ok(at) = items.binary_search_by_key(&call.seq, |item| item.seq) {
                items[at].tokens += call.token_estimate;
            }
        }
        items
    }

    fn queue_with_new(&self, stored: &[Message]) -> Result<Vec<Message>> {
        let counted = stored.iter().filter(|m| m.kind.queued()).count() as u64;
        if counted != self.before.queue.count {
            return Err(Error::new(
                Code::Internal,
                "the queue and its count disagree: run `vctx verify`",
            )
            .with("counted", counted)
            .with("expected", self.before.queue.count));
        }
        let recounts = self.parts.iter().filter_map(|part| match part {
            Part::Recount(recounts) => Some(recounts),
            _ => None,
        });
        let recounted: BTreeMap<&str, &Recount> =
            recounts.flatten().map(|recount| (recount.key.as_str(), recount)).collect();
        let mut queue: Vec<Message> =
            stored.iter().chain(&self.messages).filter(|m| m.kind.queued()).cloned().collect();
        for message in &mut queue {
            if let Some(recount) = recounted.get(message.key.as_str()) {
                message.token_estimate = recount.token_estimate;
                message.frame_tokens = recount.frame_tokens;
            }
        }
        queue.retain(|m| m.forgotten_at.is_none() || m.frame_tokens > 0);
        Ok(queue)
    }

    fn summary_question(
        &self,
        of: (u64, u64, u64, u64),
        leaving: &[Message],
        may_wait: bool,
    ) -> Question {
        let frame = self.summary_frame();
        let cap = of.3;
        let is_tight = cap < summary_tokens_max(self.after.context_window);
        let least = if is_tight { summary_tokens_min(&self.before) } else { 0 };
        let tokens = least.saturating_sub(frame)..=cap.saturating_sub(frame);
        let lines = self.lines_of(leaving);
        let previous = self.before.queue_head_summary.content.clone();
        let by = if may_wait { SummaryWriter::Any } else { SummaryWriter::Local };
        Question::Summary { of, previous, lines, tokens, by }
    }

    /// Returns the tokens that a summary costs in addition to its text.
    pub(super) fn summary_frame(&self) -> u64 {
        let counter = self.around.counter;
        summary_cost(counter, self.after.form, "x") - counter.count("x")
    }

    /// Returns the lines from which a summary of messages is made. Texts from outside are left out,
    /// because every later prompt contains the summary, without a mark of where its parts come
    /// from.
    pub(super) fn lines_of(&self, messages: &[Message]) -> Vec<Line> {
        let zone = self.zone().unwrap_or(TimeZone::UTC);
        let line = |message: &Message| Line {
            seq: message.seq,
            day: time_of_message(message, &zone).date(),
            speaker: speaker(message),
            text: message.content.clone(),
        };
        let told = |m: &&Message| m.kind.logged() && !m.is_frame() && !shows_outside(m);
        messages.iter().filter(told).map(line).collect()
    }

    /// Stores a summary, truncated to its maximum size. If nothing of the new text fits, the old
    /// summary remains and the function returns false.
    pub(super) fn take_summary(&mut self, content: &str, cap: u64, first: Option<u64>) -> bool {
        let counter = self.around.counter;
        let old = &self.before.queue_head_summary;
        let form = self.after.form;
        let (mut text, mut token_estimate) = cut_to(counter, form, content, cap);
        let is_new = !text.is_empty();
        if !is_new {
            (text, token_estimate) = cut_to(counter, form, &old.content, cap);
        }
        let first_seq = match old.content.is_empty() {
            true => first,
            false => old.first_seq,
        };
        self.after.queue_head_summary = Summary {
            escaped: has_block_markup(&text),
            content: text,
            token_estimate,
            revision: old.revision + 1,
            changed_at_version: self.after.version,
            kept: Some(version_key(&self.after.agent_id, self.after.version)),
            first_seq,
        };
        is_new
    }
}

/// Truncates a text at line ends until its rendered cost is at most `cap` tokens. Returns the
/// truncated text and its cost.
pub(super) fn cut_to(
    counter: &dyn TokenCounter,
    form: Form,
    content: &str,
    cap: u64,
) -> (String, u64) {
    let mut text = content.trim().to_owned();
    let mut cost = summary_cost(counter, form, &text);
    let mut tries = 0;
    while cost > cap && !text.is_empty() {
        tries += 1;
        text = if tries > SUMMARY_TRIES_MAX { String::new() } else { shortened(&text, cost, cap) };
        cost = summary_cost(counter, form, &text);
    }
    (text, cost)
}

/// Returns whether a flush without a new summary lost text. Text is lost if there was an old
/// summary, which no new summary continues, or if the evicted messages contained words. The drift
/// measures compare evicted text with a new summary, so they cannot detect this loss.
fn lost(old: &Summary, details: &Map<String, Value>) -> bool {
    let drift = details.get("information_drift").and_then(Value::as_f64);
    !old.content.is_empty() || drift.is_some_and(|drift| drift > 0.0)
}

fn speaker(message: &Message) -> String {
    let name = message.meta.get("name").and_then(Value::as_str);
    name.unwrap_or(message.role.text()).to_owned()
}

/// Returns the number of messages that an already written summary covers, if the plan now evicts
/// more messages. This is so if the queue grew while a slow model wrote the summary. In this case,
/// only the covered messages are evicted, and the answer reports whether the eviction met its
/// target. Returns `None` if this split would separate a call from a result that arrived in the
/// meantime.
fn answered_cut(
    answers: &Answers,
    core: &Core,
    items: &[QueueItem],
    leave: usize,
) -> Option<usize> {
    let (head_seq, new_head_seq, revision, _) = answers.summary.as_ref()?.of;
    if head_seq != core.queue.head_seq || revision != core.queue_head_summary.revision {
        return None;
    }
    let cut = items.iter().position(|item| item.seq == new_head_seq)?;
    (cut > 0 && cut < leave && allowed_cuts(items, false)[cut]).then_some(cut)
}

/// Returns how many of the queue's first messages leave with the next part, or `None` if all
/// messages that the plan evicts leave together. A part has at most `batch` messages. The queue is
/// split only at a position that separates no call from its result.
fn too_much_for_one(items: &[QueueItem], leave: usize, batch: usize) -> Option<usize> {
    let mut bytes = 0;
    let mut fits = 0;
    for item in &items[..leave] {
        bytes += item.bytes;
        if fits >= batch || (bytes > EVICT_BYTES_MAX && fits > 0) {
            break;
        }
        fits += 1;
    }
    (fits < leave).then(|| whole_pairs(items, fits, leave))
}

/// Moves a split position of the queue back until it separates no call from its result. If no
/// earlier position is allowed, all messages that the plan evicts leave together.
fn whole_pairs(items: &[QueueItem], fits: usize, leave: usize) -> usize {
    let allowed = allowed_cuts(items, false);
    (1..=fits).rev().find(|&cut| allowed[cut]).unwrap_or(leave)
}

/// Returns a text truncated to slightly less than `cap / cost` of its length, at a line end if
/// there is one.
fn shortened(text: &str, cost: u64, cap: u64) -> String {
    let share = usize::try_from(cap.saturating_mul(95) / cost.max(1)).unwrap_or(0);
    let mut end = text.len() * share.min(100) / 100;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let cut = &text[..end];
    cut.rfind('\n').map_or(cut, |at| &cut[..at]).trim_end().to_owned()
}
