//! Dialects: the same edit under every name and by every door leaves the same memory, once; exact words of Anthropic's memory tool; what is
//! refused is refused in those words too.

use serde_json::{Value, json};

use crate::home::Home;
use crate::line::Line;
use crate::talk::{Agent, key, said};
use crate::wire::Answer;

const WINDOW: u64 = 8192;

/// One edit in our words, MemGPT's and Anthropic's; none where a dialect has no such edit.
struct Edit {
    vctx: (&'static str, Value),
    memgpt: Option<(&'static str, Value)>,
    anthropic: Value,
}

fn edits() -> Vec<Edit> {
    vec![
        Edit {
            vctx: ("store_core", json!({"block_id": "human", "content": "Likes tea."})),
            memgpt: Some(("memory_rethink", json!({"label": "human", "new_memory": "Likes tea."}))),
            anthropic: json!({"command": "create", "path": "/memories/human", "file_text": "Likes tea."}),
        },
        Edit {
            vctx: (
                "store_core",
                json!({"block_id": "human", "content": "Sails.", "policy": {"mode": "append", "pinned": null}}),
            ),
            memgpt: Some((
                "core_memory_append",
                json!({"label": "human", "content": "Sails.", "request_heartbeat": null}),
            )),
            anthropic: json!({"command": "insert", "path": "/memories/human", "insert_line": 1, "insert_text": "Sails.\n"}),
        },
        Edit {
            vctx: ("store_core", json!({"block_id": "human", "content": "Likes coffee.\nSails."})),
            memgpt: Some((
                "memory_replace",
                json!({"label": "human", "old_str": "tea", "new_str": "coffee"}),
            )),
            anthropic: json!({"command": "str_replace", "path": "/memories/human", "old_str": "tea", "new_str": "coffee"}),
        },
        Edit {
            vctx: (
                "store_core",
                json!({"block_id": "human", "content": "Likes coffee.\nBorn in May.\nSails."}),
            ),
            memgpt: Some((
                "memory_insert",
                json!({"label": "human", "new_str": "Born in May.", "insert_line": 1}),
            )),
            anthropic: json!({"command": "insert", "path": "/memories/human", "insert_line": 1, "insert_text": "Born in May."}),
        },
        Edit {
            vctx: (
                "store_core",
                json!({"block_id": "human", "content": "Likes cocoa.\nBorn in May.\nSails."}),
            ),
            memgpt: Some((
                "core_memory_replace",
                json!({"name": "human", "old_content": "coffee", "new_content": "cocoa"}),
            )),
            anthropic: json!({"command": "str_replace", "path": "/memories/human", "old_str": "coffee", "new_str": "cocoa"}),
        },
        Edit {
            vctx: ("store_core", json!({"block_id": "trips..elba.md", "content": "Pier 4."})),
            memgpt: Some((
                "core_memory_append",
                json!({"label": "trips..elba.md", "content": "Pier 4."}),
            )),
            anthropic: json!({"command": "create", "path": "/memories/trips/elba.md", "file_text": "Pier 4."}),
        },
        Edit {
            vctx: (
                "store_core",
                json!({"block_id": "human", "content": "", "policy": {"mode": "delete"}}),
            ),
            memgpt: None,
            anthropic: json!({"command": "delete", "path": "/memories/human"}),
        },
    ]
}

/// What an agent holds, without its name and what follows from it: identity, moments and digests under it.
fn memory(state: &Value) -> Value {
    let mut memory = state.clone();
    let map = memory.as_object_mut().expect("a state");
    for name in ["agent", "agent_id", "_rev", "created_at", "updated_at", "chain", "heartbeat"] {
        map.remove(name).unwrap_or_else(|| panic!("no {name}"));
    }
    memory
}

/// A way to make an edit.
enum Door {
    Http(Agent),
    Mcp(Box<Line>),
}

impl Door {
    async fn make(&mut self, name: &str, arguments: &Value) {
        match self {
            Door::Http(agent) => drop(agent.done(name, arguments).await),
            Door::Mcp(line) => drop(Line::done(line.tool(name, arguments.clone()).await)),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_edit_in_every_dialect_leaves_the_same_memory_and_moves_the_revision_once() {
    let home = Home::new();
    let _server = home.serve().await;
    let mut doors = Vec::new();
    for dialect in ["vctx", "memgpt", "anthropic"] {
        for door in ["http", "mcp"] {
            let name = format!("{dialect}-{door}");
            let agent = Agent::create(home.wire("vctx.sock"), &name, WINDOW, "You are Ada.").await;
            let opened = match door {
                "http" => Door::Http(agent.again()),
                _ => Door::Mcp(Box::new(
                    Line::initialized(&home, &["--agent", &name, "--dialect", dialect]).await,
                )),
            };
            doors.push((dialect, agent, opened));
        }
    }
    for (number, edit) in edits().into_iter().enumerate() {
        let mut states = Vec::new();
        for (dialect, agent, door) in &mut doors {
            let (name, arguments) = match *dialect {
                "vctx" => edit.vctx.clone(),
                "memgpt" => edit.memgpt.clone().unwrap_or(edit.vctx.clone()),
                _ => ("memory", edit.anthropic.clone()),
            };
            // MCP clients of a dialect know its own names only; what it lacks is made by the other door.
            let missing = *dialect == "memgpt" && edit.memgpt.is_none();
            let before = agent.state().await["version"].as_u64().expect("a version");
            match missing {
                true => drop(agent.done(name, &arguments).await),
                false => door.make(name, &arguments).await,
            }
            let state = agent.state().await;
            assert_eq!(state["version"], before + 1, "edit {number} in {dialect}");
            states.push((agent.name.clone(), memory(&state)));
        }
        let (_, first) = states[0].clone();
        for (name, state) in states {
            assert_eq!(state, first, "edit {number}: {name}");
        }
    }
    for (_, agent, door) in doors {
        if let Door::Mcp(line) = door {
            line.leave().await;
        }
        home.assert_verified("vctx.sock", &agent.name);
    }
}

async fn ada(home: &Home) -> Agent {
    Agent::create(home.wire("vctx.sock"), "ada", WINDOW, "You are Ada.").await
}

async fn memory_call(agent: &Agent, arguments: Value) -> Answer {
    agent.tool("memory", &arguments, &key(), "*").await
}

/// The text of an answer, whether it went well or not.
fn text(answer: &Answer) -> String {
    let text = answer.body["result"]["text"].as_str().or(answer.body["text"].as_str());
    text.unwrap_or_else(|| panic!("no text: {}", answer.text)).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_tool_answers_in_the_words_of_its_documentation() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = ada(&home).await;
    let listing = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:";
    let call = |command: &str, rest: Value| {
        let mut call = json!({"command": command});
        call.as_object_mut().expect("a map").extend(rest.as_object().expect("a map").clone());
        call
    };
    let many = "tea\nmilk tea\nsugar";
    for (arguments, status, expected) in [
        (call("view", json!({"path": "/memories"})), 200, format!("{listing}\n0B\t/memories")),
        (
            call("create", json!({"path": "/memories/notes.txt", "file_text": "Hello World\nThis is line two"})),
            200,
            "File created successfully at: /memories/notes.txt".into(),
        ),
        (
            call("create", json!({"path": "/memories/notes.txt", "file_text": "x"})),
            409,
            "Error: File /memories/notes.txt already exists".into(),
        ),
        (
            call("view", json!({"path": "/memories/notes.txt"})),
            200,
            "Here's the content of /memories/notes.txt with line numbers:\n     1\tHello World\n     2\tThis is line two".into(),
        ),
        (
            call("view", json!({"path": "/memories/notes.txt", "view_range": [2, -1]})),
            200,
            "Here's the content of /memories/notes.txt with line numbers:\n     2\tThis is line two".into(),
        ),
        (
            call("view", json!({"path": "/memories/gone.txt"})),
            404,
            "The path /memories/gone.txt does not exist. Please provide a valid path.".into(),
        ),
        (
            call("str_replace", json!({"path": "/memories/notes.txt", "old_str": "line two", "new_str": "the end"})),
            200,
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n     1\tHello World\n     2\tThis is the end".into(),
        ),
        (
            call("str_replace", json!({"path": "/memories/notes.txt", "old_str": "nowhere", "new_str": "x"})),
            400,
            "No replacement was performed, old_str `nowhere` did not appear verbatim in /memories/notes.txt.".into(),
        ),
        (
            call("str_replace", json!({"path": "/memories/gone.txt", "old_str": "a", "new_str": "b"})),
            404,
            "Error: The path /memories/gone.txt does not exist. Please provide a valid path.".into(),
        ),
        (
            call("create", json!({"path": "/memories/a/many.txt", "file_text": many})),
            200,
            "File created successfully at: /memories/a/many.txt".into(),
        ),
        (
            call("str_replace", json!({"path": "/memories/a/many.txt", "old_str": "tea", "new_str": "x"})),
            400,
            "No replacement was performed. Multiple occurrences of old_str `tea` in lines: 1, 2. Please ensure it is unique".into(),
        ),
        (
            call("str_replace", json!({"path": "/memories/a", "old_str": "tea", "new_str": "x"})),
            404,
            "Error: The path /memories/a does not exist. Please provide a valid path.".into(),
        ),
        (
            call("insert", json!({"path": "/memories/a/many.txt", "insert_line": 3, "insert_text": "honey\n"})),
            200,
            "The file /memories/a/many.txt has been edited.".into(),
        ),
        (
            call("insert", json!({"path": "/memories/a/many.txt", "insert_line": 9, "insert_text": "x"})),
            400,
            "Error: Invalid `insert_line` parameter: 9. It should be within the range of lines of the file: [0, 4]".into(),
        ),
        (
            call("insert", json!({"path": "/memories/gone.txt", "insert_line": 0, "insert_text": "x"})),
            404,
            "Error: The path /memories/gone.txt does not exist".into(),
        ),
        (
            call("view", json!({"path": "/memories"})),
            200,
            format!("{listing}\n51B\t/memories\n24B\t/memories/a/\n24B\t/memories/a/many.txt\n27B\t/memories/notes.txt"),
        ),
        (
            call("rename", json!({"old_path": "/memories/a", "new_path": "/memories/b/c"})),
            200,
            "Successfully renamed /memories/a to /memories/b/c".into(),
        ),
        (
            call("rename", json!({"old_path": "/memories/notes.txt", "new_path": "/memories/b"})),
            409,
            "Error: The destination /memories/b already exists".into(),
        ),
        (
            call("rename", json!({"old_path": "/memories/gone.txt", "new_path": "/memories/x"})),
            404,
            "Error: The path /memories/gone.txt does not exist".into(),
        ),
        (
            call("view", json!({"path": "/memories/b/c/many.txt"})),
            200,
            "Here's the content of /memories/b/c/many.txt with line numbers:\n     1\ttea\n     2\tmilk tea\n     3\tsugar\n     4\thoney".into(),
        ),
        (call("delete", json!({"path": "/memories/b"})), 200, "Successfully deleted /memories/b".into()),
        (
            call("delete", json!({"path": "/memories/b"})),
            404,
            "Error: The path /memories/b does not exist".into(),
        ),
    ] {
        let answer = memory_call(&ada, arguments.clone()).await;
        assert_eq!((answer.status, text(&answer)), (status, expected), "{arguments}");
    }
    let blocks = ada.state().await["blocks"].clone();
    assert_eq!(blocks.as_array().map(Vec::len), Some(1), "{blocks:#}");
    assert_eq!(blocks[0]["id"], "notes.txt");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_leads_out_or_is_too_large_is_refused_and_changes_nothing() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = ada(&home).await;
    let before = ada.revision().await;
    for (path, told) in [
        ("/memories/../etc/passwd", "leads out of /memories"),
        ("/memories/a/../../etc", "leads out of /memories"),
        ("/memories/%2e%2e%2fetc", "leads out of /memories"),
        ("/memories/..\\etc", "leads out of /memories"),
        ("/etc/passwd", "begin with /memories/"),
        ("/memoriesx", "begin with /memories/"),
        ("/memories", "stays as it is"),
    ] {
        for command in [
            json!({"command": "create", "path": path, "file_text": "x"}),
            json!({"command": "delete", "path": path}),
            json!({"command": "rename", "old_path": path, "new_path": "/memories/x"}),
            json!({"command": "rename", "old_path": "/memories/x", "new_path": path}),
        ] {
            let answer = memory_call(&ada, command.clone()).await;
            let (code, text) = (answer.code().to_owned(), text(&answer));
            assert_eq!((answer.status, &*code), (400, "INVALID_ARGUMENT"), "{command}: {text}");
            assert!(text.starts_with("Error: ") && text.contains(told), "{command}: {text}");
        }
    }
    let long = json!({"command": "create", "path": format!("/memories/{}", "x".repeat(200)), "file_text": "x"});
    assert!(text(&memory_call(&ada, long).await).contains("at most 128"));
    let huge = json!({"command": "create", "path": "/memories/huge", "file_text": "word ".repeat(220_000)});
    let refused = memory_call(&ada, huge).await;
    assert_eq!(refused.code(), "INVALID_ARGUMENT");
    assert!(text(&refused).contains("split it"), "{}", text(&refused));
    let large = json!({"command": "create", "path": "/memories/large", "file_text": "word ".repeat(20_000)});
    let refused = memory_call(&ada, large).await;
    assert_eq!(refused.code(), "TOKEN_BUDGET_EXCEEDED");
    assert!(text(&refused).starts_with("Error: short of "), "{}", text(&refused));
    for number in 0..64 {
        let path = format!("/memories/many/{number}");
        memory_call(&ada, json!({"command": "create", "path": path, "file_text": ""})).await.ok();
    }
    let one_more = json!({"command": "create", "path": "/memories/one", "file_text": ""});
    assert!(text(&memory_call(&ada, one_more).await).contains("64 blocks already"));
    memory_call(&ada, json!({"command": "delete", "path": "/memories/many"})).await.ok();
    assert_eq!(ada.state().await["blocks"], json!([]));
    assert_ne!(ada.revision().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_revisions_hold_under_every_name() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = ada(&home).await;
    let create =
        json!({"command": "create", "path": "/memories/human", "file_text": "Likes tea. Sails."});
    let path = format!("{}/tools/memory", ada.path());
    let bare = ada.wire.call("POST", &path, &[], create.to_string()).await;
    assert_eq!(bare.code(), "IDEMPOTENCY_KEY_REQUIRED");
    let unguarded =
        ada.wire.call("POST", &path, &[("idempotency-key", "k0")], create.to_string()).await;
    assert_eq!(unguarded.code(), "PRECONDITION_REQUIRED");
    let view = json!({"command": "view", "path": "/memories"});
    ada.wire.call("POST", &path, &[], view.to_string()).await.ok();

    let seen = ada.tool("memory", &create, "k1", "*").await.ok()["_rev"].clone();
    let seen = seen.as_str().expect("a revision");
    let replace = json!({"command": "str_replace", "path": "/memories/human", "old_str": "tea", "new_str": "coffee"});
    let first = ada.tool("memory", &replace, "k2", seen).await.ok();
    // What is replaced is gone: only the stored answer can say that it was done.
    let again = ada.tool("memory", &replace, "k2", seen).await.ok();
    assert_eq!((&first["replayed"], &again["replayed"]), (&json!(false), &json!(true)));
    assert_eq!(first["result"], again["result"]);
    let other = json!({"label": "human", "old_str": "coffee", "new_str": "tea"});
    let reused = ada.tool("memory_replace", &other, "k2", "*").await;
    assert_eq!(reused.code(), "IDEMPOTENCY_KEY_REUSED");
    assert!(text(&reused).starts_with("Error: "));

    let stale = ada.tool("memory_replace", &other, "k3", seen).await;
    assert_eq!(stale.refused(412, "REVISION_STALE")["changed"], json!(["block:human"]));
    // A directory depends on what lies in it, and on nothing else.
    let begun = ada.revision().await;
    ada.done("core_memory_append", &json!({"label": "trips..elba", "content": "Pier 4."})).await;
    let gone = json!({"command": "delete", "path": "/memories/trips"});
    let refused = ada.tool("memory", &gone, "k4", &begun).await;
    assert_eq!(refused.refused(412, "REVISION_STALE")["changed"], json!(["block:trips..elba"]));
    let now = ada.revision().await;
    ada.done("core_memory_append", &json!({"label": "human", "content": "Born in May."})).await;
    ada.tool("memory", &gone, "k4", &now).await.ok();
    assert_eq!(ada.messages().await.len(), 0);
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn memgpt_speaks_to_the_user_searches_and_beats() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = ada(&home).await;
    ada.append("user", "The Swallow lies at pier 4, and the harbour master wants eighteen euros.")
        .await;
    let sent = ada.done("send_message", &json!({"message": "I will remember that."})).await;
    assert_eq!(sent["result"]["text"], "Sent.");
    let spoken = said(&ada.messages().await);
    assert_eq!(spoken[1], ("assistant".to_owned(), "I will remember that.".to_owned()));
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;

    let found = ada
        .done(
            "conversation_search",
            &json!({"query": "harbour master", "roles": ["user"], "request_heartbeat": true}),
        )
        .await;
    let told = found["result"]["text"].as_str().expect("a text");
    assert!(told.starts_with("Showing 1 of 1 results: [\"timestamp: "), "{told}");
    assert!(told.contains("user - The Swallow lies at pier 4"), "{told}");
    assert_eq!(found["heartbeat"]["granted"], true);
    assert_eq!(
        ada.context().await["messages"].as_array().map_or(0, |m| {
            m.iter()
                .filter(|one| {
                    one["content"].as_str().is_some_and(|c| c.contains("Swallow"))
                        && one["role"] == "user"
                })
                .count()
        }),
        0,
        "what is found stands in the answer alone"
    );

    let today = json!({"start_date": "2000-01-01", "end_date": "2999-12-31", "limit": 1});
    let dated = ada.done("conversation_search_date", &today).await;
    assert_eq!(
        (&dated["result"]["total"], &dated["result"]["next_offset"]),
        (&json!(2), &json!(1))
    );
    let next = json!({"start_date": "2000-01-01", "end_date": "2999-12-31", "limit": 1, "offset": 1, "request_heartbeat": true});
    let dated = ada.done("conversation_search_date", &next).await;
    assert!(
        dated["result"]["text"].as_str().is_some_and(|t| t.contains("I will remember that.")),
        "{dated:#}"
    );
    assert_eq!(dated["heartbeat"]["chain_depth"], 2);
    let past = json!({"start_date": "2000-01-01", "end_date": "2000-01-02"});
    let none = ada.done("conversation_search_date", &past).await;
    assert_eq!(none["result"]["text"], "No results found.");

    let content = "The ferry to Elba leaves Piombino every hour.";
    let beat = json!({"content": content, "tags": ["trips"], "request_heartbeat": true});
    let first = ada.done("archival_memory_insert", &beat).await;
    assert_eq!(
        (&first["result"]["inserted"], &first["heartbeat"]["chain_depth"]),
        (&json!(1), &json!(3))
    );
    // The same text lies there once, whatever revision the caller saw.
    let again = ada
        .tool(
            "archival_memory_insert",
            &json!({"content": content, "tags": ["trips"]}),
            &key(),
            "_none",
        )
        .await
        .ok();
    assert_eq!(again["result"]["replaced"], 1);
    let found = ada
        .done(
            "archival_memory_search",
            &json!({"query": "ferry to Elba", "start_datetime": "2000-01-01T00:00"}),
        )
        .await;
    let told = found["result"]["text"].as_str().expect("a text");
    assert!(told.starts_with("Showing 1 of 1 results: [") && told.contains(content), "{told}");

    for (tool, arguments, field) in [
        ("conversation_search", json!({"query": "x", "start_date": "yesterday"}), "start_date"),
        ("conversation_search", json!({"query": "x", "roles": ["user", "tool"]}), "roles"),
        ("conversation_search", json!({"query": "x", "page": 2}), "page"),
        ("archival_memory_search", json!({"query": "x", "tags": ["a"]}), "tags"),
        ("archival_memory_insert", json!({"content": " "}), "content"),
        ("core_memory_append", json!({"label": "a b", "content": "x"}), "label"),
        ("memory_insert", json!({"label": "a/b", "new_str": "x"}), "label"),
        ("send_message", json!({"message": ""}), "message"),
    ] {
        let refused = ada.tool(tool, &arguments, &key(), "*").await;
        assert_eq!(
            (refused.status, &refused.body["field"]),
            (400, &json!(field)),
            "{tool}: {}",
            refused.text
        );
        assert!(text(&refused).starts_with("Error: "), "{}", refused.text);
    }
    let missing = ada
        .tool(
            "memory_replace",
            &json!({"label": "nobody", "old_str": "a", "new_str": "b"}),
            &key(),
            "*",
        )
        .await;
    assert_eq!(missing.code(), "BLOCK_NOT_FOUND");
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn nulls_of_strict_calls_are_taken_for_left_out() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = ada(&home).await;
    let nothing = |names: &[&str]| -> Value {
        names
            .iter()
            .map(|name| ((*name).to_owned(), Value::Null))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let listed = ada.wire.get("/v1/tools?format=openai-chat&strict=true").await.ok();
    for (tool, given) in [
        (
            "store_core",
            json!({"block_id": "human", "content": "Tea.", "policy": nothing(&["mode", "pinned", "role", "justification"])}),
        ),
        ("fetch_core", json!({"block_id": "human"})),
        (
            "append_fifo",
            json!({"role": "assistant", "message": {"content": "Hm.", "name": null, "tool_call_id": null, "said_at": null,
            "tool_calls": [{"id": "c", "type": null, "function": {"name": "f", "arguments": "{}"}}]}}),
        ),
        (
            "append_fifo",
            json!({"role": "tool", "message": {"content": "Done.", "tool_call_id": "c", "tool_calls": null}}),
        ),
        (
            "write_recall",
            json!({"entries": [{"content": "Pier 4.", "role": null, "name": null, "said_at": null, "summary": null}]}),
        ),
        ("search_recall", json!({"query": "pier"})),
        (
            "ingest_archival",
            json!({"doc_id": "d", "document": "A text about tides.", "provenance": nothing(&["source", "message_ids"]),
            "splitter": nothing(&["by", "tokens_max", "overlap_tokens", "chars_max", "overlap_chars", "parent_tokens_max"])}),
        ),
        (
            "search_archival",
            json!({"query_text": "tides", "filter": nothing(&["source", "doc_id", "freshness_after"])}),
        ),
        ("record_heartbeat", json!({"state": {"status": "yield", "note": null}})),
        ("trace_memory", json!({"from": "agent"})),
        ("evict_fifo", json!({})),
    ] {
        let schema = listed["tools"]
            .as_array()
            .expect("tools")
            .iter()
            .find(|t| t["function"]["name"] == tool);
        let schema =
            &schema.unwrap_or_else(|| panic!("{tool} is not listed"))["function"]["parameters"];
        let mut arguments = given;
        for name in schema["required"].as_array().expect("names").iter().filter_map(Value::as_str) {
            let map = arguments.as_object_mut().expect("a map");
            map.entry(name.to_owned()).or_insert(Value::Null);
        }
        let answer = ada.tool(tool, &arguments, &key(), "*").await;
        assert!(answer.status == 200, "{tool} {arguments}: {}", answer.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_listed_in_every_form_by_http_and_by_the_command() {
    let home = Home::new();
    let _server = home.serve().await;
    let wire = home.wire("vctx.sock");
    let socket = home.path("vctx.sock");
    let socket = socket.to_str().expect("a plain path");
    for dialect in ["vctx", "memgpt", "anthropic"] {
        for format in ["json-schema", "openai-chat", "openai-responses", "anthropic", "mcp"] {
            for strict in [false, true] {
                let path = format!("/v1/tools?dialect={dialect}&format={format}&strict={strict}");
                let served = wire.get(&path).await.ok();
                let mut arguments = vec![
                    "tools",
                    "--socket",
                    socket,
                    "--json",
                    "--format",
                    format,
                    "--dialect",
                    dialect,
                ];
                if strict {
                    arguments.push("--strict");
                }
                let printed = home.run(&arguments);
                assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
                let printed: Value = serde_json::from_slice(&printed.stdout).expect("JSON");
                assert_eq!(printed, served, "{path}");
                assert!(served["tools"].as_array().is_some_and(|tools| tools.len() >= 8), "{path}");
            }
        }
    }
    for (query, field) in [
        ("dialect=klingon", "dialect"),
        ("format=smoke-signals", "format"),
        ("strict=maybe", "strict"),
        ("colour=blue", "colour"),
    ] {
        let refused = wire.get(&format!("/v1/tools?{query}")).await;
        assert_eq!(refused.refused(400, "INVALID_ARGUMENT")["field"], field);
    }
}

#[cfg(feature = "full-tests")]
/// A Python that has the packages: the one that is named, or the one that `.ci/run` makes.
fn python() -> Option<std::path::PathBuf> {
    if let Some(named) = std::env::var_os("VCTX_DIALECT_PYTHON") {
        return Some(std::path::PathBuf::from(named));
    }
    let target = std::path::Path::new(crate::home::PROGRAM)
        .ancestors()
        .nth(2)
        .expect("the target directory");
    Some(target.join("dialect-venv/bin/python")).filter(|path| path.exists())
}

#[cfg(feature = "full-tests")]
#[tokio::test(flavor = "multi_thread")]
async fn the_packages_of_openai_and_anthropic_take_our_schemas_and_our_answers() {
    let python = python().expect("no Python with openai and anthropic; name one in VCTX_DIALECT_PYTHON (tests/dialects/requirements.txt)");
    let home = Home::new();
    let _server = home.serve().await;
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dialects/accept.py");
    let mut drive = std::process::Command::new(&python);
    drive.arg(script).arg(crate::home::PROGRAM).arg(home.path("vctx.sock"));
    let output = drive.output().unwrap_or_else(|e| panic!("{}: {e}", python.display()));
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    for dialect in ["vctx", "memgpt", "anthropic"] {
        for format in ["openai-chat", "openai-responses", "anthropic"] {
            for how in ["plain", "strict"] {
                let line = format!("{dialect} {format} {how} ok");
                assert!(told.contains(&line), "{line} was not said:\n{told}");
            }
        }
    }
    assert!(told.contains("the memory tool beside Anthropic's own ok"), "{told}");
    home.assert_verified("vctx.sock", "beside");
}
