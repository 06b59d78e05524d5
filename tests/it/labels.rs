//! Tests labels: user, session, tags and metadata of messages and documents, the searches that
//! select by them, the list of sessions, and the search of all agents of a person.

use serde_json::{Value, json};

use crate::archival::search;
use crate::home::{Home, Process};
use crate::scripted::Scripted;
use crate::talk::{Agent, key};
use crate::wire::Answer;

/// Labels of the test's messages and documents, by the word that only that text contains.
const LABELLED: [(&str, &str); 5] = [
    ("quay", r#"{"user": "ada", "session": "s1", "tags": ["berth", "plan"]}"#),
    (
        "mole",
        r#"{"user": "ada", "session": "s2", "tags": ["berth"], "metadata": {"ticket": "42"}}"#,
    ),
    ("dock", r#"{"user": "bob", "session": "s1", "metadata": {"ticket": "43", "place": "a=b"}}"#),
    ("pier", r#"{"tags": ["user=ada"]}"#),
    ("slip", "{}"),
];

/// Conditions, and the words whose texts meet them.
const ASKED: [(&str, &[&str]); 11] = [
    (r#"{"user": "ada"}"#, &["mole", "quay"]),
    (r#"{"session": "s1"}"#, &["dock", "quay"]),
    (r#"{"user": "ada", "session": "s1"}"#, &["quay"]),
    (r#"{"tags": ["berth"]}"#, &["mole", "quay"]),
    (r#"{"tags": ["plan", "berth"]}"#, &["quay"]),
    (r#"{"tags": ["user=ada"]}"#, &["pier"]),
    (r#"{"metadata": {"ticket": "42"}}"#, &["mole"]),
    (r#"{"metadata": {"place": "a=b", "ticket": "43"}}"#, &["dock"]),
    (r#"{"metadata": {"ticket": "4"}}"#, &[]),
    (r#"{"user": "ad"}"#, &[]),
    (r#"{}"#, &["dock", "mole", "pier", "quay", "slip"]),
];

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("labels")
}

fn text_of(word: &str) -> String {
    format!("The harbour has a {word} for visitors.")
}

/// Returns the words of the results, sorted.
fn words(results: &Value, text: &str) -> Vec<String> {
    let found = results.as_array().expect("results").iter();
    let mut words: Vec<String> = found
        .flat_map(|one| {
            let text = one[text].as_str().expect("a text").to_owned();
            LABELLED.iter().map(|(word, _)| (*word).to_owned()).filter(move |w| text.contains(w))
        })
        .collect();
    words.sort();
    words
}

async fn recalled(agent: &Agent, labels: &str, mode: &str) -> Vec<String> {
    let asked = json!({"query": "harbour visitors", "limit": 20, "rehydrate": false, "mode": mode,
        "labels": parsed(labels)});
    words(&agent.done("search_recall", &asked).await["result"]["results"], "content")
}

async fn archived(agent: &Agent, labels: &str, mode: &str) -> Vec<String> {
    let asked = json!({"query_text": "harbour visitors", "limit": 20, "mode": mode,
        "filter": {"labels": parsed(labels)}});
    words(&search(agent, asked).await.ok()["result"]["results"], "text")
}

async fn served() -> (Home, Process, Agent) {
    let home = Home::new();
    let engine = home.serve().await;
    let agent = Agent::create(home.wire("vctx.sock"), "ada", 32_768, "Be brief.").await;
    (home, engine, agent)
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_select_messages_by_all_their_labels() {
    let (_home, _server, agent) = served().await;
    let mut messages = Vec::new();
    for (word, labels) in LABELLED {
        messages.push(json!({"role": "user", "content": text_of(word), "labels": parsed(labels)}));
    }
    // One message comes by each way in: a tool, one of several messages, an entry of recall
    // storage.
    let first = messages.remove(0);
    let parts = json!({"content": first["content"], "labels": first["labels"]});
    agent.append("user", parts).await;
    let last = messages.pop().expect("a message");
    let entry = json!({"entries": [{"content": last["content"], "labels": last["labels"]}]});
    let path = format!("{}/messages", agent.path());
    let body = json!({"messages": messages}).to_string();
    let fresh = key();
    let headers = [("idempotency-key", fresh.as_str())];
    agent.wire.call("POST", &path, &headers, body).await.ok();
    agent.done("write_recall", &entry).await;
    for evicted in [false, true] {
        for (labels, expected) in ASKED {
            for mode in ["text", "auto"] {
                let found = recalled(&agent, labels, mode).await;
                assert_eq!(found, expected, "{labels}, {mode}, evicted: {evicted}");
            }
        }
        agent.done("evict_fifo", &json!({"target_tokens": 0})).await;
    }
    // Results and messages show the labels as they were given; the window does not show them.
    let asked = json!({"query": "mole", "rehydrate": true});
    let found = agent.done("search_recall", &asked).await;
    assert_eq!(found["result"]["results"][0]["labels"], parsed(LABELLED[1].1), "{found}");
    let shown = agent.messages().await;
    assert_eq!(shown[0]["labels"], parsed(LABELLED[0].1));
    assert!(shown[4]["labels"].is_null(), "no labels, no attribute");
    let window = agent.context().await["messages"].to_string();
    assert!(window.contains("mole") && !window.contains("ticket"), "{window}");
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_select_documents_by_all_their_labels() {
    let (home, _server, agent) = served().await;
    for (word, labels) in LABELLED {
        let document = json!({"doc_id": format!("{word}.md"), "document": text_of(word), "labels": parsed(labels)});
        agent.tool("ingest_archival", &document, &key(), "").await.ok();
    }
    for (labels, expected) in ASKED {
        for mode in ["text", "vector", "hybrid"] {
            assert_eq!(archived(&agent, labels, mode).await, expected, "{labels}, {mode}");
        }
    }
    let asked = json!({"query_text": "mole", "limit": 1, "explain": true});
    let found = search(&agent, asked).await.ok();
    assert_eq!(found["result"]["results"][0]["labels"], parsed(LABELLED[1].1), "{found}");
    // Other labels make another document; the same ones do not.
    let mut document = json!({"doc_id": "slip.md", "document": text_of("slip"), "labels": {}});
    let same = agent.tool("ingest_archival", &document, &key(), "*").await.ok();
    assert_eq!(same["result"]["unchanged"], true, "{same}");
    document["labels"] = json!({"tags": ["new"]});
    let other = agent.tool("ingest_archival", &document, &key(), "*").await.ok();
    assert!(other["result"]["unchanged"].is_null(), "{other}");
    assert_eq!(archived(&agent, r#"{"tags": ["new"]}"#, "text").await, ["slip"]);
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_listed_and_read_page_by_page() {
    let (_home, _server, agent) = served().await;
    let session = |n: u64| format!("s{}", n % 3);
    for n in 0..12 {
        let parts = json!({"content": format!("Message {n}."), "labels": {"session": session(n)}});
        agent.append("user", parts).await;
    }
    agent.append("user", "Of no session.").await;
    // Copies of messages and evictions change nothing of the sessions.
    agent.done("evict_fifo", &json!({"target_tokens": 0})).await;
    agent.done("search_recall", &json!({"query": "message 7"})).await;
    let path = format!("{}/sessions", agent.path());
    let listed = agent.wire.get(&path).await.ok();
    let names: Vec<&str> = listed["sessions"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|s| s["session"].as_str())
        .collect();
    assert_eq!((names, &listed["next"]), (vec!["s0", "s1", "s2"], &Value::Null));
    let one = &listed["sessions"][1];
    assert_eq!(
        (&one["messages"], &one["first_seq"], &one["last_seq"]),
        (&json!(4), &json!(2), &json!(11))
    );
    assert!(one["first_at"].as_str() < one["last_at"].as_str(), "{one}");
    let (mut after, mut paged) = (String::new(), Vec::new());
    while paged.len() < 4 {
        let page = agent.wire.get(&format!("{path}?limit=1&after={after}")).await.ok();
        paged.extend(page["sessions"].as_array().expect("a list").clone());
        let Some(next) = page["next"].as_str() else { break };
        after = next.to_owned();
    }
    assert_eq!(json!(paged), listed["sessions"]);
    let page = agent.wire.get(&format!("{}/messages?session=s1&limit=3", agent.path())).await.ok();
    let seqs = |page: &Value| -> Vec<u64> {
        page["messages"]
            .as_array()
            .expect("messages")
            .iter()
            .filter_map(|m| m["seq"].as_u64())
            .collect()
    };
    assert_eq!(seqs(&page), [2, 5, 8]);
    let path = format!("{}/messages?session=s1&from_seq={}", agent.path(), page["next_seq"]);
    assert_eq!(seqs(&agent.wire.get(&path).await.ok()), [11]);
    // A forgotten message is of no session any more, and a forgotten session is not listed.
    for seq in [2, 5, 8, 11] {
        agent
            .wire
            .call(
                "POST",
                &format!("{}/forget", agent.path()),
                &[("idempotency-key", &key()), ("if-match", "*")],
                json!({"seqs": [seq]}).to_string(),
            )
            .await
            .ok();
    }
    let listed = agent.wire.get(&format!("{}/sessions", agent.path())).await.ok();
    assert_eq!(listed["sessions"].as_array().expect("a list").len(), 2, "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answers_of_a_run_have_the_labels_of_its_input() {
    let home = Home::new();
    let steps = [json!({"text": "At pier 4."}), json!({"text": "At noon."})];
    let model = Scripted::steps(&home, &steps).await;
    let _server = home.serve_with("vctx.sock", &model.tuning(&["store_core"])).await;
    let agent = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    let run = async |body: Value| {
        let fresh = key();
        let headers = [("idempotency-key", fresh.as_str())];
        let path = format!("{}/runs", agent.path());
        agent.wire.call("POST", &path, &headers, body.to_string()).await
    };
    let labels = json!({"user": "ada", "session": "s1"});
    run(json!({"input": "Where is the boat?", "labels": labels})).await.ok();
    let own = json!({"session": "s2", "metadata": {"by": "mail"}});
    let input = json!([{"role": "user", "content": "When?", "labels": own}]);
    run(json!({"input": input, "labels": labels})).await.ok();
    let messages = agent.messages().await;
    let shown: Vec<&Value> = messages.iter().map(|message| &message["labels"]).collect();
    assert_eq!(shown, [&labels, &labels, &own, &own], "{messages:?}");
    let refused = run(json!({"input": "x", "labels": {"user": ""}})).await;
    assert_eq!(refused.refused(400, "INVALID_ARGUMENT")["field"], "labels.user");
}

async fn searched(agent: &Agent, user: &str, body: &Value) -> Answer {
    agent.wire.call("POST", &format!("/v1/users/{user}/search"), &[], body.to_string()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_finds_what_all_its_agents_know_and_nothing_else() {
    let (_home, _server, ada) = served().await;
    for (name, user) in [("one", "anna"), ("two", "anna"), ("other", "otto")] {
        let path = format!("/v1/agents/{name}");
        ada.wire.put(&path, &json!({"context_window": 8192, "user": user})).await.ok();
        let agent = Agent::at(ada.wire.again(), name);
        assert_eq!(agent.state().await["user"], user);
        agent.append("user", format!("The key of {name} hangs in the boathouse.")).await;
        let document = json!({"doc_id": "keys.md", "document": format!("A key of {name}: it opens the shed.")});
        agent.tool("ingest_archival", &document, &key(), "").await.ok();
    }
    let listed = ada.wire.get("/v1/agents?user=anna").await.ok();
    let names: Vec<&str> = listed["agents"]
        .as_array()
        .expect("agents")
        .iter()
        .filter_map(|a| a["agent"].as_str())
        .collect();
    assert_eq!(names, ["one", "two"]);
    let found = searched(&ada, "anna", &json!({"query": "key"})).await.ok();
    assert_eq!(found["agents"], json!(["one", "two"]));
    for store in ["recall", "archive"] {
        let mut agents: Vec<&str> = found[store]
            .as_array()
            .expect("results")
            .iter()
            .filter_map(|r| r["agent"].as_str())
            .collect();
        agents.sort_unstable();
        assert_eq!(agents, ["one", "two"], "{found}");
    }
    assert!(!found.to_string().contains("of other"), "{found}");
    let best =
        searched(&ada, "anna", &json!({"query": "key of two", "limit": 1, "stores": ["recall"]}))
            .await
            .ok();
    assert_eq!(
        (&best["recall"][0]["agent"], &best["archive"]),
        (&json!("two"), &Value::Null),
        "{best}"
    );
    // An agent changes hands; an agent of no person is in no search.
    let two = Agent::at(ada.wire.again(), "two");
    for user in ["otto", ""] {
        let (fresh, body) = (key(), json!({"user": user}).to_string());
        let headers = [("idempotency-key", fresh.as_str()), ("if-match", "*")];
        two.wire.call("PATCH", &two.path(), &headers, body).await.ok();
        let found = searched(&ada, "anna", &json!({"query": "key"})).await.ok();
        assert_eq!(found["agents"], json!(["one"]), "{user}");
    }
    assert_eq!(two.state().await["user"], Value::Null);
    assert_eq!(
        searched(&ada, "stranger", &json!({"query": "key"})).await.ok()["agents"],
        json!([])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_beyond_their_bounds_change_nothing() {
    let (_home, _server, agent) = served().await;
    let before = agent.state().await["version"].clone();
    let long = "x".repeat(300);
    for (labels, field) in [
        (json!({"user": ""}), "user"),
        (json!({"session": long}), "session"),
        (json!({"tags": vec!["t"; 17]}), "tags"),
        (json!({"tags": ["a\nb"]}), "tags"),
        (json!({"metadata": {"a b": "c"}}), "metadata"),
        (json!({"metadata": {"a": "x".repeat(600)}}), "metadata.a"),
        (json!([]), ""),
        (json!(["anna", null]), ""),
    ] {
        for (tool, arguments, at) in [
            (
                "append_fifo",
                json!({"role": "user", "message": {"content": "a", "labels": labels}}),
                "message.labels",
            ),
            (
                "write_recall",
                json!({"entries": [{"content": "a", "labels": labels}]}),
                "entries[0].labels",
            ),
            (
                "ingest_archival",
                json!({"doc_id": "d", "document": "a", "labels": labels}),
                "labels",
            ),
            ("search_recall", json!({"query": "a", "labels": labels}), "labels"),
            (
                "search_archival",
                json!({"query_text": "a", "filter": {"labels": labels}}),
                "filter.labels",
            ),
        ] {
            let refused =
                agent.tool(tool, &arguments, &key(), "*").await.refused(400, "INVALID_ARGUMENT");
            let at = if field.is_empty() { at.to_owned() } else { format!("{at}.{field}") };
            assert_eq!(refused["field"], at, "{tool}: {refused}");
        }
    }
    for odd in ["?after=a%0Ab", "?limit=0", "?limit=1001"] {
        agent
            .wire
            .get(&format!("{}/sessions{odd}", agent.path()))
            .await
            .refused(400, "INVALID_ARGUMENT");
    }
    agent
        .wire
        .get(&format!("{}/messages?session=", agent.path()))
        .await
        .refused(400, "INVALID_ARGUMENT");
    agent.wire.get("/v1/agents?user=a%00").await.refused(400, "INVALID_ARGUMENT");
    for body in [
        json!({}),
        json!({"query": "a", "limit": 21}),
        json!({"query": "a", "stores": []}),
        json!({"query": "a", "stores": ["mail"]}),
        json!({"query": "a", "labels": []}),
    ] {
        assert_eq!(searched(&agent, "anna", &body).await.status, 400, "{body}");
    }
    agent
        .wire
        .put("/v1/agents/x", &json!({"context_window": 8192, "user": "a\nb"}))
        .await
        .refused(400, "INVALID_ARGUMENT");
    assert_eq!(agent.state().await["version"], before);
}
