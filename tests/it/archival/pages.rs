//! Tests pages of found passages: complete lists, room in the window, and other writers between two
//! pages.

use std::time::Duration;

use serde_json::{Value, json};
use vctx::store::QUERIES;

use super::{ingest, search, stage, texts, walk};
use crate::count;
use crate::home::Home;
use crate::talk::Agent;

/// Maximum number of polls of the view, 50 ms apart.
const LOOKS_MAX: usize = 1_200;

#[tokio::test(flavor = "multi_thread")]
async fn all_pages_are_the_whole_list_while_others_write_and_large_chunks_are_cut() {
    let (_home, _server, database, ada) = stage().await;
    let bob = Agent::create(ada.wire.again(), "bob", 8192, "").await;
    let long: String = (0..900).map(|n| format!("wave {n} rolls over stone {n}. ")).collect();
    let mut chunks: Vec<String> =
        (0..30).map(|n| format!("Passage {n} about waves and stones.")).collect();
    chunks[7].clone_from(&long);
    ingest(&ada, &json!({"doc_id": "sea", "chunks": chunks}), "*").await.ok();
    let asked = json!({"query_text": "waves over stones", "limit": 40});

    let writer = bob.again();
    let writing = tokio::spawn(async move {
        for round in 0..20 {
            let arguments =
                json!({"doc_id": "sea", "chunks": [format!("waves over stones {round}")]});
            ingest(&writer, &arguments, "*").await.ok();
        }
    });
    let found = walk(&ada, asked.clone()).await;
    writing.await.expect("the writer ends");
    let mut whole: std::collections::BTreeMap<&str, String> = std::collections::BTreeMap::new();
    for result in &found {
        let (id, text) =
            (result["id"].as_str().expect("an id"), result["text"].as_str().expect("a text"));
        let so_far = whole.entry(id).or_default();
        if let Some(part) = result.get("part") {
            assert_eq!(part["start"], so_far.chars().count(), "no gap and no double");
        } else {
            assert!(so_far.is_empty(), "a passage comes once");
        }
        so_far.push_str(text);
    }
    let mut all: Vec<String> = whole.into_values().collect();
    let mut wanted = chunks.clone();
    all.sort();
    wanted.sort();
    assert_eq!(all, wanted);

    // A chunk that was replaced after the search is marked as changed or gone, and its new text is
    // not shown.
    let body = search(&ada, asked.clone()).await.ok();
    let token = body["result"]["next_page_token"].as_str().expect("more pages").to_owned();
    ingest(&ada, &json!({"doc_id": "sea", "chunks": ["All is new."]}), "*").await.ok();
    let mut next = asked.clone();
    next["page_token"] = token.as_str().into();
    let body = search(&ada, next.clone()).await.ok();
    for result in body["result"]["results"].as_array().expect("results") {
        assert!(result["text"].is_null());
        assert!(result["gone"] == true || result["changed"] == true, "{result}");
    }
    // A page token is bound to agent, tool and query.
    search(&bob, next.clone()).await.refused(400, "PAGE_TOKEN_INVALID");
    let mut other = next.clone();
    other["query_text"] = "other words".into();
    search(&ada, other).await.refused(400, "PAGE_TOKEN_INVALID");
    let mut tampered = next.clone();
    tampered["page_token"] = token.replacen('.', ".1", 1).into();
    search(&ada, tampered).await.refused(400, "PAGE_TOKEN_INVALID");
    let kept = database
        .rows("FOR p IN pages FILTER p.tool == 'search_archival' RETURN p", json!({}))
        .await;
    assert!(kept.iter().all(|p| p["agent_id"] == "ada"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_without_room_for_a_page_gets_none() {
    let (home, _server, database, ada) = stage().await;
    let small = Agent::create(home.wire("vctx.sock"), "small", 1024, "").await;
    ingest(&small, &json!({"doc_id": "d", "chunks": ["The tide turns at seven."]}), "*").await.ok();
    small.append("user", count::words(560)).await;
    let state = small.state().await;
    assert!(
        state["tokens"]["free"].as_u64().is_some_and(|free| (256..512).contains(&free)),
        "{state}"
    );
    let body = search(&small, json!({"query_text": "tide"})).await.ok();
    let result = &body["result"];
    assert_eq!(result["results"], json!([]));
    assert_eq!(result["withheld"], "tokens");
    assert_eq!(result["tokens_added"], 0);
    assert!(result["next_page_token"].is_string(), "the page can be fetched when there is room");
    let id = result["spooled"][0].as_str().expect("an entry");
    let entry =
        database.row("FOR m IN messages FILTER m._key == @id RETURN m", json!({"id": id})).await;
    assert_eq!(entry["kind"], "spool");
    assert!(entry["content"].as_str().is_some_and(|c| c.contains("The tide turns at seven.")));
    let context = small.context().await.to_string();
    assert!(context.contains(id), "a notice names the entry: {context}");
    // The same search again finds its result stored, and stores it no second time.
    for _ in 0..3 {
        let again = search(&small, json!({"query_text": "tide"})).await.ok();
        assert_eq!(again["result"]["spooled"], result["spooled"], "{again}");
    }
    let entries = "FOR m IN messages FILTER m.kind == 'spool' RETURN m._key";
    assert_eq!(database.rows(entries, json!({})).await, [json!(id)]);
    assert!(body["tokens"]["occupancy"].as_u64() <= Some(1024));
    small.done("evict_fifo", &json!({"target_tokens": 100})).await;
    let next = json!({"query_text": "tide", "page_token": result["next_page_token"]});
    let body = search(&small, next).await.ok();
    assert_eq!(texts(&body["result"]), ["The tide turns at seven."]);
    drop(ada);
}

/// Returns an agent with a small window and one passage; its window is filled until exactly `free`
/// tokens are free.
async fn with_free(home: &Home, name: &str, free: u64) -> Agent {
    let agent = Agent::create(home.wire("vctx.sock"), name, 1024, "").await;
    ingest(&agent, &json!({"doc_id": "d", "chunks": ["The tide turns at seven."]}), "*").await.ok();
    let empty = agent.state().await["tokens"]["free"].as_u64().expect("a number");
    agent.append("user", count::words(empty - free - count::first_frame())).await;
    assert_eq!(agent.state().await["tokens"]["free"], free);
    agent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_comes_with_512_tokens_free_and_not_with_511() {
    let home = Home::new();
    let _server = home.serve().await;
    for (name, free, pages) in [("just", 512, 1), ("short", 511, 0)] {
        let agent = with_free(&home, name, free).await;
        let body = search(&agent, json!({"query_text": "tide"})).await.ok();
        let result = &body["result"];
        assert_eq!(result["results"].as_array().map(Vec::len), Some(pages), "{free}: {body}");
        assert_eq!(result.get("withheld").is_some(), pages == 0, "{free}: {body}");
        assert!(body["tokens"]["occupancy"].as_u64() <= Some(1024));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_in_between_two_pages_changes_none_of_them() {
    let (_home, _server, _database, ada) = stage().await;
    let chunks: Vec<String> =
        (0..8).map(|n| format!("Wave {n} rolls in. {}", count::words(150))).collect();
    ingest(&ada, &json!({"doc_id": "sea", "chunks": chunks}), "*").await.ok();
    let mut asked = json!({"query_text": "the waves roll in", "limit": 8});
    let ids = |found: &[Value]| -> Vec<Value> { found.iter().map(|r| r["id"].clone()).collect() };
    let wanted = walk(&ada, asked.clone()).await;
    assert_eq!(wanted.len(), 8, "no chunk of this test is cut");
    let (mut found, mut pages) = (Vec::new(), 0);
    loop {
        let body = search(&ada, asked.clone()).await.ok();
        found.extend(body["result"]["results"].as_array().expect("results").iter().cloned());
        pages += 1;
        assert!(pages <= 8, "the pages come to an end");
        match body["result"]["next_page_token"].as_str() {
            Some(token) => asked["page_token"] = token.into(),
            None => break,
        }
        // The new passage is nearer to the query than any result.
        let nearer = json!({"doc_id": format!("n{pages}"), "chunks": ["the waves roll in"]});
        ingest(&ada, &nearer, "*").await.ok();
    }
    assert!(pages >= 3, "{pages} pages");
    assert_eq!(ids(&found), ids(&wanted));
    let now = walk(&ada, json!({"query_text": "the waves roll in", "limit": 8})).await;
    assert_eq!(now[0]["text"], "the waves roll in", "a new search finds what is new");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_of_heartbeats_pages_until_the_end_or_the_cap() {
    let (_home, _server, _database, ada) = stage().await;
    let chunks: Vec<String> = (0..40).map(|n| format!("Wave {n}. {}", count::words(200))).collect();
    ingest(&ada, &json!({"doc_id": "sea", "chunks": chunks}), "*").await.ok();
    let mut arguments = json!({"query_text": "wave", "limit": 40, "heartbeat": true});
    let mut depth = 0;
    for _ in 0..40 {
        let body = search(&ada, arguments.clone()).await.ok();
        let beat = &body["heartbeat"];
        if beat["terminated_reason"] == "depth" {
            assert_eq!(depth, 8);
            return;
        }
        if beat["granted"] == true {
            depth = beat["chain_depth"].as_u64().expect("a depth");
            arguments["page_token"] = body["result"]["next_page_token"].clone();
            assert!(arguments["page_token"].is_string(), "{body}");
        } else {
            let wait = beat["retry_after_ms"].as_u64().unwrap_or(50);
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
    }
    panic!("the chain has no end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_word_search_finds_the_same_while_its_chunks_are_recent_and_later() {
    let (_home, _server, database, ada) = stage().await;
    let chunks: Vec<String> = (0..8).map(|n| format!("The tide turns at {n}.")).collect();
    ingest(&ada, &json!({"doc_id": "tides", "chunks": chunks}), "*").await.ok();
    let in_view = "FOR d IN archival_view COLLECT WITH COUNT INTO rows RETURN rows";
    for _ in 0..LOOKS_MAX {
        if database.row(in_view, json!({})).await == 8 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let words = QUERIES.iter().find(|query| query.name == "passage_words").expect("a query");
    let found = async |limit: u64, since_ms: u64| {
        let binds = json!({"scope": "ada", "text": "tide", "words": "tide", "related": "", "unknown_max": 3,
            "unknown_chars_min": 4, "identifiers": [], "vector": "embedding", "query_vector": null, "metric": "cosine",
            "limit": limit, "chars_max": 100, "source": null, "doc_id": null, "fresh_after": null,
            "doc_id_prefix": "\u{1}", "labels": [], "since_ms": since_ms, "recent_max": 100});
        let row = database.row(words.text, binds).await;
        let count = |rows: &Value| rows.as_array().expect("rows").len();
        (row["rows"].clone(), count(&row["tail"]["rows"]))
    };
    let (recent, later) = (found(5, 0).await, found(5, u64::MAX >> 12).await);
    assert_eq!(recent, later, "the view has five better chunks");
    assert_eq!(recent.1, 0);
    assert_eq!(found(9, 0).await.1, 8, "a list that is not full gains nothing by this");
}
