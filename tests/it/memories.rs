//! Tests search results in three forms: with `memories` (each message together with its reply),
//! ranked by similarity to a question, and ordered with the best ones first and last. Also tests
//! that a vector row contains no text, and that only one of several servers computes the vectors of
//! an agent.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use crate::home::{Home, Process, Tuning};
use crate::talk::{Agent, key};
use crate::vectors::{Model, all_made, log, tuned};

/// Maximum number of polls until a background process must have ended, and the pause between two
/// polls.
const LOOKS_MAX: usize = 1_200;
const LOOK: Duration = Duration::from_millis(50);

async fn search(agent: &Agent, arguments: &Value) -> Value {
    agent.done("search_recall", arguments).await["result"].take()
}

fn rows(result: &Value) -> &Vec<Value> {
    result["results"].as_array().expect("results")
}

/// Starts a server with an embedding model and the given settings.
async fn server(home: &Home, socket: &str, settings: &[(&str, &str)]) -> Process {
    let mut tuning = tuned(home, "1");
    let owned = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    tuning.environment.extend(owned);
    home.server(socket, "engine.sock", "engine-ro.sock", &tuning).await
}

/// Returns the role and the text of each message in one result of a search with `memories`.
fn fragments(memory: &Value) -> Vec<(String, String)> {
    let fragments = memory["fragments"].as_array().expect("fragments").iter();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    fragments.map(|one| (text(&one["role"]), text(&one["content"]))).collect()
}

#[tokio::test]
async fn a_memory_is_what_was_found_with_what_belongs_to_it() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let (asks, replies) = ("Where is the Swallow moored?", "At pier 4, beside the old buoy.");
    ada.append("user", asks).await;
    ada.append("assistant", replies).await;
    ada.append("user", "Nobody answers a question about zinc.").await;
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    let summary = "The Swallow has lain at pier 4 since March.";
    let entry = json!({"content": summary, "summary": true});
    ada.done("write_recall", &json!({"entries": [entry]})).await;
    let of = async |query: &str, content: &str| {
        let asked = json!({"query": query, "memories": true, "rehydrate": false});
        let found = search(&ada, &asked).await;
        let is_hit = |memory: &&Value| {
            let hit = memory["fragments"].as_array().expect("fragments").iter();
            hit.filter(|one| one["id"] == memory["id"]).any(|one| one["content"] == content)
        };
        rows(&found).iter().find(is_hit).unwrap_or_else(|| panic!("{content}: {found}")).clone()
    };
    let pair = [("user".to_owned(), asks.to_owned()), ("assistant".into(), replies.into())];
    let cases = [
        (asks, &pair[..], "message"),
        (replies, &pair, "message"),
        (summary, &[("assistant".into(), summary.into())], "summary"),
        (
            "Nobody answers a question about zinc.",
            &[("user".into(), "Nobody answers a question about zinc.".into())],
            "message",
        ),
    ];
    let messages = ada.messages().await;
    for (content, wanted, source) in cases {
        let memory = of(content, content).await;
        assert_eq!((fragments(&memory), &memory["source"]), (wanted.to_vec(), &json!(source)));
        let ids: Vec<&Value> =
            memory["fragments"].as_array().expect("them").iter().map(|one| &one["id"]).collect();
        assert_eq!(memory["source_ids"], json!(ids), "{memory}");
        let message = messages.iter().find(|m| m["content"] == content).expect("it was said");
        assert_eq!(
            (&memory["id"], &memory["created_at"]),
            (&message["id"], &message["created_at"])
        );
        let hit = memory["fragments"].as_array().expect("them").iter();
        let hit = hit.filter(|one| one["id"] == memory["id"]).collect::<Vec<_>>();
        assert_eq!(hit[0]["receipt"]["digest"], message["digest"]);
        // Without an embedding model, the similarity of a result is unknown.
        assert!(memory["similarity"].is_null() && memory["score"].is_number(), "{memory}");
    }
    // A search with `memories` copies its results into the window like any other search, also the
    // results on later pages.
    let mut asked = json!({"query": "Swallow pier", "memories": true, "limit": 1});
    let mut seen = Vec::new();
    for _ in 0..2 {
        let page = search(&ada, &asked).await;
        let memory = rows(&page)[0].clone();
        let hit = memory["fragments"].as_array().expect("them").iter();
        let copied =
            hit.filter(|one| one["id"] == memory["id"]).all(|one| one["copy_seq"].is_u64());
        assert!(copied, "{page}");
        seen.push(memory["id"].clone());
        asked["page_token"] = page["next_page_token"].clone();
    }
    assert_ne!(seen[0], seen[1]);
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn by_meaning_what_is_not_like_enough_is_left_out_and_the_rest_comes_in_order() {
    let home = Home::new();
    let _engine = home.engine().await;
    let _model = Model::start(&home.path("model.sock"), Duration::ZERO);
    let first = server(&home, "vctx.sock", &[]).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let texts: Vec<String> =
        ["tide", "tide turns", "tide turns at", "tide turns at seven", "a cat"]
            .map(|text| format!("{text}."))
            .into();
    log(&ada, &texts).await;
    all_made(&home, "ada", &texts).await;
    let asked = |more: Value| {
        let mut asked = json!({"query": "tide turns at seven.", "mode": "vector", "rehydrate": false, "memories": true});
        asked.as_object_mut().expect("it is").extend(more.as_object().expect("it is").clone());
        asked
    };
    let all = search(&ada, &asked(json!({"similarity_min": 0}))).await;
    assert_eq!((rows(&all).len(), &all["below_similarity_min"]), (5, &json!(0)), "{all}");
    let likeness: Vec<f64> =
        rows(&all).iter().map(|row| row["similarity"].as_f64().expect("a cosine")).collect();
    assert!(likeness.windows(2).all(|two| two[0] >= two[1]), "{likeness:?}");
    assert!((likeness[0] - 1.0).abs() < 1e-5 && likeness[4] < 0.7, "{likeness:?}");
    let above = |least: f64| likeness.iter().filter(|like| **like >= least).count();
    assert!(above(0.7) < 5);
    let usual = search(&ada, &asked(json!({}))).await;
    assert_eq!(usual["similarity_min"], 0.7);
    assert_eq!(rows(&usual).len(), above(0.7), "{usual}");
    assert_eq!(usual["below_similarity_min"], 5 - above(0.7));
    // The default mode omits no result.
    let auto = search(&ada, &json!({"query": "tide turns at seven", "rehydrate": false})).await;
    assert_eq!((rows(&auto).len(), &auto["similarity_min"]), (5, &Value::Null), "{auto}");
    first.stop().await;

    let least = (likeness[1] + likeness[2]) / 2.0;
    let settings = [
        ("VCTX_RECALL__SIMILARITY_THRESHOLD", least.to_string()),
        ("VCTX_RECALL__MAX_MEMORIES", "3".to_owned()),
    ];
    let settings = settings.each_ref().map(|(name, value)| (*name, value.as_str()));
    let _second = server(&home, "vctx.sock", &settings).await;
    let found = search(&ada, &asked(json!({}))).await;
    assert_eq!(rows(&found).len(), above((least * 1000.0).round() / 1000.0), "{found}");
    let found = search(&ada, &asked(json!({"similarity_min": 0}))).await;
    assert_eq!((&found["total"], &found["total_capped"]), (&json!(3), &json!(true)), "{found}");
    let auto = search(&ada, &json!({"query": "tide turns at seven", "rehydrate": false})).await;
    assert_eq!((&auto["total"], &auto["total_capped"]), (&json!(3), &json!(true)), "{auto}");
}

#[tokio::test]
async fn the_best_stands_at_the_edges_of_what_is_shown_and_of_what_comes_back() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let words = ["anchor", "buoy", "chain", "davit", "ensign"];
    let texts: Vec<String> = (1..=5)
        .map(|count| format!("There lies an old {}.", words[..count].join(" and a ")))
        .collect();
    log(&ada, &texts).await;
    let mut asked = json!({"query": words.join(" "), "rehydrate": false});
    let contents = |result: &Value| -> Vec<String> {
        rows(result).iter().map(|row| row["content"].as_str().expect("a text").into()).collect()
    };
    let ranked = contents(&search(&ada, &asked).await);
    assert_eq!(ranked.len(), 5);
    let wanted = [1, 3, 4, 2, 0].map(|rank: usize| ranked[rank].clone());
    asked["order"] = "edges".into();
    assert_eq!(contents(&search(&ada, &asked).await), wanted);
    asked["rehydrate"] = true.into();
    let placed = search(&ada, &asked).await;
    assert_eq!(contents(&placed), wanted);
    let copies = |messages: Vec<Value>| -> Vec<String> {
        let copies = messages.into_iter().filter(|m| m["kind"] == "copy");
        copies.map(|m| m["content"].as_str().expect("a text").into()).collect()
    };
    assert_eq!(copies(ada.messages().await), wanted);
    let seqs: Vec<u64> = rows(&placed).iter().filter_map(|row| row["copy_seq"].as_u64()).collect();
    assert!(seqs.len() == 5 && seqs.windows(2).all(|two| two[0] < two[1]), "{seqs:?}");
    home.assert_verified("vctx.sock", "ada");
    // Without the argument `order`, the copies in the window keep the order of the original
    // messages.
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 8192, "Be kind.").await;
    log(&bob, &texts).await;
    search(&bob, &json!({"query": words.join(" ")})).await;
    assert_eq!(copies(bob.messages().await), texts);

    let document = json!({"doc_id": "gear", "chunks": texts});
    ada.done("ingest_archival", &document).await;
    let mut asked = json!({"query_text": words.join(" "), "mode": "text"});
    let found = |result: Value| -> Vec<Value> {
        result["result"]["results"]
            .as_array()
            .expect("results")
            .iter()
            .map(|r| r["text"].clone())
            .collect()
    };
    let ranked = found(ada.done("search_archival", &asked).await);
    assert_eq!(ranked.len(), 5);
    asked["order"] = "edges".into();
    let placed = found(ada.done("search_archival", &asked).await);
    assert_eq!(placed, [1, 3, 4, 2, 0].map(|rank: usize| ranked[rank].clone()));
    asked["order"] = "middle".into();
    ada.tool("search_archival", &asked, &key(), "*").await.refused(400, "INVALID_ARGUMENT");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vector_says_what_it_is_of_and_holds_no_text() {
    let home = Home::new();
    let _engine = home.engine().await;
    let _model = Model::start(&home.path("model.sock"), Duration::ZERO);
    let _server = server(&home, "vctx.sock", &[]).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let texts =
        ["When does the tide turn?", "At seven.", "The tide turns at seven."].map(str::to_owned);
    ada.append("user", texts[0].as_str()).await;
    ada.append("assistant", texts[1].as_str()).await;
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    let entry = json!({"content": texts[2], "summary": true});
    ada.done("write_recall", &json!({"entries": [entry]})).await;
    all_made(&home, "ada", &texts).await;
    let query = "FOR v IN recall_vectors SORT v.seq RETURN UNSET(v, '_id', '_rev', '_key', 'embedding', 'fingerprint')";
    let kept = home.database().rows(query, json!({})).await;
    let messages = ada.messages().await;
    let of = [("message", "user"), ("message", "assistant"), ("summary", "assistant")];
    for ((row, message), (source, role)) in kept.iter().zip(&messages).zip(of) {
        let wanted = json!({"agent_id": "ada", "id": message["id"], "seq": message["seq"], "passage": 0, "start": 0,
            "end": message["content"].as_str().expect("a text").len(), "source": source, "role": role,
            "created_at": message["created_at"]});
        assert_eq!(row, &wanted);
    }
    assert_eq!(kept.len(), 3);
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn of_two_servers_one_makes_the_vectors_of_an_agent() {
    let home = Home::new();
    let _engine = home.engine().await;
    let model = Model::start(&home.path("model.sock"), Duration::from_millis(2));
    let _servers = [
        server(&home, "vctx.sock", &[]).await,
        server(&home, "second.sock", &[]).await,
        server(&home, "third.sock", &[]).await,
    ];
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let texts: Vec<String> = (0..1_500).map(|n| format!("Berth {n} is let.")).collect();
    log(&ada, &texts).await;
    all_made(&home, "ada", &texts).await;
    let asked = model.asked();
    assert!(asked < texts.len() * 3 / 2, "{asked} texts were embedded for {}", texts.len());
    // The lease for the computation of vectors names its owner by a long random id. No two
    // processes have the same id, so the next process recognizes that the lease of an ended process
    // is not its own.
    let claim = "FOR m IN recall_marks RETURN m.claim.by";
    let by = home.database().row(claim, json!({})).await;
    assert!(by.as_str().is_some_and(|by| by.len() >= 32), "{by}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_not_cut_by_meaning_while_nobody_knows_it() {
    let home = Home::new();
    let _engine = home.engine().await;
    let model = Model::start(&home.path("model.sock"), Duration::ZERO);
    let server = server(&home, "vctx.sock", &[]).await;
    server.expect("the embedder failed");
    server.expect("call failed");
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let document = json!({"doc_id": "d", "document": "The boat sails. Tea wants water.", "splitter": {"by": "semantic"}});
    model.fails.store(true, Ordering::SeqCst);
    let refused = ada.tool("ingest_archival", &document, "late", "*").await;
    refused.refused(503, "EMBEDDER_UNAVAILABLE");
    model.fails.store(false, Ordering::SeqCst);
    ada.tool("ingest_archival", &document, "late", "*").await.ok();
}

#[tokio::test]
async fn settings_of_recall_have_their_bounds() {
    let home = Home::new();
    for (name, value, told) in [
        ("VCTX_RECALL__SIMILARITY_THRESHOLD", "1.5", "recall.similarity_threshold"),
        ("VCTX_RECALL__MAX_MEMORIES", "0", "recall.max_memories"),
        ("VCTX_RECALL__MAX_MEMORIES", "201", "recall.max_memories"),
    ] {
        let tuning = Tuning::variable(name, value);
        let process = home.server_begun("vctx.sock", "engine.sock", "engine-ro.sock", &tuning);
        process.expect(told);
        let mut looks = 0;
        let status = loop {
            if let Some(status) = process.ended() {
                break status;
            }
            looks += 1;
            assert!(looks < LOOKS_MAX, "{name}={value} is taken");
            tokio::time::sleep(LOOK).await;
        };
        assert_eq!(status.code(), Some(78), "{}", process.said());
        assert!(process.said().contains(told), "{name}={value}: {}", process.said());
    }
}
