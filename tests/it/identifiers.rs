//! Tests lookups of random keys in many key-value pairs, where the value of one pair is the key of
//! the next pair. The first search for a key must find its pair, so that each lookup needs only one
//! call.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::archival::{ingest, search};
use crate::chance::{Chance, uuid};
use crate::home::Home;
use crate::talk::Agent;

/// Number of successive lookups: the value that one lookup finds is the key of the next lookup.
const LEVELS: usize = 4;

/// Generates key-value pairs. In `LEVELS` of them, the value is the key of the next pair; also
/// returns the first key and the last value of this sequence.
fn pairs(chance: &mut Chance, count: usize) -> (Vec<(String, String)>, String, String) {
    let keys: Vec<String> = (0..count).map(|_| uuid(chance)).collect();
    let mut pairs: Vec<(String, String)> =
        keys.iter().map(|key| (key.clone(), uuid(chance))).collect();
    let chain: Vec<usize> = (0..LEVELS).map(|n| (n * 7919 + 13) % count).collect();
    for two in chain.windows(2) {
        pairs[two[0]].1 = keys[two[1]].clone();
    }
    let end = pairs[chain[LEVELS - 1]].1.clone();
    (pairs, keys[chain[0]].clone(), end)
}

/// Looks up a key, then the key that it finds, and so on; returns the last value and the number of
/// calls.
async fn follow(agent: &Agent, key: &str, mode: Option<&str>) -> (String, usize) {
    let (mut current, mut calls) = (key.to_owned(), 0);
    'lookups: loop {
        let mut asked = json!({"query_text": current});
        if let Some(mode) = mode {
            asked["mode"] = mode.into();
        }
        loop {
            calls += 1;
            assert!(calls < 40, "the chain has no end");
            let found = search(agent, asked.clone()).await.ok()["result"].clone();
            let texts = found["results"].as_array().expect("results").iter();
            let line = format!("key = {current}, value = ");
            let value = texts
                .filter_map(|r| r["text"].as_str())
                .find_map(|text| text.split_once(&line).map(|(_, value)| value.to_owned()));
            match (value, found["next_page_token"].as_str()) {
                (Some(value), _) => {
                    current = value;
                    continue 'lookups;
                }
                (None, Some(token)) => asked["page_token"] = token.into(),
                (None, None) => return (current, calls),
            }
        }
    }
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn each_lookup_of_a_chain_is_one_call_with_a_hundred_pairs_and_with_two_thousand() {
    let home = Home::new();
    let _server = home.serve().await;
    let mut chance = Chance::new(11);
    for count in [140, 2_000] {
        let ada = Agent::create(home.wire("vctx.sock"), &format!("a{count}"), 4096, "").await;
        let (pairs, key, end) = pairs(&mut chance, count);
        for (at, some) in pairs.chunks(500).enumerate() {
            let text = |(key, value): &(String, String)| {
                format!("Key-value pair: key = {key}, value = {value}")
            };
            let chunks: Vec<String> = some.iter().map(text).collect();
            ingest(&ada, &json!({"doc_id": format!("pairs-{at}"), "chunks": chunks}), "*")
                .await
                .ok();
        }
        let (found, calls) = follow(&ada, &key, None).await;
        assert_eq!((found, calls), (end.clone(), LEVELS + 1), "{count} pairs, just taken in");
        let (found, calls) = follow(&ada, &key, Some("hybrid")).await;
        assert_eq!((found, calls), (end, LEVELS + 1), "{count} pairs, by words and vectors");
    }
}

/// Waits until the view contains the given number of chunks of the agent `ada`.
async fn shown(home: &Home, chunks: u64) {
    let of_view =
        "FOR d IN archival_view SEARCH d.agent_id == 'ada' COLLECT WITH COUNT INTO n RETURN n";
    let database = home.database_inside();
    for _ in 0..600 {
        if database.row(of_view, json!({})).await == chunks {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the view does not contain {chunks} chunks");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_is_found_by_similar_words_and_by_a_word_with_a_typing_error() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    let chunks = [
        "Your salary arrives on the last Friday.",
        "The whiskers of the cat are long.",
        "The greenhouse needs a new pane.",
        "Ferries leave at noon.",
        "A cedar grows next to the pond.",
        "The birch and the oak are older.",
    ];
    ingest(&ada, &json!({"doc_id": "notes", "chunks": chunks}), "*").await.ok();
    for is_viewed in [false, true] {
        if is_viewed {
            shown(&home, 6).await;
        }
        for (asked, wanted) in [
            ("When do I get my wage?", vec![chunks[0]]),
            ("wiskers", vec![chunks[1]]),
            ("house", vec![chunks[2]]),
            // Of the trees, only the one that was asked for is shown.
            ("cedar", vec![chunks[4]]),
            ("zqxv", vec![]),
        ] {
            let asked = json!({"query_text": asked, "mode": "text"});
            let body = search(&ada, asked).await.ok();
            let list = body["result"]["results"].as_array().expect("a list");
            let texts: Vec<&str> = list.iter().map(|r| r["text"].as_str().unwrap()).collect();
            assert_eq!(texts, wanted, "{is_viewed}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_view_shows_ranks_like_what_it_does_not_show_yet() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    let chunks: Vec<String> = (0..60)
        .map(|n| format!("Ferry {n} leaves pier {} for the island at {} o'clock.", n % 7, n % 12))
        .collect();
    ingest(&ada, &json!({"doc_id": "ferries", "chunks": chunks}), "*").await.ok();
    let asked = json!({"query_text": "Which ferry leaves pier 3 at 10 o'clock?", "mode": "text", "limit": 5, "explain": true});
    let found = async || -> Vec<Value> {
        search(&ada, asked.clone()).await.ok()["result"]["results"]
            .as_array()
            .expect("a list")
            .clone()
    };
    let fresh = found().await;
    shown(&home, 60).await;
    let shown = found().await;
    let texts = |list: &[Value]| -> Vec<String> {
        list.iter().map(|r| r["text"].as_str().expect("a text").to_owned()).collect()
    };
    assert_eq!(texts(&fresh)[0], texts(&shown)[0]);
    assert_eq!(texts(&shown)[0], "Ferry 10 leaves pier 3 for the island at 10 o'clock.");
    let parts: HashMap<String, f64> =
        serde_json::from_value(shown[0]["parts"].clone()).expect("the parts of a score");
    let sum: f64 = ["bm25", "beginning", "neighbours", "related", "together", "topic"]
        .iter()
        .filter_map(|name| parts.get(*name))
        .sum();
    let score = shown[0]["score"].as_f64().expect("a score");
    assert!((sum - score).abs() < 0.01, "{sum} {score}: {parts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vector_and_words_find_together_what_each_misses() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    let mut offer = crate::archival::circle("c", 0, 90, "cosine");
    offer["chunks"][70] = "The gardener waters dahlias at noon and ".into();
    let (mut at, mut spans) = (0, Vec::new());
    for chunk in offer["chunks"].as_array().expect("chunks") {
        let length = chunk.as_str().expect("a text").chars().count();
        spans.push(json!({"start": at, "end": at + length}));
        at += length;
    }
    offer["late_chunking"]["spans"] = json!(spans);
    offer["late_chunking"]["document_chars"] = at.into();
    ingest(&ada, &offer, "*").await.ok();
    let angle = 10_f64.to_radians();
    let vector = json!([angle.cos(), angle.sin()]);
    for fusion in ["z_score", "rrf"] {
        let asked =
            json!({"query_text": "dahlias", "query_vector": vector, "limit": 5, "fusion": fusion});
        let result = search(&ada, asked).await.ok()["result"].clone();
        assert_eq!(result["mode"], "hybrid");
        let texts: Vec<&str> = result["results"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|r| r["text"].as_str().expect("a text"))
            .collect();
        assert!(texts.contains(&"The gardener waters dahlias at noon and "), "{fusion}: {texts:?}");
        assert!(texts.contains(&"Bearing 010. "), "{fusion}: {texts:?}");
    }
    // If the stored vectors come from a model that the server does not have, a search uses only
    // words.
    let result = search(&ada, json!({"query_text": "dahlias"})).await.ok()["result"].clone();
    assert_eq!((&result["mode"], &result["k_actual"]), (&json!("text"), &json!(1)));
    let refused = search(&ada, json!({"query_text": "dahlias", "mode": "vector"})).await;
    refused.refused(409, "VECTOR_SETTING_MISMATCH");
}
