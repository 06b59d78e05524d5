//! Tests the dialect of a Unified Experience Storage: one search over messages and documents, and
//! the summary of a text.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ada, text};
use crate::home::{Home, Tuning};
use crate::line::Line;
use crate::model::Model;
use crate::talk::{Agent, key};

const MANUAL: &str = "The ferry to Elba leaves Piombino every hour. Dogs travel free of charge.";

#[tokio::test(flavor = "multi_thread")]
async fn one_search_finds_messages_and_documents_best_first_and_by_time() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = ada(&home).await;
    let said = |text: &str, day: &str| json!({"content": text, "said_at": day});
    ada.append("user", said("The ferry to Elba costs eighteen euros.", "2026-03-02")).await;
    ada.append("user", said("We had soup yesterday.", "2026-03-05")).await;
    ada.append("user", said("The ferry to Capri costs thirty euros.", "2026-04-09")).await;
    ada.done("evict_fifo", &json!({"target_tokens": 0, "summarize": false})).await;
    let document = json!({"doc_id": "ferry.md", "document": MANUAL, "freshness_ts": "2026-03-20"});
    ada.done("ingest_archival", &document).await;
    // The window counts, too.
    ada.append("user", said("The ferry to Giglio costs ten euros.", "2026-05-01")).await;
    let before = ada.revision().await;
    let found = async |arguments: Value| {
        let told = ada.done("retrieve_from_ues", &arguments).await["result"].clone();
        let results = told["results"].as_array().expect("results").clone();
        let text = told["text"].as_str().expect("a text").to_owned();
        (results, text)
    };
    let (results, told) = found(json!({"query": "What does the ferry to Elba cost?"})).await;
    assert_eq!((&results[0]["store"], &results[0]["seq"]), (&json!("recall"), &json!(1)), "{told}");
    for part in
        ["[#1 2026-03-02 Mon] user: The ferry to Elba costs eighteen euros.", "Piombino", "Giglio"]
    {
        assert!(told.contains(part), "{part} in\n{told}");
    }
    let grades: Vec<f64> =
        results.iter().map(|one| one["grade"].as_f64().expect("a grade")).collect();
    assert!(grades.is_sorted_by(|a, b| a >= b), "{grades:?}");
    let (results, _) = found(json!({"query": "ferry to Elba", "top_k": 1})).await;
    assert_eq!(results.len(), 1);
    for (time, shown, hidden) in [
        ("2026-03-02", "Elba costs", "Piombino"),
        ("2026-03-02/2026-03-31", "Piombino", "Capri"),
        ("2026-04-01/", "Capri", "Piombino"),
        ("/2026-03-31", "Piombino", "Giglio"),
    ] {
        let (_, told) = found(json!({"query": "ferry", "time_filter": time, "top_k": 20})).await;
        assert!(told.contains(shown) && !told.contains(hidden), "{time}: {told}");
    }
    let (_, told) = found(json!({"query": "zeppelin", "time_filter": "1999-01-01"})).await;
    assert_eq!(told, "Nothing found.");
    assert_eq!(ada.revision().await, before, "a search writes nothing");
    for (tool, arguments, field) in [
        ("retrieve_from_ues", json!({"query": "x", "time_filter": "yesterday"}), "time_filter"),
        ("retrieve_from_ues", json!({"query": "x", "top_k": 21}), "top_k"),
        ("summarize_text", json!({"text": "x".repeat(140_000)}), "text"),
        ("summarize_text", json!({"text": "x", "style": "short"}), "style"),
    ] {
        let refused = ada.tool(tool, &arguments, &key(), "*").await;
        assert!(text(&refused).starts_with("Error: "), "{}", refused.text);
        assert_eq!(refused.refused(400, "INVALID_ARGUMENT")["field"], field);
    }
    for missing in ["web_search", "graph_query_ues"] {
        let refused = ada.tool(missing, &json!({"query": "x"}), &key(), "*").await;
        assert_eq!(refused.code(), "TOOL_NOT_FOUND", "{}", refused.text);
    }
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_is_summarised_in_sentences_of_its_own() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = ada(&home).await;
    let sentences: Vec<String> = (1..=40)
        .map(|at| format!("On day {at} the harbour master counted {} boats in the bay.", at * 3))
        .collect();
    let whole = sentences.join(" ");
    for max_tokens in [24, 100, 300] {
        let asked = json!({"text": whole, "max_tokens": max_tokens, "style": "extractive"});
        let told = ada.done("summarize_text", &asked).await["result"].clone();
        let text = told["text"].as_str().expect("a text");
        assert!(told["tokens"].as_u64() <= Some(max_tokens), "{told:#}");
        assert!(told["tokens_before"].as_u64() > Some(300), "{told:#}");
        let parts: Vec<&str> = text.split_inclusive("bay.").map(str::trim).collect();
        assert!(parts.iter().all(|part| sentences.iter().any(|one| one == part)), "{text}");
        assert!(max_tokens == 24 || parts.len() >= 4, "{text}");
    }
    // A client of MCP sees both tools, and those of vctx other than the searches.
    let mut line =
        Line::initialized(&home, &["--agent", "ada", "--all-tools", "--dialect", "ues"]).await;
    let listed = line.ask("tools/list", json!({})).await;
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert!(names.contains(&"retrieve_from_ues") && names.contains(&"store_core"), "{names:?}");
    for missing in ["search_recall", "search_archival", "web_search", "graph_query_ues"] {
        assert!(!names.contains(&missing), "{names:?}");
    }
    let told = Line::done(line.tool("summarize_text", json!({"text": MANUAL})).await);
    assert!(told.to_string().contains("every hour"), "{told:#}");
    line.leave().await;
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_model_summarises_in_other_words_unless_sentences_are_wanted() {
    let home = Home::new();
    let long = "Dogs are welcome. ".repeat(60);
    let said = ["The ferry runs hourly.", &long];
    let model = Model::saying(&home.path("model.sock"), Duration::ZERO, &said);
    let file = home.path("vctx.toml");
    std::fs::write(&file, model.role("summariser", 60_000)).expect("a configuration");
    let tuning = Tuning { config: Some(file), ..Tuning::default() };
    let server = home.serve_with("vctx.sock", &tuning).await;
    let ada = ada(&home).await;
    let summary = async |ada: &Agent, style: Value| {
        let asked = json!({"text": MANUAL, "max_tokens": 24, "style": style});
        ada.done("summarize_text", &asked).await["result"].clone()
    };
    let told = summary(&ada, json!("extractive")).await;
    assert!(MANUAL.contains(told["text"].as_str().expect("a text")), "{told:#}");
    assert_eq!(model.asked(), 0);
    let told = summary(&ada, json!(null)).await;
    assert_eq!((&told["text"], &told["degraded"]), (&json!(said[0]), &json!(null)), "{told:#}");
    // The second summary is longer than it may be.
    let told = summary(&ada, json!("abstractive")).await;
    assert!(MANUAL.contains(told["text"].as_str().expect("a text")), "{told:#}");
    assert_eq!((&told["degraded"], model.asked()), (&json!("summariser"), 2), "{told:#}");
    drop(server);
    let home = Home::new();
    let _server = home.serve().await;
    let told = summary(&super::ada(&home).await, json!("abstractive")).await;
    assert_eq!(told["degraded"], "summariser", "{told:#}");
}
