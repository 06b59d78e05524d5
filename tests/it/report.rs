//! Tests the report page of a running server: it is one file that loads no resources, shows the
//! history, and contains no text of the memory.

use std::path::Path;

use serde_json::{Value, json};

use crate::count;
use crate::home::Home;
use crate::talk::Agent;

/// Number of messages, more than the window can hold.
const APPENDS: u64 = 50;
/// Pieces of markup that would load a resource.
const LOADS: &[&str] = &[
    "http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link", "<iframe", "<img",
    "<object", "<embed",
];

/// Returns a section of the page by its title.
#[track_caller]
fn section<'a>(html: &'a str, title: &str) -> &'a str {
    let head = format!("<section><h2>{title}</h2>");
    let start = html.find(&head).unwrap_or_else(|| panic!("no section {title} in {html}"));
    let rest = &html[start + head.len()..];
    &rest[..rest.find("</section>").expect("the section ends")]
}

/// Returns the cells of a section's tables, row by row, without heading rows.
fn rows(section: &str) -> Vec<Vec<&str>> {
    let mut rows = Vec::new();
    for row in section.split("<tr>").skip(1) {
        let cells = row.split("<td>").skip(1).filter_map(|cell| cell.split("</td>").next());
        let cells: Vec<&str> = cells.collect();
        if !cells.is_empty() {
            rows.push(cells);
        }
    }
    rows
}

/// Gives the agent all kinds of data that the page shows.
async fn live(ada: &Agent) {
    for turn in 0..APPENDS {
        ada.append(
            "user",
            format!("Turn {turn}: the sloop has a brass compass. {}", count::words(25)),
        )
        .await;
    }
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    ada.done("search_recall", &json!({"query": "compass", "limit": 2})).await;
    let document =
        json!({"doc_id": "tides", "chunks": ["Low tide at seven.", "High tide at one."]});
    ada.done("ingest_archival", &document).await;
    ada.done("search_archival", &json!({"query_text": "low tide", "heartbeat": true})).await;
    ada.done("record_heartbeat", &json!({"state": "continue"})).await;
    ada.done("record_heartbeat", &json!({"state": "yield"})).await;
    let path = format!("{}/tools/search_archival", ada.path());
    let naive = json!({"doc_id": "naive", "chunks": ["a"], "embeddings": [[1, 0]], "dimension": 2,
        "metric": "cosine", "embedding_version": "1", "model_id": "tides"});
    let refused = format!("{}/tools/ingest_archival", ada.path());
    let headers = [("idempotency-key", "naive"), ("if-match", "*")];
    ada.wire
        .call("POST", &refused, &headers, naive.to_string())
        .await
        .refused(422, "LATE_CHUNKING_REQUIRED");
    ada.wire.call("POST", &path, &[], r#"{"query_text": "tide"}"#).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_live_server_shows_everything_and_loads_nothing() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 2048, "Be brief.").await;
    live(&ada).await;
    let (file, socket) = (home.path("ada.html"), home.path("vctx.sock"));
    let plain = |path: &Path| path.to_str().expect("a plain path").to_owned();
    let (file_text, socket_text) = (plain(&file), plain(&socket));
    let arguments = ["report", &file_text, "--agent", "ada", "--json", "--socket", &socket_text];
    let made = home.run(&arguments);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let told: Value = serde_json::from_slice(&made.stdout).expect("JSON");
    let html = std::fs::read_to_string(&file).expect("the page");

    assert!(html.starts_with("<!doctype html>") && html.trim_end().ends_with("</html>"));
    for part in LOADS {
        assert!(!html.contains(part), "the page has {part} in it");
    }
    for text in ["sloop", "compass", "Low tide", "Be brief", "key-"] {
        assert!(!html.contains(text), "a text of the memory is in the page: {text}");
    }

    let state = ada.state().await;
    let window = section(&html, "The window over time");
    assert!(window.contains("<svg") && window.contains("class=\"evicts\""));
    let evictions = rows(section(&html, "Evictions"));
    let flushes = state["counters"]["flushes"].as_u64().expect("a number");
    assert!(flushes > 1 && evictions.len() as u64 == flushes, "{evictions:?}");
    let evicted: u64 = evictions.iter().map(|row| row[1].parse::<u64>().expect("a count")).sum();
    assert_eq!(json!(evicted), state["counters"]["evicted"]);
    assert!(evictions.iter().all(|row| row.iter().all(|cell| !cell.is_empty())), "{evictions:?}");

    let searches = section(&html, "Searches and writes");
    assert!(searches.contains("Recall searches counted: 1, with a hit: 1."), "{searches}");
    let (writes, appends) = (rows(searches), APPENDS.to_string());
    for (tool, times) in [
        ("search_recall", "1"),
        ("search_archival", "1"),
        ("ingest_archival", "1"),
        ("append_fifo", &appends),
    ] {
        assert!(writes.contains(&vec![tool, times]), "{tool} in {writes:?}");
    }
    let chains = rows(section(&html, "Heartbeats"));
    assert_eq!(chains.len(), 1);
    assert_eq!((chains[0][2], chains[0][4]), ("2", "explicit_yield"), "{chains:?}");
    assert!(chains[0][3].parse::<u64>().is_ok());

    let conveyance = rows(section(&html, "Conveyance"));
    let input = |name: &str| {
        let row = conveyance.iter().find(|row| row[0] == name);
        row.unwrap_or_else(|| panic!("no {name} in {conveyance:?}"))[1]
    };
    assert_eq!((input("zero.0"), input("terms.L.denominator")), ("naive_chunking", "3"));
    for term in ["W", "R", "H", "T", "L", "I", "A", "G"] {
        input(&format!("terms.{term}.value"));
    }
    let latency = rows(section(&html, "Latency of tool calls"));
    let calls = |tool: &str| latency.iter().find(|row| row[0] == tool).map(|row| row[1]);
    assert_eq!((calls("append_fifo"), calls("search_archival")), (Some(&*appends), Some("2")));
    assert!(latency.iter().all(|row| row.len() == 5 && !row[4].is_empty()), "{latency:?}");
    assert!(section(&html, "Refusals and alarms").contains("LATE_CHUNKING_REQUIRED"));
    assert_eq!(told["heartbeat_chains"], 1);
    assert_eq!(told["searches_that_wrote"], 2);

    let again = home.run(&arguments);
    assert!(!again.status.success(), "a file that is there is kept");
    assert_eq!(std::fs::read_to_string(&file).expect("the page"), html);
}
