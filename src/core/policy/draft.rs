//! A change in the making: what a tool did to the core, then what the budget makes of it (notice, eviction, refusal).

mod capture;
mod chain;
mod flush;
mod forget;
mod pairing;
mod promote;
mod prompt;

use std::mem;
use std::ops::Range;

use serde_json::{Map, Value, json};

use self::flush::{Flushed, Untold};
pub use self::promote::{Promoted, Promotion};
pub use self::prompt::Outcome as PromptOutcome;
use super::admit::{Actor, Scope};
use super::budget::{Tokens, budget_for, tokens};
use super::heartbeat::{self, Intent};
use super::notices::{self, PRESSURE, SPOOL};
use super::page::new_page;
use super::pins::check_pins;
use super::question::{Answers, Question};
use super::retention::Due;
use super::taint::{TaintMode, from_outside, rules_of};
use super::wording::{TEXT, Wording};
use crate::clock::iso8601;
use crate::error::{Code, Error, Result};
use crate::ids::Ids;
use crate::limits::{CAPTURED_TRIES_MAX, REVISIONS_KEPT};
use crate::memory::Fingerprint;
use crate::memory::archive::{Fate, FoundPassage, Ingest, Manifest};
use crate::memory::capture::Capture;
use crate::memory::change::{Change, Evict, Expire, Forget, RecallEdge, Recount};
use crate::memory::core::{Core, RemovedBlock};
use crate::memory::event::{Event, EventType};
use crate::memory::heartbeat::ClosedBy;
use crate::memory::joined::{Cite, Folded, cited_digest, joined_key};
use crate::memory::message::{
    Kind, Message, Role, TAINT, copied_meta, rendered, taint_mark, tainted,
};
use crate::memory::page::{Page, PageItem};
use crate::memory::prompt::ToolSet;
use crate::memory::render;
use crate::memory::schedule::Fired;
use crate::memory::thread::Place;
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
    /// How the caller is told what came of it, if the call came under another name than ours.
    pub wording: Option<&'a dyn Wording>,
    /// Hash of tool and arguments, of a call that counts when a chain goes in circles; empty for every other.
    pub asked: &'a str,
    /// How the result is to stand in the queue, of a call that is captured.
    pub capture: Option<&'a Capture>,
    /// What is done about tainted text.
    pub taint: TaintMode,
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
#[derive(Clone)]
pub struct Draft<'a> {
    pub(super) around: Surroundings<'a>,
    before: Core,
    /// The core as the tool wants it.
    pub after: Core,
    messages: Vec<Message>,
    recall: Vec<RecallEdge>,
    recount: Vec<Recount>,
    evict: Option<Evict>,
    untold: Option<Untold>,
    expire: Option<Expire>,
    forget: Option<Box<Forget>>,
    cites: Vec<Cite>,
    folded: Vec<Folded>,
    ingest: Option<Box<Ingest>>,
    fired: Option<Fired>,
    events: Vec<Event>,
    pages: Vec<Page>,
    prompts: Vec<Value>,
    tool_sets: Vec<ToolSet>,
    /// What the audit tells of tainted text that came into the core with a justification, or out of quarantine.
    let_in: Option<(&'static str, Value)>,
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
        render::settle_old(around.counter, &mut after);
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
            untold: None,
            expire: None,
            forget: None,
            cites: Vec::new(),
            folded: Vec::new(),
            ingest: None,
            fired: None,
            events: Vec::new(),
            pages: Vec::new(),
            prompts: Vec::new(),
            tool_sets: Vec::new(),
            let_in: None,
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
        let meta = self.copy_meta(original, excerpt);
        let content = part_of(original, excerpt).to_owned();
        let copy_of = Some(original.key.clone());
        let (_, cost) = self.place(Kind::Copy, original.role, content, meta, copy_of);
        (self.after.queue.next_seq - 1, cost)
    }

    /// What a copy of a message would cost.
    pub fn copy_cost(&self, original: &Message, excerpt: Option<&Range<usize>>) -> u64 {
        let meta = self.copy_meta(original, excerpt);
        let rendered = rendered(original.role, part_of(original, excerpt), &meta);
        message_cost(self.around.counter, &rendered)
    }

    /// What a copy keeps of a message, with the mark of what is tainted: the message's own, or, of one that was appended before there were
    /// marks, one like it.
    fn copy_meta(&self, original: &Message, excerpt: Option<&Range<usize>>) -> Map<String, Value> {
        let mut meta = copied_meta(original, excerpt);
        let rules = self.around.taint.rules_of(original);
        if !rules.is_empty() && !meta.contains_key(TAINT) {
            meta.insert(TAINT.into(), taint_mark(&rules, &original.key));
        }
        meta
    }

    /// Marks what comes from outside and meets a rule.
    fn mark(
        &self,
        kind: Kind,
        role: Role,
        content: &str,
        key: &str,
        meta: &mut Map<String, Value>,
    ) {
        if self.around.taint == TaintMode::Off || kind == Kind::Copy || !from_outside(kind, role) {
            return;
        }
        let rules = rules_of(content);
        if !rules.is_empty() {
            meta.insert(TAINT.into(), taint_mark(&rules, key));
        }
    }

    fn place(
        &mut self,
        kind: Kind,
        role: Role,
        content: String,
        mut meta: Map<String, Value>,
        copy_of: Option<String>,
    ) -> (String, u64) {
        let created_ms = self.around.unix_ms.max(self.after.last_message_ms + 1);
        let key = self.around.ids.key();
        if kind == Kind::Turn && role == Role::Tool {
            meta = self.paired_meta(meta);
        }
        self.mark(kind, role, &content, &key, &mut meta);
        let is_tainted = !tainted(&meta).is_empty();
        let token_estimate = message_cost(self.around.counter, &rendered(role, &content, &meta));
        let mut message = Message {
            key,
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
            expired_at: None,
            thread: None,
            follows: None,
            tainted_seq: (is_tainted && kind != Kind::Copy).then_some(self.after.queue.next_seq),
            forgotten_at: None,
            forgotten_version: None,
        };
        message.seal(self.after.sealed_as(), &self.after.chain.head);
        self.after.last_message_ms = created_ms;
        self.after.chain.head.clone_from(&message.chain);
        self.after.chain.length += 1;
        self.after.queue.next_seq += 1;
        self.after.queue.changed_at_version = self.after.version;
        if kind.queued() {
            self.after.queue.count += 1;
            self.after.queue.tokens += token_estimate;
        }
        self.note_calls(kind, role, &message.meta);
        if kind.queued() && is_tainted {
            self.after.queue.tainted_seq = message.seq;
        }
        self.envelope.insert(
            "receipt".into(),
            json!({"seq": message.seq, "digest": message.digest, "chain": message.chain}),
        );
        let key = message.key.clone();
        self.messages.push(message);
        (key, token_estimate)
    }

    /// Gives the newest message its place in a client's thread.
    pub fn put_in_thread(&mut self, place: &Place) {
        if let Some(message) = self.messages.last_mut() {
            message.thread = Some(place.thread.clone());
            message.follows = Some(place.follows.clone());
        }
    }

    /// Joins the newest message to the chunks that it cites. The message keeps in its `meta` what it cites; the edges lead there as long as
    /// the chunks are in the archive.
    pub fn cite(&mut self, passages: &[FoundPassage]) {
        let Some(message) = self.messages.last() else { return };
        let from = format!("messages/{}", message.key);
        for passage in passages {
            let to = format!("archival_docs/{}", passage.key);
            self.cites.push(Cite {
                key: joined_key(&from, &to),
                from: from.clone(),
                to,
                agent_id: message.agent_id.clone(),
                seq: message.seq,
                doc_id: passage.doc_id.clone(),
                chunk_id: passage.chunk_id.clone(),
                offset: passage.offset,
                revision: passage.revision.clone(),
                digest: cited_digest(&passage.text),
                created_at: message.created_at.clone(),
            });
        }
    }

    /// Takes texts away whose time is over; gives how many messages that are.
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
        self.expire = Some(Expire {
            keys,
            seqs: due.messages.iter().map(|one| one.seq).collect(),
            versions: due.versions.iter().map(|one| one.key.clone()).collect(),
            answers: due.answers.clone(),
            expired_at: self.after.updated_at.clone(),
            forgotten_version: None,
        });
        count
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

    /// Moves a schedule on to its next moment, with the event that this change makes of the present one.
    pub fn fire(&mut self, fired: Fired) {
        self.fired = Some(fired);
    }

    /// Keeps a result list for a while; returns it, for its tokens.
    pub fn keep_page(&mut self, query_hash: &str, items: Vec<PageItem>) -> &Page {
        self.pages.push(new_page(&self.around, query_hash, items));
        self.pages.last().expect("just pushed")
    }

    /// Tells the audit under a name of tainted text that is let in.
    pub fn let_in(&mut self, name: &'static str, told: Value) {
        self.let_in = Some((name, told));
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

    /// Sets size-dependent numbers anew, after a change of the window.
    pub fn rebudget(&mut self) {
        self.after.token_budget = budget_for(self.after.context_window);
        render::recount(self.around.counter, &mut self.after);
    }

    /// Lets the budget have its say, and closes the draft: notice on an upward crossing, eviction from the flush threshold
    /// on, refusal of what cannot fit even then. `result` is the tool's own answer; that of an explicit eviction is made here.
    pub fn finish(
        mut self,
        flush: Flush,
        answers: &Answers,
        mut result: Map<String, Value>,
    ) -> Result<Finish> {
        if let Some(wording) = self.around.wording {
            result.insert(TEXT.into(), wording.told(&result).into());
            if wording.beats() {
                self.beat(Intent::Continue);
            }
        }
        check_pins(&self.after)?;
        if let Some(question) = self.pair_captured(answers) {
            return Ok(Finish::Ask(question));
        }
        if !flush.always {
            self.capture(&result);
        }
        let before = tokens(&self.before);
        self.settle_notices(before.occupancy);
        let now = tokens(&self.after);
        // A notice that found no room in a small window comes back with the next write; alone it evicts nothing.
        let bare = |tokens: &Tokens| tokens.occupancy - tokens.notices;
        let grew =
            bare(&now) > bare(&before) || self.after.token_budget != self.before.token_budget;
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
        if flush.always {
            // What such a call answers is known only now.
            result = self.capture_evicted();
        }
        self.refuse_overflow()?;
        self.tell_flush();
        if !self.ends_loop(&result)
            && let Some(intent) = self.intent.take()
        {
            self.beat_now(intent, None);
        }
        self.bury_chain(ClosedBy::Write);
        let found = self.count_search(&result);
        self.audit(&before, found);
        Ok(Finish::Write(Box::new(self.close(result))))
    }

    /// What an explicit eviction answers, which stands in the queue where the call is captured. Then
    /// it tells an occupancy that it takes part in itself: it is put there again with what came of
    /// the last time until both agree.
    fn capture_evicted(&mut self) -> Map<String, Value> {
        let mut result = self.evicted();
        if self.around.capture.is_none() {
            return result;
        }
        let bare = self.clone();
        for _ in 0..CAPTURED_TRIES_MAX {
            self.clone_from(&bare);
            self.capture(&result);
            self.give_way();
            let told = mem::replace(&mut result, self.evicted());
            if told == result {
                break;
            }
        }
        result
    }

    /// What an explicit eviction answers.
    fn evicted(&self) -> Map<String, Value> {
        let now = tokens(&self.after);
        let mut map = Map::new();
        let evicted = self.evict.as_ref().map_or(0, |e| e.evicted_count);
        map.insert("evicted_count".into(), evicted.into());
        map.insert("new_summary_tokens".into(), now.summary.into());
        map.insert("after_occupancy".into(), now.occupancy.into());
        map
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
            expire: self.expire,
            forget: self.forget,
            cites: self.cites,
            folded: self.folded,
            ingest: self.ingest,
            fired: self.fired,
            recount: self.recount,
            events: self.events,
            pages: self.pages,
            prompts: self.prompts,
            tool_sets: self.tool_sets,
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
        if let Some((name, told)) = &self.let_in {
            details[*name] = told.clone();
        }
        if let Some(forget) = &self.forget {
            let row = &forget.row;
            details["forget"] = json!({"id": row.key, "what": row.what, "phase": row.phase, "step": row.step, "messages": row.items.len(),
                "documents": row.documents.len(), "ended_at": row.ended_at});
        } else if let Some(expire) = &self.expire {
            details["expired"] = json!({"messages": expire.keys.len(), "versions": expire.versions.len(),
                "answers": expire.answers.len(), "through_seq": self.after.expired.through_seq});
        }
        if let Some(fired) = &self.fired {
            details["tick"] = json!({"schedule": fired.name, "due_ms": fired.due_ms, "missed": fired.last.missed});
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
