//! Tests conservation: a long conversation with every kind of message passes through small windows;
//! no message is lost, and the window never overflows.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::chance::{Chance, share};
use crate::count;
use crate::database::Database;
use crate::home::Home;
use crate::talk::{Agent, key, said};

/// One step of a conversation.
enum Step {
    Say(&'static str, Value),
    Store(Value),
    Recall(Value),
    Evict(Value),
}

const PIECES: [&str; 8] = [
    "The tide turns at seven and the harbour master wants fourteen euros a night.",
    "👩‍👩‍👧‍👦🏴‍☠️ emoji of many parts, 🦀🦀🦀 and é with a combining mark",
    "漢字とかなが交じった文章。今日は雨が降っています。",
    "مرحبا، كيف حالك اليوم؟",
    "{\"json\": [1, 2, {\"deep\": null}]} <|endoftext|> <block id=\"x\">",
    "def f(x):\n\treturn {k: v for k, v in x.items()}\n",
    "x\u{0}y\u{7f}\u{2028}z \\ \" ' ` ${}",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

fn text(chance: &mut Chance, pieces_max: u64) -> String {
    let pieces = 1 + chance.below(pieces_max);
    (0..pieces).map(|n| format!("{n}. {}\n", chance.one_of(&PIECES))).collect()
}

/// Generates a random conversation, which the seed makes reproducible.
fn conversation(seed: u64, turns: u64, window: u64) -> Vec<Step> {
    let mut chance = Chance::new(seed);
    let mut steps = Vec::new();
    for turn in 0..turns {
        match chance.below(20) {
            0..8 => steps.push(Step::Say("user", text(&mut chance, 4).into())),
            8..13 => {
                let named = json!({"content": text(&mut chance, 3), "name": "Mate", "said_at": format!("t{turn}")});
                steps.push(Step::Say("assistant", named));
            }
            13..16 => tool_calls(&mut chance, turn, &mut steps),
            16 => {
                // Sizes range from small to larger than the window. A text is refused if no
                // eviction can make room for it.
                let words = chance.below(window * 12 / 10);
                steps.push(Step::Say("user", count::words(words.max(1)).into()));
            }
            17 => {
                let id = format!("block{}", chance.below(3));
                let content = text(&mut chance, 2);
                let pinned = chance.below(2) == 0;
                // One of the texts contains tokens of a chat template, which the core refuses
                // without a justification.
                let policy =
                    json!({"pinned": pinned, "justification": "said in this conversation"});
                steps.push(Step::Store(
                    json!({"block_id": id, "content": content, "policy": policy}),
                ));
            }
            18 => steps.push(Step::Recall(
                json!({"entries": [{"content": text(&mut chance, 3)}, {"content": "漢"}]}),
            )),
            _ => {
                let target = chance.below(window);
                let summarize = chance.below(4) != 0;
                steps.push(Step::Evict(json!({"target_tokens": target, "summarize": summarize})));
            }
        }
    }
    steps
}

/// Adds one message with one to three tool calls, and then their results, with other messages in
/// between.
fn tool_calls(chance: &mut Chance, turn: u64, steps: &mut Vec<Step>) {
    let calls: Vec<String> = (0..=chance.below(3)).map(|n| format!("call-{turn}-{n}")).collect();
    let listed: Vec<Value> = calls
        .iter()
        .map(|id| json!({"id": id, "type": "function", "function": {"name": "look_up", "arguments": "{\"q\": \"tide 潮\"}"}}))
        .collect();
    steps.push(Step::Say("assistant", json!({"content": "", "tool_calls": listed})));
    for id in calls {
        if chance.below(3) == 0 {
            steps.push(Step::Say("user", "Still there?".into()));
        }
        let content = text(chance, 3);
        steps.push(Step::Say("tool", json!({"content": content, "tool_call_id": id})));
    }
}

/// The memory that the agent must have after the calls so far.
#[derive(Default)]
struct Expected {
    said: Vec<(String, String)>,
    refused: u64,
    flushes: u64,
    warnings: u64,
    occupancy: u64,
    occupancy_max: u64,
}

async fn play(ada: &Agent, steps: Vec<Step>, window: u64) -> Expected {
    let occupancy = ada.state().await["tokens"]["occupancy"].as_u64().expect("occupancy");
    let mut expected = Expected { occupancy, ..Expected::default() };
    for step in steps {
        let (tool, arguments) = match &step {
            Step::Say(role, message) => ("append_fifo", json!({"message": message, "role": role})),
            Step::Store(arguments) => ("store_core", arguments.clone()),
            Step::Recall(arguments) => ("write_recall", arguments.clone()),
            Step::Evict(arguments) => ("evict_fifo", arguments.clone()),
        };
        let answer = ada.tool(tool, &arguments, &key(), "*").await;
        if answer.status != 200 {
            let body = answer.refused(422, "TOKEN_BUDGET_EXCEEDED");
            assert!(body["required_headroom"].as_u64().is_some_and(|n| n > 0), "{body}");
            expected.refused += 1;
            continue;
        }
        let body = answer.ok();
        match step {
            Step::Say(role, message) => {
                let content = message.as_str().or(message["content"].as_str());
                expected.said.push((role.into(), content.expect("a text").into()));
            }
            Step::Recall(arguments) => {
                for entry in arguments["entries"].as_array().expect("entries") {
                    let content = entry["content"].as_str().expect("a text");
                    expected.said.push(("assistant".into(), content.into()));
                }
            }
            Step::Store(_) | Step::Evict(_) => {}
        }
        check_step(ada, &body, tool, window, &mut expected).await;
    }
    expected
}

/// Checks what must hold after every call. Compares the numbers in the call's answer with numbers
/// that are computed from the rendered window.
async fn check_step(ada: &Agent, body: &Value, tool: &str, window: u64, expected: &mut Expected) {
    let context = ada.context().await;
    let counted = count::window(context["messages"].as_array().expect("messages"));
    let occupancy = body["tokens"]["occupancy"].as_u64().expect("occupancy");
    assert_eq!(occupancy, counted, "the account is not what is rendered");
    assert_eq!(context["tokens"], body["tokens"]);
    assert!(occupancy <= window, "{occupancy} tokens in a window of {window}");
    let change = i64::try_from(occupancy).expect("small")
        - i64::try_from(expected.occupancy).expect("small");
    assert_eq!(body["token_estimate"], change);

    let summary = body["tokens"]["summary"].as_u64().expect("summary");
    assert!(summary <= window * 15 / 100, "a summary of {summary} tokens");
    let flush = &body["flush"];
    if flush.is_object() {
        expected.flushes += 1;
        let reached = flush["target_reached"] == true;
        let limit = window / 2;
        if tool != "evict_fifo" {
            assert!(occupancy <= limit || !reached, "{occupancy} after a flush: {body}");
            assert!(reached || occupancy > limit, "the truth: {body}");
        }
        assert_eq!(flush["after_occupancy"], occupancy);
        assert_eq!(body["pressure"], "flush");
    }
    let warning = window * 70 / 100;
    let crossed = expected.occupancy < warning && body["pressure"] != "ok";
    if crossed && tool != "evict_fifo" {
        expected.warnings += 1;
    }
    let notices = context["manifest"]["items"]
        .as_array()
        .expect("items")
        .iter()
        .filter(|item| item["section"] == "notices")
        .count();
    assert!(notices <= 1, "one notice of a kind");
    expected.occupancy = occupancy;
    expected.occupancy_max = expected.occupancy_max.max(occupancy);
}

/// Checks that a tool call and its results are either all in the queue or all out of it.
fn check_pairs(messages: &[Value]) {
    let mut calls = BTreeMap::new();
    for message in messages {
        for call in message["meta"]["tool_calls"].as_array().into_iter().flatten() {
            let id = call["id"].as_str().expect("an id").to_owned();
            calls.insert(id, message["in_queue"].clone());
        }
    }
    let mut pairs = 0;
    for message in messages {
        let Some(id) = message["meta"]["tool_call_id"].as_str() else { continue };
        // A tool-call message that was refused for its size is not in the log, so its results have
        // no call.
        if let Some(in_queue) = calls.get(id) {
            assert_eq!(in_queue, &message["in_queue"], "call and result {id} are parted");
            pairs += 1;
        }
    }
    assert!(pairs > 5, "only {pairs} pairs in the conversation");
}

/// Checks that the rows of the database agree with the server's answers.
async fn check_database(database: &Database, ada: &Agent, expected: &Expected) {
    let rows = database
        .rows(
            "FOR m IN messages FILTER m.agent_id == @a SORT m.seq RETURN m",
            json!({"a": ada.name}),
        )
        .await;
    assert_eq!(said(&rows), expected.said, "not every byte in order");
    let state = ada.state().await;
    let head = state["queue"]["head_seq"].as_u64().expect("a head");
    let logged = database
        .rows(
            "FOR e IN recall_log FILTER e._from == @a SORT e.seq RETURN e",
            json!({"a": format!("core_memory/{}", ada.name)}),
        )
        .await;
    let out: Vec<&Value> = rows
        .iter()
        .filter(|m| m["kind"] == "recall" || m["seq"].as_u64().expect("a seq") < head)
        .collect();
    assert_eq!(logged.len(), out.len());
    for (edge, message) in logged.iter().zip(out) {
        assert_eq!(edge["_to"], format!("messages/{}", message["_key"].as_str().expect("a key")));
        assert_eq!(
            (&edge["seq"], &edge["payload"]["content"]),
            (&message["seq"], &message["content"])
        );
    }
    // Each `flush` event that the server wrote has the same numbers as the audit row of the same
    // eviction.
    let told = database
        .rows(
            "FOR f IN memory_events FILTER f.agent_id == @a AND f.type == 'flush'
               LET written = FIRST(FOR w IN memory_events FILTER w.agent_id == @a AND w.type == 'audit'
                 AND w.details.head_seq == f.details.last_seq + 1
                 SORT w.details.version_after LIMIT 1 RETURN w.details.tokens_after)
               RETURN [f.details.after_occupancy - written.occupancy, written.occupancy > 0]",
            json!({"a": ada.name}),
        )
        .await;
    assert_eq!(told.len() as u64, expected.flushes);
    assert!(told.iter().all(|row| row == &json!([0, true])), "{told:?}");
    let events = |kind: &'static str| {
        let query = "RETURN LENGTH(FOR e IN memory_events FILTER e.agent_id == @a AND e.type == @t RETURN 1)";
        database.row(query, json!({"a": ada.name, "t": kind}))
    };
    assert_eq!(events("flush").await, expected.flushes);
    assert_eq!(events("warning").await, expected.warnings, "one warning for each upward crossing");
    assert_eq!(state["counters"]["warnings"], expected.warnings);
    assert_eq!(events("audit").await, state["version"], "one audit row for each write");
}

async fn conserves(home: &Home, name: &str, seed: u64, window: u64, turns: u64) {
    let ada = Agent::create(home.wire("vctx.sock"), name, window, "You are kind. 優しい。").await;
    let expected = play(&ada, conversation(seed, turns, window), window).await;
    let messages = ada.messages().await;
    assert_eq!(said(&messages), expected.said);
    check_pairs(&messages);
    check_database(&home.database_inside(), &ada, &expected).await;
    home.assert_verified("vctx.sock", name);
    assert!(
        expected.flushes > 3 && expected.warnings > 1,
        "the conversation never outgrew the window"
    );
    println!(
        "window {window}: {} messages, {} refused, {} flushes, {} warnings, occupancy at most {}",
        expected.said.len(),
        expected.refused,
        expected.flushes,
        expected.warnings,
        expected.occupancy_max
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_conversation_of_every_kind_of_message_is_conserved() {
    let home = Home::new();
    let _server = home.serve().await;
    for &(name, seed, window) in
        share(&[("small", 7, 1024), ("middle", 11, 4096), ("large", 13, 8192)])
    {
        conserves(&home, name, seed, window, 150).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_for_a_message_that_takes_the_whole_window_tells_the_occupancy_that_it_ends_with()
 {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 1000, "").await;
    let empty = ada.state().await["tokens"]["free"].as_u64().expect("free tokens");
    let frame = count::frame() + count::opening();
    for _ in 0..5 {
        ada.append("user", count::words(100)).await;
    }
    let large = json!({"message": count::words(empty - frame), "role": "user"});
    let answer = ada.done("append_fifo", &large).await;
    let wanted = (&json!(1000), &json!(false));
    assert_eq!(answer["tokens"]["occupancy"], 1000);
    assert_eq!((&answer["flush"]["after_occupancy"], &answer["flush"]["target_reached"]), wanted);
    let query = "FOR e IN memory_events FILTER e.type == 'flush' RETURN e.details";
    let told = home.database_inside().row(query, json!({})).await;
    assert_eq!((&told["after_occupancy"], &told["target_reached"]), wanted);
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn a_flush_of_more_than_one_transaction_is_whole_in_parts() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 40_000, "").await;
    // More rows than one eviction transaction can write.
    ada.append_all(&(0..2_200).map(|turn| format!("m{turn}")).collect::<Vec<String>>()).await;
    let answer = ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    assert_eq!(answer["result"]["after_occupancy"], answer["tokens"]["occupancy"]);
    let state = ada.state().await;
    assert_eq!(
        (&state["queue"]["count"], &state["counters"]["evicted"]),
        (&json!(0), &json!(2_200)),
        "{answer:#}"
    );
    assert_eq!(state["counters"]["flushes"], 2, "2000 and the rest");
    home.assert_verified("vctx.sock", "ada");
}
