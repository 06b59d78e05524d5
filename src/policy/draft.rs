//! A change in the making: what a tool did to the core, then what the budget makes of it (notice, eviction, refusal).

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Map, Value, json};

use super::admit::{Actor, Scope};
use super::budget::{Tokens, budget_for, summary_tokens_max, tokens};
use super::evict::{Item, Plan, allowed_cuts, plan};
use super::heartbeat::{self, Intent, Outcome};
use super::notices::{self, PRESSURE, SPOOL};
use super::page::new_page;
use super::pins::check_pins;
use super::question::{Answers, Line, Question};
use crate::clock::iso8601;
use crate::error::{Code, Error, Result};
use crate::ids::Ids;
use crate::limits::{EVICT_BYTES_MAX, EVICT_ROWS_MAX, REVISIONS_KEPT, SUMMARY_TRIES_MAX};
use crate::memory::Fingerprint;
use crate::memory::archive::{Fate, Ingest, Manifest};
use crate::memory::change::{Change, Evict, RecallEdge, Recount};
use crate::memory::core::{Core, RemovedBlock, Summary};
use crate::memory::event::{Event, EventType};
use crate::memory::heartbeat::{ClosedBy, EndedChain};
use crate::memory::message::{Kind, Message, Role, copied_meta, rendered};
use crate::memory::page::{Page, PageItem};
use crate::memory::render;
use crate::memory::tokens::{TokenCounter, message_cost};

/// What a decision may lean on beside the core: a counter, a moment, ids, and who asks.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Counts in the agent's encoding.
    pub counter: &'a dyn TokenCounter,
    /// Server time in milliseconds.
    pub unix_ms: u64,
    /// Keys and salts.
    pub ids: &'a dyn Ids,
    /// Whose memory.
    pub scope: &'a Scope,
    /// Who asks.
    pub actor: &'a Actor,
    /// The tool's name.
    pub tool: &'static str,
    /// What the configured embedder's vectors are.
    pub embedder: &'a Fingerprint,
    /// What the vectors of the embedder are that the archive is to change to, or has changed to; none if none is configured.
    pub next_embedder: Option<&'a Fingerprint>,
    /// Hash of the idempotency key, for the audit row.
    pub key_hash: &'a str,
}

/// An excerpt of a message, or all of it; all of it too where the range does not fit its text.
pub fn part_of<'m>(message: &'m Message, excerpt: Option<&Range<usize>>) -> &'m str {
    excerpt.and_then(|range| message.content.get(range.clone())).unwrap_or(&message.content)
}

/// How a draft ends.
#[derive(Debug)]
pub enum Finish {
    /// Something must be known first.
    Ask(Question),
    /// To be written.
    Write(Box<Change>),
    /// A first part of an eviction, to be written alone before the call is thought anew.
    Part(Box<Change>),
}

/// How the eviction inside a draft is steered.
#[derive(Clone, Copy, Debug)]
pub struct Flush {
    /// Evict even below the flush threshold (an explicit `evict_fifo`).
    pub always: bool,
    /// Occupancy to reach.
    pub target: u64,
    /// Whether the summary takes up what leaves.
    pub summarize: bool,
    /// Whether the caller may wait for a model.
    pub may_wait: bool,
}

/// A change in the making.
pub struct Draft<'a> {
    pub(super) around: Surroundings<'a>,
    before: Core,
    /// The core as the tool wants it.
    pub after: Core,
    messages: Vec<Message>,
    recall: Vec<RecallEdge>,
    recount: Vec<Recount>,
    evict: Option<Evict>,
    ingest: Option<Box<Ingest>>,
    events: Vec<Event>,
    pages: Vec<Page>,
    /// Whether a spool notice was set here: it then outlives this very change.
    pub(super) spooled: bool,
    envelope: Map<String, Value>,
    intent: Option<Intent>,
    /// What this call did to the chain, for its answer.
    heartbeat: Map<String, Value>,
}

impl<'a> Draft<'a> {
    /// Starts from a loaded core.
    pub fn new(around: Surroundings<'a>, core: &Core) -> Self {
        let mut after = core.clone();
        after.version += 1;
        after.updated_at = iso8601(around.unix_ms);
        if !core.rev.is_empty() {
            after.recent_revisions.push(&core.rev, core.version, REVISIONS_KEPT);
        }
        Self {
            around,
            before: core.clone(),
            after,
            messages: Vec::new(),
            recall: Vec::new(),
            recount: Vec::new(),
            evict: None,
            ingest: None,
            events: Vec::new(),
            pages: Vec::new(),
            spooled: false,
            envelope: Map::new(),
            intent: None,
            heartbeat: Map::new(),
        }
    }

    /// The version this draft will be.
    pub fn version(&self) -> u64 {
        self.after.version
    }

    /// Puts a message at the end of the number line (and of the queue, if its kind stands there); returns its key and cost.
    pub fn push(
        &mut self,
        kind: Kind,
        role: Role,
        content: String,
        meta: Map<String, Value>,
    ) -> (String, u64) {
        self.place(kind, role, content, meta, None)
    }

    /// Puts a copy of a message back at the end of the queue, marked as one; it is counted there, and never logged again when
    /// it leaves. Returns its seq and cost. Of an excerpt only those bytes are copied.
    pub fn copy(&mut self, original: &Message, excerpt: Option<&Range<usize>>) -> (u64, u64) {
        let meta = copied_meta(original, excerpt);
        let content = part_of(original, excerpt).to_owned();
        let copy_of = Some(original.key.clone());
        let (_, cost) = self.place(Kind::Copy, original.role, content, meta, copy_of);
        (self.after.queue.next_seq - 1, cost)
    }

    /// What a copy of a message would cost.
    pub fn copy_cost(&self, original: &Message, excerpt: Option<&Range<usize>>) -> u64 {
        let meta = copied_meta(original, excerpt);
        let rendered = rendered(original.role, part_of(original, excerpt), &meta);
        message_cost(self.around.counter, &rendered)
    }

    fn place(
        &mut self,
        kind: Kind,
        role: Role,
        content: String,
        meta: Map<String, Value>,
        copy_of: Option<String>,
    ) -> (String, u64) {
        let created_ms = self.around.unix_ms.max(self.after.last_message_ms + 1);
        let token_estimate = message_cost(self.around.counter, &rendered(role, &content, &meta));
        let mut message = Message {
            key: self.around.ids.key(),
            agent_id: self.after.agent_id.clone(),
            seq: self.after.queue.next_seq,
            kind,
            role,
            content,
            meta,
            token_estimate,
            created_at: iso8601(created_ms),
            copy_of,
            salt: self.around.ids.salt(),
            digest: String::new(),
            chain: String::new(),
        };
        message.seal(&self.after.chain.head);
        self.after.last_message_ms = created_ms;
        self.after.chain.head.clone_from(&message.chain);
        self.after.chain.length += 1;
        self.after.queue.next_seq += 1;
        self.after.queue.changed_at_version = self.after.version;
        if kind.queued() {
            self.after.queue.count += 1;
            self.after.queue.tokens += token_estimate;
        }
        self.envelope.insert(
            "receipt".into(),
            json!({"seq": message.seq, "digest": message.digest, "chain": message.chain}),
        );
        let key = message.key.clone();
        self.messages.push(message);
        (key, token_estimate)
    }

    /// Puts a message straight into recall storage; returns its key and cost.
    pub fn record(
        &mut self,
        role: Role,
        content: String,
        meta: Map<String, Value>,
    ) -> (String, u64) {
        self.entry(Kind::Recall, role, content, meta)
    }

    /// A message of a kind that lies in recall storage and never stands in the queue.
    pub(super) fn entry(
        &mut self,
        kind: Kind,
        role: Role,
        content: String,
        meta: Map<String, Value>,
    ) -> (String, u64) {
        let (key, cost) = self.push(kind, role, content, meta);
        let message = self.messages.last().expect("just pushed");
        self.recall.push(RecallEdge {
            key: message.key.clone(),
            from: format!("core_memory/{}", message.agent_id),
            to: format!("messages/{}", message.key),
            seq: message.seq,
            created_at: message.created_at.clone(),
            logged_ms: self.around.unix_ms,
            payload: json!({"role": message.role, "content": message.content, "meta": message.meta,
                "token_estimate": message.token_estimate}),
            evicted_batch_id: None,
            summary_rev: self.after.queue_head_summary.revision,
        });
        (key, cost)
    }

    /// Takes a document into the archive, in the place of the one that the old manifest describes, or takes that one away.
    pub fn archive(&mut self, ingest: Ingest, old: Option<&Manifest>) {
        let archived = &mut self.after.archived;
        let (documents, chunks) = match ingest.fate {
            Fate::Removed => (0, 0),
            Fate::New | Fate::Replaces => (1, ingest.manifest.chunks),
        };
        let (old_documents, old_chunks) = old.map_or((0, 0), |old| (1, old.chunks));
        archived.documents = archived.documents.saturating_sub(old_documents) + documents;
        archived.chunks = archived.chunks.saturating_sub(old_chunks) + chunks;
        self.ingest = Some(Box::new(ingest));
    }

    /// Keeps a result list for a while; returns it, for its tokens.
    pub fn keep_page(&mut self, query_hash: &str, items: Vec<PageItem>) -> &Page {
        self.pages.push(new_page(&self.around, query_hash, items));
        self.pages.last().expect("just pushed")
    }

    /// Takes a block away. That it went is remembered as long as a revision is that may have seen it.
    pub fn remove_block(&mut self, id: &str) {
        self.after.working_blocks.retain(|b| b.id != id);
        let oldest = self.after.recent_revisions.oldest_version();
        self.after.removed_blocks.retain(|b| b.id != id && b.version > oldest);
        let version = self.after.version;
        self.after.removed_blocks.push(RemovedBlock { id: id.to_owned(), version });
    }

    /// Takes over new counts of queue messages, after a change of encoding.
    pub fn recounted(&mut self, recount: Vec<Recount>, queue_tokens: u64) {
        self.recount = recount;
        self.after.queue.tokens = queue_tokens;
        self.after.queue.changed_at_version = self.after.version;
    }

    /// Adds a row to the events.
    pub fn event(&mut self, kind: EventType, details: Value) {
        let details = match details {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        let (agent_id, ts) = (self.after.agent_id.clone(), self.after.updated_at.clone());
        self.events.push(Event { kind, details, agent_id, ts });
    }

    /// A beat of the agent's chain, weighed when everything else of this call is decided: on what the window then has left.
    /// The answer's `heartbeat` tells what became of it.
    pub fn beat(&mut self, intent: Intent) {
        self.intent = Some(intent);
    }

    /// A beat that is weighed now, for a call that does nothing else. `note` names it in its events.
    pub fn beat_now(&mut self, intent: Intent, note: Option<&str>) -> Outcome {
        let free = tokens(&self.after).free;
        let (ids, now) = (self.around.ids, self.around.unix_ms);
        let outcome = heartbeat::beat(&mut self.after.heartbeat, now, free, intent, || ids.key());
        self.heartbeat = heartbeat::outcome_fields(&outcome);
        match &outcome {
            Outcome::Granted { chain, first: true, depth, .. } => {
                self.chain_started(chain, *depth, note);
            }
            Outcome::Ended { chain, first } => {
                if *first {
                    self.chain_started(&chain.id, chain.depth, note);
                }
                self.chain_ended(chain, note);
            }
            Outcome::Granted { .. }
            | Outcome::Idle
            | Outcome::Limited { .. }
            | Outcome::Cooling { .. } => {}
        }
        outcome
    }

    /// Something happened outside: a chain that runs ends here, and the next beat starts another.
    pub fn interrupt_chain(&mut self) {
        if let Some(chain) = heartbeat::interrupt(&mut self.after.heartbeat, self.around.unix_ms) {
            self.end_of_chain(chain);
        }
    }

    /// Ends a chain that outlived its cap; true if there was one.
    pub fn bury_chain(&mut self, closed_by: ClosedBy) -> bool {
        let (state, now) = (&mut self.after.heartbeat, self.around.unix_ms);
        let dead = heartbeat::bury(state, now, closed_by);
        let found = dead.is_some();
        if let Some(chain) = dead {
            self.end_of_chain(chain);
        }
        found
    }

    fn end_of_chain(&mut self, chain: EndedChain) {
        self.chain_ended(&chain, None);
        self.heartbeat = heartbeat::outcome_fields(&Outcome::Ended { chain, first: false });
        self.heartbeat.remove("granted");
    }

    fn chain_started(&mut self, chain: &str, depth: u64, note: Option<&str>) {
        let free = tokens(&self.after).free;
        let details = json!({"chain": chain, "chain_depth": depth, "duration_ms": 0, "tokens_remaining": free,
            "limits": self.after.heartbeat.limits, "tool": self.around.tool, "note": note});
        self.event(EventType::HbStart, details);
    }

    fn chain_ended(&mut self, chain: &EndedChain, note: Option<&str>) {
        let free = tokens(&self.after).free;
        let details = json!({"chain": chain.id, "chain_depth": chain.depth, "duration_ms": chain.duration_ms,
            "tokens_remaining": free, "reason": chain.reason, "closed_by": chain.closed_by,
            "tool": self.around.tool, "note": note});
        self.event(EventType::HbEnd, details);
    }

    /// Sets size-dependent numbers anew, after a change of the window.
    pub fn rebudget(&mut self) {
        self.after.token_budget = budget_for(self.after.context_window);
        render::recount(self.around.counter, &mut self.after);
    }

    /// Lets the budget have its say, and closes the draft: notice on an upward crossing, eviction from the flush threshold
    /// on, refusal of what cannot fit even then. `result` is the tool's own answer.
    pub fn finish(
        mut self,
        flush: Flush,
        answers: &Answers,
        result: Map<String, Value>,
    ) -> Result<Finish> {
        check_pins(&self.after)?;
        let before = tokens(&self.before);
        self.settle_notices(before.occupancy);
        let now = tokens(&self.after);
        let grew =
            now.occupancy > before.occupancy || self.after.token_budget != self.before.token_budget;
        let over = now.occupancy >= self.after.token_budget.flush && grew;
        let wanted = if flush.always { now.occupancy > flush.target } else { over };
        if wanted && self.after.queue.count > 0 {
            match self.flush(flush, answers, &now)? {
                Flushed::Ask(question) => return Ok(Finish::Ask(question)),
                Flushed::Part(change) => return Ok(Finish::Part(change)),
                Flushed::Done => {}
            }
        } else if flush.always {
            self.envelope.insert("flush".into(), Value::Null);
        }
        self.give_way();
        self.refuse_overflow()?;
        if let Some(intent) = self.intent.take() {
            self.beat_now(intent, None);
        }
        self.bury_chain(ClosedBy::Write);
        let found = self.count_search(&result);
        self.audit(&before, found);
        Ok(Finish::Write(Box::new(self.close(result))))
    }

    fn close(mut self, result: Map<String, Value>) -> Change {
        let free = tokens(&self.after).free;
        let mut heartbeat = heartbeat::report(&self.after.heartbeat, self.around.unix_ms, free);
        heartbeat.extend(self.heartbeat);
        self.envelope.insert("heartbeat".into(), Value::Object(heartbeat));
        Change {
            before: self.before,
            after: self.after,
            messages: self.messages,
            recall: self.recall,
            evict: self.evict,
            ingest: self.ingest,
            recount: self.recount,
            events: self.events,
            pages: self.pages,
            result,
            envelope: self.envelope,
        }
    }

    /// Sets the pressure notice on an upward crossing of the warning threshold and drops it below; a spool notice goes when
    /// occupancy falls below.
    fn settle_notices(&mut self, occupancy_before: u64) {
        let budget = self.after.token_budget;
        if self.fell() {
            notices::drop_kind(&mut self.after, SPOOL);
        }
        let bare = tokens(&self.after).occupancy - notices::cost(&self.after, PRESSURE);
        let was_under = occupancy_before < self.before.token_budget.warning;
        let stands = notices::stands(&self.after, PRESSURE);
        if bare < budget.warning {
            notices::drop_kind(&mut self.after, PRESSURE);
        } else if !stands || self.after.token_budget != self.before.token_budget {
            let notice = notices::pressure_notice(self.around.counter, &self.after);
            notices::set(&mut self.after, notice);
            if was_under && !stands {
                self.after.counters.warnings += 1;
                let details = json!({"occupancy": tokens(&self.after).occupancy, "threshold": budget.warning,
                    "context_window": self.after.context_window});
                self.event(EventType::Warning, details);
            }
        }
    }

    /// Whether the window, its notices aside, went from above the warning threshold to below it, and no result was spooled
    /// by this very change.
    fn fell(&self) -> bool {
        let bare = |core: &Core| {
            let now = tokens(core);
            now.occupancy - now.notices
        };
        !self.spooled
            && bare(&self.before) >= self.before.token_budget.warning
            && bare(&self.after) < self.after.token_budget.warning
    }

    /// Cost of the notices that go with an eviction to below the warning threshold.
    fn passing_notices(&self) -> u64 {
        let spool = if self.spooled { 0 } else { notices::cost(&self.after, SPOOL) };
        notices::cost(&self.after, PRESSURE) + spool
    }

    fn flush(&mut self, flush: Flush, answers: &Answers, now: &Tokens) -> Result<Flushed> {
        let head_seq = self.before.queue.head_seq;
        let Some(stored) = &answers.queue else {
            return Ok(Flushed::Ask(Question::Queue { head_seq }));
        };
        let queue = self.queue_with_new(stored)?;
        let keep_last = self.messages.iter().filter(|m| m.kind.queued()).count();
        let cap = summary_tokens_max(self.after.context_window);
        // Notices go with an eviction below the warning threshold; above it, they take their room.
        let stays = flush.target >= self.after.token_budget.warning;
        let notices = now.notices - if stays { 0 } else { self.passing_notices() };
        let fixed = now.system + now.working + notices;
        let reserve = if flush.summarize { cap } else { now.summary };
        let items: Vec<Item> = queue.iter().map(Item::from).collect();
        let max = self.after.token_budget.max;
        let mut found = plan(&items, fixed + reserve, flush.target, max, keep_last);
        let answered = answered_cut(answers, &self.before, &queue, found.leave);
        if let Some(leave) = too_much_for_one(&items, found.leave)
            && answered.is_none_or(|cut| cut == leave)
        {
            // No part is made for a call that is refused in the end.
            let least = now.system + now.working + found.kept_tokens;
            if least > max {
                return Err(overflow(least, max));
            }
            return self.part(flush, answers, &queue, leave);
        }
        if let Some(leave) = answered {
            let kept_tokens = items[leave..].iter().map(|i| i.tokens).sum();
            found = Plan { leave, kept_tokens, target_reached: false };
        }
        if found.leave == 0 {
            return Ok(Flushed::Done);
        }
        let room = max.saturating_sub(fixed + found.kept_tokens);
        self.evict(flush, answers, &queue, &found, cap.min(room), now.occupancy)
    }

    /// Takes the plan's messages out of the queue and folds them into the summary.
    fn evict(
        &mut self,
        flush: Flush,
        answers: &Answers,
        queue: &[Message],
        found: &Plan,
        cap: u64,
        occupancy: u64,
    ) -> Result<Flushed> {
        let leaving = &queue[..found.leave];
        let head_seq = self.before.queue.head_seq;
        let new_head_seq = queue.get(found.leave).map_or(self.after.queue.next_seq, |m| m.seq);
        let mut details = Map::new();
        if flush.summarize {
            let of = (head_seq, new_head_seq, self.before.queue_head_summary.revision, cap);
            let Some(summary) = answers.summary.as_ref().filter(|s| s.of == of) else {
                return Ok(Flushed::Ask(self.summary_question(of, leaving, flush.may_wait)));
            };
            self.take_summary(&summary.content, cap);
            details.clone_from(&summary.details);
        }
        let batch_id = self.around.ids.key();
        let logged = leaving.iter().filter(|m| m.kind.logged()).count() as u64;
        self.after.queue.head_seq = new_head_seq;
        self.after.queue.count -= found.leave as u64;
        self.after.queue.tokens = found.kept_tokens;
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
        let after = tokens(&self.after);
        let summary_rev = self.after.queue_head_summary.revision;
        let report = json!({
            "evicted_count": logged, "evicted_batch_id": batch_id, "first_seq": head_seq, "last_seq": new_head_seq - 1,
            "new_summary_tokens": after.summary, "after_occupancy": after.occupancy,
            "target_reached": after.occupancy <= flush.target,
        });
        self.envelope.insert("flush".into(), report.clone());
        let mut flush_details = report;
        flush_details["before_occupancy"] = occupancy.into();
        flush_details["target"] = flush.target.into();
        flush_details["summary_rev"] = summary_rev.into();
        for measure in ["similarity", "information_drift", "random_drift", "drift_alarm", "alarm"] {
            if let Some(value) = details.get(measure) {
                flush_details[measure] = value.clone();
            }
        }
        self.event(EventType::Flush, flush_details);
        if flush.summarize {
            details.insert("revision".into(), summary_rev.into());
            details.insert("tokens".into(), after.summary.into());
            details.insert("tokens_max".into(), cap.into());
            details.insert("evicted_batch_id".into(), batch_id.as_str().into());
            self.event(EventType::Summarize, Value::Object(details));
        }
        let logged_ms = self.around.unix_ms;
        self.evict = Some(Evict {
            logged_ms,
            head_seq,
            new_head_seq,
            batch_id,
            summary_rev,
            evicted_count: logged,
        });
        Ok(Flushed::Done)
    }

    /// A change that only evicts the first messages of a flush that is too large for one transaction.
    fn part(
        &self,
        flush: Flush,
        answers: &Answers,
        queue: &[Message],
        leave: usize,
    ) -> Result<Flushed> {
        let stored = queue.len() - self.messages.iter().filter(|m| m.kind.queued()).count();
        let mut part = Draft::new(self.around, &self.before);
        let leaving: u64 = answers
            .queue
            .iter()
            .flatten()
            .filter(|m| m.kind.queued())
            .take(leave)
            .map(|m| m.token_estimate)
            .sum();
        let kept_tokens = self.before.queue.tokens.saturating_sub(leaving);
        let found = Plan { leave, kept_tokens, target_reached: false };
        let cap = summary_tokens_max(self.before.context_window);
        let before = tokens(&part.before);
        let flushed =
            part.evict(flush, answers, &queue[..stored], &found, cap, before.occupancy)?;
        if let Flushed::Ask(question) = flushed {
            return Ok(Flushed::Ask(question));
        }
        part.audit(&before, None);
        Ok(Flushed::Part(Box::new(part.close(Map::new()))))
    }

    fn queue_with_new(&self, stored: &[Message]) -> Result<Vec<Message>> {
        let counted = stored.iter().filter(|m| m.kind.queued()).count() as u64;
        if counted != self.before.queue.count {
            return Err(Error::new(
                Code::Internal,
                "queue and its count disagree: run `vctx verify`",
            )
            .with("counted", counted)
            .with("expected", self.before.queue.count));
        }
        let recounted: BTreeMap<&str, u64> =
            self.recount.iter().map(|r| (r.key.as_str(), r.token_estimate)).collect();
        let mut queue: Vec<Message> =
            stored.iter().chain(&self.messages).filter(|m| m.kind.queued()).cloned().collect();
        for message in &mut queue {
            if let Some(&cost) = recounted.get(message.key.as_str()) {
                message.token_estimate = cost;
            }
        }
        Ok(queue)
    }

    fn summary_question(
        &self,
        of: (u64, u64, u64, u64),
        leaving: &[Message],
        may_wait: bool,
    ) -> Question {
        let frame = render::summary_cost(self.around.counter, "x");
        let lines = leaving
            .iter()
            .filter(|m| m.kind.logged())
            .map(|m| Line { speaker: speaker(m), text: m.content.clone() })
            .collect();
        let previous = self.before.queue_head_summary.content.clone();
        Question::Summary { of, previous, lines, tokens_max: of.3.saturating_sub(frame), may_wait }
    }

    /// Takes a summary over, cut at line ends until its rendered cost meets the cap whatever the summariser returned.
    fn take_summary(&mut self, content: &str, cap: u64) {
        let mut text = content.trim().to_owned();
        let mut cost = render::summary_cost(self.around.counter, &text);
        let mut tries = 0;
        while cost > cap && !text.is_empty() {
            tries += 1;
            text =
                if tries > SUMMARY_TRIES_MAX { String::new() } else { shortened(&text, cost, cap) };
            cost = render::summary_cost(self.around.counter, &text);
        }
        self.after.queue_head_summary = Summary {
            content: text,
            token_estimate: cost,
            revision: self.before.queue_head_summary.revision + 1,
            changed_at_version: self.after.version,
        };
    }

    /// A notice never is the reason why something does not fit.
    fn give_way(&mut self) {
        for kind in [PRESSURE, SPOOL] {
            if tokens(&self.after).occupancy > self.after.token_budget.max {
                notices::drop_kind(&mut self.after, kind);
            }
        }
    }

    fn refuse_overflow(&self) -> Result<()> {
        let occupancy = tokens(&self.after).occupancy;
        let max = self.after.token_budget.max;
        if occupancy <= max { Ok(()) } else { Err(overflow(occupancy, max)) }
    }

    /// Counts a recall search that writes, and says how much it found; none for every other tool.
    fn count_search(&mut self, result: &Map<String, Value>) -> Option<usize> {
        if self.around.tool != "search_recall" {
            return None;
        }
        let found = result.get("results").and_then(Value::as_array).map_or(0, Vec::len);
        self.after.counters.recall_searches += 1;
        self.after.counters.recall_hits += u64::from(found > 0);
        Some(found)
    }

    /// One row for each write: who, with what, how large before and after; never text. `found`: results of a recall search.
    fn audit(&mut self, before: &Tokens, found: Option<usize>) {
        let after = tokens(&self.after);
        let notices: Vec<&str> = self.after.notices.iter().map(|n| n.kind.as_str()).collect();
        let mut details = json!({
            "tool": self.around.tool, "actor": self.around.actor, "key_hash": self.around.key_hash,
            "tokens_before": before, "tokens_after": after,
            "version_before": self.before.version, "version_after": self.after.version,
            "head_seq": self.after.queue.head_seq, "next_seq": self.after.queue.next_seq,
            "chain_head": self.after.chain.head, "notices": notices,
            "policy": self.after.token_budget, "encoding": self.after.encoding,
        });
        if let Some(found) = found {
            details["found"] = found.into();
        }
        if let Some(ingest) = &self.ingest {
            let manifest = &ingest.manifest;
            details["ingest"] = match ingest.fate {
                Fate::Removed => {
                    json!({"manifest": manifest.key, "removed_chunks": manifest.chunks})
                }
                Fate::New | Fate::Replaces => {
                    json!({"manifest": manifest.key, "revision": manifest.revision,
                        "offered_chunks": manifest.chunks, "compliant_chunks": manifest.chunks})
                }
            };
        }
        self.event(EventType::Audit, details);
    }
}

enum Flushed {
    Ask(Question),
    Part(Box<Change>),
    Done,
}

fn overflow(occupancy: u64, max: u64) -> Error {
    let short = occupancy - max;
    Error::new(
        Code::TokenBudgetExceeded,
        format!("short of {short} tokens in a window of {max}: shorten the text or free a block"),
    )
    .with("required_headroom", short)
    .with("occupancy", occupancy)
    .with("max", max)
}

fn speaker(message: &Message) -> String {
    let name = message.meta.get("name").and_then(Value::as_str);
    name.unwrap_or(message.role.text()).to_owned()
}

/// A summary that took long may have been asked for a shorter cut than would be made now, since the queue grew meanwhile.
/// It still stands for what it was asked for, so that cut is made: the answer says whether the target is met.
fn answered_cut(answers: &Answers, core: &Core, queue: &[Message], leave: usize) -> Option<usize> {
    let (head_seq, new_head_seq, revision, _) = answers.summary.as_ref()?.of;
    if head_seq != core.queue.head_seq || revision != core.queue_head_summary.revision {
        return None;
    }
    let cut = queue.iter().position(|m| m.seq == new_head_seq)?;
    (cut > 0 && cut < leave).then_some(cut)
}

/// The first messages that fit one transaction, if the plan takes more; the cut lies where the plan may cut.
fn too_much_for_one(items: &[Item], leave: usize) -> Option<usize> {
    let mut bytes = 0;
    let mut fits = 0;
    for item in &items[..leave] {
        bytes += item.bytes;
        if fits >= EVICT_ROWS_MAX || (bytes > EVICT_BYTES_MAX && fits > 0) {
            break;
        }
        fits += 1;
    }
    (fits < leave).then(|| whole_pairs(items, fits, leave))
}

/// Moves a cut back to where no call is parted from its result; forward when there is no such place.
fn whole_pairs(items: &[Item], fits: usize, leave: usize) -> usize {
    let allowed = allowed_cuts(items, false);
    (1..=fits).rev().find(|&cut| allowed[cut]).unwrap_or(leave)
}

/// A text cut to about `cap / cost` of its length, at a line end if there is one.
fn shortened(text: &str, cost: u64, cap: u64) -> String {
    let share = usize::try_from(cap.saturating_mul(95) / cost.max(1)).unwrap_or(0);
    let mut end = text.len() * share.min(100) / 100;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let cut = &text[..end];
    cut.rfind('\n').map_or(cut, |at| &cut[..at]).trim_end().to_owned()
}
