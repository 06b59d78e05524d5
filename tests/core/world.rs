//! Simulates one agent without a server: gives a tool's `step` the data that it asks for, writes
//! the changes that it decides, and checks the window after each write.

use super::policy::provider;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use vctx_core::error::Error;
use vctx_core::ids::SeededIds;
use vctx_core::limits::BLOCKS_BYTES_MAX;
use vctx_core::memory::capture::Capture;
use vctx_core::memory::change::{Change, Part};
use vctx_core::memory::core::Core;
use vctx_core::memory::engineer::ContextSettings;
use vctx_core::memory::event::{Event, EventType};
use vctx_core::memory::form::Form;
use vctx_core::memory::message::{Kind, Message, Role};
use vctx_core::memory::model_role::ModelRoles;
use vctx_core::memory::page::Page;
use vctx_core::memory::receipt;
use vctx_core::memory::tokens::message_cost;
use vctx_core::memory::{Encoding, TokenCounter};
use vctx_core::policy::{
    Answers, ArchiveAnswer, CallPlace, Ctx, Question, Step, Stop, SummaryAnswer, SummarySettings,
    Surroundings, Unobserved, VectorsAnswer,
};
use vctx_core::search::{Entries, ListedEntry, QueueCopy, RecallRows, listed};
use vctx_core::text::{lexical, local};
use vctx_core::tools::{Call, NewAgent, PatchAgent, Tool, decode_as, new_core};
use vctx_core::trust::{Actor, Principal, Scope, TaintMode, Trace, admit};
use vctx_core::window::{
    Section, assemble, escape_old, pinned_tokens_max, recount, summary_tokens_max, tokens,
};

/// A fast token counter: one token for each started group of four bytes. As with a real tokenizer,
/// joined texts may cost less than the texts do separately.
pub(crate) struct FourBytes;

impl TokenCounter for FourBytes {
    fn encoding(&self) -> Encoding {
        Encoding::O200kBase
    }

    fn count(&self, text: &str) -> u64 {
        text.split_inclusive('\n').map(|line| line.len().div_ceil(4) as u64).sum()
    }
}

/// A token counter that counts one token for each character.
pub(crate) struct Letters;

impl TokenCounter for Letters {
    fn encoding(&self) -> Encoding {
        Encoding::O200kBase
    }

    fn count(&self, text: &str) -> u64 {
        text.chars().count() as u64
    }
}

/// One agent, its messages and its edges.
pub(crate) struct World {
    pub(crate) scope: Scope,
    pub(crate) actor: Actor,
    pub(crate) ids: SeededIds,
    pub(crate) core: Core,
    pub(crate) messages: Vec<Message>,
    pub(crate) logged: BTreeMap<u64, String>,
    pub(crate) joined: BTreeMap<u64, u64>,
    pub(crate) events: Vec<Event>,
    pub(crate) pages: Vec<Page>,
    pub(crate) unix_ms: u64,
    /// Whether all rules are checked after each write. Tests that fill a long queue skip the
    /// checks.
    pub(crate) checks: bool,
    /// The capture mode of calls: how their results are appended to the queue, if at all.
    pub(crate) capture: Option<Capture>,
    /// The policy for tainted text.
    pub(crate) taint: TaintMode,
    /// How many messages one summary takes in.
    pub(crate) batch: SummarySettings,
    /// The counter of tokens.
    pub(crate) counter: &'static dyn TokenCounter,
    /// A fixed answer that is used instead of the local summarizer's answer.
    pub(crate) summariser: Option<String>,
}

impl World {
    pub(crate) fn new(window: u64, system: &str) -> Self {
        Self::with(window, system, Form::Two, &FourBytes)
    }

    /// Returns an agent without messages, whose window has the given form.
    pub(crate) fn with(
        window: u64,
        system: &str,
        form: Form,
        counter: &'static dyn TokenCounter,
    ) -> Self {
        let actor = Actor { uid: 1000, pid: 1, label: None };
        let principal = Principal { actor: actor.clone(), tenant: String::new(), called: None };
        let scope = admit(&principal, "ada").unwrap();
        let body = NewAgent {
            context_window: window,
            system: Some(system.into()),
            encoding: Encoding::O200kBase,
            form: Some(form),
            zone: None,
            outbound: None,
            engineer: None,
            user: None,
            incarnation: None,
        };
        let mut core = new_core(&scope, &body, counter, 1_000).unwrap();
        core.rev = "rev1".into();
        let ids = SeededIds::new(7);
        Self {
            scope,
            actor,
            ids,
            core,
            messages: Vec::new(),
            logged: BTreeMap::new(),
            joined: BTreeMap::new(),
            events: Vec::new(),
            pages: Vec::new(),
            unix_ms: 2_000,
            checks: true,
            capture: None,
            taint: TaintMode::default(),
            batch: SummarySettings::default(),
            counter,
            summariser: None,
        }
    }

    pub(crate) fn call(
        &mut self,
        tool: &str,
        arguments: Value,
    ) -> Result<Map<String, Value>, Error> {
        let call = Tool::by_name(tool)?.decode(arguments.as_object().cloned().unwrap())?;
        self.run(&call)
    }

    pub(crate) fn patch(&mut self, body: Value) -> Result<Map<String, Value>, Error> {
        let patch: PatchAgent = decode_as(body.as_object().cloned().unwrap())?;
        self.run(&Call::from(patch.checked()?))
    }

    /// Returns the inputs of a tool's decision other than the memory: token counter, time, ids,
    /// scope and caller.
    pub(crate) fn around(&self, tool: &'static str) -> Surroundings<'_> {
        Surroundings {
            counter: self.counter,
            unix_ms: self.unix_ms,
            ids: &self.ids,
            scope: &self.scope,
            actor: &self.actor,
            tool,
            embedder: &lexical::OWN,
            next_embedder: None,
            key_hash: "k",
            wording: None,
            told: Tool::by_name(tool).ok().map(|tool| tool.card().told),
            asked: "",
            capture: None,
            taint: TaintMode::default(),
            summary: SummarySettings::default(),
            context: ContextSettings::default(),
            stages: &Unobserved,
            blocks_bytes_max: BLOCKS_BYTES_MAX,
            tokens_per_day: 0,
            roles: ModelRoles::default(),
        }
    }

    /// Runs a call as the executor does, but without sockets and database.
    pub(crate) fn run(&mut self, call: &Call) -> Result<Map<String, Value>, Error> {
        let mut answers = Answers::default();
        let asked = if call.spec().in_chains { format!("{call:?}") } else { String::new() };
        self.unix_ms += 1;
        for _ in 0..64 {
            let around = Surroundings {
                asked: &asked,
                capture: self.capture.as_ref(),
                taint: self.taint,
                summary: self.batch,
                ..self.around(call.name())
            };
            let question = match call.step(&Ctx { around, core: &self.core, answers: &answers }) {
                Err(Stop::Ask(question)) => *question,
                Err(Stop::Fail(error)) => return Err(error),
                Ok(Step::Read(result) | Step::Keep(result, _)) => return Ok(result),
                Ok(Step::Part(change)) => {
                    self.write(&change);
                    answers = Answers::default();
                    continue;
                }
                Ok(Step::Write(change)) => {
                    self.write(&change);
                    let mut envelope = change.envelope.clone();
                    envelope.insert("result".into(), Value::Object(change.result.clone()));
                    return Ok(envelope);
                }
            };
            match question {
                Question::Queue { head_seq } => {
                    let stands = |m: &&Message| m.seq >= head_seq && in_queue(m);
                    answers.queue = Some(self.messages.iter().filter(stands).cloned().collect());
                }
                Question::Calls { first_seq, last_seq } => {
                    let asked =
                        self.messages.iter().filter(|m| (first_seq..=last_seq).contains(&m.seq));
                    answers.calls = Some(asked.map(CallPlace::from).collect());
                }
                Question::Recall { query, queue, .. } => {
                    let wanted: Vec<&str> = query.words.split(' ').collect();
                    let matches = |m: &&Message| m.content.split(' ').any(|w| wanted.contains(&w));
                    let looked = |m: &&Message| {
                        let in_queue = queue.contains(&m.seq) && m.kind.logged();
                        self.logged.contains_key(&m.seq) || (in_queue && m.role != Role::Tool)
                    };
                    let stored = self.messages.iter().filter(looked);
                    let hit = |m: &Message| ListedEntry { id: m.key.clone(), seq: m.seq, held: 0 };
                    let hits = stored.filter(matches).map(hit).collect();
                    let sources = RecallRows { view: hits, ..RecallRows::default() };
                    let found = listed(&query, sources, self.unix_ms);
                    answers.recall = Some(found);
                }
                Question::Entries { ids, head_seq, .. } => {
                    let found =
                        self.messages.iter().filter(|m| ids.contains(&m.key)).cloned().collect();
                    let copies = self.messages.iter().filter(|m| m.seq >= head_seq);
                    let copies = copies.filter_map(|m| {
                        let excerpt = m.meta.get("recalled").map(|mark| mark["excerpt"].clone());
                        let excerpt = excerpt.and_then(|part| serde_json::from_value(part).ok());
                        m.copy_of.clone().map(|of| QueueCopy { of, seq: m.seq, excerpt })
                    });
                    let copies = copies.collect();
                    answers.entries = Some(Entries { found, copies, pairs: Vec::new() });
                }
                Question::Page { handle } => {
                    answers.page = Some(self.pages.iter().find(|p| p.handle == handle).cloned());
                }
                Question::Summary { of, previous, lines, tokens, .. } => {
                    let lines: Vec<local::Line<'_>> = lines
                        .iter()
                        .map(|l| local::Line {
                            seq: l.seq,
                            day: l.day,
                            speaker: &l.speaker,
                            text: &l.text,
                        })
                        .collect();
                    let made = || local::summarise(&previous, &lines, tokens, self.counter).content;
                    let content = self.summariser.clone().unwrap_or_else(made);
                    answers.summary = Some(SummaryAnswer { of, content, details: Map::new() });
                }
                // The archive of this agent is empty.
                Question::Archive { .. } => answers.archive = Some(ArchiveAnswer::default()),
                Question::Cited { .. } => answers.cited = Some(Vec::new()),
                Question::Trace(_) => {
                    answers.traced = Some(Trace { reached: Vec::new(), more: false });
                }
                Question::Vectors { .. } => {
                    answers.vectors = Some(VectorsAnswer {
                        setting: None,
                        index_ready: false,
                        exact_rows_max: 100,
                        filters_first: false,
                    });
                }
                Question::Embed { document, spans, with } => {
                    let texts: Vec<String> =
                        spans.into_iter().map(|span| document[span].to_owned()).collect();
                    let dimension = usize::try_from(with.dimension).unwrap();
                    answers.embeddings = Some(lexical::embed_document(&texts, dimension));
                    answers.embedded_with = Some(with);
                }
                other => panic!("{}: nothing here answers {other:?}", call.name()),
            }
        }
        panic!("a call never came to an end");
    }

    pub(crate) fn write(&mut self, change: &Change) {
        assert_eq!(change.before, self.core, "a change builds on what is there");
        let summary = |core: &Core| core.queue_head_summary.content.clone();
        assert!(
            summary(&change.before).is_empty() || !summary(&change.after).is_empty(),
            "a summary is wiped"
        );
        if let Some(evict) = change.evict() {
            let leaving = self.messages.iter().filter(|m| {
                m.seq >= evict.head_seq
                    && m.seq < evict.new_head_seq
                    && m.kind.logged()
                    && m.forgotten_at.is_none()
            });
            let mut count = 0;
            for message in leaving {
                count += 1;
                assert!(
                    self.logged.insert(message.seq, evict.batch_id.clone()).is_none(),
                    "logged twice"
                );
            }
            assert_eq!(count, evict.evicted_count);
        }
        self.messages.extend(change.messages.iter().cloned());
        for message in &change.messages {
            let Some(id) = message.answers() else { continue };
            let calls = |m: &&Message| {
                m.tool_call_ids().any(|c| c == id)
                    && m.seq >= change.before.queue.head_seq
                    && m.seq < message.seq
            };
            if let Some(call) = self.messages.iter().rev().find(calls) {
                self.joined.insert(message.seq, call.seq);
            }
        }
        Self::check_report(change);
        for part in &change.parts {
            match part {
                Part::Recall(edge) => {
                    assert!(self.logged.insert(edge.seq, String::new()).is_none());
                }
                Part::Recount(counts) => {
                    for recount in counts {
                        let message = self.messages.iter_mut().find(|m| m.key == recount.key);
                        let message = message.unwrap();
                        message.token_estimate = recount.token_estimate;
                        message.frame_tokens = recount.frame_tokens;
                        message.stamp.clone_from(&recount.stamp);
                    }
                }
                Part::Page(page) => self.pages.push(page.clone()),
                _ => {}
            }
        }
        self.events.extend(change.events.iter().cloned());
        self.core = change.after.clone();
        self.core.rev = format!("rev{}", self.core.version);
        if self.checks {
            self.check();
        }
    }

    /// Checks that the eviction that a change reports equals the one that it writes.
    pub(crate) fn check_report(change: &Change) {
        let now = tokens(&change.after);
        let counted =
            |told: &Value| (told["after_occupancy"].as_u64(), told["new_summary_tokens"].as_u64());
        let wanted = (Some(now.occupancy), Some(now[Section::Summary]));
        let flushes: Vec<&Event> =
            change.events.iter().filter(|e| e.kind == EventType::Flush).collect();
        assert_eq!(flushes.len(), usize::from(change.evict().is_some()));
        for flush in flushes {
            let told = Value::Object(flush.details.clone());
            assert_eq!(counted(&told), wanted, "the event: {told}");
            assert_eq!(counted(&change.envelope["flush"]), wanted, "the answer: {told}");
            assert_eq!(told["target_reached"], now.occupancy <= told["target"].as_u64().unwrap());
        }
        if change.result.contains_key("after_occupancy") {
            let result = Value::Object(change.result.clone());
            assert_eq!(counted(&result), wanted, "the result: {result}");
        }
        for event in change.events.iter().filter(|e| e.kind == EventType::Summarize) {
            assert_eq!(event.details["tokens"], now[Section::Summary]);
        }
    }

    /// Checks the rules that must hold after every write.
    pub(crate) fn check(&self) {
        let core = &self.core;
        let now = tokens(core);
        assert!(now.occupancy <= core.token_budget.max, "{now:?} in {:?}", core.token_budget);
        assert!(now[Section::Summary] <= summary_tokens_max(core.context_window));
        let pinned: u64 =
            core.working_blocks.iter().filter(|b| b.pinned).map(|b| b.token_estimate).sum();
        assert!(pinned <= pinned_tokens_max(core.context_window));
        let queue = self.queue();
        assert_eq!(queue.len() as u64, core.queue.count);
        assert_eq!(queue.iter().map(|m| m.token_estimate).sum::<u64>(), core.queue.tokens);
        let window = assemble(core, &queue);
        let recounted: u64 = window.messages.iter().map(|m| message_cost(self.counter, m)).sum();
        assert_eq!(
            recounted + 3 + now[Section::Tools],
            now.occupancy,
            "the window costs what the account says"
        );
        check_sections(self.counter, core, &queue);
        assert_eq!(provider::fault(&window.messages), None);
        let mut chain = receipt::genesis(&core.agent_id);
        for (message, seq) in self.messages.iter().zip(1..) {
            assert_eq!(message.seq, seq, "dense");
            let canonical =
                receipt::canonical_message(&core.agent_id, &Value::Object(message.public()));
            assert_eq!(message.digest, receipt::digest(&message.salt, &canonical));
            chain = receipt::link(&chain, &message.digest);
            let evicted = message.seq < core.queue.head_seq && message.kind.logged();
            let logged = self.logged.contains_key(&message.seq);
            let stored = matches!(message.kind, Kind::Recall | Kind::Spool);
            assert_eq!(logged, evicted || stored, "seq {seq}");
        }
        assert_eq!(
            (core.chain.head.as_str(), core.chain.length),
            (chain.as_str(), self.messages.len() as u64)
        );
        self.check_pairs(&queue);
    }

    /// Returns the messages of the queue.
    pub(crate) fn queue(&self) -> Vec<Message> {
        let stands = |m: &&Message| m.seq >= self.core.queue.head_seq && in_queue(m);
        self.messages.iter().filter(stands).cloned().collect()
    }

    /// Checks each tool result whose call was in the queue when the result arrived: the result is
    /// never in the queue without this call.
    pub(crate) fn check_pairs(&self, queue: &[Message]) {
        for message in queue {
            if let Some(call_seq) = self.joined.get(&message.seq) {
                assert!(
                    *call_seq >= self.core.queue.head_seq,
                    "{} lost its call {call_seq}",
                    message.seq
                );
            }
        }
    }

    pub(crate) fn count(&self, kind: EventType) -> usize {
        self.events.iter().filter(|e| e.kind == kind).count()
    }

    pub(crate) fn occupancy(&self) -> u64 {
        tokens(&self.core).occupancy
    }
}

/// Whether a message of the log is in the queue unless it was evicted.
fn in_queue(message: &Message) -> bool {
    message.kind.queued() && (message.forgotten_at.is_none() || message.frame_tokens > 0)
}

/// Checks that the token count of each section equals the sum of the counts of its rendered
/// messages, and that a recount gives the same numbers.
fn check_sections(counter: &dyn TokenCounter, core: &Core, queue: &[Message]) {
    let (now, window) = (tokens(core), assemble(core, queue));
    let items = window.manifest["items"].as_array().unwrap();
    for section in Section::ALL {
        let own = items.iter().filter(|item| item["section"] == section.name());
        let shown: u64 = own.map(|item| item["tokens"].as_u64().unwrap()).sum();
        // The window's manifest lists no item for the tools and for an empty system text.
        let is_listed = match section {
            Section::Tools => false,
            Section::System => !core.system.content.is_empty(),
            _ => true,
        };
        let cost = if is_listed { now[section] } else { 0 };
        assert_eq!(shown, cost, "{}", section.name());
    }
    let mut written = core.clone();
    escape_old(counter, &mut written);
    let mut counted = written.clone();
    recount(counter, &mut counted);
    assert_eq!(tokens(&counted), tokens(&written), "counted again");
}
