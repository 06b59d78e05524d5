//! Tests the background work of a summary model: no call waits for it, its summary replaces the
//! local one with a revision of its own, and an unusable answer changes nothing and is reported.

use std::time::Duration;

use serde_json::{Value, json};

use crate::drift::{GOOD, SAID};
use crate::home::{Home, Process, Tuning};
use crate::model::Model;
use crate::scripted::Scripted;
use crate::talk::{Agent, key};

const LATER: &str = "user: later the sloop has two sails and a brass compass, sail to Lisbon in March\n\
    user: harbour master charges fourteen euros for a berth, harbour cold at night, warm coats\n\
    user: brass compass a present of my grandmother, Lisbon museum of old boats near the river";
const GERMAN: &str = "Das Segelboot besitzt zwei Segel und einen Kompass aus Messing. Im Frühling fahren wir nach Portugal, \
    falls der Wind passt. Ein Liegeplatz kostet vierzehn. Nachts wird es kalt, also warme Jacken mitnehmen. Den Kompass \
    schenkte die Großmutter. In der Nähe des Flusses gibt es ein Museum für alte Schiffe.";
const ECHO: &str = "Fold the previous summary and the conversation below into one new summary: a list of short facts, \
    one per line. user: the sloop has two sails and a brass compass. user: sail to Lisbon in March, wind right";
/// Number of evicted messages that the server reads to make a summary again.
const SUMMARY_ROWS_MAX: u64 = 512;
/// Window of the agents, in tokens.
const WINDOW: u64 = 1200;
/// Maximum time until the background work is seen.
const SEEN_MAX: Duration = Duration::from_secs(60);

/// Appends messages until the next flush.
async fn flushed(ada: &Agent) {
    let flushes = async || ada.state().await["counters"]["flushes"].as_u64().expect("a count");
    let before = flushes().await;
    for turn in 0.. {
        ada.append("user", SAID[turn % SAID.len()]).await;
        if flushes().await > before {
            return;
        }
    }
}

/// Waits until the agent's state is as wanted, and returns the state.
async fn until(ada: &Agent, wanted: impl Fn(&Value) -> bool) -> Value {
    let look = async {
        loop {
            let state = ada.state().await;
            if wanted(&state) {
                return state;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    match tokio::time::timeout(SEEN_MAX, look).await {
        Ok(state) => state,
        Err(_) => panic!("not seen: {:#}", ada.state().await),
    }
}

async fn stage(home: &Home, model: &Model) -> (Process, Agent) {
    let server = home.serve_with("vctx.sock", &model.tuning(&home.path("vctx.toml"))).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", WINDOW, "").await;
    (server, ada)
}

async fn details(home: &Home, kind: &str) -> Vec<Value> {
    let query =
        "FOR e IN memory_events FILTER e.type == @kind SORT e.details.revision RETURN e.details";
    home.database_inside().rows(query, json!({"kind": kind})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_writes_the_summary_again_after_a_flush_and_every_record_holds() {
    let home = Home::new();
    let model = Model::saying(&home.path("model.sock"), Duration::ZERO, &[GOOD]);
    let (_server, ada) = stage(&home, &model).await;
    flushed(&ada).await;
    let state = until(&ada, |state| state["summary"]["content"] == GOOD).await;
    assert_eq!(state["summary"]["revision"], 2, "the local summary was the first");
    assert!(state["degraded"].is_null());
    let budget = &state["token_budget"];
    assert!(state["tokens"]["occupancy"].as_u64() < budget["flush"].as_u64(), "{state:#}");
    let told = details(&home, "summarize").await;
    assert_eq!((told.len(), &told[0]["by"], &told[1]["by"]), (2, &json!("local"), &json!("model")));
    assert_eq!(told[1]["reason"], "background");
    assert_eq!(told[1]["evicted_batch_id"], told[0]["evicted_batch_id"]);
    assert!(told[1]["similarity"].as_f64() >= Some(0.85), "{told:#?}");
    // The window of the prompt before the second flush shows the model's summary.
    let context = ada.context().await;
    assert!(context["messages"].to_string().contains("fourteen euros for a berth\\nuser: bring"));
    flushed(&ada).await;
    until(&ada, |state| state["summary"]["revision"] == 4).await;
    assert_eq!(details(&home, "flush").await.len(), 2);
    home.assert_verified("vctx.sock", "ada");
    let metrics = home.wire("metrics.sock").get("/metrics").await.text;
    assert!(metrics.contains(r#"vctx_summaries_refined_total{outcome="written"} 2"#), "{metrics}");
    let kept = home.database_inside();
    let query = "FOR v IN core_versions FILTER v.queue_head_summary.revision != null \
        COLLECT revision = v.queue_head_summary.revision RETURN revision";
    let revisions: Vec<Value> = kept.rows(query, json!({})).await;
    assert!(revisions.contains(&json!(1)) && revisions.contains(&json!(2)), "{revisions:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_eviction_drops_the_answer_for_the_older_summary() {
    let home = Home::new();
    let model = Model::held(&home.path("model.sock"), Duration::ZERO, &[GOOD, LATER]);
    let (_server, ada) = stage(&home, &model).await;
    flushed(&ada).await;
    until(&ada, |_| model.asked() == 1).await;
    flushed(&ada).await;
    assert_eq!(model.answered(), 0, "no append waits for the model");
    model.release();
    let state = until(&ada, |state| state["summary"]["content"] == LATER).await;
    assert_eq!(state["summary"]["revision"], 3);
    let query = "FOR v IN core_versions FILTER v.queue_head_summary.content == @text RETURN 1";
    let found: Vec<Value> = home.database_inside().rows(query, json!({"text": GOOD})).await;
    assert!(found.is_empty(), "the older answer was written nowhere");
    let metrics = home.wire("metrics.sock").get("/metrics").await.text;
    assert!(metrics.contains(r#"vctx_summaries_refined_total{outcome="outdated"} 1"#), "{metrics}");
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_more_messages_than_it_reads_the_model_gets_the_local_summary() {
    let home = Home::new();
    let model = Model::held(&home.path("model.sock"), Duration::ZERO, &[GOOD]);
    let server = home.serve_with("vctx.sock", &model.tuning(&home.path("vctx.toml"))).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 24_576, "").await;
    flushed(&ada).await;
    let state = until(&ada, |_| model.asked() == 1).await;
    let evicted = state["queue"]["head_seq"].as_u64().expect("a position");
    assert!(evicted > SUMMARY_ROWS_MAX + 1, "{evicted}");
    let local = state["summary"]["content"].as_str().expect("a text").to_owned();
    let line = local.lines().next().expect("a line");
    assert!(model.heard().contains(json!(line).to_string().trim_matches('"')), "{line}");
    drop(server);
}

/// Lets a model give an answer for one flush, and a good one for the next flush.
async fn unusable(answer: &str, reason: &str) {
    let home = Home::new();
    let model =
        Model::saying(&home.path("model.sock"), Duration::ZERO, &[answer, answer, answer, GOOD]);
    let (server, ada) = stage(&home, &model).await;
    server.expect("summary model failed; the local summary stands");
    flushed(&ada).await;
    let state = until(&ada, |state| !state["degraded"].is_null()).await;
    let told = &state["degraded"]["summary_model"];
    assert_eq!(told["reason"], reason, "{answer}");
    assert!(told["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{told:#}");
    assert_eq!((model.asked(), &state["summary"]["revision"]), (3, &json!(1)), "{answer}");
    let content = state["summary"]["content"].as_str().expect("a summary");
    assert!(content.contains("Lisbon") && content.contains("#1"), "the local text: {content}");
    let ready = home.wire("vctx.sock").get("/readyz").await.ok();
    assert_eq!(ready["degraded"]["summary_model"]["reason"], reason);
    let metrics = home.wire("metrics.sock").get("/metrics").await.text;
    assert!(metrics.contains("vctx_summary_model_degraded 1"), "{metrics}");
    flushed(&ada).await;
    let state = until(&ada, |state| state["summary"]["content"] == GOOD).await;
    assert!(state["degraded"].is_null(), "the next success ends it");
    let metrics = home.wire("metrics.sock").get("/metrics").await.text;
    assert!(metrics.contains("vctx_summary_model_degraded 0"), "{metrics}");
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_a_word_changes_nothing_and_is_told() {
    unusable("\n", "empty").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_too_long_changes_nothing_and_is_told() {
    unusable(&format!("{GOOD}\n").repeat(9), "too_long").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_has_shrunk_changes_nothing_and_is_told() {
    unusable("user: Lisbon", "shrunk").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_repeats_the_instruction_changes_nothing_and_is_told() {
    unusable(ECHO, "echo").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_in_another_language_changes_nothing_and_is_told() {
    unusable(GERMAN, "unlike").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_fails_changes_nothing_and_is_told() {
    let home = Home::new();
    let model = Model::failing(&home.path("model.sock"));
    let (server, ada) = stage(&home, &model).await;
    server.expect("summary model failed; the local summary stands");
    flushed(&ada).await;
    let state = until(&ada, |state| !state["degraded"].is_null()).await;
    assert_eq!(state["degraded"]["summary_model"]["reason"], "unavailable");
    assert_eq!(state["summary"]["revision"], 1);
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_waits_is_told_that_the_local_summary_stands() {
    let home = Home::new();
    let model = Model::saying(&home.path("model.sock"), Duration::ZERO, &[GERMAN]);
    let (server, ada) = stage(&home, &model).await;
    server.expect("summary model failed; the local summary stands");
    for text in SAID {
        ada.append("user", text).await;
    }
    let answer = ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    assert_eq!(answer["flush"]["degraded"], "unlike", "{answer:#}");
    let state = ada.state().await;
    assert_eq!(state["degraded"]["summary_model"]["reason"], "unlike");
    assert!(state["summary"]["content"].as_str().is_some_and(|text| text.contains("Lisbon")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_makes_room_without_waiting_for_a_summary_model_that_hangs() {
    let home = Home::new();
    let summaries = Model::saying(&home.path("summary.sock"), Duration::from_secs(600), &[GOOD]);
    let chat = Scripted::steps(&home, &[json!({"text": "Aye."})]).await;
    let mut tuning = chat.tuning(&["store_core"]);
    let socket = home.path("summary.sock").to_str().expect("a plain path").to_owned();
    tuning.environment.push(("VCTX_SUMMARISER__SOCKET".into(), socket));
    tuning.environment.push(("VCTX_SUMMARISER__MODEL".into(), "scripted".into()));
    let server = home.serve_with("vctx.sock", &tuning).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "Be brief.").await;
    // The room for a page of search results is gone, and the flush mark is not reached.
    while ada.state().await["tokens"]["occupancy"].as_u64() < Some(3_200) {
        ada.append("user", SAID.join(" ")).await;
    }
    let before = ada.state().await["counters"]["flushes"].clone();
    let path = format!("{}/runs", ada.path());
    let body = json!({"input": "Are we ready?"});
    let key = key();
    let headers = [("idempotency-key", key.as_str())];
    ada.wire.call("POST", &path, &headers, body.to_string()).await.ok();
    let state = ada.state().await;
    assert_ne!(state["counters"]["flushes"], before, "the run made room");
    until(&ada, |_| summaries.asked() == 1).await;
    assert_eq!(summaries.answered(), 0);
    assert!(server.stop().await.success(), "the end of the server does not wait either");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_summary_model_writes_no_summary_again() {
    let home = Home::new();
    let _server = home.serve_with("vctx.sock", &Tuning::default()).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", WINDOW, "").await;
    flushed(&ada).await;
    assert_eq!(ada.state().await["summary"]["revision"], 1);
    let metrics = home.wire("metrics.sock").get("/metrics").await.text;
    assert!(!metrics.contains("vctx_summaries_refined_total{"), "{metrics}");
}
