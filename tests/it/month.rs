//! Measures searches and documents with a month of chats (`tests/fixtures/month`), without a model
//! and with default settings.

use serde_json::{Value, json};

use crate::home::{Home, Tuning};
use crate::talk::Agent;

const MONTH: &str = include_str!("../fixtures/month/month.json");

/// Number of results that a search asks for.
const LIMIT: u64 = 10;

/// How many questions have their right text at the first place, and among the first three.
#[derive(Debug, Default)]
struct Places {
    first: usize,
    three: usize,
    /// Number of changed facts whose outdated text comes before the right text, or whose right text
    /// is missing.
    stale: usize,
}

fn month() -> Value {
    serde_json::from_str(MONTH).expect("JSON")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// Whether a text contains all given texts, in any case of letters.
fn has(text: &str, wanted: &Value) -> bool {
    let text = text.to_lowercase();
    list(wanted).iter().all(|part| text.contains(&part.as_str().expect("a text").to_lowercase()))
}

async fn told(home: &Home, name: &str, window: u64) -> Agent {
    let agent = Agent::create(home.wire("vctx.sock"), name, window, "You are Mira.").await;
    for message in list(&month()["messages"]) {
        let parts = json!({"content": message["content"], "said_at": message["said_at"]});
        agent.append(message["role"].as_str().expect("a role"), parts).await;
    }
    agent
}

async fn places(agent: &Agent, kind: &str) -> Places {
    let mut places = Places::default();
    for question in list(&month()["questions"]) {
        let asked = json!({"query": question[kind], "limit": LIMIT, "rehydrate": false});
        let found = agent.done("search_recall", &asked).await;
        let results = list(&found["result"]["results"]);
        let place = |wanted: &Value| {
            results.iter().position(|one| has(one["content"].as_str().expect("a text"), wanted))
        };
        let right = place(&question["right"]);
        places.first += usize::from(right == Some(0));
        places.three += usize::from(right.is_some_and(|at| at < 3));
        if !list(&question["stale"]).is_empty() {
            let stale = place(&question["stale"]);
            let is_wrong = stale.is_some_and(|stale| right.is_none_or(|right| stale < right));
            places.stale += usize::from(is_wrong);
        }
    }
    places
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_in_a_month_is_found_and_the_newest_statement_first() {
    let home = Home::new();
    // The test makes many appends; other tests check durability.
    let tuning = Tuning::variable("VCTX_STORE__DURABLE", "false");
    let _server = home.serve_with("vctx.sock", &tuning).await;
    for window in [8_192, 32_768] {
        let agent = told(&home, &format!("mira-{window}"), window).await;
        let (asked, typed) = (places(&agent, "ask").await, places(&agent, "typed").await);
        println!("{window}: asked {asked:?}, typed {typed:?}");
        assert!(asked.first >= ASKED_FIRST && asked.three >= ASKED_THREE, "{window}: {asked:?}");
        assert!(typed.three >= TYPED_THREE && typed.stale == 0, "{window}: {typed:?}");
        home.assert_verified("vctx.sock", &agent.name);
    }
}

/// Minimum numbers of the 26 questions whose answer is at the first place or among the first three.
const ASKED_FIRST: usize = 13;
const ASKED_THREE: usize = 20;
const TYPED_THREE: usize = 20;

/// Number of exchanges of the month that must be left after any flush.
const EXCHANGES_MIN: usize = 10;
/// Number of flushes that are looked at.
const FLUSHES: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn flushes_of_a_month_reach_their_target_and_leave_a_conversation() {
    let home = Home::new();
    let tuning = Tuning::variable("VCTX_STORE__DURABLE", "false");
    let _server = home.serve_with("vctx.sock", &tuning).await;
    let agent = Agent::create(home.wire("vctx.sock"), "mira", 8_192, "You are Mira.").await;
    let (mut flushes, month) = (0, month());
    for message in list(&month["messages"]).iter().cycle() {
        if flushes == FLUSHES {
            return;
        }
        let role = message["role"].as_str().expect("a role");
        let answer = agent.append(role, message["content"].clone()).await;
        let flush = &answer["flush"];
        if flush.is_null() {
            continue;
        }
        flushes += 1;
        assert_eq!(flush["target_reached"], true, "{flush:#}");
        let context = agent.context().await;
        let users = list(&context["messages"]).iter().filter(|one| one["role"] == "user").count();
        assert!(users >= EXCHANGES_MIN, "{users} exchanges after flush {flushes}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_on_request_takes_no_more_messages_than_its_target_needs() {
    let home = Home::new();
    let _server = home.serve().await;
    for target in [2_000, 1_500, 1_000] {
        let name = format!("eve-{target}");
        let agent = Agent::create(home.wire("vctx.sock"), &name, 8_192, "").await;
        let mut occupancy = 0;
        for message in list(&month()["messages"]) {
            let answer = agent
                .append(message["role"].as_str().expect("a role"), message["content"].clone())
                .await;
            occupancy = answer["tokens"]["occupancy"].as_u64().expect("tokens");
            if occupancy > 2_200 {
                break;
            }
        }
        let before = agent.state().await["queue"]["count"].as_u64().expect("a count");
        let answer = agent.done("evict_fifo", &json!({"target_tokens": target})).await;
        let after = answer["result"]["after_occupancy"].as_u64().expect("tokens");
        let evicted = answer["result"]["evicted_count"].as_u64().expect("a count");
        println!("{occupancy} to {target}: {evicted} of {before} left, {after} in use");
        assert!(after <= target && after * 10 >= target * 7, "{after} of {target}");
        assert!(evicted < before, "the newest messages stay");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_passage_below_a_heading_is_found() {
    let home = Home::new();
    let _server = home.serve().await;
    let agent = Agent::create(home.wire("vctx.sock"), "mira", 32_768, "").await;
    for document in list(&month()["documents"]) {
        let asked = json!({"doc_id": document["doc_id"], "document": document["text"]});
        agent.done("ingest_archival", &asked).await;
    }
    let (mut first, mut three) = (0, 0);
    for question in list(&month()["passages"]) {
        let asked = json!({"query_text": question["ask"], "limit": LIMIT});
        let found = agent.done("search_archival", &asked).await;
        let mut results = list(&found["result"]["results"]).iter();
        let is_right = |one: &Value| has(one["text"].as_str().expect("a text"), &question["right"]);
        let place = results.position(is_right);
        first += usize::from(place == Some(0));
        three += usize::from(place.is_some_and(|at| at < 3));
    }
    println!("passages: first {first}, three {three}");
    assert!(first >= PASSAGES_FIRST && three >= PASSAGES_THREE, "first {first}, three {three}");
}

/// Minimum numbers of the 13 questions about documents.
const PASSAGES_FIRST: usize = 8;
const PASSAGES_THREE: usize = 11;
