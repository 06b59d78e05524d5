//! Tests captured calls (whose results the server appends as messages), tools with large results,
//! and heartbeat chains that repeat the same calls.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use vctx_core::error::Code;
use vctx_core::memory::capture::Capture;
use vctx_core::memory::event::EventType;
use vctx_core::memory::form::Form;
use vctx_core::memory::message::{Kind, Message, Role};
use vctx_core::memory::tokens::message_cost;
use vctx_core::tools::{PatchAgent, Tool, decode_as};
use vctx_core::window::{Section, assemble, tokens};

use super::chains::beats;
use super::said;
use crate::share;
use crate::world::{FourBytes, World};

/// Appends an assistant message that calls a tool.
fn calls(world: &mut World, id: &str) {
    let call = json!({"id": id, "function": {"name": "any", "arguments": "{}"}});
    let message = json!({"content": "", "tool_calls": [call]});
    world.call("append_fifo", json!({"message": message, "role": "assistant"})).unwrap();
}

/// Runs a captured call, whose result answers the tool call `id`.
fn captured(world: &mut World, id: &str, tool: &str, arguments: Value) -> Map<String, Value> {
    world.capture = Some(Capture::answering(id));
    let answer = world.call(tool, arguments);
    world.capture = None;
    answer.unwrap_or_else(|error| panic!("{tool}: {error}"))
}

fn last(world: &World) -> &Message {
    world.messages.last().expect("a message")
}

/// Returns the text in which a model reads the result of a tool.
fn told(tool: &str, answer: &Map<String, Value>) -> String {
    (Tool::by_name(tool).unwrap().card().told)(answer["result"].as_object().unwrap())
}

#[test]
fn a_result_is_appended_with_the_effect_and_answers_its_call() {
    let mut world = World::new(2000, "Be kind.");
    calls(&mut world, "c1");
    let version = world.core.version;
    let answer =
        captured(&mut world, "c1", "store_core", json!({"block_id": "b", "content": "Likes tea."}));
    assert_eq!(world.core.version, version + 1, "one write");
    assert_eq!(world.core.block("b").map(|b| b.content.as_str()), Some("Likes tea."));
    let said = last(&world);
    assert_eq!((said.role, said.tool_call_id(), said.kind), (Role::Tool, Some("c1"), Kind::Turn));
    assert_eq!(said.content, told("store_core", &answer));
    assert_eq!(answer["captured"]["result"]["seq"], said.seq);
    assert_eq!(answer["captured"]["tool_call_id"], "c1");
    assert_eq!(answer.get("receipt"), None, "the call itself appended nothing");
    let audit = world.events.iter().rev().find(|e| e.kind == EventType::Audit).unwrap();
    assert_eq!(audit.details["next_seq"], said.seq + 1);
}

#[test]
fn a_read_is_written_where_it_is_captured_and_only_there() {
    let mut world = World::new(2000, "");
    world.call("store_core", json!({"block_id": "b", "content": "Likes tea."})).unwrap();
    let (version, count) = (world.core.version, world.messages.len());
    world.call("fetch_core", json!({"block_id": "b"})).unwrap();
    assert_eq!((world.core.version, world.messages.len()), (version, count));
    calls(&mut world, "c1");
    captured(&mut world, "c1", "fetch_core", json!({"block_id": "b"}));
    assert_eq!(last(&world).content, "Likes tea.");
}

#[test]
fn a_pair_is_the_call_and_its_result_under_one_id() {
    let mut world = World::new(2000, "");
    world.capture =
        Some(Capture::Pair { name: "core_memory_append".into(), arguments: "{\"x\":1}".into() });
    let answer = world.call("store_core", json!({"block_id": "b", "content": "x"})).unwrap();
    world.capture = None;
    let [.., call, result] = &world.messages[..] else { panic!("a pair") };
    assert_eq!((call.role, result.role), (Role::Assistant, Role::Tool));
    assert_eq!(call.meta["tool_calls"][0]["function"]["name"], "core_memory_append");
    assert_eq!(call.meta["tool_calls"][0]["function"]["arguments"], "{\"x\":1}");
    assert_eq!(call.tool_call_ids().collect::<Vec<_>>(), [result.tool_call_id().unwrap()]);
    assert_eq!(answer["captured"]["call"]["seq"], call.seq);
    assert_eq!(answer["captured"]["result"]["seq"], result.seq);
}

#[test]
fn what_an_append_answers_is_its_own_message() {
    let mut world = World::new(2000, "");
    let answer = captured(&mut world, "c1", "append_fifo", said(20));
    let [.., own, result] = &world.messages[..] else { panic!("two messages") };
    assert_eq!(answer["receipt"]["seq"], own.seq);
    assert_eq!(answer["captured"]["result"]["seq"], result.seq);
    assert_eq!(result.content, told("append_fifo", &answer));
}

#[test]
fn an_eviction_tells_what_it_did_and_its_result_comes_after_it() {
    let mut world = World::new(2000, "");
    for _ in 0..40 {
        world.call("append_fifo", said(20)).unwrap();
    }
    calls(&mut world, "c1");
    let answer = captured(&mut world, "c1", "evict_fifo", json!({"target_tokens": 500}));
    assert!(answer["result"]["evicted_count"].as_u64() > Some(0));
    assert_eq!(last(&world).content, told("evict_fifo", &answer));
    assert_eq!(last(&world).tool_call_id(), Some("c1"));
}

#[test]
fn a_captured_eviction_tells_the_occupancy_with_its_own_result_whatever_its_digits() {
    let mut digits = std::collections::BTreeSet::new();
    for size in 90..120 {
        let mut world = World::new(4_000, &"x".repeat(3_300 + 4 * size));
        world.checks = false;
        for _ in 0..60 {
            world.call("append_fifo", said(20)).unwrap();
        }
        world.checks = true;
        calls(&mut world, "c1");
        let arguments = json!({"target_tokens": 0, "summarize": false});
        let answer = captured(&mut world, "c1", "evict_fifo", arguments);
        assert_eq!(answer["result"]["after_occupancy"].as_u64(), Some(world.occupancy()));
        let text = format!("; {} tokens are in view.", world.occupancy());
        assert!(last(&world).content.ends_with(&text), "{}", last(&world).content);
        digits.insert(world.occupancy().to_string().len());
    }
    assert_eq!(digits.len(), 2, "from three digits to four: {digits:?}");
}

/// Returns an agent with a block of `block` bytes. Its window has at most `left` free tokens, too
/// few to show the whole block.
fn narrow(window: u64, block: usize, left: u64) -> World {
    let mut world = World::new(window, "");
    world.call("store_core", json!({"block_id": "b", "content": "x".repeat(block)})).unwrap();
    for _ in 0..1_000 {
        if tokens(&world.core).free <= left {
            return world;
        }
        world.call("append_fifo", said(5)).unwrap();
    }
    panic!("it flushes before so little is left");
}

#[test]
fn a_result_larger_than_what_is_left_is_spooled_whole_and_its_beginning_shown() {
    let mut world = narrow(2000, 2000, 400);
    calls(&mut world, "c1");
    let before = tokens(&world.core);
    let answer = captured(&mut world, "c1", "fetch_core", json!({"block_id": "b"}));
    let shown = last(&world).content.clone();
    let (beginning, ids) =
        shown.rsplit_once("\n[shortened; the whole is in recall storage: ").unwrap();
    let ids = ids.trim_end_matches(']');
    let spooled = answer["captured"]["spooled"].as_array().unwrap();
    let named: Vec<&str> = spooled.iter().filter_map(Value::as_str).collect();
    assert_eq!(ids, named.join(", "));
    let whole: String = world
        .messages
        .iter()
        .filter(|m| ids.contains(&m.key) && m.kind == Kind::Spool)
        .map(|m| m.content.as_str())
        .collect();
    assert_eq!(whole.len(), 2000);
    let beginning = beginning.trim_end_matches('…');
    assert!(whole.starts_with(beginning) && !beginning.is_empty(), "{beginning}");
    assert!(world.core.notices.iter().any(|n| n.kind == "spool"));
    assert!(tokens(&world.core).occupancy <= 2000);
    assert_eq!(world.core.counters.flushes, 0, "{before:?}: what does not fit pushes nothing out");
}

#[test]
fn a_small_result_is_never_spooled() {
    let mut world = narrow(1000, 40, 110);
    calls(&mut world, "c1");
    captured(&mut world, "c1", "fetch_core", json!({"block_id": "b"}));
    assert_eq!(last(&world).content, "x".repeat(40));
}

#[test]
fn a_captured_search_shows_what_fits_and_brings_no_copies() {
    let mut world = World::new(2030, "");
    for number in 0..90 {
        let text = format!("boat {number} {}", "x".repeat(60));
        world.call("append_fifo", json!({"message": text, "role": "user"})).unwrap();
    }
    let copies = |world: &World| world.messages.iter().filter(|m| m.kind == Kind::Copy).count();
    for round in 0..4 {
        let id = format!("c{round}");
        calls(&mut world, &id);
        let flushes = world.core.counters.flushes;
        let answer =
            captured(&mut world, &id, "search_recall", json!({"query": "boat", "limit": 20}));
        let results = answer["result"]["results"].as_array().unwrap();
        let shown = &last(&world).content;
        assert!(!results.is_empty() && *shown == told("search_recall", &answer), "{shown}");
        assert_eq!(shown.matches("boat").count(), results.len());
        assert_eq!((copies(&world), answer["result"]["tokens_added"].as_u64()), (0, Some(0)));
        assert_eq!(answer["captured"].get("spooled"), None);
        assert_eq!(world.core.counters.flushes, flushes, "round {round}");
    }
}

/// Appends a large tool result to windows of different fill levels, with the flush mark at the
/// given percentage of the window. Returns in how many of these windows the result had no room and
/// was spooled.
fn overflows(flush_percent: u64) -> u64 {
    let window = 4000;
    let mut overflown = 0;
    for fill in 160..200 {
        let mut world = World::new(window, "");
        world.checks = false;
        world.core.token_budget.flush = window * flush_percent / 100;
        // A tool result of slightly less than a tenth of the window.
        world.call("store_core", json!({"block_id": "b", "content": "x".repeat(1_200)})).unwrap();
        for _ in 0..fill {
            world.call("append_fifo", said(19)).unwrap();
        }
        calls(&mut world, "c1");
        world.checks = true;
        let answer = captured(&mut world, "c1", "fetch_core", json!({"block_id": "b"}));
        let result = last(&world).shown(Form::Two).message;
        assert!(message_cost(&FourBytes, &result) < window / 10);
        overflown += u64::from(answer["captured"].get("spooled").is_some());
    }
    overflown
}

#[test]
fn a_large_result_overflows_where_the_flush_waits_for_a_full_window_and_not_at_nine_tenths() {
    assert_eq!(overflows(90), 0);
    assert!(overflows(100) > 0);
}

fn offered(tokens: u64) -> Value {
    json!({"tools": {"digest": "a".repeat(64), "token_estimate": tokens}})
}

#[test]
fn tools_take_room_like_a_message_and_a_flush_makes_it() {
    let mut world = World::new(2000, "");
    let empty = world.occupancy();
    world.patch(offered(300)).unwrap();
    let now = tokens(&world.core);
    assert_eq!(
        (now[Section::Tools], now.occupancy, now.free),
        (300, empty + 300, 2000 - empty - 300)
    );
    while world.occupancy() < 1500 {
        world.call("append_fifo", said(20)).unwrap();
    }
    assert_eq!(world.core.counters.flushes, 0);
    world.patch(offered(800)).unwrap();
    assert_eq!(world.core.counters.flushes, 1, "it grew over nine tenths");
    assert!(world.occupancy() <= 1800 && tokens(&world.core)[Section::Tools] == 800);
    for _ in 0..100 {
        world.call("append_fifo", said(20)).unwrap();
    }
    world.patch(json!({"tools": {"digest": "", "token_estimate": 0}})).unwrap();
    assert_eq!(tokens(&world.core)[Section::Tools], 0);
}

#[test]
fn tools_that_cannot_fit_are_refused_and_change_nothing() {
    let mut world = World::new(2000, "");
    world.call("store_core", json!({"block_id": "b", "content": "x".repeat(4_000)})).unwrap();
    let before = world.core.clone();
    for (tools, code) in [(1_800, Code::WindowTooSmall), (1_200, Code::TokenBudgetExceeded)] {
        assert_eq!(world.patch(offered(tools)).unwrap_err().code, code, "{tools}");
        assert_eq!(world.core, before);
    }
    for odd in
        [json!({"digest": "x", "token_estimate": 3}), json!({"digest": "", "token_estimate": 3})]
    {
        let body = json!({"tools": odd}).as_object().cloned().unwrap();
        let patch: PatchAgent = decode_as(body).unwrap();
        assert_eq!(patch.checked().unwrap_err().code, Code::InvalidArgument);
    }
}

#[test]
fn the_same_call_with_the_same_answer_ends_its_chain_the_third_time() {
    let mut world = World::new(4000, "");
    world.call("store_core", json!({"block_id": "b", "content": "Likes tea."})).unwrap();
    world.patch(json!({"heartbeat": {"rps_limit": 64}})).unwrap();
    let go = json!({"state": "continue"});
    let read = json!({"block_id": "b"});
    // Repetitions are only counted within a heartbeat chain.
    for _ in 0..5 {
        captured(&mut world, "c0", "fetch_core", read.clone());
    }
    world.call("record_heartbeat", go.clone()).unwrap();
    for times in 1..=3 {
        // A call with a different answer, or a different call, does not count as a repetition.
        let text = format!("Likes tea {times}.");
        let other = json!({"block_id": "c", "content": text});
        captured(&mut world, "cx", "store_core", other);
        let answer = captured(&mut world, "c1", "fetch_core", read.clone());
        let beat = &answer["heartbeat"];
        if times < 3 {
            assert_eq!(beat.get("terminated_reason"), None, "{beat}");
            world.call("record_heartbeat", go.clone()).unwrap();
            continue;
        }
        assert_eq!(
            (&beat["terminated_reason"], &beat["closed_by"], &beat["chain_depth"]),
            (&json!("depth"), &json!("call"), &json!(3))
        );
        assert_eq!(beat["opportunity"], false, "it cools");
    }
    assert_eq!(beats(&world), ["start", "depth by call at 3"]);
    let error = world.call("record_heartbeat", go).unwrap_err();
    assert_eq!(error.code, Code::HeartbeatCooldown);
}

#[test]
fn a_search_that_asks_for_the_next_beat_is_not_granted_one_when_it_goes_in_circles() {
    let mut world = World::new(4000, "");
    let search = json!({"query": "boat", "rehydrate": false, "heartbeat": true});
    world.call("record_heartbeat", json!({"state": "continue"})).unwrap();
    let granted: Vec<Value> = (0..3)
        .map(|_| {
            world.unix_ms += 1_000;
            world.call("search_recall", search.clone()).unwrap()["heartbeat"].clone()
        })
        .collect();
    let told: Vec<&Value> = granted.iter().map(|beat| &beat["granted"]).collect();
    assert_eq!(told, [&json!(true), &json!(true), &json!(false)]);
    assert_eq!(
        (&granted[2]["terminated_reason"], &granted[2]["closed_by"]),
        (&json!("depth"), &json!("call"))
    );
}

#[test]
fn a_result_stands_behind_its_call_whatever_came_between_them() {
    let mut world = World::new(4000, "Be kind.");
    let call = |id: &str| json!({"id": id, "function": {"name": "any", "arguments": "{}"}});
    let two = json!({"content": "", "tool_calls": [call("a"), call("b")]});
    world.call("append_fifo", json!({"message": two, "role": "assistant"})).unwrap();
    world.call("append_fifo", json!({"message": "between", "role": "user"})).unwrap();
    captured(&mut world, "a", "store_core", json!({"block_id": "b", "content": "x"}));
    captured(
        &mut world,
        "b",
        "append_fifo",
        json!({"message": "said by a call", "role": "assistant"}),
    );
    // If no call in the window waits for a result, the result stays at its position, but is
    // rendered as a system message instead of a tool message.
    captured(&mut world, "nobody", "fetch_core", json!({"block_id": "b"}));
    calls(&mut world, "a");
    captured(&mut world, "a", "fetch_core", json!({"block_id": "b"}));
    let window = assemble(&world.core, &world.messages);
    let told = |m: &Value| {
        let id = m["tool_call_id"].as_str().or(m["tool_calls"][0]["id"].as_str());
        let text = m["content"].as_str().unwrap().lines().next();
        format!("{}:{}", m["role"].as_str().unwrap(), id.or(text).unwrap())
    };
    let order: Vec<String> = window.messages[2..].iter().map(told).collect();
    let wanted = [
        "system:The conversation goes on from 1970-01-01 Thu:",
        "assistant:a",
        "tool:a",
        "tool:b",
        "user:between",
        "assistant:said by a call",
        "system:[late result of tool call nobody: no call in view waits for it]",
        "assistant:a",
        "tool:a",
        "system:Now: 1970-01-01 Thu 00:00 UTC",
    ];
    assert_eq!(order, wanted);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(share(64)))]

    /// For any captured calls in any order, every rule of the window holds after each write, and
    /// each call has its result.
    #[test]
    fn captured_calls_keep_every_rule(
        window in 600_u64..3000,
        steps in prop::collection::vec((0_u8..6, 1_usize..1500), 1..40),
    ) {
        let mut world = World::new(window, "Be kind.");
        for (number, (what, size)) in steps.into_iter().enumerate() {
            let id = format!("c{number}");
            let call = json!({"id": id, "function": {"name": "any", "arguments": "{}"}});
            let message = json!({"message": {"content": "", "tool_calls": [call]}, "role": "assistant"});
            world.call("append_fifo", message).unwrap();
            let text = "word ".repeat(size / 5 + 1);
            let (tool, arguments) = match what {
                0 => ("store_core", json!({"block_id": "b", "content": text.get(..size.min(200)).unwrap_or("x")})),
                1 => ("fetch_core", json!({"block_id": "b"})),
                2 => ("search_recall", json!({"query": "word", "limit": size % 20 + 1})),
                3 => ("evict_fifo", json!({"target_tokens": size})),
                4 => ("write_recall", json!({"entries": [{"content": text}]})),
                _ => ("append_fifo", json!({"message": text, "role": "user"})),
            };
            world.capture = Some(Capture::answering(id.clone()));
            let answer = world.call(tool, arguments);
            world.capture = None;
            match answer {
                Ok(answer) => {
                    prop_assert_eq!(&answer["captured"]["tool_call_id"], &json!(id));
                    prop_assert_eq!(last(&world).tool_call_id(), Some(id.as_str()));
                }
                Err(error) => prop_assert!(
                    matches!(error.code, Code::BlockNotFound | Code::TokenBudgetExceeded),
                    "{}", error
                ),
            }
        }
    }
}
