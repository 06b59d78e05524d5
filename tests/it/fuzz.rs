//! Tests every argument of every tool with absurd values: the server refuses each call with an
//! error that names the field, writes no data, and never fails itself.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use crate::chance::rounds;
use crate::database::Database;
use crate::home::Home;
use crate::talk::{Agent, key};

/// Texts that commonly cause faults in programs.
const NASTY: [&str; 16] = [
    "",
    " ",
    "\u{0}",
    "\r\n\r\nHTTP/1.1 200 OK",
    "'; DROP TABLE messages; --",
    "\" RETURN 1 //",
    "@scope",
    "${jndi:ldap://x}",
    "../../etc/passwd",
    "%00%2e%2e",
    "<script>",
    "</block>",
    "\u{202e}txt",
    "null",
    "-0",
    "1e400",
];

/// Returns valid arguments for a tool.
fn right(tool: &str) -> Value {
    match tool {
        "store_core" => json!({"block_id": "human", "content": "Likes tea.",
            "policy": {"mode": "replace", "pinned": false, "role": "note", "justification": "said so"}}),
        "fetch_core" => json!({"block_id": "human"}),
        "append_fifo" => {
            json!({"role": "assistant", "message": {"content": "Hello", "name": "Mate", "said_at": "now",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}})
        }
        "evict_fifo" => json!({"strategy": "fifo", "target_tokens": 4000, "summarize": true}),
        "write_recall" => {
            json!({"entries": [{"content": "x", "role": "user", "name": "Ada", "said_at": "now"}, {"content": "y"}]})
        }
        other => panic!("no tool {other}"),
    }
}

const TOOLS: [&str; 5] = ["store_core", "fetch_core", "append_fifo", "evict_fifo", "write_recall"];

/// Generates values that are invalid for nearly every argument.
fn strange() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has no other numbers", |f| f.is_finite())
            .prop_map(Value::from),
        prop::sample::select(&NASTY[..]).prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
        "[\\PC]{0,20}".prop_map(Value::from),
        (1usize..400_000).prop_map(|n| Value::from("漢".repeat(n))),
        Just(Value::from("a ".repeat(700_000))),
    ];
    leaf.prop_recursive(6, 40, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::vec((".{0,10}", inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A change that makes a tool's valid arguments invalid.
#[derive(Clone, Debug)]
enum Damage {
    /// Replaces the value at the given position.
    Replace(usize, Value),
    /// Removes the member or item at the given position.
    Remove(usize),
    /// Adds a member to the object at the given position.
    Add(usize, String, Value),
    /// Replaces all arguments.
    Whole(Value),
    /// Puts a deeply nested value at the given position.
    Deep(usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        6 => (any::<usize>(), strange()).prop_map(|(at, value)| Damage::Replace(at, value)),
        2 => any::<usize>().prop_map(Damage::Remove),
        2 => (any::<usize>(), "[a-z_@$ ]{0,12}", strange()).prop_map(|(at, name, value)| Damage::Add(at, name, value)),
        1 => strange().prop_map(Damage::Whole),
        1 => any::<usize>().prop_map(Damage::Deep),
    ]
}

/// Returns the JSON pointer of every value inside the given value.
fn places(value: &Value) -> Vec<String> {
    let mut all = Vec::new();
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(k, v)| (k.clone(), v)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(k, v)| (k.to_string(), v)).collect(),
        _ => Vec::new(),
    };
    for (name, child) in children {
        all.push(format!("/{name}"));
        all.extend(places(child).into_iter().map(|below| format!("/{name}{below}")));
    }
    all
}

fn damaged(tool: &str, damage: &Damage) -> Value {
    let mut arguments = right(tool);
    let places = places(&arguments);
    let place = |at: &usize| places[at % places.len()].clone();
    match damage {
        Damage::Replace(at, value) => {
            *arguments.pointer_mut(&place(at)).expect("a place") = value.clone();
        }
        Damage::Remove(at) => {
            let place = place(at);
            let (parent, name) = place.rsplit_once('/').expect("a place has a parent");
            match arguments.pointer_mut(parent).expect("a parent") {
                Value::Object(map) => drop(map.remove(name)),
                Value::Array(list) => drop(list.remove(name.parse().expect("an index"))),
                _ => unreachable!("leaves have no places"),
            }
        }
        Damage::Add(at, name, value) => {
            let place = place(at);
            let parent = match arguments.pointer_mut(&place) {
                Some(Value::Object(map)) => map,
                _ => arguments.as_object_mut().expect("arguments"),
            };
            parent.insert(name.clone(), value.clone());
        }
        Damage::Whole(value) => arguments = value.clone(),
        Damage::Deep(at) => {
            let mut nest = json!(1);
            for _ in 0..100 {
                nest = json!([nest]);
            }
            *arguments.pointer_mut(&place(at)).expect("a place") = nest;
        }
    }
    arguments
}

/// Error codes of refusals that concern the call as a whole and therefore name no field.
const WITHOUT_FIELD: [&str; 7] = [
    "INVALID_JSON",
    "BODY_TOO_LARGE",
    "BLOCK_NOT_FOUND",
    "TOKEN_BUDGET_EXCEEDED",
    "PIN_LIMIT_EXCEEDED",
    "REVISION_STALE",
    "IDEMPOTENCY_KEY_REUSED",
];

/// Error codes of refusals that show a limit of the agent's memory: the first ones of a minute
/// write one event each.
const WITH_EVENT: [&str; 4] =
    ["TOKEN_BUDGET_EXCEEDED", "PIN_LIMIT_EXCEEDED", "TAINTED_CONTENT", "LATE_CHUNKING_REQUIRED"];

/// Sends the arguments, and checks that a refusal names the wrong field and changes nothing.
async fn check(
    ada: &Agent,
    database: &Database,
    tool: &str,
    arguments: &Value,
) -> Result<bool, TestCaseError> {
    let mut before = (ada.state().await, database.counts().await);
    let answer = ada.tool(tool, arguments, &key(), "*").await;
    let shown: String = format!("{tool} {arguments}").chars().take(300).collect();
    prop_assert!(answer.status < 500, "{}: {}", shown, answer.text);
    if answer.status == 200 {
        return Ok(true);
    }
    let code = answer.code().to_owned();
    prop_assert!(!code.is_empty(), "{}: {}", shown, answer.text);
    prop_assert!(answer.body["detail"].as_str().is_some_and(|d| !d.is_empty()), "{}", answer.text);
    // The refused field may be an unknown argument, which may have any name, even an empty one.
    let named = answer.body["field"].is_string();
    prop_assert!(named || WITHOUT_FIELD.contains(&code.as_str()), "{}: {}", shown, answer.text);
    prop_assert!(answer.text.len() < 4_000, "{}: an answer of {} bytes", shown, answer.text.len());
    let after = (ada.state().await, database.counts().await);
    let events = |counts: &Value| counts["events"].as_u64().expect("a number");
    if WITH_EVENT.contains(&code.as_str()) && events(&after.1) == events(&before.1) + 1 {
        before.1["events"] = after.1["events"].clone();
    }
    prop_assert_eq!(after, before, "{}", shown);
    Ok(false)
}

#[test]
fn every_argument_of_every_tool_is_refused_by_name_or_taken_whole() {
    let runtime = Runtime::new().expect("a runtime");
    let home = Home::new();
    let server = runtime.block_on(home.serve());
    let ada = runtime.block_on(async {
        let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
        for tool in TOOLS {
            ada.done(tool, &right(tool)).await;
        }
        ada
    });
    let database = home.database_inside();
    let cases = u32::try_from(rounds("VCTX_FUZZ_CASES", 400)).expect("so many cases");
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let taken = std::cell::Cell::new(0u32);
    let strategy = (prop::sample::select(&TOOLS[..]), damage());
    let outcome = runner.run(&strategy, |(tool, damage)| {
        let arguments = damaged(tool, &damage);
        let accepted = runtime.block_on(check(&ada, &database, tool, &arguments))?;
        taken.set(taken.get() + u32::from(accepted));
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    runtime.block_on(async { assert!(home.wire("vctx.sock").is_ready().await) });
    home.assert_verified("vctx.sock", "ada");
    println!("{cases} damaged calls, {} of them still right", taken.get());
    assert!(taken.get() * 2 < cases, "most of the damage does no harm");
    drop(server);
}

#[test]
fn any_bytes_as_a_body_are_answered() {
    let runtime = Runtime::new().expect("a runtime");
    let home = Home::new();
    let server = runtime.block_on(home.serve());
    let ada = runtime.block_on(Agent::create(home.wire("vctx.sock"), "ada", 8192, ""));
    let before = runtime.block_on(ada.state());
    let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
    let outcome =
        TestRunner::new(config).run(&prop::collection::vec(any::<u8>(), 0..300), |bytes| {
            let path = format!("{}/tools/append_fifo", ada.path());
            let key = key();
            let headers = [("idempotency-key", key.as_str()), ("if-match", "*")];
            let answer = runtime.block_on(ada.wire.call("POST", &path, &headers, bytes));
            prop_assert_eq!(answer.status, 400, "{}", answer.text);
            Ok(())
        });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(runtime.block_on(ada.state()), before);
    drop(server);
}
