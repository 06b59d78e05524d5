//! Creates agents that have a secret word in every text that they store. Functions in this file
//! collect all rows of an agent, and the secret texts in these rows.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::count;
use crate::database::Database;
use crate::home::Home;
use crate::isolation_cases::{Names, said_once};
use crate::talk::{Agent, key};

/// Minimum length in bytes of a stored text that the test looks for in the answers to other agents;
/// shorter texts are words like "user".
const SECRET_BYTES_MIN: usize = 12;
/// Words that the server itself writes into rows, and that are therefore no secrets.
const VOCABULARY: [&str; 1] = ["recall_dates"];
/// Texts that the server writes for calls of other dialects; they are equal for every agent with a
/// block of the same name. Such a text contains a text of the agent only if it contains [`SAID`].
const SENTENCES: [&str; 4] = [
    "The core memory block with label `",
    "File created successfully at: ",
    "Successfully ",
    "The file /memories/",
];
/// Words in every message of an agent of this test.
const SAID: &str = "keeper of the lighthouse";
/// Number of chunks of each agent, so large that all agents together have enough for a vector
/// index.
const CHUNKS: usize = 30;
/// Collections in which every agent has rows after the test data is stored. [`NOBODYS`] lists all
/// other collections.
pub(crate) const OWNED: [&str; 14] = [
    "archival_docs",
    "archival_manifests",
    "cites",
    "context_packs",
    "core_memory",
    "core_versions",
    "idempotency",
    "memory_events",
    "messages",
    "pages",
    "prompts",
    "recall_log",
    "schedules",
    "tool_sets",
];
/// Collections in which agents have no rows in this test, or whose rows belong to no single agent.
/// `derived_from` connects chunks and summaries with messages and is checked through both ends.
/// `archival_parts` contains vectors of long documents, but only during their ingest.
/// `recall_vectors` contains vectors of a model, and `recall_marks` the progress of their
/// computation. `forgets` contains manifests of forget operations. `directory` and `departures`
/// record the databases of agents.
pub(crate) const NOBODYS: [&str; 8] = [
    "archival_parts",
    "departures",
    "derived_from",
    "directory",
    "forgets",
    "recall_marks",
    "recall_vectors",
    "vctx_meta",
];

/// An agent that stores secrets, with the names of its objects.
pub(crate) struct Keeper {
    pub(crate) agent: Agent,
    pub(crate) metrics: &'static str,
    /// Key of the agent's core document: the agent's name, after its tenant if it has one.
    pub(crate) scope: &'static str,
    pub(crate) names: Names,
}

/// Creates an agent and stores every kind of data for it, with its secret word in each text. Keys,
/// blocks, documents and sentences are the same for all agents, except for the agent's secret word.
pub(crate) async fn plant(home: &Home, socket: &str, name: &str, scope: &'static str) -> Keeper {
    let word = format!("quox{}", scope.replace(':', ""));
    let text = |sentence: &str| format!("{sentence} {word} keeper of the lighthouse.");
    let system = text("You serve the");
    let agent = Agent::create(home.wire(socket), name, 8192, &system).await;
    let unhurried = json!({"user": name,
        "heartbeat": {"rps_limit": 64, "cooldown_ms": 0, "max_chain_depth": 1024}});
    let labelled =
        [("idempotency-key", "same-limits"), ("if-match", "*"), ("x-vctx-label", word.as_str())];
    agent.wire.call("PATCH", &agent.path(), &labelled, unhurried.to_string()).await.ok();
    let call = async |tool: &str, key: &str, arguments: Value| {
        let done = agent.tool(tool, &arguments, key, "*").await.ok();
        assert_eq!(done["replayed"], false, "{tool} of {scope}: somebody else has this key");
        done
    };
    let block_id = format!("block-{word}");
    for (key, block) in [("same-plan", "plan"), ("same-block", block_id.as_str())] {
        call("store_core", key, json!({"block_id": block, "content": text("Meet the")})).await;
    }
    let labels = json!({"user": word, "session": word, "tags": [word]});
    let message = json!({"content": text("I saw the"), "labels": labels});
    let said = call("append_fifo", "same-said", json!({"message": message, "role": "user"})).await;
    let private_key = format!("key-of-{word}");
    call("append_fifo", &private_key, said_once()).await;
    let event = json!({"class": "system", "name": word, "content": text("Letter of the")});
    let headers = [("idempotency-key", "same-event"), ("if-match", "*")];
    agent
        .wire
        .call("POST", &format!("{}/events", agent.path()), &headers, event.to_string())
        .await
        .ok();
    for turn in 0..6 {
        let message = text(&format!("Turn {turn} of the {}", count::words(20)));
        call(
            "append_fifo",
            &format!("same-turn-{turn}"),
            json!({"message": message, "role": "assistant"}),
        )
        .await;
    }
    call("evict_fifo", "same-evict", json!({"target_tokens": 0})).await;
    let mut entries: Vec<Value> =
        (0..6).map(|n| json!({"content": text(&format!("Note {n} of the"))})).collect();
    entries.push(json!({"content": text(&"The ledger of the harbour is long. ".repeat(1_500))}));
    call("write_recall", "same-notes", json!({"entries": entries})).await;
    // The result is so long that the server spools it: keeps it in recall storage and shows only
    // its beginning.
    let ledger =
        call("search_recall", "same-ledger", json!({"query": "ledger", "limit": 1, "whole": true}))
            .await;
    assert_eq!(ledger["result"]["truncated"], true, "{ledger}");
    let (doc_id, source) = (format!("doc-{word}"), format!("shelf-{word}"));
    let chunks: Vec<String> =
        (0..CHUNKS).map(|n| text(&format!("Passage {n} about the {}", count::words(10)))).collect();
    let message_id = said["result"]["message_id"].as_str().expect("an id").to_owned();
    let provenance = json!({"source": source, "message_ids": [message_id]});
    let document = json!({"doc_id": doc_id, "chunks": chunks, "provenance": provenance,
        "labels": labels});
    let document = call("ingest_archival", "same-document", document).await;
    let shared = json!({"doc_id": "shared", "chunks": [text("Everybody knows the")]});
    call("ingest_archival", "same-shared", shared).await;
    call("record_heartbeat", "same-beat", json!({"state": {"status": "continue", "note": word}}))
        .await;
    call("record_heartbeat", "same-yield", json!({"state": "yield"})).await;
    let listed = json!({"query": "lighthouse", "limit": 1, "rehydrate": false});
    let recall = call("search_recall", "same-search", listed).await;
    let listed = json!({"query_text": "lighthouse keeper", "limit": 40});
    let archival = call("search_archival", "same-passages", listed).await;
    let first = archival["result"]["results"][0]["id"].as_str().expect("an id");
    let cited =
        json!({"message": text("So it is written by the"), "role": "assistant", "cites": [first]});
    call("append_fifo", "same-cited", cited).await;
    let prompts = format!("{}/prompts", agent.path());
    let question = json!({"question": text("Which passage is about the"),
        "documents": [{"text": text("The lamp is of the")}]})
    .to_string();
    let built =
        agent.wire.call("POST", &format!("{}/context", agent.path()), &[], question).await.ok();
    assert_eq!(built["found"], true, "{built:#}");
    let asked = json!({"run": format!("run-{word}"), "model": "parrot-1", "pack": built["pack"],
        "tools": [{"type": "function", "function": {"name": "look", "description": text("Ask the")}}]});
    let told = json!({"run": format!("run-{word}"), "finish": "stop", "content": text("Asked was the"), "end_run": "yield"});
    for (key, path, body) in
        [("same-asked", prompts.clone(), asked), ("same-told", format!("{prompts}/1/answer"), told)]
    {
        agent.wire.call("POST", &path, &[("idempotency-key", key)], body.to_string()).await.ok();
    }
    let trace = call("trace_memory", "same-trace", json!({"from": "agent", "limit": 40})).await;
    let token =
        |done: &Value| done["result"]["next_page_token"].as_str().expect("a token").to_owned();
    let schedule = format!("bell-{word}");
    let due = json!({"at": "2999-01-01", "content": text("Ring for the")});
    let path = format!("{}/schedules/{schedule}", agent.path());
    assert_eq!(agent.wire.put(&path, &due).await.status, 201);
    let names = Names {
        block_id,
        doc_id,
        schedule,
        source,
        message_id,
        recall_token: token(&recall),
        archival_token: token(&archival),
        trace_token: token(&trace),
        chunk: first.to_owned(),
        key: private_key,
        revision: agent.revision().await,
        document_revision: document["_rev"].as_str().expect("a revision").to_owned(),
        vector: Value::Null,
        word,
    };
    let metrics = if socket == "acme.sock" { "acme-metrics.sock" } else { "vctx-metrics.sock" };
    Keeper { agent, metrics, scope, names }
}

/// Returns names that no agent has, each in the format of a real name.
pub(crate) fn nobody(like: &Names) -> Names {
    let other = |text: &str| text.replace(&like.word, "quoxnobody");
    let token = |text: &str| {
        let (handle, rest) = text.split_once('.').expect("a token");
        format!("{}.{rest}", "0".repeat(handle.len()))
    };
    let id = |text: &str| -> String {
        text.chars().map(|c| if c.is_ascii_alphanumeric() { '0' } else { c }).collect()
    };
    Names {
        word: "quoxnobody".into(),
        block_id: other(&like.block_id),
        doc_id: other(&like.doc_id),
        schedule: other(&like.schedule),
        source: other(&like.source),
        message_id: id(&like.message_id),
        recall_token: token(&like.recall_token),
        archival_token: token(&like.archival_token),
        trace_token: token(&like.trace_token),
        chunk: format!("archival_docs/{}", "0".repeat(like.chunk.len() - "archival_docs/".len())),
        key: key(),
        revision: id(&like.revision),
        document_revision: id(&like.document_revision),
        vector: like.vector.clone(),
    }
}

/// Returns all rows of an agent, by collection; asks the database for the list of collections.
pub(crate) async fn rows(database: &Database, scope: &str) -> BTreeMap<String, Vec<Value>> {
    let listed = database.call("GET", "/_api/collection", &Value::Null).await.ok();
    let names = listed["result"].as_array().expect("collections").iter();
    let names = names.map(|c| c["name"].as_str().expect("a name")).filter(|n| !n.starts_with('_'));
    let mut all = BTreeMap::new();
    for name in names {
        if NOBODYS.contains(&name) {
            continue;
        }
        assert!(OWNED.contains(&name), "{name} is new: whose rows does it hold?");
        let query = format!(
            "FOR d IN {name} FILTER d.agent_id == @scope OR d._key == @scope OR d._from == @core
               SORT d._key RETURN d"
        );
        let binds = json!({"scope": scope, "core": format!("core_memory/{scope}")});
        all.insert(name.to_owned(), database.rows(&query, binds).await);
    }
    assert_eq!(all.keys().map(String::as_str).collect::<Vec<_>>(), OWNED);
    all
}

/// Returns those texts of rows that are long enough to be unique, except times.
pub(crate) fn secrets(rows: &BTreeMap<String, Vec<Value>>) -> BTreeSet<String> {
    fn walk(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::String(text) => {
                let time = text.len() <= 24 && text.starts_with("20") && text.contains('T');
                let told = !text.contains(SAID)
                    && SENTENCES.iter().any(|beginning| text.starts_with(beginning));
                let known = VOCABULARY.contains(&text.as_str());
                if text.len() >= SECRET_BYTES_MIN && !time && !told && !known {
                    found.insert(text.clone());
                }
            }
            Value::Array(all) => all.iter().for_each(|one| walk(one, found)),
            // An entry of the ledger names a removed row by a digest of its names, which is the
            // same for all agents that used these names.
            Value::Object(all) => {
                let told = all.iter().filter(|(name, _)| *name != "rows");
                told.for_each(|(_, one)| walk(one, found));
            }
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    rows.values().flatten().for_each(|row| walk(row, &mut found));
    found
}
