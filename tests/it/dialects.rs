//! Tests dialects: the same edit has the same effect, exactly once, under every tool name and
//! interface. The answers of the Anthropic dialect have the exact words of Anthropic's memory tool.

use serde_json::{Value, json};

use crate::home::Home;
use crate::line::Line;
use crate::talk::{Agent, key};
use crate::wire::Answer;

mod anthropic;
mod memgpt;
mod ues;

const WINDOW: u64 = 8192;

/// The same edit as a call to vctx's, MemGPT's and Anthropic's tool; `None` if a dialect has no
/// such edit.
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

/// Returns an agent's state without values that differ between agents: name, ids, times and
/// digests.
fn memory(state: &Value) -> Value {
    let mut memory = state.clone();
    let map = memory.as_object_mut().expect("a state");
    for name in ["agent", "agent_id", "_rev", "created_at", "updated_at", "chain", "heartbeat"] {
        map.remove(name).unwrap_or_else(|| panic!("no {name}"));
    }
    memory
}

/// The interface through which an edit is made: HTTP or MCP.
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
    for dialect in ["vctx", "memgpt", "anthropic", "ues"] {
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
                "vctx" | "ues" => edit.vctx.clone(),
                "memgpt" => edit.memgpt.clone().unwrap_or(edit.vctx.clone()),
                _ => ("memory", edit.anthropic.clone()),
            };
            // MCP clients of a dialect see only the tools of that dialect, so an edit that the
            // dialect lacks is made over HTTP.
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

/// Returns the text of an answer or of a refusal.
fn text(answer: &Answer) -> String {
    let text = answer.body["result"]["text"].as_str().or(answer.body["text"].as_str());
    text.unwrap_or_else(|| panic!("no text: {}", answer.text)).to_owned()
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
    // The text to be replaced no longer exists, so the repeated call can succeed only with the
    // stored answer.
    let again = ada.tool("memory", &replace, "k2", seen).await.ok();
    assert_eq!((&first["replayed"], &again["replayed"]), (&json!(false), &json!(true)));
    assert_eq!(first["result"], again["result"]);
    let other = json!({"label": "human", "old_str": "coffee", "new_str": "tea"});
    let reused = ada.tool("memory_replace", &other, "k2", "*").await;
    assert_eq!(reused.code(), "IDEMPOTENCY_KEY_REUSED");
    assert!(text(&reused).starts_with("Error: "));

    let stale = ada.tool("memory_replace", &other, "k3", seen).await;
    assert_eq!(stale.refused(412, "REVISION_STALE")["changed"], json!(["block:human"]));
    // The listing of a directory depends only on its files.
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
    let listed = ada.wire.get("/v1/tools?format=openai-chat&profile=full&strict=true").await.ok();
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
        ("build_context", json!({"question": "Where is pier four?"})),
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
    for dialect in ["vctx", "memgpt", "anthropic", "ues"] {
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
        ("profile=thin", "profile"),
        ("colour=blue", "colour"),
    ] {
        let refused = wire.get(&format!("/v1/tools?{query}")).await;
        assert_eq!(refused.refused(400, "INVALID_ARGUMENT")["field"], field);
    }
}

#[cfg(feature = "full-tests")]
/// Returns a Python interpreter that has the required packages: the one that the environment
/// variable names, or the one that `.ci/full` creates.
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
    for dialect in ["vctx", "memgpt", "anthropic", "ues"] {
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
