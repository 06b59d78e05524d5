//! Tests isolation in vector searches: agents of several tenants store equal texts, but each finds
//! only its own texts, by exact comparison and through the index. Messages of other agents do not
//! change the results.

use std::time::Duration;

use serde_json::{Value, json};

use crate::archival::index_becomes;
use crate::count;
use crate::home::Home;
use crate::talk::{Agent, key};
use crate::vectors::{Model, all_made, index_is, log, tuned};

/// Number of entries of each agent, so large that three agents together have enough for an index.
const ENTRIES: usize = 60;
/// Dimension of the model's vectors.
const DIMENSION: usize = 384;

/// Returns the messages of an agent: the same for all agents, except for one word.
fn texts(word: &str) -> Vec<String> {
    let text = |n: usize| format!("Note {n} of the {word} keeper about the {}.", count::words(8));
    (0..ENTRIES).map(text).collect()
}

/// Creates an agent, and writes the texts to both its recall storage and its archive.
async fn plant(home: &Home, socket: &str, name: &str, scope: &str, word: &str) -> Agent {
    let agent = Agent::create(home.wire(socket), name, 8192, "Be kind.").await;
    let texts = texts(word);
    log(&agent, &texts).await;
    let document = json!({"doc_id": "notes", "chunks": texts});
    agent.done("ingest_archival", &document).await;
    all_made(home, scope, &texts).await;
    agent
}

/// Returns vector searches for a word, in recall storage and in the archive.
fn questions(word: &str) -> Vec<(&'static str, Value)> {
    let note = format!("Note 7 of the {word} keeper");
    let recall = |more: Value| {
        let mut asked = json!({"query": note, "rehydrate": false, "limit": 20, "explain": true});
        asked.as_object_mut().expect("an object").extend(more.as_object().expect("more").clone());
        ("search_recall", asked)
    };
    let archive = |more: Value| {
        let mut asked = json!({"query_text": note, "limit": 20});
        asked.as_object_mut().expect("an object").extend(more.as_object().expect("more").clone());
        ("search_archival", asked)
    };
    vec![
        recall(json!({"mode": "vector", "similarity_min": 0})),
        recall(json!({"mode": "vector"})),
        recall(json!({"mode": "vector", "similarity_min": 0.1, "pairs": true, "order": "edges"})),
        recall(json!({"mode": "vector", "similarity_min": 0, "memories": true})),
        recall(json!({"mode": "vector", "similarity_min": 0, "tokens_max": 256})),
        recall(json!({"mode": "hybrid", "pairs": true})),
        recall(json!({})),
        archive(json!({"mode": "vector"})),
        archive(json!({"mode": "vector", "nProbe": 64})),
        archive(json!({"mode": "vector", "filter": {"doc_id": "notes"}})),
        archive(json!({"mode": "hybrid"})),
        archive(json!({"mode": "hybrid", "fusion": "rrf"})),
        archive(json!({})),
    ]
}

async fn ask(agent: &Agent, tool: &str, arguments: &Value) -> Value {
    let path = format!("{}/tools/{tool}", agent.path());
    let headers = [("idempotency-key", key()), ("if-match", "*".to_owned())];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    agent.wire.call("POST", &path, &headers, arguments.to_string()).await.ok()["result"].clone()
}

/// Returns the result of a search by vectors only: the texts in order with their scores, and their
/// number.
fn told(result: &Value) -> Value {
    let results = result["results"].as_array().expect("results").iter();
    let row =
        |r: &Value| json!([r["content"], r["fragments"], r["text"], r["score"], r["similarity"]]);
    let ways = [&result["total"], &result["k_actual"], &result["vectors"], &result["plan"]];
    json!({"rows": results.map(row).collect::<Vec<_>>(), "ways": ways, "dropped": result["post_filter_dropped"]})
}

/// Runs all searches with the words of all agents, and checks that every result belongs to the
/// caller and contains no word of another agent. Returns the search plans.
async fn assert_own(agent: &Agent, word: &str, all: &[&str]) -> Vec<String> {
    let mut ways = Vec::new();
    for asked_for in all {
        for (tool, arguments) in questions(asked_for) {
            let result = ask(agent, tool, &arguments).await;
            let results = result["results"].as_array().expect("results");
            // A word search for another agent's word may find nothing, but a vector search always
            // finds passages.
            let nearness = arguments["similarity_min"] == 0
                || arguments["query_text"].is_string() && arguments["mode"] == "vector";
            assert!(!nearness || !results.is_empty(), "{arguments}: {result}");
            for one in results {
                let one = one["fragments"].get(0).unwrap_or(one);
                let text = one["content"].as_str().or(one["text"].as_str()).expect("a text");
                assert!(text.contains(word), "{word} is shown {text:?} for {arguments}");
            }
            let shown = result.to_string();
            for other in all.iter().filter(|other| **other != word) {
                assert!(!shown.contains(other), "{word} is told of {other}: {shown}");
            }
            ways.extend([&result["vectors"], &result["plan"]].map(|way| format!("{tool} {way}")));
        }
    }
    ways
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn what_others_said_is_neither_found_by_meaning_nor_felt() {
    let home = Home::new();
    let _engine = home.engine().await;
    let _model = Model::start(&home.path("model.sock"), Duration::ZERO);
    let mut servers = Vec::new();
    for (socket, variables) in [
        ("vctx.sock", vec![]),
        ("acme.sock", vec![("VCTX_SERVER__TENANT", "acme")]),
        (
            "index.sock",
            vec![("VCTX_ARCHIVE__EXACT_ROWS_MAX", "0"), ("VCTX_ARCHIVE__INDEX_ROWS_MIN", "80")],
        ),
    ] {
        let mut tuning = tuned(&home, "1");
        tuning.environment.extend(variables.into_iter().map(|(n, v)| (n.into(), v.into())));
        if socket != "index.sock" {
            servers.push(home.server(socket, "engine.sock", "engine-ro.sock", &tuning).await);
            continue;
        }
        // The results of a search that uses only vectors do not change when other agents write
        // texts after it.
        let ada = plant(&home, "vctx.sock", "ada", "ada", "quoxada").await;
        let by_nearness = |(_, asked): &(&str, Value)| asked["mode"] == "vector";
        let questions: Vec<_> = questions("quoxada").into_iter().filter(by_nearness).collect();
        let mut before = Vec::new();
        for (tool, arguments) in &questions {
            before.push(told(&ask(&ada, tool, arguments).await));
        }
        plant(&home, "vctx.sock", "bob", "bob", "quoxbob").await;
        plant(&home, "acme.sock", "ada", "acme:ada", "quoxacme").await;
        for ((tool, arguments), before) in questions.iter().zip(before) {
            let found = before["rows"].as_array().expect("rows").len();
            let few = arguments["similarity_min"].is_null() || arguments["tokens_max"].is_u64();
            assert!(found > usize::from(!few), "{arguments}: {before}");
            let after = told(&ask(&ada, tool, arguments).await);
            assert_eq!(after, before, "{tool} {arguments}: what others said is felt");
        }
        servers.push(home.server(socket, "engine.sock", "engine-ro.sock", &tuning).await);
    }
    index_is(&home, Some(DIMENSION)).await;
    let all = ["quoxada", "quoxbob", "quoxacme"];
    let mut ways = Vec::new();
    for (socket, name, word) in [
        ("vctx.sock", "ada", "quoxada"),
        ("vctx.sock", "bob", "quoxbob"),
        ("acme.sock", "ada", "quoxacme"),
        ("index.sock", "ada", "quoxada"),
        ("index.sock", "bob", "quoxbob"),
    ] {
        let agent = Agent::at(home.wire(socket), name);
        if socket == "index.sock" {
            index_becomes(&agent, "ready").await;
        }
        ways.extend(assert_own(&agent, word, &all).await);
    }
    for tool in ["search_recall", "search_archival"] {
        for way in ["exact", "vector"] {
            let looked = format!("{tool} \"{way}\"");
            assert!(ways.contains(&looked), "nobody looked like this: {looked}");
        }
    }
    assert_owners(&home).await;
}

/// Checks that every vector belongs to the agent of its entry.
async fn assert_owners(home: &Home) {
    let query = "FOR v IN recall_vectors RETURN [v.agent_id, PARSE_KEY(DOCUMENT('recall_log', v.id)._from)]";
    let pairs = home.database().rows(query, json!({})).await;
    assert_eq!(pairs.len(), 3 * ENTRIES);
    assert!(pairs.iter().all(|pair| pair[0] == pair[1]), "a vector of somebody else's entry");
    let database = home.database();
    let marks = database.rows("FOR m IN recall_marks SORT m._key RETURN m._key", json!({})).await;
    assert_eq!(marks, ["acme:ada", "ada", "bob"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_list_by_meaning_is_for_its_agent() {
    let home = Home::new();
    let _engine = home.engine().await;
    let _model = Model::start(&home.path("model.sock"), Duration::ZERO);
    let _server =
        home.server("vctx.sock", "engine.sock", "engine-ro.sock", &tuned(&home, "1")).await;
    let ada = plant(&home, "vctx.sock", "ada", "ada", "quoxada").await;
    let bob = plant(&home, "vctx.sock", "bob", "bob", "quoxbob").await;
    for mode in ["vector", "hybrid"] {
        for tool in ["search_recall", "search_archival"] {
            let mut asked = match tool {
                "search_recall" => {
                    json!({"query": "Note 7 of the keeper", "rehydrate": false, "limit": 1})
                }
                _ => json!({"query_text": "Note 7 of the keeper", "limit": 40}),
            };
            asked["mode"] = mode.into();
            if (tool, mode) == ("search_recall", "vector") {
                asked["similarity_min"] = 0.into();
            }
            let first = ask(&ada, tool, &asked).await;
            asked["page_token"] = first["next_page_token"].clone();
            assert!(asked["page_token"].is_string(), "{first}");
            let own = ask(&ada, tool, &asked).await;
            assert!(!own["results"].as_array().expect("results").is_empty(), "{own}");
            let refused = bob.tool(tool, &asked, &key(), "*").await;
            assert!(refused.status >= 400, "{tool} {mode}: {}", refused.text);
            assert!(!refused.text.contains("quoxada"), "{tool} {mode}: {}", refused.text);
        }
    }
}
