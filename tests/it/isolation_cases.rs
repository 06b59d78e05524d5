//! The requests of the isolation test for each listed path and tool. The requests name objects of
//! the caller, of another agent, or of no agent.

use serde_json::{Value, json};

use crate::talk::key;

/// Names and ids that identify an agent's objects.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// The secret word, which is in every text of the agent and in no other text.
    pub(crate) word: String,
    pub(crate) block_id: String,
    pub(crate) doc_id: String,
    pub(crate) schedule: String,
    pub(crate) source: String,
    pub(crate) message_id: String,
    /// `_id` of one of the agent's chunks that a message cites.
    pub(crate) chunk: String,
    pub(crate) recall_token: String,
    pub(crate) archival_token: String,
    pub(crate) trace_token: String,
    /// The idempotency key with which the agent appended [`said_once`].
    pub(crate) key: String,
    pub(crate) revision: String,
    pub(crate) document_revision: String,
    /// The vector of one of the agent's chunks.
    pub(crate) vector: Value,
}

impl Names {
    /// Returns all names of the agent. The test removes these names from answers, because an answer
    /// may repeat names from the request.
    pub(crate) fn texts(&self) -> Vec<&str> {
        let mut all = vec![
            self.recall_token.as_str(),
            &self.archival_token,
            &self.trace_token,
            &self.message_id,
            &self.chunk,
            &self.block_id,
            &self.doc_id,
            &self.schedule,
            &self.source,
            &self.key,
            &self.document_revision,
            &self.revision,
            &self.word,
        ];
        // Longer names come first, because a name may contain another one.
        all.sort_by_key(|text| std::cmp::Reverse(text.len()));
        all
    }
}

/// One request of the test.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
    /// The result that a request with the caller's own names must have; `None` if it may have any
    /// result.
    pub(crate) own: Option<Own>,
    /// Whether names of another agent must give the same answer as unknown names.
    pub(crate) alike: bool,
}

/// The expected result for the caller's own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// The request succeeds.
    Done,
    /// The request succeeds with at least one result.
    Found,
    /// The request returns the stored answer of an earlier call.
    Replayed,
}

fn read(path: impl Into<String>) -> Asked {
    let (headers, body) = (vec![], String::new());
    Asked { method: "GET", path: path.into(), headers, body, own: Some(Own::Done), alike: true }
}

fn write(method: &'static str, path: &str, body: &Value, key: &str, revision: &str) -> Asked {
    let headers = vec![("idempotency-key", key.to_owned()), ("if-match", revision.to_owned())];
    let own = Some(Own::Done);
    Asked { method, path: path.into(), headers, body: body.to_string(), own, alike: true }
}

/// The message that every agent appended under its own key.
pub(crate) fn said_once() -> Value {
    json!({"message": "The harbour bell rings once.", "role": "user"})
}

/// Returns this test's requests to one of the paths that the server lists, made for one agent. A
/// path without a case here fails the test.
pub(crate) fn requests(method: &str, listed: &str, agent: &str, names: &Names) -> Vec<Asked> {
    let path = listed.replace("{agent}", agent);
    let of_agent = listed.strip_prefix("/v1/agents/{agent}");
    if let Some(tool) = of_agent.and_then(|rest| rest.strip_prefix("/tools/")) {
        return tool_requests(tool, &path, names);
    }
    match (method, listed) {
        ("get", "/v1/agents" | "/v1/ledgers" | "/v1/tools" | "/healthz" | "/readyz") => {
            vec![read(path)]
        }
        // The answer of `/readyz` has figures about all agents, but shows them only to the server's
        // own user.
        ("get", "/v1/reindex" | "/v1/places") => vec![read(path)],
        // The request is refused, because only one database is configured.
        ("post", "/v1/agents/{agent}/move") => {
            let body = json!({"to": "east"});
            vec![Asked { own: None, ..write("POST", &path, &body, &key(), "*") }]
        }
        // The request is refused, because the core has another revision.
        ("post", "/v1/agents/{agent}/ledger") => {
            let body = json!({"accept": "core", "_rev": "_other"});
            vec![Asked { own: None, ..write("POST", &path, &body, &key(), "*") }]
        }
        // The request is refused, because no other embedder is configured.
        ("post", "/v1/reindex") => {
            let body = json!({"action": "start"});
            vec![Asked { own: None, ..write("POST", &path, &body, &key(), "*") }]
        }
        (
            "get",
            "/v1/agents/{agent}" | "/v1/agents/{agent}/context" | "/v1/agents/{agent}/ledger",
        ) => vec![read(path)],
        ("get", "/v1/agents/{agent}/archive") => {
            let mut asked: Vec<Asked> = [
                "",
                "?texts=true&limit=100",
                "?reverse=true&limit=1",
                "?originals=true",
                "?tokens=true",
            ]
            .map(|query| read(format!("{path}{query}")))
            .into();
            let named = |query: &str| read(format!("{path}?{query}={}", names.doc_id));
            asked.extend(["prefix", "texts=true&prefix", "after"].map(named));
            asked
        }
        ("get", "/v1/agents/{agent}/archive/{doc_id}") => {
            let named = path.replace("{doc_id}", &names.doc_id);
            ["", "?from_index=1&limit=1", "?originals=true"]
                .map(|query| read(format!("{named}{query}")))
                .into()
        }
        ("get", "/v1/agents/{agent}/sessions") => {
            ["", "?limit=1"].map(|query| read(format!("{path}{query}"))).into()
        }
        // Each agent belongs to a person with the agent's name, which agents of other tenants have
        // too.
        ("post", "/v1/users/{user}/search") => {
            let body = json!({"query": names.word});
            vec![write("POST", &path.replace("{user}", agent), &body, &key(), "*")]
        }
        ("get", "/v1/agents/{agent}/messages") => {
            let by_session = format!("?session={}", names.word);
            ["", "?from_seq=1&limit=1", "?from_seq=3", "?limit=1000", by_session.as_str()]
                .map(|query| read(format!("{path}{query}")))
                .into()
        }
        ("get", "/v1/agents/{agent}/events") => ["", "?from_ts=2000-01-01&limit=64", "?limit=1000"]
            .map(|query| read(format!("{path}{query}")))
            .into(),
        ("get", "/v1/agents/{agent}/changes") => ["?wait=false", "?after=0&wait=false"]
            .map(|query| read(format!("{path}{query}")))
            .into(),
        ("get", "/v1/agents/{agent}/history") => ["", "?from_version=1&limit=1", "?limit=20"]
            .map(|query| read(format!("{path}{query}")))
            .into(),
        ("get", "/v1/agents/{agent}/prompts") => ["", "?from_turn=1&limit=1", "?limit=200"]
            .map(|query| read(format!("{path}{query}")))
            .into(),
        ("get", "/v1/agents/{agent}/prompts/{turn}") => {
            let of = |turn: &str| read(path.replace("{turn}", turn));
            vec![of("1"), Asked { own: None, ..of("999") }]
        }
        ("post", "/v1/agents/{agent}/prompts") => {
            // The lease is longer than the test, because the server would end an expired run and
            // thereby change the agent.
            let body = json!({"run": "the-run-of-the-asker", "lease_ms": 3_600_000, "model": "parrot-1", "tools": [{"name": "look"}]});
            vec![write("POST", &path, &body, &key(), "*")]
        }
        ("post", "/v1/agents/{agent}/prompts/{turn}/answer") => {
            // The request sends a model's answer to a prompt that was answered long ago.
            let body =
                json!({"run": format!("run-{}", names.word), "finish": "stop", "content": "Late."});
            vec![Asked {
                own: None,
                ..write("POST", &path.replace("{turn}", "1"), &body, &key(), "*")
            }]
        }
        ("get", "/v1/agents/{agent}/why") => [
            format!("text={}%20keeper%20of%20the%20lighthouse", names.word),
            format!("text={}&from_turn=1", names.word),
            "turn=1".to_owned(),
        ]
        .map(|query| read(format!("{path}?{query}")))
        .into(),
        ("get", "/v1/agents/{agent}/quarantine") => [
            "".to_owned(),
            "?after=p.&limit=1".to_owned(),
            format!("?id={}", names.message_id),
            format!("?id={}", names.chunk),
            "?id=1".to_owned(),
        ]
        .map(|query| read(format!("{path}{query}")))
        .into(),
        ("post", "/v1/agents/{agent}/quarantine") => {
            // The item that the request names is not tainted. The answer for an untainted item is
            // the same as for a missing item.
            let of = |id: &str| Asked {
                own: None,
                ..write("POST", &path, &json!({"id": id}), &key(), "*")
            };
            vec![of(&names.message_id), of(&names.chunk), of("1")]
        }
        ("get", "/v1/agents/{agent}/trace") => [
            format!("from={}", names.message_id),
            format!("from=messages/{}&follow=derived,around&depth=3", names.message_id),
            format!("from={}&depth=3&limit=40", names.chunk),
            format!("from={}&follow=cited_by,links", names.chunk.replace('/', "%2F")),
            "from=agent&depth=2".to_owned(),
            "from=1".to_owned(),
        ]
        .map(|query| read(format!("{path}?{query}")))
        .into(),
        ("get", "/v1/agents/{agent}/conveyance") => {
            ["", "?of=life", "?of=session"].map(|query| read(format!("{path}{query}"))).into()
        }
        ("get", "/v1/agents/{agent}/export") => vec![read(path)],
        ("post", "/v1/agents/{agent}/import") => {
            // The request is refused before any lookup, because the body is not an export.
            // tests/it/exported.rs tests the import of another agent's export.
            vec![Asked { own: None, ..write("POST", &path, &json!({}), &key(), "*") }]
        }
        ("put", "/v1/agents/{agent}") => {
            // The request is refused, because the agent exists with another configuration. The
            // refusal shows no data of other agents.
            let body = json!({"context_window": 4096, "system": names.word});
            vec![Asked { own: None, ..write("PUT", &path, &body, &key(), "*") }]
        }
        ("delete", "/v1/agents/{agent}/archive/{doc_id}") => {
            // A deletion with the agent's revision instead of the document's has no effect; an
            // unknown document cannot be deleted.
            let named = path.replace("{doc_id}", &names.doc_id);
            let body = json!({});
            vec![
                Asked { own: None, ..write("DELETE", &named, &body, &key(), &names.revision) },
                Asked { own: None, ..write("DELETE", &named, &body, &key(), "") },
            ]
        }
        ("patch", "/v1/agents/{agent}") => {
            let body = json!({"heartbeat": {"cooldown_ms": 0}});
            vec![
                write("PATCH", &path, &body, &key(), "*"),
                Asked { own: None, ..write("PATCH", &path, &body, &key(), &names.revision) },
            ]
        }
        // The request names an unknown revision, so it deletes nothing.
        ("delete", "/v1/agents/{agent}") => {
            vec![Asked { own: None, ..write("DELETE", &path, &json!({}), &key(), "_nobody----") }]
        }
        // A context for the word has only the caller's own texts.
        ("post", "/v1/agents/{agent}/context") => {
            let body = json!({"question": format!("What about {}?", names.word), "explain": true});
            vec![Asked { alike: false, ..write("POST", &path, &body, &key(), "*") }]
        }
        // There is an agent of that name, so no clone is made.
        ("post", "/v1/agents/{agent}/clone") => {
            let body = json!({"agent": agent});
            vec![Asked { own: None, ..write("POST", &path, &body, &key(), "*") }]
        }
        // The request names an unknown revision, so no agent gets the name.
        ("post", "/v1/agents/{agent}/rename") => {
            let body = json!({"name": "robert"});
            vec![Asked { own: None, ..write("POST", &path, &body, &key(), "_nobody----") }]
        }
        // An agent without forget operations gets an empty list of manifests; an unknown agent is
        // reported as missing.
        ("get", "/v1/agents/{agent}/forget") => vec![read(path)],
        ("post", "/v1/agents/{agent}/forget") => {
            // The requests name an unknown revision, so they forget nothing and the owner keeps its
            // data.
            let stale = |body: Value| Asked {
                own: None,
                ..write("POST", &path, &body, &key(), "_nobody----")
            };
            let dry = |body: Value| Asked { own: None, ..write("POST", &path, &body, &key(), "*") };
            vec![
                stale(json!({"ids": [names.message_id]})),
                stale(json!({"doc_id": names.doc_id})),
                stale(json!({"all": true})),
                dry(json!({"ids": [names.message_id], "dry_run": true})),
                dry(json!({"doc_id": names.doc_id, "dry_run": true})),
                // The caller may forget its own messages that contain the word.
                Asked { alike: false, ..dry(json!({"match": names.word, "dry_run": true})) },
            ]
        }
        ("get", "/v1/agents/{agent}/schedules") => vec![read(path)],
        ("get", "/v1/agents/{agent}/schedules/{name}") => {
            vec![read(path.replace("{name}", &names.schedule))]
        }
        ("put", "/v1/agents/{agent}/schedules/{name}") => {
            // An agent may create a schedule with any name.
            let body = json!({"every_ms": 86_400_000, "content": "The tide turns."});
            let own = write("PUT", &path.replace("{name}", "tide"), &body, &key(), "*");
            vec![own]
        }
        ("delete", "/v1/agents/{agent}/schedules/{name}") => {
            let named = path.replace("{name}", &names.schedule);
            vec![write("DELETE", &named, &json!({}), &key(), "*")]
        }
        ("post", "/v1/agents/{agent}/events" | "/v1/agents/{agent}/messages") => {
            let body = match listed.ends_with("events") {
                true => json!({"class": "system", "content": "The tide turns."}),
                false => json!({"messages": [{"role": "user", "content": "The tide turns."}]}),
            };
            vec![
                write("POST", &path, &body, &key(), "*"),
                Asked { own: None, ..write("POST", &path, &body, &key(), &names.revision) },
            ]
        }
        ("post", "/v1/agents/{agent}/runs") => {
            let body = json!({"input": names.word});
            vec![Asked { own: None, ..write("POST", &path, &body, &key(), "*") }]
        }
        // Without a model the server begins no run, whatever the name; tests/it/dropin.rs tests
        // runs with a model.
        (
            "post",
            "/v1/chat/completions"
            | "/v1/responses"
            | "/v1/agents/{agent}/chat/completions"
            | "/v1/agents/{agent}/responses"
            | "/v1/responses/compact"
            | "/v1/agents/{agent}/responses/compact"
            | "/v1/messages"
            | "/v1/agents/{agent}/anthropic/v1/messages"
            | "/v1/messages/count_tokens"
            | "/v1/agents/{agent}/anthropic/v1/messages/count_tokens",
        ) => {
            let body = json!({"model": format!("vctx/{agent}"), "messages": [{"role": "user", "content": names.word}], "input": names.word, "max_tokens": 9});
            vec![Asked { own: None, ..write("POST", &path, &body, &key(), "*") }]
        }
        // The texts belong to no agent.
        ("post", "/v1/embeddings") => {
            let body = json!({"model": "vctx-lexical", "input": names.word});
            vec![Asked { own: Some(Own::Done), ..write("POST", &path, &body, &key(), "*") }]
        }
        ("get", "/v1/models") => vec![Asked { own: Some(Own::Done), ..read(path) }],
        _ => panic!("{method} {listed} has no case in the test of isolation"),
    }
}

/// Returns calls to one tool; a tool without a case here fails the test.
fn tool_requests(tool: &str, path: &str, names: &Names) -> Vec<Asked> {
    let any = |body: Value| write("POST", path, &body, &key(), "*");
    let guarded = |body: Value| write("POST", path, &body, &key(), &names.revision);
    let found = |body: Value| Asked { own: Some(Own::Found), ..any(body) };
    // A vector search always finds passages of the caller, even for an unknown text. Searches with
    // different texts may therefore give different answers.
    let near = |body: Value| Asked { alike: false, ..found(body) };
    let unlike = |asked: Asked| Asked { alike: false, ..asked };
    let loose = |asked: Asked| Asked { own: None, ..asked };
    let word = &names.word;
    match tool {
        "store_core" => vec![
            loose(guarded(json!({"block_id": "plan", "content": "Sail at noon."}))),
            // An agent may create a block with any name.
            unlike(any(
                json!({"block_id": names.block_id, "content": "Mine.", "policy": {"mode": "append"}}),
            )),
        ],
        "fetch_core" => vec![any(json!({"block_id": names.block_id}))],
        "append_fifo" => {
            let once = write("POST", path, &said_once(), &names.key, "*");
            vec![
                Asked { own: Some(Own::Replayed), ..once },
                any(
                    json!({"message": "As it is written.", "role": "assistant", "cites": [names.chunk]}),
                ),
                loose(guarded(json!({"message": "The gulls are loud.", "role": "user"}))),
            ]
        }
        "write_recall" => vec![
            any(json!({"entries": [{"content": "The lighthouse keeper went home."}]})),
            loose(guarded(json!({"entries": [{"content": "The gulls are gone."}]}))),
        ],
        "evict_fifo" => {
            vec![any(json!({"target_tokens": 600})), loose(guarded(json!({"target_tokens": 600})))]
        }
        "search_recall" => vec![
            found(json!({"query": word, "rehydrate": false})),
            found(json!({"query": word, "limit": 3})),
            found(json!({"query": format!("\"{word} keeper\""), "limit": 3, "heartbeat": true})),
            found(
                json!({"query": "lighthouse", "limit": 1, "rehydrate": false, "page_token": names.recall_token}),
            ),
            found(
                json!({"query": "lighthouse", "limit": 2, "page_token": names.recall_token, "heartbeat": true}),
            ),
        ],
        "search_archival" => {
            let page = json!({"query_text": "lighthouse keeper", "limit": 40, "page_token": names.archival_token});
            vec![
                near(json!({"query_text": format!("{word} keeper of the lighthouse")})),
                near(json!({"query_vector": names.vector, "limit": 40, "nProbe": 32})),
                found(json!({"query_text": word, "mode": "text", "explain": true})),
                found(
                    json!({"query_text": word, "mode": "text", "filter": {"doc_id": names.doc_id}}),
                ),
                near(json!({"query_text": format!("{word} keeper"), "mode": "hybrid"})),
                near(
                    json!({"query_text": format!("{word} keeper"), "query_vector": names.vector, "fusion": "rrf"}),
                ),
                found(json!({"query_vector": names.vector, "filter": {"doc_id": names.doc_id}})),
                found(json!({"query_text": "lighthouse", "filter": {"doc_id": names.doc_id}})),
                found(
                    json!({"query_text": "lighthouse", "filter": {"source": names.source}, "heartbeat": true}),
                ),
                found(page),
                loose(any(json!({"query_text": "lighthouse", "page_token": names.recall_token}))),
            ]
        }
        "ingest_archival" => {
            let made_of = |id: &str| json!({"doc_id": "made", "chunks": ["Made of a message."], "provenance": {"message_ids": [id]}});
            let again = json!({"doc_id": names.doc_id, "chunks": ["Taken in again."]});
            let by_revision = write("POST", path, &again, &key(), &names.document_revision);
            let shared = json!({"doc_id": "shared", "chunks": ["The lighthouse keeper of all."]});
            vec![
                any(made_of(&names.message_id)),
                loose(by_revision),
                loose(write("POST", path, &shared, &key(), &names.document_revision)),
                any(shared),
            ]
        }
        "memory" => {
            let file = format!("/memories/{}", names.block_id);
            vec![
                any(json!({"command": "view", "path": "/memories"})),
                any(json!({"command": "view", "path": file})),
                loose(any(
                    json!({"command": "str_replace", "path": file, "old_str": "No such words.", "new_str": "x"}),
                )),
                unlike(any(
                    json!({"command": "insert", "path": file, "insert_line": 0, "insert_text": "Mine."}),
                )),
                loose(any(json!({"command": "create", "path": file, "file_text": "Mine."}))),
                loose(guarded(
                    json!({"command": "rename", "old_path": "/memories/plan", "new_path": "/memories/sea/plan"}),
                )),
                loose(guarded(json!({"command": "delete", "path": "/memories/sea"}))),
            ]
        }
        "send_message" => vec![any(json!({"message": "The tide turns."}))],
        "core_memory_append" => {
            vec![unlike(any(json!({"label": names.block_id, "content": "Mine."})))]
        }
        "core_memory_replace" => vec![loose(any(
            json!({"label": names.block_id, "old_content": "No such words.", "new_content": "x"}),
        ))],
        "memory_insert" => vec![unlike(any(json!({"label": names.block_id, "new_str": "Mine."})))],
        "memory_replace" => vec![loose(any(
            json!({"label": names.block_id, "old_str": "No such words.", "new_str": "x"}),
        ))],
        "memory_rethink" => vec![any(json!({"label": "thought", "new_memory": "Sail at noon."}))],
        "conversation_search" => vec![
            found(json!({"query": word})),
            found(json!({"query": word, "limit": 3, "request_heartbeat": true})),
            found(json!({"query": "lighthouse", "limit": 1, "page_token": names.recall_token})),
        ],
        "conversation_search_date" => vec![
            found(json!({"start_date": "2000-01-01", "end_date": "2999-12-31"})),
            found(
                json!({"start_date": "2000-01-01", "end_date": "2999-12-31", "limit": 20, "request_heartbeat": true}),
            ),
        ],
        // The document's name is computed from its text, so each call inserts another text.
        "archival_memory_insert" => {
            vec![loose(any(json!({"content": format!("A lighthouse of all, {}.", key())})))]
        }
        "archival_memory_search" => vec![
            near(json!({"query": format!("{word} keeper of the lighthouse")})),
            loose(any(
                json!({"query": "lighthouse keeper", "top_k": 40, "page_token": names.archival_token}),
            )),
            loose(any(json!({"query": "lighthouse", "page_token": names.recall_token}))),
        ],
        "retrieve_from_ues" => vec![
            near(json!({"query": word})),
            loose(any(json!({"query": "lighthouse", "top_k": 20, "time_filter": "2000-01-01/"}))),
        ],
        // The text is the caller's own.
        "summarize_text" => {
            vec![loose(any(json!({"text": format!("The {word} keeper went home.")})))]
        }
        "trace_memory" => vec![
            found(json!({"from": names.message_id})),
            found(json!({"from": names.message_id, "follow": ["derived", "summary"], "depth": 3})),
            found(json!({"from": names.chunk, "depth": 3, "limit": 40})),
            found(json!({"from": names.chunk, "follow": ["cited_by", "derived_from"]})),
            found(json!({"from": "agent", "depth": 2})),
            found(json!({"from": "agent", "limit": 40, "page_token": names.trace_token})),
            loose(any(json!({"from": "agent", "page_token": names.recall_token}))),
        ],
        // A context for the word has only the caller's own texts.
        "build_context" => vec![loose(any(
            json!({"question": format!("What about {}?", names.word), "explain": true}),
        ))],
        "record_heartbeat" => vec![
            any(json!({"state": {"status": "continue", "note": "page-1"}})),
            any(json!({"state": "yield"})),
            loose(guarded(json!({"state": "continue"}))),
        ],
        other => panic!("the tool {other} has no case in the test of isolation"),
    }
}
