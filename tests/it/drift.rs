//! Tests the drift of summaries (their distance from the summarized messages): the server measures
//! it twice at every flush, asks the model for another summary up to a limit, keeps the best
//! summary, and reports a poor one.

use std::time::Duration;

use serde_json::{Value, json};

use crate::count;
use crate::home::Home;
use crate::model::Model;
use crate::talk::{Agent, key};

/// The agent's messages; a good summary consists of their words.
pub(crate) const SAID: [&str; 6] = [
    "The sloop has two sails and a brass compass.",
    "We sail to Lisbon in March if the wind is right.",
    "The harbour master charges fourteen euros for a berth.",
    "Bring warm coats, the harbour is cold at night.",
    "The brass compass was a present of my grandmother.",
    "Lisbon has a museum of old boats near the river.",
];
pub(crate) const GOOD: &str = "user: the sloop has two sails and a brass compass\nuser: sail to Lisbon in March, wind right\n\
    user: harbour master charges fourteen euros for a berth\nuser: bring warm coats, harbour cold at night\n\
    user: brass compass a present of my grandmother\nuser: Lisbon museum of old boats near the river";
const POOR: &str = "Nothing much happened.";
/// A summary that leaves most subjects out.
const PART: &str =
    "user: the harbour master charges fourteen euros for a berth, the harbour is cold";

/// Appends the messages and evicts all of them; returns the answer and the details of the events
/// `flush` and `summarize`.
async fn evicted(model: Option<&[&str]>) -> (Value, Value, Value, usize, String) {
    let home = Home::new();
    let scripted =
        model.map(|texts| Model::saying(&home.path("model.sock"), Duration::ZERO, texts));
    let tuning = scripted.as_ref().map(|model| model.tuning(&home.path("vctx.toml")));
    let server = home.serve_with("vctx.sock", &tuning.unwrap_or_default()).await;
    if model.is_some_and(|texts| !texts.contains(&GOOD)) {
        server.expect("summary model failed; the local summary stands");
    }
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    for text in SAID {
        ada.append("user", text).await;
    }
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    let state = ada.state().await;
    let database = home.database_inside();
    let event = async |kind: &str| {
        let query = "FOR e IN memory_events FILTER e.agent_id == 'ada' AND e.type == @kind RETURN e.details";
        database.row(query, json!({"kind": kind})).await
    };
    let (flush, summarize) = (event("flush").await, event("summarize").await);
    let metrics = home.wire("metrics.sock").get("/metrics").await.text;
    (state, flush, summarize, scripted.map_or(0, |model| model.asked()), metrics)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poor_answer_is_asked_for_again_and_the_good_one_kept() {
    let (state, flush, summarize, asked, metrics) = evicted(Some(&[POOR, GOOD])).await;
    assert_eq!(asked, 2);
    assert_eq!(state["summary"]["content"], GOOD);
    assert_eq!((&summarize["attempts"], &summarize["drift_alarm"]), (&json!(2), &json!(false)));
    assert!(summarize["similarity"].as_f64() >= Some(0.85), "{summarize:#}");
    assert!(summarize["information_drift"].as_f64() < Some(0.3), "{summarize:#}");
    assert_eq!(flush["similarity"], summarize["similarity"]);
    assert!(metrics.contains("vctx_summary_retries_total 1"), "{metrics}");
    assert!(metrics.contains("vctx_summary_similarity_count 1"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_stays_poor_is_not_used_after_three_and_raises_the_alarm() {
    let (state, flush, summarize, asked, metrics) = evicted(Some(&[POOR])).await;
    assert_eq!(asked, 3, "never a loop");
    assert!(state["summary"]["content"].as_str().is_some_and(|text| text.contains("Lisbon")));
    assert_eq!((&flush["drift_alarm"], &flush["alarm"]), (&json!(true), &json!("similarity")));
    assert_eq!((&summarize["by"], &summarize["attempts"]), (&json!("local"), &json!(3)));
    assert_eq!(summarize["degraded"], "unlike");
    assert!(metrics.contains(r#"vctx_drift_alarms_total{why="similarity"} 1"#), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_a_word_is_asked_for_again() {
    for empty in ["", "\n```\n\n```\n"] {
        let (state, _, summarize, asked, metrics) = evicted(Some(&[empty, GOOD])).await;
        assert_eq!((asked, &state["summary"]["content"]), (2, &json!(GOOD)));
        assert_eq!((&summarize["by"], &summarize["attempts"]), (&json!("model"), &json!(2)));
        assert!(metrics.contains("vctx_summary_retries_total 1"), "{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_without_a_word_leaves_the_summary_to_the_local_summariser() {
    let (state, flush, summarize, asked, metrics) = evicted(Some(&[""])).await;
    assert_eq!(asked, 3, "never a loop");
    assert_eq!((&summarize["by"], &summarize["attempts"]), (&json!("local"), &json!(3)));
    let (alone, _, measures, ..) = evicted(None).await;
    assert_eq!(state["summary"]["content"], alone["summary"]["content"]);
    assert!(state["summary"]["content"].as_str().is_some_and(|text| text.contains("Lisbon")));
    assert_eq!(summarize["similarity"], measures["similarity"]);
    assert_eq!(flush["drift_alarm"], false, "{flush:#}");
    assert!(metrics.contains("vctx_summary_retries_total 2"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_not_asked_to_fold_a_batch_without_a_word() {
    let home = Home::new();
    let model = Model::saying(&home.path("model.sock"), Duration::ZERO, &["Invented."]);
    let _server = home.serve_with("vctx.sock", &model.tuning(&home.path("vctx.toml"))).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    ada.append("user", "…!?").await;
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    let state = ada.state().await;
    assert_eq!((model.asked(), &state["summary"]["content"]), (0, &json!("")));
    assert_eq!(state["queue"]["count"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_most_similar_of_three_answers_is_kept() {
    let (state, flush, summarize, asked, _) = evicted(Some(&["", PART, POOR])).await;
    assert_eq!((asked, &state["summary"]["content"]), (3, &json!(PART)));
    assert_eq!((&summarize["by"], &summarize["attempts"]), (&json!("model"), &json!(3)));
    assert!(summarize["similarity"].as_f64() < Some(0.85), "{summarize:#}");
    assert_eq!(flush["drift_alarm"], false, "{flush:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_far_too_long_is_not_used() {
    let long = format!("{GOOD}\n").repeat(100);
    assert!(count::text(&long) > 4096, "longer than the whole window");
    let (state, _, summarize, asked, _) = evicted(Some(&[&long])).await;
    assert_eq!((asked, &summarize["by"]), (3, &json!("local")));
    assert_eq!(summarize["degraded"], "too_long");
    assert!(state["summary"]["content"].as_str().is_some_and(|text| text.contains("Lisbon")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_a_little_too_long_loses_its_last_lines_and_this_is_told() {
    let cap = 4096 * 15 / 100;
    let mut long = String::new();
    while count::text(&long) <= cap {
        long = format!("{long}{GOOD}\n");
    }
    let (state, _, summarize, asked, _) = evicted(Some(&[&long])).await;
    assert_eq!((asked, &summarize["by"]), (1, &json!("model")));
    assert_eq!(summarize["cut"], true);
    let tokens = state["tokens"]["summary"].as_u64().expect("tokens");
    assert!(tokens > cap / 2 && tokens <= cap, "{state:#}");
    let content = state["summary"]["content"].as_str().expect("a text");
    assert!(long.starts_with(content) && content.len() < long.len(), "{content}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_near_answer_is_asked_for_once_and_the_local_summariser_is_measured_too() {
    let (_, _, summarize, asked, _) = evicted(Some(&[GOOD])).await;
    assert_eq!((asked, &summarize["by"]), (1, &json!("model")));
    let (_, flush, summarize, _, metrics) = evicted(None).await;
    assert_eq!((&summarize["by"], &summarize["attempts"]), (&json!("local"), &json!(1)));
    for measure in ["similarity", "information_drift", "random_drift"] {
        assert!(flush[measure].is_number(), "{measure} in {flush:#}");
        assert_eq!(flush[measure], summarize[measure]);
    }
    assert_eq!(flush["drift_alarm"], false, "{flush:#}");
    assert!(metrics.contains("vctx_summary_information_drift_count 1"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_leaves_no_room_for_a_first_summary_raises_the_alarm_of_what_is_lost() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 1000, "").await;
    let empty = ada.state().await["tokens"]["free"].as_u64().expect("free tokens");
    for text in SAID {
        ada.append("user", text).await;
    }
    let frame = count::frame() + count::opening();
    let large = json!({"message": count::words(empty - frame), "role": "user"});
    let answer = ada.done("append_fifo", &large).await;
    assert_eq!(answer["tokens"]["free"], 0, "it takes all of the window: {answer:#}");
    let query = "FOR e IN memory_events FILTER e.type == @kind RETURN e.details";
    let database = home.database_inside();
    for kind in ["flush", "summarize"] {
        let told = database.row(query, json!({"kind": kind})).await;
        assert_eq!((&told["drift_alarm"], &told["alarm"]), (&json!(true), &json!("lost")));
        let measures = (&told["similarity"], told["information_drift"].as_f64());
        assert_eq!(measures, (&Value::Null, Some(1.0)));
    }
    let metrics = home.wire("metrics.sock").get("/metrics").await.text;
    assert!(metrics.contains(r#"vctx_drift_alarms_total{why="lost"} 1"#), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_message_leaves_the_running_summary_and_the_alarm_tells_what_is_not_in_it() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 1000, "").await;
    for text in SAID {
        ada.append("user", text).await;
    }
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    let before = ada.state().await;
    let (old, room) = (before["summary"].clone(), before["tokens"]["free"].as_u64());
    let (old, room) = (old["content"].as_str().expect("a summary"), room.expect("free tokens"));
    assert!(!old.is_empty());
    ada.append("user", "The anchor weighs 40 kilos.").await;
    let frame = count::frame() + count::opening();
    let large = |words| json!({"message": count::words(words), "role": "user"});
    let refused = ada.tool("append_fifo", &large(room - frame + 3), &key(), "*").await;
    assert_eq!(refused.refused(422, "TOKEN_BUDGET_EXCEEDED")["required_headroom"], 3);
    ada.done("append_fifo", &large(room - frame)).await;
    let state = ada.state().await;
    assert_eq!(state["tokens"]["free"], 0);
    assert_eq!((&state["summary"]["content"], &state["queue"]["count"]), (&json!(old), &json!(1)));
    let query =
        "FOR e IN memory_events FILTER e.type == 'flush' SORT e.ts DESC LIMIT 1 RETURN e.details";
    let told = home.database_inside().row(query, json!({})).await;
    assert_eq!((&told["drift_alarm"], &told["alarm"]), (&json!(true), &json!("information")));
    assert!(told["similarity"].is_number(), "{told:#}");
}
