//! The thinking rooms alone: calls on a core that lies in this file's memory, so that every rule of the budget is tried without a database.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use vctx_core::chunk;
use vctx_core::clock::iso8601;
use vctx_core::context::assemble;
use vctx_core::error::{Code, Error};
use vctx_core::ids::SeededIds;
use vctx_core::limits::PAGE_TOKENS_MAX;
use vctx_core::memory::archive::FoundPassage;
use vctx_core::memory::capture::Capture;
use vctx_core::memory::core::Core;
use vctx_core::memory::event::{Event, EventType};
use vctx_core::memory::message::{Kind, Message, Role};
use vctx_core::memory::page::Page;
use vctx_core::memory::receipt;
use vctx_core::memory::render;
use vctx_core::memory::tokens::message_cost;
use vctx_core::memory::{Encoding, TokenCounter};
use vctx_core::policy::{
    Actor, Answers, CallPlace, CopyOf, Depends, Draft, Entries, Finish, Flush, Intent, Looked,
    NearPlan, Nearest, OLD_SUMMARY_PERCENT, Principal, Question, Scope, Sources, SummaryAnswer,
    Surroundings, TaintMode, VectorsAnswer, ViewHit, admit, changed_since, listed,
    pinned_tokens_max, summary_tokens_max, summary_tokens_min, tokens,
};
use vctx_core::text::{Tiktoken, lexical, local};
use vctx_core::tools::{
    Call, NewAgent, PatchAgent, PostEvent, Step, Tool, decode, decode_as, new_core,
};

#[path = "policy/blocks.rs"]
mod blocks;
#[path = "policy/captured.rs"]
mod captured;
#[path = "policy/paired.rs"]
mod paired;
#[path = "policy/provider.rs"]
mod provider;
#[path = "policy/tainted.rs"]
mod tainted;

/// One token for each started group of four bytes: fast, and as little additive over joins as a real tokenizer.
struct FourBytes;

impl TokenCounter for FourBytes {
    fn encoding(&self) -> Encoding {
        Encoding::O200kBase
    }

    fn count(&self, text: &str) -> u64 {
        text.len().div_ceil(4) as u64
    }
}

/// One agent, its messages and its edges.
struct World {
    scope: Scope,
    actor: Actor,
    ids: SeededIds,
    core: Core,
    messages: Vec<Message>,
    logged: BTreeMap<u64, String>,
    joined: BTreeMap<u64, u64>,
    events: Vec<Event>,
    pages: Vec<Page>,
    unix_ms: u64,
    /// Whether everything is checked after each write; filling a long queue does without.
    checks: bool,
    /// How results are to stand in the queue.
    capture: Option<Capture>,
    /// What is done about tainted text.
    taint: TaintMode,
    /// What the summariser answers in the place of the local one.
    summariser: Option<String>,
}

impl World {
    fn new(window: u64, system: &str) -> Self {
        let actor = Actor { uid: 1000, pid: 1, label: None };
        let principal = Principal { actor: actor.clone(), tenant: String::new() };
        let scope = admit(&principal, "ada").unwrap();
        let body = NewAgent {
            context_window: window,
            system: system.into(),
            encoding: Encoding::O200kBase,
        };
        let mut core = new_core(&scope, &body, &FourBytes, 1_000).unwrap();
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
            summariser: None,
        }
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Result<Map<String, Value>, Error> {
        let call = decode(Tool::named(tool)?, arguments.as_object().cloned().unwrap())?;
        self.run(&call)
    }

    fn patch(&mut self, body: Value) -> Result<Map<String, Value>, Error> {
        let patch: PatchAgent = decode_as(body.as_object().cloned().unwrap())?;
        self.run(&Call::PatchAgent(patch.checked()?))
    }

    /// What a decision of a tool leans on.
    fn around(&self, tool: &'static str) -> Surroundings<'_> {
        Surroundings {
            counter: &FourBytes,
            unix_ms: self.unix_ms,
            ids: &self.ids,
            scope: &self.scope,
            actor: &self.actor,
            tool,
            embedder: &lexical::OWN,
            next_embedder: None,
            key_hash: "k",
            wording: None,
            asked: "",
            capture: None,
            taint: TaintMode::default(),
        }
    }

    /// What the executor does, without sockets.
    fn run(&mut self, call: &Call) -> Result<Map<String, Value>, Error> {
        let mut answers = Answers::default();
        let asked = if call.goes_round() { format!("{call:?}") } else { String::new() };
        self.unix_ms += 1;
        for _ in 0..64 {
            let around = Surroundings {
                asked: &asked,
                capture: self.capture.as_ref(),
                taint: self.taint,
                ..self.around(call.name())
            };
            match call.step(around, &self.core, &answers)? {
                Step::Read(result) => return Ok(result),
                Step::Ask(Question::Queue { head_seq }) => {
                    answers.queue =
                        Some(self.messages.iter().filter(|m| m.seq >= head_seq).cloned().collect());
                }
                Step::Ask(Question::Calls { first_seq, last_seq }) => {
                    let asked =
                        self.messages.iter().filter(|m| (first_seq..=last_seq).contains(&m.seq));
                    answers.calls = Some(asked.map(CallPlace::from).collect());
                }
                Step::Ask(Question::Recall { query, .. }) => {
                    let wanted: Vec<&str> = query.words.split(' ').collect();
                    let matches = |m: &&Message| m.content.split(' ').any(|w| wanted.contains(&w));
                    let stored = self.messages.iter().filter(|m| self.logged.contains_key(&m.seq));
                    let hit = |m: &Message| ViewHit { id: m.key.clone(), seq: m.seq, score: 1.0 };
                    let hits = stored.filter(matches).map(hit).collect();
                    let sources = Sources { view: hits, ..Sources::default() };
                    let found = listed(&query, sources, self.unix_ms);
                    answers.recall = Some(found);
                }
                Step::Ask(Question::Entries { ids, head_seq, .. }) => {
                    let found =
                        self.messages.iter().filter(|m| ids.contains(&m.key)).cloned().collect();
                    let copies = self.messages.iter().filter(|m| m.seq >= head_seq);
                    let copies = copies.filter_map(|m| {
                        let excerpt = m.meta.get("recalled").map(|mark| mark["excerpt"].clone());
                        let excerpt = excerpt.and_then(|part| serde_json::from_value(part).ok());
                        m.copy_of.clone().map(|of| CopyOf { of, seq: m.seq, excerpt })
                    });
                    let copies = copies.collect();
                    answers.entries = Some(Entries { found, copies, pairs: Vec::new() });
                }
                Step::Ask(Question::Page { handle }) => {
                    answers.page = Some(self.pages.iter().find(|p| p.handle == handle).cloned());
                }
                Step::Ask(Question::Summary { of, previous, lines, tokens, .. }) => {
                    let lines: Vec<local::Line<'_>> = lines
                        .iter()
                        .map(|l| local::Line { speaker: &l.speaker, text: &l.text })
                        .collect();
                    let made = || local::summarise(&previous, &lines, tokens, &FourBytes).content;
                    let content = self.summariser.clone().unwrap_or_else(made);
                    answers.summary = Some(SummaryAnswer { of, content, details: Map::new() });
                }
                Step::Ask(other) => panic!("{}: nobody here answers {other:?}", call.name()),
                Step::Part(change) => {
                    self.write(&change);
                    answers = Answers::default();
                }
                Step::Write(change) => {
                    self.write(&change);
                    let mut envelope = change.envelope.clone();
                    envelope.insert("result".into(), Value::Object(change.result.clone()));
                    return Ok(envelope);
                }
            }
        }
        panic!("a call never came to an end");
    }

    fn write(&mut self, change: &vctx_core::memory::change::Change) {
        assert_eq!(change.before, self.core, "a change builds on what is there");
        let summary = |core: &Core| core.queue_head_summary.content.clone();
        assert!(
            summary(&change.before).is_empty() || !summary(&change.after).is_empty(),
            "a summary is wiped"
        );
        if let Some(evict) = &change.evict {
            let leaving = self.messages.iter().filter(|m| {
                m.seq >= evict.head_seq && m.seq < evict.new_head_seq && m.kind.logged()
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
        for edge in &change.recall {
            assert!(self.logged.insert(edge.seq, String::new()).is_none());
        }
        for recount in &change.recount {
            let message = self.messages.iter_mut().find(|m| m.key == recount.key).unwrap();
            message.token_estimate = recount.token_estimate;
        }
        self.events.extend(change.events.iter().cloned());
        self.pages.extend(change.pages.iter().cloned());
        self.core = change.after.clone();
        self.core.rev = format!("rev{}", self.core.version);
        if self.checks {
            self.check();
        }
    }

    /// What a change tells of its eviction is what it writes.
    fn check_report(change: &vctx_core::memory::change::Change) {
        let now = tokens(&change.after);
        let counted =
            |told: &Value| (told["after_occupancy"].as_u64(), told["new_summary_tokens"].as_u64());
        let wanted = (Some(now.occupancy), Some(now.summary));
        let flushes: Vec<&Event> =
            change.events.iter().filter(|e| e.kind == EventType::Flush).collect();
        assert_eq!(flushes.len(), usize::from(change.evict.is_some()));
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
            assert_eq!(event.details["tokens"], now.summary);
        }
    }

    /// What must hold after every write.
    fn check(&self) {
        let core = &self.core;
        let now = tokens(core);
        assert!(now.occupancy <= core.token_budget.max, "{now:?} in {:?}", core.token_budget);
        assert!(now.summary <= summary_tokens_max(core.context_window));
        let pinned: u64 =
            core.working_blocks.iter().filter(|b| b.pinned).map(|b| b.token_estimate).sum();
        assert!(pinned <= pinned_tokens_max(core.context_window));
        let queue: Vec<Message> = self
            .messages
            .iter()
            .filter(|m| m.seq >= core.queue.head_seq && m.kind.queued())
            .cloned()
            .collect();
        assert_eq!(queue.len() as u64, core.queue.count);
        assert_eq!(queue.iter().map(|m| m.token_estimate).sum::<u64>(), core.queue.tokens);
        let window = assemble(core, &queue);
        let recounted: u64 = window.messages.iter().map(|m| message_cost(&FourBytes, m)).sum();
        assert_eq!(
            recounted + 3 + now.tools,
            now.occupancy,
            "the window costs what the account says"
        );
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

    /// No result in the queue without its call, if the call stood there when the result came.
    fn check_pairs(&self, queue: &[Message]) {
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

    fn count(&self, kind: EventType) -> usize {
        self.events.iter().filter(|e| e.kind == kind).count()
    }

    fn occupancy(&self) -> u64 {
        tokens(&self.core).occupancy
    }
}

fn said(tokens: u64) -> Value {
    // Frame 3, role `user` 1, so this message costs exactly `tokens`.
    json!({"message": "x".repeat(usize::try_from((tokens - 4) * 4).unwrap()), "role": "user"})
}

#[test]
fn a_flush_warns_first_and_ends_at_half() {
    let mut world = World::new(1000, "Be kind.");
    while world.core.counters.flushes == 0 {
        let before = world.occupancy();
        world.call("append_fifo", said(20)).unwrap();
        let stands = world.core.notices.iter().any(|n| n.kind == "pressure");
        assert_eq!(stands, world.occupancy() >= 700, "from {before} to {}", world.occupancy());
    }
    assert!(world.occupancy() <= 500, "{}", world.occupancy());
    assert_eq!(
        (
            world.count(EventType::Warning),
            world.count(EventType::Flush),
            world.count(EventType::Summarize)
        ),
        (1, 1, 1)
    );
}

#[test]
fn each_upward_crossing_warns_once() {
    let mut world = World::new(1000, "");
    for _ in 0..200 {
        world.call("append_fifo", said(23)).unwrap();
    }
    assert_eq!(world.core.counters.warnings, world.count(EventType::Warning) as u64);
    let standing = u64::from(world.core.notices.iter().any(|n| n.kind == "pressure"));
    assert_eq!(world.core.counters.warnings, world.core.counters.flushes + standing);
    assert!(world.core.counters.flushes > 5);
}

#[test]
fn one_token_over_the_window_is_short_of_one() {
    let mut world = World::new(1000, "");
    let free = tokens(&world.core).free;
    let frame = {
        let mut probe = World::new(1000, "");
        let answer = probe.call("store_core", json!({"block_id": "b", "content": ""})).unwrap();
        answer["result"]["token_estimate"].as_u64().unwrap()
    };
    // The block's own text is counted with its frame, so the size that fits exactly is searched.
    let fits = |length: usize| {
        let mut probe = World::new(1000, "");
        probe.call("store_core", json!({"block_id": "b", "content": "x".repeat(length)}))
    };
    let mut length = usize::try_from((free - frame) * 4).unwrap() - 64;
    while fits(length + 1).is_ok() {
        length += 1;
    }
    let before = world.core.clone();
    world.call("store_core", json!({"block_id": "b", "content": "x".repeat(length)})).unwrap();
    assert_eq!(tokens(&world.core).free, 0);
    let error = fits(length + 1).unwrap_err();
    assert_eq!(error.code, Code::TokenBudgetExceeded);
    assert_eq!(error.fields["required_headroom"], 1);
    let mut unchanged = World::new(1000, "");
    unchanged
        .call("store_core", json!({"block_id": "b", "content": "x".repeat(length + 1)}))
        .unwrap_err();
    assert_eq!(unchanged.core, before);
}

#[test]
fn pins_take_a_quarter_and_not_one_token_more() {
    let pin = |length: usize, pinned: bool| json!({"block_id": "b", "content": "x".repeat(length), "policy": {"pinned": pinned}});
    let mut length = 4 * 2048;
    while World::new(8192, "").call("store_core", pin(length, true)).is_err() {
        length -= 1;
    }
    let mut world = World::new(8192, "");
    let answer = world.call("store_core", pin(length, true)).unwrap();
    assert_eq!(answer["result"]["token_estimate"], 2048);
    let error = World::new(8192, "").call("store_core", pin(length + 4, true)).unwrap_err();
    assert_eq!(error.code, Code::PinLimitExceeded);
    let mut later = World::new(8192, "");
    later.call("store_core", pin(length + 4, false)).unwrap();
    let error = later.call(
        "store_core",
        json!({"block_id": "b", "content": "x".repeat(length + 4), "policy": {"pinned": true}}),
    );
    assert_eq!(error.unwrap_err().code, Code::PinLimitExceeded, "pinning what is there counts too");
}

#[test]
fn a_message_larger_than_the_window_changes_nothing() {
    let mut world = World::new(1000, "");
    world.call("append_fifo", said(50)).unwrap();
    let before = world.core.clone();
    let error = world.call("append_fifo", said(1001)).unwrap_err();
    assert_eq!(error.code, Code::TokenBudgetExceeded);
    // The empty system message costs 5 and the reply's priming 3; everything else could have left.
    assert_eq!(error.fields["required_headroom"], 9);
    assert_eq!(world.core, before);
}

/// A world with a summary of facts, and with more of them in the queue than it holds.
fn remembering(window: u64) -> World {
    let mut world = World::new(window, "");
    world.checks = false;
    let mut number = 0;
    while world.core.counters.flushes < 3 || world.core.queue.count < 5 {
        number += 1;
        let (tide, berth, price) = (number * 7, number * 3, number * 11);
        let fact = format!("Captain {tide} sold boat {berth} in Oslo for {price} crowns.");
        world.call("append_fifo", json!({"message": fact, "role": "user"})).unwrap();
    }
    world.checks = true;
    world
}

/// What a call may bring into the window when all messages leave and the summary shrinks as far as it may.
fn room_beside_summary(world: &World) -> u64 {
    let now = tokens(&world.core);
    let fixed = now.system + now.working + now.tools;
    world.core.token_budget.max - fixed - summary_tokens_min(&world.core)
}

/// A message of one token more than the room is short of 1, and one that takes all the room fits.
fn fits_to_the_token(world: &mut World, room: u64) {
    let before = world.core.clone();
    for over in [1, 2, 77] {
        let error = world.call("append_fifo", said(room + over)).unwrap_err();
        assert_eq!(error.code, Code::TokenBudgetExceeded);
        assert_eq!(error.fields["required_headroom"], over);
        assert_eq!(world.core, before);
    }
    world.call("append_fifo", said(room)).unwrap();
}

#[test]
fn a_message_that_just_fits_leaves_the_summary_its_room() {
    for window in [1000, 4096, 8192] {
        let mut world = remembering(window);
        let mut firm = 0;
        for _ in 0..6 {
            let old = world.core.queue_head_summary.clone();
            let (room, least) = (room_beside_summary(&world), summary_tokens_min(&world.core));
            assert!(least > window / 25, "there is a summary to lose: {old:?}");
            fits_to_the_token(&mut world, room);
            let new = &world.core.queue_head_summary;
            if old.token_estimate == least {
                firm += 1;
                assert!(new.token_estimate >= least, "{old:?} became {new:?}");
                assert_eq!(tokens(&world.core).free, 0);
            }
            assert!(new.token_estimate * 2 > least, "{old:?} became {new:?}");
            assert_eq!(new.revision, old.revision + 1);
            world.call("append_fifo", said(20)).unwrap();
        }
        assert!(firm >= 5, "{firm} in a window of {window}");
    }
}

#[test]
fn a_full_summary_shrinks_to_its_floor_and_no_further() {
    let mut world = remembering(4096);
    let cap = summary_tokens_max(4096);
    let lines: Vec<String> = (0..200).map(|n| format!("user: berth {n} tide {}", n * 7)).collect();
    world.summariser = Some(lines.join("\n"));
    world.call("evict_fifo", json!({"target_tokens": 0})).unwrap();
    world.summariser = None;
    let old = world.core.queue_head_summary.clone();
    let floor = summary_tokens_min(&world.core);
    assert!(old.token_estimate > floor && old.token_estimate <= cap, "{old:?}");
    assert_eq!(floor, cap * OLD_SUMMARY_PERCENT / 100);
    world.call("append_fifo", said(20)).unwrap();
    let room = room_beside_summary(&world);
    fits_to_the_token(&mut world, room);
    let new = &world.core.queue_head_summary;
    let kept = new.content.matches("berth").count();
    assert!(new.token_estimate <= floor && kept > 20, "{kept} of {} lines", lines.len());
}

#[test]
fn no_call_takes_the_room_of_the_summary() {
    let mut world = remembering(4096);
    let (before, room) = (world.core.clone(), room_beside_summary(&world));
    let block = |length: u64| {
        let content = "x".repeat(usize::try_from(length).unwrap());
        json!({"block_id": "b", "content": content})
    };
    // As much text as there is room: the frame is too much. Four bytes are a token.
    let error = world.call("store_core", block(4 * room)).unwrap_err();
    let over = error.fields["required_headroom"].as_u64().unwrap();
    let error = world.call("store_core", block(4 * (room - over + 1))).unwrap_err();
    assert_eq!(
        (error.code, &error.fields["required_headroom"]),
        (Code::TokenBudgetExceeded, &json!(1))
    );
    assert_eq!(world.core, before);
    world.call("store_core", block(4 * (room - over))).unwrap();
    assert_eq!(tokens(&world.core).free, 0);
    assert!(world.core.counters.flushes > before.counters.flushes);
    let (old, new) = (&before.queue_head_summary, &world.core.queue_head_summary);
    assert!(new.token_estimate >= old.token_estimate, "{old:?} became {new:?}");
}

#[test]
fn a_flush_in_parts_lets_the_summary_grow_no_further_than_the_message_leaves_room() {
    let mut world = World::new(30_000, "");
    world.checks = false;
    for number in 0..2_400 {
        let fact = format!("boat{number} tide{}", number * 7);
        world.call("append_fifo", json!({"message": fact, "role": "user"})).unwrap();
    }
    assert_eq!(world.core.counters.flushes, 0);
    world.checks = true;
    let room = room_beside_summary(&world);
    world.call("append_fifo", said(room - 300)).unwrap();
    assert_eq!(world.core.counters.flushes, 2, "2000 and the rest");
    let summary = tokens(&world.core).summary;
    assert!((150..=300).contains(&summary), "{summary}");
}

#[test]
fn an_answer_without_text_leaves_the_old_summary_and_raises_the_alarm() {
    let mut world = remembering(1000);
    let old = world.core.queue_head_summary.clone();
    for answer in ["", " \n\t\n"] {
        world.summariser = Some(answer.into());
        world.call("evict_fifo", json!({"target_tokens": 0})).unwrap();
        let new = &world.core.queue_head_summary;
        assert_eq!((&new.content, new.token_estimate), (&old.content, old.token_estimate));
        for kind in [EventType::Flush, EventType::Summarize] {
            let told = &world.events.iter().rev().find(|e| e.kind == kind).unwrap().details;
            assert_eq!((&told["drift_alarm"], &told["alarm"]), (&json!(true), &json!("lost")));
        }
        world.call("append_fifo", said(20)).unwrap();
    }
}

#[test]
fn the_frame_of_a_summary_costs_the_same_around_every_text() {
    for encoding in [Encoding::O200kBase, Encoding::Cl100kBase] {
        let counter = Tiktoken::new(encoding);
        let frame = render::summary_cost(&counter, "x") - counter.count("x");
        for text in
            ["user: tide", "- tide", "4711", "\"so\"", "对花生过敏", "🦀 crab", "(b)", "# A"]
        {
            let cost = render::summary_cost(&counter, text);
            assert_eq!(cost, frame + counter.count(text), "{text} in {encoding:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Beside what cannot leave and the floor of the summary a message fits to the token, and no summary
    /// goes for it. What is told of the eviction is what the core then takes (`check_report`).
    #[test]
    fn a_message_fits_beside_the_summary_or_is_short_of_exactly_the_rest(
        window in 600..6000_u64,
        facts in prop::collection::vec("[a-z]{3,9} [a-z]{3,9} [0-9]{1,4} [a-z ]{0,90}", 20..160),
        over in -120_i64..120,
    ) {
        let mut world = World::new(window, "You are Ada.");
        for fact in facts {
            world.call("append_fifo", json!({"message": fact, "role": "user"})).unwrap();
        }
        prop_assume!(world.core.queue.count > 0);
        let before = world.core.clone();
        let cost = room_beside_summary(&world).checked_add_signed(over).unwrap();
        match world.call("append_fifo", said(cost)) {
            Ok(_) => {
                prop_assert!(over <= 0);
                let (old, new) = (&before.queue_head_summary, &world.core.queue_head_summary);
                let least = old.token_estimate.min(summary_tokens_min(&before));
                prop_assert!(old.content.is_empty() || new.token_estimate * 2 > least, "{old:?} became {new:?}");
            }
            Err(error) => {
                prop_assert_eq!(&error.fields["required_headroom"], &json!(over));
                prop_assert_eq!(&world.core, &before);
            }
        }
    }
}

#[test]
fn what_cannot_reach_the_target_says_so_and_ends() {
    let mut world = World::new(1000, &"x".repeat(2400));
    for _ in 0..30 {
        world.call("append_fifo", said(40)).unwrap();
    }
    let answer = world.call("evict_fifo", json!({})).unwrap();
    assert_eq!(answer["flush"]["target_reached"], false);
    assert_eq!(answer["result"]["after_occupancy"], world.occupancy());
}

#[test]
fn an_eviction_of_more_than_one_transaction_holds_reaches_its_target_in_parts() {
    let mut world = World::new(30_000, "");
    world.checks = false;
    for _ in 0..4_500 {
        world.call("append_fifo", said(5)).unwrap();
    }
    world.checks = true;
    let before = world.core.clone();
    let error = world.call("append_fifo", said(29_999)).unwrap_err();
    assert_eq!(error.code, Code::TokenBudgetExceeded);
    assert_eq!(world.core, before, "a call that is refused in the end makes no part first");

    world.call("evict_fifo", json!({"target_tokens": 6_000})).unwrap();
    assert!(world.occupancy() <= 6_000, "{}", world.occupancy());
    assert!(world.core.counters.flushes > 1);
    assert_eq!(world.logged.len() as u64, world.core.queue.head_seq - 1);
}

#[test]
fn a_target_above_the_warning_counts_the_notice() {
    let mut world = World::new(1000, "");
    while world.occupancy() < 880 {
        world.call("append_fifo", said(10)).unwrap();
    }
    world.call("evict_fifo", json!({"target_tokens": 800, "summarize": false})).unwrap();
    assert!((790..=800).contains(&world.occupancy()), "{}", world.occupancy());
}

#[test]
fn a_removed_block_is_a_change_to_those_who_saw_it() {
    let mut world = World::new(1000, "");
    world.call("store_core", json!({"block_id": "b", "content": "x"})).unwrap();
    let seen = world.core.version;
    let remove = json!({"block_id": "b", "content": "", "policy": {"mode": "delete"}});
    world.call("store_core", remove).unwrap();
    let block = |id: &str| Depends::Block(id.into());
    assert_eq!(changed_since(&world.core, Some(seen), &block("b")), ["block:b"]);
    assert!(changed_since(&world.core, Some(world.core.version), &block("b")).is_empty());
    assert!(changed_since(&world.core, Some(seen), &block("c")).is_empty());
}

#[test]
fn an_eviction_without_summary_leaves_the_summary_alone() {
    let mut world = World::new(2000, "");
    for _ in 0..40 {
        world.call("append_fifo", said(30)).unwrap();
    }
    let before = world.core.queue_head_summary.clone();
    let answer =
        world.call("evict_fifo", json!({"target_tokens": 300, "summarize": false})).unwrap();
    assert!(answer["result"]["evicted_count"].as_u64().unwrap() > 20);
    assert_eq!(world.core.queue_head_summary, before);
    assert!(world.occupancy() <= 300);
}

#[test]
fn a_narrower_window_evicts_and_says_that_the_invariant_was_broken() {
    let mut world = World::new(4000, "");
    for _ in 0..60 {
        world.call("append_fifo", said(40)).unwrap();
    }
    world.patch(json!({"context_window": 1000})).unwrap();
    assert_eq!(world.count(EventType::Error), 1);
    assert!(world.occupancy() <= 500, "{}", world.occupancy());
    let error =
        World::new(4000, &"x".repeat(8000)).patch(json!({"context_window": 1000})).unwrap_err();
    assert_eq!(error.code, Code::WindowTooSmall);
}

#[test]
fn entries_written_to_recall_take_no_room() {
    let mut world = World::new(1000, "");
    let before = world.occupancy();
    let answer = world
        .call(
            "write_recall",
            json!({"entries": [{"content": "a"}, {"content": "b", "role": "user"}]}),
        )
        .unwrap();
    assert_eq!(answer["result"]["inserted_ids"].as_array().unwrap().len(), 2);
    assert_eq!(world.occupancy(), before);
    assert_eq!(world.logged.len(), 2);
}

#[test]
fn time_never_stands_still_between_two_messages() {
    let mut world = World::new(1000, "");
    world.unix_ms = 9_000;
    world.call("append_fifo", said(10)).unwrap();
    world.unix_ms = 5_000;
    world.call("append_fifo", said(10)).unwrap();
    assert_eq!(world.messages[1].created_at, iso8601(9_002));
}

/// The rows of a chain: what began and what ended, with the reason.
fn beats(world: &World) -> Vec<String> {
    let beat = |event: &&Event| matches!(event.kind, EventType::HbStart | EventType::HbEnd);
    let told = |event: &Event| match event.kind {
        EventType::HbStart => "start".to_owned(),
        _ => format!(
            "{} by {} at {}",
            event.details["reason"].as_str().unwrap(),
            event.details["closed_by"].as_str().unwrap(),
            event.details["chain_depth"]
        ),
    };
    world.events.iter().filter(beat).map(told).collect()
}

#[test]
fn an_event_from_outside_ends_a_chain_and_a_write_inside_does_not() {
    let go = json!({"state": "continue"});
    let mut world = World::new(4_000, "");
    world.call("record_heartbeat", go.clone()).unwrap();
    world.call("store_core", json!({"block_id": "b", "content": "x"})).unwrap();
    world.call("append_fifo", json!({"message": "I look.", "role": "assistant"})).unwrap();
    world.call("write_recall", json!({"entries": [{"content": "y"}]})).unwrap();
    let second = world.call("record_heartbeat", go.clone()).unwrap();
    assert_eq!(second["result"]["chain_depth"], 2);
    let told = world.call("append_fifo", said(10)).unwrap()["heartbeat"].clone();
    assert_eq!(
        (&told["terminated_reason"], &told["closed_by"], &told["chain_depth"]),
        (&json!("explicit_yield"), &json!("event"), &json!(2))
    );
    let third = world.call("record_heartbeat", go.clone()).unwrap();
    assert_eq!(third["result"]["chain_depth"], 1, "a new chain");
    let event = decode_as::<PostEvent>(
        json!({"class": "scheduled", "content": "tick"}).as_object().cloned().unwrap(),
    );
    world.run(&Call::PostEvent(event.unwrap())).unwrap();
    world.call("append_fifo", said(10)).unwrap();
    assert_eq!(
        beats(&world),
        ["start", "explicit_yield by event at 2", "start", "explicit_yield by event at 1"]
    );
}

#[test]
fn a_dead_chain_is_closed_by_the_next_write_of_its_agent() {
    let mut world = World::new(4_000, "");
    world.call("record_heartbeat", json!({"state": "continue"})).unwrap();
    world.unix_ms += 60_000;
    let told = world.call("store_core", json!({"block_id": "b", "content": "x"})).unwrap();
    assert_eq!(told["heartbeat"]["terminated_reason"], "duration");
    assert_eq!(beats(&world), ["start", "duration by write at 1"]);
    let cooling = world.call("record_heartbeat", json!({"state": "continue"})).unwrap_err();
    assert_eq!(cooling.code, Code::HeartbeatCooldown);
    assert_eq!(cooling.fields["retry_after_ms"], 749);
}

#[test]
fn what_only_has_to_wait_changes_nothing() {
    let mut world = World::new(4_000, "");
    for _ in 0..3 {
        world.call("record_heartbeat", json!({"state": "continue"})).unwrap();
    }
    let before = world.core.clone();
    let error = world.call("record_heartbeat", json!({"state": {"status": "continue"}}));
    let error = error.unwrap_err();
    assert_eq!(
        (error.code, &error.fields["retry_after_ms"]),
        (Code::HeartbeatRateLimited, &json!(997))
    );
    assert_eq!(world.core, before);
}

#[test]
fn a_note_is_a_word_in_the_events_and_nothing_else() {
    let mut world = World::new(4_000, "");
    let noted = |note: &str| json!({"state": {"status": "continue", "note": note}});
    world.call("record_heartbeat", noted("page-1")).unwrap();
    let start = world.events.iter().find(|e| e.kind == EventType::HbStart).unwrap();
    assert_eq!(start.details["note"], "page-1");
    for (arguments, field) in [
        (noted("what the user said"), "state.note"),
        (json!({"state": "pause"}), "state"),
        (json!({"state": {"status": "yield", "mood": "good"}}), "state.mood"),
        (json!({}), "state"),
    ] {
        let error = world.call("record_heartbeat", arguments.clone()).unwrap_err();
        assert_eq!(error.fields["field"], field, "{arguments}: {error}");
    }
    assert_eq!(world.core.heartbeat.chain.as_ref().unwrap().depth, 1);
}

#[test]
fn limits_of_heartbeats_change_while_a_chain_runs() {
    let mut world = World::new(4_000, "");
    world.call("record_heartbeat", json!({"state": "continue"})).unwrap();
    world.patch(json!({"heartbeat": {"max_chain_depth": 1, "cooldown_ms": 0}})).unwrap();
    let ended = world.call("record_heartbeat", json!({"state": "continue"})).unwrap();
    assert_eq!(ended["result"]["terminated_reason"], "depth");
    assert_eq!(world.core.heartbeat.limits.rps_limit, 3, "what is absent stays");
    for (body, field) in [
        (json!({"heartbeat": {"rps_limit": 0}}), "heartbeat.rps_limit"),
        (json!({"heartbeat": {"pulse": 1}}), "heartbeat.pulse"),
        (json!({"heartbeat": {}}), "body"),
    ] {
        let error = world.patch(body.clone()).unwrap_err();
        assert_eq!(error.fields["field"], field, "{body}: {error}");
    }
}

/// A draft that puts so many tokens into the queue and wants a beat, taken to its end with everything it asks.
fn beats_with(world: &mut World, cost: u64) -> Value {
    world.unix_ms += 1;
    let mut answers = Answers::default();
    loop {
        let around = Surroundings {
            counter: &FourBytes,
            unix_ms: world.unix_ms,
            ids: &world.ids,
            scope: &world.scope,
            actor: &world.actor,
            tool: "search_recall",
            embedder: &lexical::OWN,
            next_embedder: None,
            key_hash: "k",
            wording: None,
            asked: "",
            capture: None,
            taint: TaintMode::default(),
        };
        let mut draft = Draft::new(around, &world.core);
        let text = "x".repeat(usize::try_from((cost - 4) * 4).unwrap());
        draft.push(Kind::Turn, Role::User, text, Map::new());
        draft.beat(Intent::Continue);
        let target = world.core.token_budget.target;
        let flush = Flush { always: false, target, summarize: true, may_wait: false };
        match draft.finish(flush, &answers, Map::new()).unwrap() {
            Finish::Write(change) => {
                world.write(&change);
                return change.envelope["heartbeat"].clone();
            }
            Finish::Ask(Question::Queue { .. }) => answers.queue = Some(world.messages.clone()),
            Finish::Ask(Question::Summary { of, .. }) => {
                let content = "What was said.".into();
                answers.summary = Some(SummaryAnswer { of, content, details: Map::new() });
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_beat_is_weighed_on_what_is_left_after_the_eviction() {
    let mut world = World::new(1_000, "");
    for _ in 0..30 {
        world.call("append_fifo", said(20)).unwrap();
    }
    let lives = beats_with(&mut world, 20);
    assert_eq!((&lives["granted"], &lives["chain_depth"]), (&json!(true), &json!(1)));
    assert!(tokens(&world.core).free >= 256);
    let ended = beats_with(&mut world, 80);
    assert!(tokens(&world.core).free < 256 && world.core.counters.flushes == 0);
    assert_eq!(ended["terminated_reason"], "tokens");
    assert_eq!(ended["tokens_remaining"], tokens(&world.core).free);
    // This one flushes first, and then there is room.
    world.unix_ms += 1_000;
    let lives = beats_with(&mut world, 150);
    assert_eq!(world.core.counters.flushes, 1);
    assert_eq!((&lives["granted"], &lives["opportunity"]), (&json!(true), &json!(true)));
    assert_eq!(beats(&world), ["start", "tokens by beat at 1", "start"]);
}

/// A random call.
fn any_call() -> impl Strategy<Value = (&'static str, Value)> {
    let text = prop_oneof!["[a-z ]{0,400}", "\\PC{0,60}", Just("日本語のテキスト🙂".repeat(9))];
    let role = prop_oneof![Just("user"), Just("assistant"), Just("system")];
    let words = text.prop_filter("not empty", |t| !t.is_empty());
    prop_oneof![
        12 => (words.clone(), role).prop_map(|(t, r)| ("append_fifo", json!({"message": t, "role": r}))),
        3 => (0..6u8, words.clone()).prop_map(|(id, t)| {
            let calls = json!([{"id": format!("c{id}"), "type": "function", "function": {"name": "f", "arguments": t}}]);
            ("append_fifo", json!({"message": {"content": "", "tool_calls": calls}, "role": "assistant"}))
        }),
        3 => (0..6u8, words.clone()).prop_map(|(id, t)| {
            ("append_fifo", json!({"message": {"content": t, "tool_call_id": format!("c{id}")}, "role": "tool"}))
        }),
        3 => prop_oneof![3 => Just("continue"), 1 => Just("yield")]
            .prop_map(|state| ("record_heartbeat", json!({"state": state}))),
        2 => (0..4u8, words.clone(), any::<bool>(), any::<bool>()).prop_map(|(id, t, pinned, append)| {
            let mode = if append { "append" } else { "replace" };
            ("store_core", json!({"block_id": format!("b{id}"), "content": t, "policy": {"pinned": pinned, "mode": mode}}))
        }),
        1 => (0..900u64, any::<bool>()).prop_map(|(t, s)| ("evict_fifo", json!({"target_tokens": t, "summarize": s}))),
        1 => words.clone().prop_map(|t| ("write_recall", json!({"entries": [{"content": t}]}))),
        2 => words.prop_map(|t| ("write_recall", json!({"entries": [{"content": format!("boat {t}")}]}))),
        3 => (1..20u64, any::<bool>(), any::<bool>()).prop_map(|(limit, rehydrate, heartbeat)| {
            ("search_recall", json!({"query": "boat", "limit": limit, "rehydrate": rehydrate, "heartbeat": heartbeat}))
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_row_of_calls_breaks_the_window_or_loses_a_message(
        window in 400..3000u64,
        calls in prop::collection::vec(any_call(), 1..120),
    ) {
        let mut world = World::new(window, "You are Ada.");
        let mut appended = 0;
        for (tool, arguments) in calls {
            let before = world.core.clone();
            if tool == "search_recall" {
                let flushes = before.counters.flushes;
                let growth = world.call(tool, arguments).unwrap();
                let result = growth.get("result").and_then(Value::as_object).unwrap_or(&growth);
                let grew = i128::from(tokens(&world.core).occupancy) - i128::from(tokens(&before).occupancy);
                prop_assert_eq!(result["tokens_added"].as_i64().map(i128::from), Some(grew));
                // A window that could not be emptied in time is emptied by whatever writes next.
                if tokens(&before).occupancy < before.token_budget.flush {
                    prop_assert_eq!(world.core.counters.flushes, flushes, "finding pushes nothing out");
                }
                continue;
            }
            match world.call(tool, arguments) {
                Ok(_) => appended += usize::from(matches!(tool, "append_fifo" | "write_recall")),
                Err(error) => {
                    let expected = [Code::TokenBudgetExceeded, Code::PinLimitExceeded,
                        Code::HeartbeatRateLimited, Code::HeartbeatCooldown];
                    // The result of a call that nobody made.
                    let uncalled = tool == "append_fifo" && error.code == Code::InvalidArgument;
                    // Any text may hold characters that nobody sees.
                    let tainted = tool == "store_core" && error.code == Code::TaintedContent;
                    prop_assert!(tainted || uncalled || expected.contains(&error.code), "{error}");
                    // A first part of a flush may stand; the call itself left nothing.
                    prop_assert_eq!(before.chain, world.core.chain.clone());
                }
            }
        }
        let copies = world.messages.iter().filter(|m| m.kind == Kind::Copy).count();
        prop_assert_eq!(world.messages.len() - copies, appended);
        let (started, ended) = (world.count(EventType::HbStart), world.count(EventType::HbEnd));
        prop_assert_eq!(started, ended + usize::from(world.core.heartbeat.chain.is_some()));
    }
}

/// A draft that is only given to the budget, as a tool gives it.
fn drafted(world: &mut World, change: impl Fn(&mut Draft<'_>)) {
    world.unix_ms += 1;
    let mut draft = Draft::new(world.around("search_recall"), &world.core);
    change(&mut draft);
    let target = world.core.token_budget.target;
    let flush = Flush { always: false, target, summarize: true, may_wait: false };
    let finished = draft.finish(flush, &Answers::default(), Map::new()).unwrap();
    let Finish::Write(change) = finished else { panic!("nothing had to be asked") };
    world.write(&change);
}

fn notice(world: &World, kind: &str) -> Option<String> {
    world.core.notices.iter().find(|n| n.kind == kind).map(|n| n.content.clone())
}

#[test]
fn a_copy_is_counted_marked_and_never_logged() {
    let mut world = World::new(1000, "Be kind.");
    let call = json!({"content": "", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    world.call("append_fifo", json!({"message": call, "role": "assistant"})).unwrap();
    let answer = json!({"content": "It rains.", "tool_call_id": "c", "name": "weather"});
    world.call("append_fifo", json!({"message": answer, "role": "tool"})).unwrap();
    world.call("evict_fifo", json!({"target_tokens": 0})).unwrap();
    let (logged, original) = (world.logged.len(), world.messages[1].clone());
    for _ in 0..5 {
        let before = world.occupancy();
        drafted(&mut world, |draft| {
            let cost = draft.copy_cost(&original, None);
            let (seq, counted) = draft.copy(&original, None);
            assert_eq!((seq, counted), (draft.after.queue.next_seq - 1, cost));
        });
        let copy = world.messages.last().unwrap().clone();
        assert_eq!((copy.kind, copy.copy_of.as_ref()), (Kind::Copy, Some(&original.key)));
        assert_eq!((&copy.content, copy.tool_call_id()), (&original.content, None));
        assert_eq!(world.occupancy(), before + copy.token_estimate);
        let rendered = copy.rendered();
        assert_eq!(rendered["role"], "user", "a tool's answer may not stand without its call");
        let text = rendered["content"].as_str().unwrap();
        assert!(
            text.starts_with("[recalled: seq 2, tool, ") && text.ends_with("It rains."),
            "{text}"
        );
        world.call("evict_fifo", json!({"target_tokens": 0})).unwrap();
        assert_eq!(world.core.queue.count, 0);
        assert_eq!(world.logged.len(), logged);
    }
}

#[test]
fn a_spooled_result_is_whole_and_its_notice_goes_when_the_window_has_emptied() {
    let mut world = World::new(1000, "Be kind.");
    let payload = "A line of a long result.\n".repeat(60_000);
    let before = world.occupancy();
    drafted(&mut world, |draft| {
        assert_eq!(draft.spool(&payload).len(), 2);
    });
    let spooled: Vec<&Message> = world.messages.iter().filter(|m| m.kind == Kind::Spool).collect();
    assert_eq!(spooled.iter().map(|m| m.content.as_str()).collect::<String>(), payload);
    let text = notice(&world, "spool").expect("a notice");
    assert!(spooled.iter().all(|m| text.contains(&m.key)), "{text}");
    assert_eq!(world.occupancy(), before + tokens(&world.core).notices);

    // It outlives what only adds, is replaced by the next one, and goes when occupancy falls below the warning.
    world.call("append_fifo", said(20)).unwrap();
    assert_eq!(notice(&world, "spool"), Some(text.clone()));
    drafted(&mut world, |draft| drop(draft.spool("short")));
    let second = notice(&world, "spool").expect("a notice");
    assert_ne!(second, text);
    while world.occupancy() < 700 {
        world.call("append_fifo", said(20)).unwrap();
    }
    assert!(notice(&world, "spool").is_some() && notice(&world, "pressure").is_some());
    while world.core.counters.flushes == 0 {
        world.call("append_fifo", said(20)).unwrap();
    }
    assert_eq!((notice(&world, "spool"), notice(&world, "pressure")), (None, None));
}

#[test]
fn what_takes_no_more_than_the_room_never_flushes() {
    let mut world = World::new(1000, "Be kind.");
    for _ in 0..40 {
        world.call("append_fifo", said(21)).unwrap();
        let flushes = world.core.counters.flushes;
        drafted(&mut world, |draft| {
            let room = draft.room();
            if room > 4 {
                let text = "x".repeat(usize::try_from((room - 4) * 4).unwrap());
                let (_, cost) = draft.push(Kind::Turn, Role::User, text, Map::new());
                assert_eq!(cost, room);
            }
        });
        assert_eq!(world.core.counters.flushes, flushes);
        assert!(world.occupancy() < 900);
        world.call("evict_fifo", json!({"target_tokens": 0})).unwrap();
        for _ in 0..world.messages.len() % 40 {
            world.call("append_fifo", said(21)).unwrap();
        }
    }
}

/// The result of a search, whether it wrote or not.
fn search(world: &mut World, arguments: Value) -> Result<Map<String, Value>, Error> {
    let before = world.occupancy();
    let answer = world.call("search_recall", arguments)?;
    let result = answer.get("result").and_then(Value::as_object).unwrap_or(&answer).clone();
    let growth = i64::try_from(world.occupancy()).unwrap() - i64::try_from(before).unwrap();
    assert_eq!(result["tokens_added"], growth);
    assert!(world.occupancy() < world.core.token_budget.flush, "finding pushes nothing out");
    Ok(result)
}

fn seqs(result: &Map<String, Value>) -> Vec<u64> {
    result["results"].as_array().unwrap().iter().map(|r| r["seq"].as_u64().unwrap()).collect()
}

fn stored(world: &mut World, texts: impl Iterator<Item = String>) {
    for text in texts {
        world.call("write_recall", json!({"entries": [{"content": text}]})).unwrap();
    }
}

#[test]
fn what_is_found_comes_back_once_and_as_far_as_there_is_room() {
    let mut world = World::new(1000, "Be kind.");
    stored(&mut world, (0..30).map(|n| format!("boat {n} {}", "x".repeat(150))));
    let edges = world.logged.len();
    let (mut seen, mut scores) = (Vec::new(), Vec::new());
    let mut token = Value::Null;
    for page in 0.. {
        assert!(page < 60, "the pages come to an end");
        let result =
            search(&mut world, json!({"query": "boat", "limit": 20, "page_token": token})).unwrap();
        assert_eq!(result["total"], 30);
        seen.extend(seqs(&result));
        scores.extend(
            result["results"].as_array().unwrap().iter().map(|r| r["score"].as_f64().unwrap()),
        );
        token = result["next_page_token"].clone();
        if token.is_null() {
            break;
        }
        // Others write and evict meanwhile.
        world.call("append_fifo", said(60)).unwrap();
        stored(&mut world, std::iter::once("boat of another day".to_owned()));
    }
    assert!(scores.is_sorted_by(|better, worse| better >= worse), "best first: {scores:?}");
    seen.sort_unstable();
    assert_eq!(seen, (1..=30).collect::<Vec<_>>(), "no gap, no double");
    let stored_meanwhile =
        world.messages.iter().filter(|m| m.content == "boat of another day").count();
    let evicted =
        world.messages.iter().filter(|m| m.kind.logged() && m.seq < world.core.queue.head_seq);
    assert_eq!(world.logged.len(), edges + stored_meanwhile + evicted.count(), "no copy is logged");

    world.call("evict_fifo", json!({"target_tokens": 0})).unwrap();
    let edges = world.logged.len();
    for _ in 0..5 {
        let first = search(&mut world, json!({"query": "day", "limit": 3})).unwrap();
        assert!(first["tokens_added"].as_u64().unwrap() > 0);
        let places: Vec<u64> = seqs(&first);
        let copies: Vec<u64> = first["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| r["copy_seq"].as_u64().unwrap())
            .collect();
        let (mut by_place, mut by_copy) = (places.clone(), places);
        by_place.sort_unstable();
        by_copy.sort_by_key(|seq| copies[seqs(&first).iter().position(|s| s == seq).unwrap()]);
        assert_eq!(by_place, by_copy, "copies stand in the order in which they were said");
        let again = search(&mut world, json!({"query": "day", "limit": 3})).unwrap();
        assert_eq!(again["tokens_added"], 0, "what stands in the queue does not come back again");
        assert_eq!(again["results"][0]["copy_seq"], first["results"][0]["copy_seq"]);
        world.call("evict_fifo", json!({"target_tokens": 0})).unwrap();
        assert_eq!(world.logged.len(), edges);
    }
}

#[test]
fn a_search_that_changes_nothing_is_a_read() {
    let mut world = World::new(1000, "Be kind.");
    stored(&mut world, (0..3).map(|n| format!("boat {n}")));
    let version = world.core.version;
    let all = json!({"query": "boat", "limit": 3, "rehydrate": false});
    let mut found = seqs(&search(&mut world, all).unwrap());
    found.sort_unstable();
    assert_eq!(found, [1, 2, 3]);
    assert_eq!(seqs(&search(&mut world, json!({"query": "car"})).unwrap()), [0_u64; 0]);
    assert_eq!(world.core.version, version);
    let some = json!({"query": "boat", "limit": 2, "rehydrate": false});
    let result = search(&mut world, some).unwrap();
    assert!(result["next_page_token"].is_string());
    assert_eq!(world.core.version, version + 1, "a page is kept");
}

#[test]
fn a_result_larger_than_the_room_shows_its_beginning_and_says_where_the_whole_is() {
    let mut world = World::new(1000, "Be kind.");
    stored(&mut world, std::iter::once(format!("boat {}", "tide ".repeat(2000))));
    let result = search(&mut world, json!({"query": "boat", "whole": true})).unwrap();
    let shown = result["results"][0].as_object().unwrap();
    assert_eq!((&shown["truncated"], &result["truncated"]), (&json!(true), &json!(true)));
    assert!(shown["content"].as_str().unwrap().starts_with("boat tide"));
    let id = shown["id"].as_str().unwrap().to_owned();
    assert!(notice(&world, "spool").expect("a notice").contains(&id));
    let whole = world.messages.iter().find(|m| m.key == id).unwrap();
    assert!(whole.content.len() > 10_000 && world.logged.contains_key(&whole.seq));
    assert_eq!(world.core.queue.count, 0);
}

#[test]
fn a_search_says_what_is_wrong_with_its_arguments() {
    let mut world = World::new(1000, "Be kind.");
    for (arguments, code) in [
        (json!({"query": "boat", "similarity_min": 0.7}), Code::InvalidArgument),
        (json!({"query": "boat", "mode": "vector", "similarity_min": 1.1}), Code::InvalidArgument),
        (json!({"query": "boat", "tokens_max": 63}), Code::InvalidArgument),
        (json!({"query": "boat", "name": ""}), Code::InvalidArgument),
        (json!({"query": "boat", "after": "last summer"}), Code::InvalidArgument),
        (json!({"query": "boat", "mode": "fuzzy"}), Code::InvalidArgument),
        (json!({"query": "boat", "limit": 21}), Code::InvalidArgument),
        (json!({"query": "boat", "limit": 0}), Code::InvalidArgument),
        (json!({"query": "?!"}), Code::InvalidArgument),
        (json!({}), Code::InvalidArgument),
        (json!({"query": "boat", "page_token": "x"}), Code::PageTokenInvalid),
    ] {
        let text = arguments.to_string();
        assert_eq!(world.call("search_recall", arguments).unwrap_err().code, code, "{text}");
    }
}

fn passage(doc_id: &str, chunk_id: &str, text: &str, provenance: &Value) -> FoundPassage {
    serde_json::from_value(json!({"key": "9f86d081884c7d659a2feaa0c55ad015", "doc_id": doc_id, "chunk_id": chunk_id, "text": text,
        "similarity": 0.123_456, "provenance": provenance, "chunk_links": {"previous": chunk_id, "next": chunk_id},
        "offset": {"start": 1_234_567, "end": 2_345_678}, "freshness_ts": "2026-01-02T03:04:05.678Z", "revision": "r"}))
    .unwrap()
}

fn whole_view(passage: &FoundPassage) -> chunk::View<'_> {
    chunk::View { passage, parts: chunk::Told::Whole(None) }
}

#[test]
fn no_page_is_larger_than_it_may_be_whatever_a_passage_is_called() {
    let counter = Tiktoken::new(Encoding::O200kBase);
    let rare = "\u{1EFFB}".repeat(64);
    assert_eq!(rare.len(), 256, "as long as a doc_id may be");
    let dotted = "qXzK".repeat(32);
    let provenance = json!({"source": "\u{1EFFB}".repeat(12), "owner": "qXzK".repeat(12), "note": "n ".repeat(900)});
    for (doc_id, chunk_id) in [(rare.as_str(), dotted.as_str()), (&rare, "0000"), ("d", &dotted)] {
        for text in ["short", &"a word and another ".repeat(400), &"\u{13000}".repeat(900)] {
            let rows = [passage(doc_id, chunk_id, text, &provenance)];
            let views = [whole_view(&rows[0])];
            let pieces = chunk::pages(&counter, &views, PAGE_TOKENS_MAX);
            let mut whole = String::new();
            for piece in &pieces {
                let shown = chunk::shown(&counter, &views[0], piece.start, piece.end);
                whole.push_str(shown["text"].as_str().unwrap());
                let cost = chunk::page_cost(&counter, std::slice::from_ref(&shown));
                assert!(cost <= PAGE_TOKENS_MAX, "{cost}: {shown}");
            }
            assert_eq!(whole, text);
        }
    }
}

/// Counts the bytes that it is given to count.
struct Weighing(std::sync::atomic::AtomicUsize);

impl TokenCounter for Weighing {
    fn encoding(&self) -> Encoding {
        Encoding::O200kBase
    }

    fn count(&self, text: &str) -> u64 {
        self.0.fetch_add(text.len(), std::sync::atomic::Ordering::Relaxed);
        FourBytes.count(text)
    }
}

#[test]
fn cutting_large_passages_counts_each_of_their_bytes_a_few_times_only() {
    let text = "Die Gezeiten kommen zweimal am Tag. ".repeat(1800);
    let rows: Vec<FoundPassage> =
        (0..40).map(|_| passage("d", "0000", &text, &json!({"owner": "a"}))).collect();
    let counter = Weighing(Default::default());
    let views: Vec<chunk::View<'_>> = rows.iter().map(whole_view).collect();
    let pieces = chunk::pages(&counter, &views, PAGE_TOKENS_MAX);
    assert!(pieces.len() > 40 * 32);
    let (counted, given) = (counter.0.into_inner(), 40 * text.len());
    assert!(counted < 20 * given, "{} times", counted / given);
}

#[test]
fn a_page_that_is_spooled_never_pushes_anything_out() {
    let counter = Tiktoken::new(Encoding::O200kBase);
    let ids = SeededIds::new(1);
    let call = decode(
        Tool::SearchArchival,
        json!({"query_vector": [1.0, 0.0]}).as_object().cloned().unwrap(),
    )
    .unwrap();
    let setting = json!({"dimension": 2, "metric": "cosine", "embedding_version": "1", "model_id": "m", "defaultNProbe": 8, "created_at": ""});
    let vectors = VectorsAnswer {
        setting: Some(serde_json::from_value(setting).unwrap()),
        index_ready: false,
        exact_rows_max: 100,
        filters_first: false,
    };
    let rows = vec![passage("d", "0000", &"a word ".repeat(200), &json!({"owner": "ada"}))];
    let looked = Looked::default();
    let nearest = Nearest { plan: NearPlan::Exact, k: 10, rows: Some(rows), looked };
    let answers = Answers { vectors: Some(vectors), nearest: Some(nearest), ..Answers::default() };
    let mut spooled = 0;
    for taken in 0..225 {
        let mut world = World::new(1000, "Be kind.");
        world.core.queue.tokens = 600 + taken;
        world.core.queue.count = 1;
        let around = Surroundings {
            counter: &counter,
            unix_ms: 5_000,
            ids: &ids,
            scope: &world.scope,
            actor: &world.actor,
            tool: call.name(),
            embedder: &lexical::OWN,
            next_embedder: None,
            key_hash: "k",
            wording: None,
            asked: "",
            capture: None,
            taint: TaintMode::default(),
        };
        match call.step(around, &world.core, &answers).unwrap() {
            Step::Write(change) => {
                spooled += usize::from(change.spooled());
                let now = tokens(&change.after);
                assert!(now.occupancy < change.after.token_budget.flush, "{now:?}");
            }
            other => panic!("{taken}: {other:?}"),
        }
    }
    assert!(spooled > 100, "{spooled}");
}
