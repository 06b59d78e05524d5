//! Tests that the summary is made again from the messages that a forget operation leaves, without a
//! word of what is forgotten.

use serde_json::{Value, json};

use crate::forgotten::forgotten;
use crate::home::{Home, Process};
use crate::talk::Agent;

/// A message that is forgotten; no other message has its words.
const SECRET: &str = "The passport of Quoxquay is hidden behind the blue teapot.";
/// Other messages, which stay.
const SAID: [&str; 4] = [
    "We sail to Lisbon in March if the wind is right.",
    "The harbour master charges fourteen euros for a berth.",
    "Bring warm coats, the harbour is cold at night.",
    "Lisbon has a museum of old boats near the river.",
];

/// Starts a server, and an agent whose summary contains [`SECRET`] and other messages.
async fn stage(home: &Home) -> (Process, Agent) {
    let server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    for text in [SAID[0], SECRET].into_iter().chain(SAID) {
        ada.append("user", text).await;
    }
    ada.done("evict_fifo", &json!({"target_tokens": 600})).await;
    while ada.state().await["counters"]["flushes"] == 0 {
        ada.append("user", SAID.join(" ").repeat(4)).await;
    }
    let summary = summary(&ada).await;
    assert!(summary.contains("Quoxquay") && summary.contains("Lisbon"), "{summary}");
    (server, ada)
}

async fn summary(ada: &Agent) -> String {
    ada.state().await["summary"]["content"].as_str().expect("a summary").to_owned()
}

async fn count_of(home: &Home, text: &str) -> Value {
    let query =
        "RETURN LENGTH(FOR v IN core_versions FILTER CONTAINS(JSON_STRINGIFY(v), @text) RETURN 1)";
    home.database_inside().row(query, json!({"text": text})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_is_summarised_again_and_nothing_forgotten_comes_back() {
    for asked in [json!({"seqs": [2]}), json!({"match": "Quoxquay"})] {
        let home = Home::new();
        let (_server, ada) = stage(&home).await;
        let before = ada.state().await["summary"]["revision"].as_u64();
        assert_ne!(count_of(&home, "Quoxquay").await, 0);
        forgotten(&ada, &asked).await;
        let text = summary(&ada).await;
        assert!(text.contains("Lisbon") && !text.contains("teapot"), "{asked}: {text}");
        assert!(!text.contains("Quoxquay"), "{text}");
        assert_eq!(count_of(&home, "Quoxquay").await, 0, "no earlier version has it");
        assert_ne!(count_of(&home, "Lisbon").await, 0, "the version with the new summary stays");
        let state = ada.state().await;
        assert!(state["summary"]["revision"].as_u64() > before);
        let query = "FOR e IN memory_events FILTER e.type == 'summarize' AND e.details.reason == 'forgotten' RETURN e.details";
        let told = home.database_inside().row(query, json!({})).await;
        assert_eq!(told["revision"], state["summary"]["revision"]);
        let context = ada.context().await;
        assert!(context["messages"].to_string().contains("Lisbon"));
        home.assert_verified("vctx.sock", "ada");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_only_the_summary_writes_does_not_come_back() {
    let home = Home::new();
    let (_server, ada) = stage(&home).await;
    let text = summary(&ada).await;
    let written = text.split_once(' ').and_then(|_| text.find("user: ")).expect("a speaker");
    let quoted: String = text[written..].chars().take(24).collect();
    forgotten(&ada, &json!({"match": quoted})).await;
    assert_eq!(summary(&ada).await, "", "{quoted}");
    assert_eq!(count_of(&home, &quoted).await, 0);
    home.assert_verified("vctx.sock", "ada");
}
