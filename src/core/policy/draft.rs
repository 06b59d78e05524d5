//! Builds a change of an agent's memory: first the tool's edits of the core, then the effects of
//! the token budget (notice, eviction, refusal).

mod audit;
mod capture;
mod chain;
mod copies;
mod expire;
mod flush;
mod forget;
mod frames;
mod marks;
mod overflow;
mod pairing;
mod promote;
mod prompt;
mod refine;
mod times;

use std::mem;
use std::ops::Range;

use serde_json::{Map, Value, json};

pub use self::audit::found_by_search;
use self::flush::{Flushed, Untold};
pub use self::promote::Promotion;
pub use self::prompt::{Outcome as PromptOutcome, PromptContext};
pub use self::refine::DEGRADED;
use self::times::time_in;
pub use self::times::time_of_message;
use super::heartbeat::{self, Intent};
use super::question::Answers;
use super::stages::{Stage, Stages};
use super::step::{Step, Stop};
use super::summary::SummarySettings;
use super::wording::{TEXT, Wording};
use crate::clock::iso8601;
use crate::error::Result;
use crate::ids::Ids;
use crate::limits::REVISIONS_KEPT;
use crate::memory::Fingerprint;
use crate::memory::archive::{Fate, FoundPassage, Ingest, Manifest};
use crate::memory::capture::Capture;
use crate::memory::change::{Change, Evict, Part, RecallEdge, Refinable};
use crate::memory::conversation::ThreadPosition;
use crate::memory::core::{Core, Offered, RemovedBlock};
use crate::memory::edges::{Cite, cited_digest, joined_key};
use crate::memory::engineer::ContextSettings;
use crate::memory::event::{Event, EventType};
use crate::memory::heartbeat::ClosedBy;
use crate::memory::message::{
    Kind, Message, OUTSIDE, Role, answers_call, outside_fence_of, tainted,
};
use crate::memory::model_role::ModelRoles;
use crate::memory::page::{Page, PageItem};
use crate::memory::schedule::TickResult;
use crate::memory::shown::{ShownAt, shown};
use crate::memory::tokens::TokenCounter;
use crate::search::{PageRequest, new_page};
use crate::trust::{Actor, Scope, TaintMode, from_outside, shows_outside};
use crate::window::{Section, Tokens, budget_for, check_pins, escape_old, recount, tokens};

/// Maximum number of attempts to append the result of an eviction to the queue. The result states
/// the window's occupancy, and is appended again until this occupancy includes the result's own
/// tokens.
const CAPTURED_TRIES_MAX: usize = 4;

/// The inputs of a decision in addition to the core: token counter, time, ids, caller and settings.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Counter of tokens in the agent's encoding.
    pub counter: &'a dyn TokenCounter,
    /// Server time, in milliseconds.
    pub unix_ms: u64,
    /// Generator of keys and salts.
    pub ids: &'a dyn Ids,
    /// The agent whose memory is changed or read.
    pub scope: &'a Scope,
    /// The caller.
    pub actor: &'a Actor,
    /// The tool's name.
    pub tool: &'static str,
    /// Fingerprint of the configured embedder's vectors.
    pub embedder: &'a Fingerprint,
    /// Fingerprint of the embedder in `[embedder.next]`, to which a reindex changes the vectors;
    /// `None` without such an embedder.
    pub next_embedder: Option<&'a Fingerprint>,
    /// Hash of the call's idempotency key, for the audit row.
    pub key_hash: &'a str,
    /// Reply texts for the answer, if the call used the tool name of another dialect.
    pub wording: Option<&'a dyn Wording>,
    /// Returns the text in which a model reads the tool's result; `None` if models cannot call it.
    pub told: Option<fn(&Map<String, Value>) -> String>,
    /// Hash of tool and arguments for loop detection; empty for a call that it ignores.
    pub asked: &'a str,
    /// How the call's result is appended to the queue; `None` if only the caller gets it.
    pub capture: Option<&'a Capture>,
    /// How text from outside that reads like an instruction is handled.
    pub taint: TaintMode,
    /// How many messages one summary takes in.
    pub summary: SummarySettings,
    /// How contexts are built.
    pub context: ContextSettings,
    /// Observer of the decision's stages.
    pub stages: &'a dyn Stages,
    /// Maximum length of the texts of all blocks together, in bytes.
    pub blocks_bytes_max: u64,
    /// Maximum number of tokens of an agent's prompts and answers per day; 0 means no limit.
    pub tokens_per_day: u64,
    /// The steps of a context build that a model takes over.
    pub roles: ModelRoles,
}

impl Surroundings<'_> {
    /// Returns the values that bind a stored result list and its page tokens to this call.
    pub fn page_request<'q>(&'q self, query_hash: &'q str) -> PageRequest<'q> {
        let agent_id = self.scope.key();
        PageRequest { agent_id, tool: self.tool, query_hash, unix_ms: self.unix_ms }
    }
}

/// Returns the given byte range of a message's text, or the whole text if no range is given or if
/// the range is outside the text.
pub fn part_of<'m>(message: &'m Message, excerpt: Option<&Range<usize>>) -> &'m str {
    excerpt.and_then(|range| message.content.get(range.clone())).unwrap_or(&message.content)
}

/// Options for the eviction that a change may include.
#[derive(Clone, Copy, Debug)]
pub struct Flush {
    /// Whether to evict even below the flush mark (an explicit `evict_fifo`).
    pub always: bool,
    /// Occupancy of the window down to which messages are evicted, in tokens.
    pub target: u64,
    /// Whether the evicted messages are added to the summary.
    pub summarize: bool,
    /// Whether the call may wait until a model has written the summary.
    pub may_wait: bool,
}

/// A change of an agent's memory that is still being built.
#[derive(Clone)]
pub struct Draft<'a> {
    pub(super) around: Surroundings<'a>,
    before: Core,
    /// The core with the tool's edits.
    pub after: Core,
    messages: Vec<Message>,
    parts: Vec<Part>,
    untold: Option<Untold>,
    /// What a model may summarise again after this change.
    refinable: Option<Refinable>,
    events: Vec<Event>,
    /// Name and value of the audit row's field about tainted text. The field describes tainted text
    /// that this change released from quarantine (see `taint` in [`Surroundings`]), or wrote to the
    /// core with a justification.
    let_in: Option<(&'static str, Value)>,
    /// Beginnings and ends of runs, which the audit row's field `runs` lists.
    runs: Vec<Value>,
    /// Whether this change set a spool notice, which stays in the window until the next change.
    pub(super) spooled: bool,
    envelope: Map<String, Value>,
    /// Whether the change counts as a search of recall storage.
    searched: bool,
    /// Number of passages that the change's search of the archive found; `None` for any other
    /// change.
    passages_found: Option<usize>,
    intent: Option<Intent>,
    /// The call's effect on the heartbeat chain, as fields of the answer.
    heartbeat: Map<String, Value>,
}

impl<'a> Draft<'a> {
    /// Starts a change from a loaded core.
    pub fn new(around: Surroundings<'a>, core: &Core) -> Self {
        let mut after = core.clone();
        escape_old(around.counter, &mut after);
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
            parts: Vec::new(),
            untold: None,
            refinable: None,
            events: Vec::new(),
            let_in: None,
            runs: Vec::new(),
            spooled: false,
            envelope: Map::new(),
            searched: false,
            passages_found: None,
            intent: None,
            heartbeat: Map::new(),
        }
    }

    /// Returns the core's version after this change.
    pub fn version(&self) -> u64 {
        self.after.version
    }

    /// Appends a message to the log, and also to the queue if a message of this kind can be in the
    /// queue. Returns the message's key and cost.
    pub fn push(
        &mut self,
        kind: Kind,
        role: Role,
        content: String,
        meta: Map<String, Value>,
    ) -> (String, u64) {
        self.place(kind, role, content, meta, None)
    }

    /// Returns the number of tokens that a message of the conversation would add to the window now.
    pub fn turn_cost(&self, role: Role, content: &str, meta: &Map<String, Value>) -> u64 {
        let created_ms = self.around.unix_ms.max(self.after.last_message_ms + 1);
        let time = self.zone().map(|zone| time_in(meta, created_ms, &zone));
        let stamp = time.and_then(|time| self.stamp_of(Kind::Turn, role, content, meta, time));
        let at = ShownAt { form: self.after.form, stamp: stamp.as_deref(), is_first: false };
        shown(at, role, content, meta).cost(self.around.counter)
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
        self.note_labels(kind, role, &meta);
        self.mark(kind, role, &content, &key, &mut meta);
        if kind.queued() && from_outside(kind, role) && !answers_call(role, &meta) {
            meta.insert(OUTSIDE.into(), outside_fence_of(&key).into());
        }
        let is_tainted = !tainted(&meta).is_empty();
        let time = self.zone().map(|zone| time_in(&meta, created_ms, &zone));
        let stamp = time.and_then(|time| self.stamp_of(kind, role, &content, &meta, time));
        let frame_tokens = self.frame_of(kind, role, &meta);
        if let Some(time) = time {
            self.note_time(kind, role, &meta, time);
        }
        let mut message = Message {
            key,
            agent_id: self.after.agent_id.clone(),
            seq: self.after.queue.next_seq,
            kind,
            role,
            content,
            meta,
            token_estimate: 0,
            created_at: iso8601(created_ms),
            stamp,
            frame_tokens,
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
        let token_estimate = message.cost(self.after.form, self.around.counter);
        message.token_estimate = token_estimate;
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
        self.note_turn(kind, role, &message.meta);
        if kind.queued() && is_tainted {
            self.after.queue.tainted_seq = message.seq;
        }
        if kind.queued() && shows_outside(&message) {
            self.after.queue.outside_seq = message.seq;
        }
        self.envelope.insert(
            "receipt".into(),
            json!({"seq": message.seq, "digest": message.digest, "chain": message.chain}),
        );
        let key = message.key.clone();
        self.messages.push(message);
        (key, token_estimate)
    }

    /// Stores the position that the newest message has in a client's conversation thread.
    pub fn put_in_thread(&mut self, place: &ThreadPosition) {
        if let Some(message) = self.messages.last_mut() {
            message.thread = Some(place.thread.clone());
            message.follows = Some(place.follows.clone());
        }
    }

    /// Adds edges from the newest message to the chunks that it cites. An edge exists only while
    /// the archive contains the chunk, but the message's `meta` lists the citations permanently.
    pub fn cite(&mut self, passages: &[FoundPassage]) {
        let Some(message) = self.messages.last() else { return };
        let from = format!("messages/{}", message.key);
        for passage in passages {
            let to = format!("archival_docs/{}", passage.key);
            self.parts.push(Part::Cite(Cite {
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
            }));
        }
    }

    /// Writes a message to recall storage, but not to the queue. Returns the message's key and
    /// cost.
    pub fn record(
        &mut self,
        role: Role,
        content: String,
        meta: Map<String, Value>,
    ) -> (String, u64) {
        self.entry(Kind::Recall, role, content, meta)
    }

    /// Adds a message of a kind that is only in recall storage, never in the queue.
    pub(super) fn entry(
        &mut self,
        kind: Kind,
        role: Role,
        content: String,
        meta: Map<String, Value>,
    ) -> (String, u64) {
        let (key, cost) = self.push(kind, role, content, meta);
        let message = self.messages.last().expect("just pushed");
        self.parts.push(Part::Recall(RecallEdge {
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
        }));
        (key, cost)
    }

    /// Adds, replaces or removes a document of the archive. `old` is the manifest of the stored
    /// document that is replaced or removed.
    pub fn archive(&mut self, ingest: Ingest, old: Option<&Manifest>) {
        let archived = &mut self.after.archived;
        let (documents, chunks) = match ingest.fate {
            Fate::Removed => (0, 0),
            Fate::New | Fate::Replaces => (1, ingest.manifest.chunks),
        };
        let (old_documents, old_chunks) = old.map_or((0, 0), |old| (1, old.chunks));
        archived.documents = archived.documents.saturating_sub(old_documents) + documents;
        archived.chunks = archived.chunks.saturating_sub(old_chunks) + chunks;
        self.parts.push(Part::Ingest(Box::new(ingest)));
    }

    /// Advances a schedule to its next tick, in the same change that posts the event of the current
    /// tick.
    pub fn fire(&mut self, fired: TickResult) {
        self.parts.push(Part::Fire(fired));
    }

    /// Stores a list of search results, from which later calls read further pages, and returns the
    /// stored list.
    pub fn keep_page(&mut self, query_hash: &str, items: Vec<PageItem>) -> &Page {
        let request = self.around.page_request(query_hash);
        self.parts.push(Part::Page(new_page(self.around.ids, request, items)));
        let Some(Part::Page(page)) = self.parts.last() else { unreachable!("just pushed") };
        page
    }

    /// Reserves tokens of the window for the tools that a run offers, until the run ends.
    pub fn reserve(&mut self, tools: &Offered) {
        self.after.reserved = Some(tools.clone());
    }

    /// Counts this change as a search of recall storage.
    pub fn count_as_search(&mut self) {
        self.searched = true;
    }

    /// Sets the audit row's field about tainted text that the change wrote to the core or released
    /// from quarantine.
    pub fn let_in(&mut self, name: &'static str, told: Value) {
        self.let_in = Some((name, told));
    }

    /// Adds the beginning (`start`) or the end (`end`) of a run to the audit row.
    pub fn run_event(&mut self, what: &'static str, mut details: Map<String, Value>) {
        details.insert("event".into(), what.into());
        self.runs.push(details.into());
    }

    /// Removes a block. The core keeps the block's id as long as the core's list of recent
    /// revisions contains a revision in which the block existed.
    pub fn remove_block(&mut self, id: &str) {
        self.after.working_blocks.retain(|b| b.id != id);
        let oldest = self.after.recent_revisions.oldest_version();
        self.after.removed_blocks.retain(|b| b.id != id && b.version > oldest);
        let version = self.after.version;
        self.after.removed_blocks.push(RemovedBlock { id: id.to_owned(), version });
    }

    /// Counts the messages of the queue again after a change of the encoding or of the window's
    /// form. Messages that have shown no times until now get their times.
    pub fn recount_queue(&mut self, queue: &[Message]) {
        let recount = self.recounts(queue.iter().filter(|m| m.kind.queued()));
        self.after.queue.tokens = recount.iter().map(|one| one.token_estimate).sum();
        // A forgotten message without a frame has left the queue.
        let stays = recount.iter().filter(|one| one.token_estimate > 0).count();
        self.after.queue.count = stays as u64;
        self.after.queue.changed_at_version = self.after.version;
        if !recount.is_empty() {
            self.parts.push(Part::Recount(recount));
        }
    }

    /// Adds an event, which becomes a row of the collection `memory_events`.
    pub fn event(&mut self, kind: EventType, details: Value) {
        let details = match details {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        let (agent_id, ts) = (self.after.agent_id.clone(), self.after.updated_at.clone());
        self.events.push(Event { kind, details, agent_id, ts });
    }

    /// Recomputes the token budget (warning mark, flush mark and target), and the costs of the
    /// core's sections, after a change of the window size.
    pub fn rebudget(&mut self) {
        self.after.token_budget = budget_for(self.after.context_window);
        recount(self.around.counter, &mut self.after);
    }

    /// Applies the token budget and closes the change. Above the warning mark, the change sets a
    /// notice. Above the flush mark, the change evicts messages. The change fails if the core still
    /// does not fit. `result` is the tool's answer; for an explicit eviction, this function builds
    /// the answer instead.
    pub fn finish(
        mut self,
        flush: Flush,
        answers: &Answers,
        mut result: Map<String, Value>,
    ) -> Result<Step, Stop> {
        if let Some(wording) = self.around.wording {
            result.insert(TEXT.into(), wording.answer_text(&result).into());
            if wording.beats() {
                self.beat(Intent::Continue);
            }
        }
        self.around.stages.begins(Stage::Capture);
        check_pins(&self.after)?;
        self.check_blocks_bytes()?;
        self.pair_captured(answers)?;
        if !flush.always {
            self.capture(&result);
        }
        self.around.stages.begins(Stage::Budget);
        let before = tokens(&self.before);
        self.update_notices(before.occupancy);
        let now = tokens(&self.after);
        // A notice that did not fit into a small window is added by the next write. Such a notice
        // must not cause an eviction, so notices are not counted here.
        let bare = |tokens: &Tokens| tokens.without(&[Section::Notices]);
        let grew =
            bare(&now) > bare(&before) || self.after.token_budget != self.before.token_budget;
        let over = now.occupancy >= self.after.token_budget.flush && grew;
        let wanted = if flush.always { now.occupancy > flush.target } else { over };
        if wanted && self.after.queue.count > 0 {
            if let Flushed::Part(change) = self.flush(flush, answers, &now)? {
                return Ok(Step::Part(change));
            }
        } else if flush.always {
            self.envelope.insert("flush".into(), Value::Null);
        }
        self.give_way();
        if flush.always {
            // The result of an explicit eviction is known only after the eviction.
            result = self.capture_evicted();
        }
        self.refuse_overflow()?;
        self.tell_flush();
        self.around.stages.begins(Stage::Heartbeat);
        if !self.ends_loop(&result)
            && let Some(intent) = self.intent.take()
        {
            self.beat_now(intent, None);
        }
        self.bury_chain(ClosedBy::Write);
        let found = self.count_search(&result);
        self.audit(&before, found);
        Ok(Step::Write(Box::new(self.close(result))))
    }

    /// Returns the result of an explicit eviction. If the call is captured (its result is appended
    /// to the queue), the occupancy that the result reports includes the result itself. The result
    /// is therefore appended again until the reported occupancy is right.
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

    /// Builds the result of an explicit eviction from the change's current state.
    fn evicted(&self) -> Map<String, Value> {
        let now = tokens(&self.after);
        let mut map = Map::new();
        let evicted = self.eviction().map_or(0, |e| e.evicted_count);
        map.insert("evicted_count".into(), evicted.into());
        map.insert("new_summary_tokens".into(), now[Section::Summary].into());
        map.insert("after_occupancy".into(), now.occupancy.into());
        map
    }

    /// Returns the part of the change that evicts messages, if any.
    pub(super) fn eviction(&self) -> Option<&Evict> {
        self.parts.iter().find_map(Part::evict)
    }

    fn close(mut self, result: Map<String, Value>) -> Change {
        self.parts.sort_by_key(Part::order);
        let free = tokens(&self.after).free;
        let mut heartbeat = heartbeat::report(&self.after.heartbeat, self.around.unix_ms, free);
        heartbeat.extend(self.heartbeat);
        self.envelope.insert("heartbeat".into(), Value::Object(heartbeat));
        self.after.salt = self.around.ids.salt();
        self.after.hold_texts(Some(&self.before));
        Change {
            before: self.before,
            after: self.after,
            messages: self.messages,
            events: self.events,
            parts: self.parts,
            result,
            envelope: self.envelope,
            refinable: self.refinable,
        }
    }
}
