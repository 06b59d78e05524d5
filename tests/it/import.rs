//! Tests imports of memories from other systems by a real process into a real server: every item
//! arrives or is reported, and a second import adds nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use crate::home::{Home, Tuning, command};
use crate::talk::{Agent, said};

/// Number of entries of the interrupted import, enough for several calls of `write_recall`.
const MANY: usize = 1_500;
/// Maximum number of polls of a running import before it is killed.
const LOOKS_MAX: usize = 2_000;

fn file(home: &Home, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = home.path(name);
    fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    fs::write(&path, content).expect("a file");
    path
}

fn import(home: &Home, from: &str, path: &Path, agent: &str, more: &[&str]) -> Output {
    let (path, socket) = (path.display().to_string(), home.path("vctx.sock").display().to_string());
    let mut arguments =
        vec!["import", "--from", from, &path, "--agent", agent, "--socket", &socket];
    arguments.extend(more);
    home.run(&arguments)
}

/// Runs an import that must succeed, and returns its JSON output.
fn told(home: &Home, from: &str, path: &Path, agent: &str, more: &[&str]) -> Value {
    let output = import(home, from, path, agent, &[&["--json"], more].concat());
    let (said, fault) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{fault}");
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Runs an import that must fail with the given exit code, and returns its JSON error.
fn refused(home: &Home, from: &str, path: &Path, agent: &str, exit: i32) -> Value {
    let output = import(home, from, path, agent, &["--json"]);
    let fault = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(exit), "{fault}");
    serde_json::from_str(&fault).unwrap_or_else(|error| panic!("{error}: {fault}"))
}

/// Formats each row of an import's output as text: kind of item, destination, number of new items,
/// number of existing ones.
fn rows(told: &Value) -> Vec<String> {
    let taken = told["taken"].as_array().expect("rows").iter();
    let text = |row: &Value, name: &str| row[name].as_str().expect("a text").to_owned();
    taken
        .map(|row| {
            format!(
                "{} > {}: {} new, {} there",
                text(row, "what"),
                text(row, "to"),
                row["new"],
                row["there"]
            )
        })
        .collect()
}

fn left(told: &Value) -> Vec<(String, u64)> {
    let left = told["left"].as_array().expect("what is left").iter();
    left.map(|left| {
        (
            left["what"].as_str().expect("a text").to_owned(),
            left["items"].as_u64().expect("a number"),
        )
    })
    .collect()
}

fn agent_file() -> Value {
    let long = "A very long note. ".repeat(600);
    json!({
        "agents": [{
            "id": "agent-0", "name": "sam", "system": "You are Sam.", "block_ids": ["block-0", "block-1"],
            "llm_config": {"model": "m", "context_window": 16_000}, "tool_ids": ["tool-0"], "tags": [],
            "in_context_message_ids": ["message-0"], "messages": [
                {"id": "message-0", "role": "system", "content": [{"type": "text", "text": "You are Sam.\n\n<memory_blocks>"}]},
                {"id": "message-1", "role": "user", "content": "{\"type\": \"user_message\", \"message\": \"Where is the boat?\"}",
                    "created_at": "2025-05-01T10:00:00Z"},
                {"id": "message-2", "role": "assistant", "content": [{"type": "text", "text": "Looking."}], "created_at": "2025-05-01T10:00:01Z",
                    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "archival_memory_search", "arguments": "{\"query\":\"boat\"}"}}]},
                {"id": "message-3", "role": "tool", "content": "[\"The boat lies at pier 4.\"]", "tool_call_id": "c1"},
                {"id": "message-4", "role": "assistant", "content": null,
                    "tool_calls": [{"id": "c2", "type": "function", "function": {"name": "send_message", "arguments": "{\"message\": \"At pier 4.\"}"}}]},
            ],
        }],
        "blocks": [
            {"id": "block-0", "label": "human", "value": "Bea sails.", "limit": 5000, "description": "The person."},
            {"id": "block-1", "label": "long notes", "value": long, "limit": 50_000},
        ],
        "files": [{"id": "file-0", "file_name": "tides.md", "content": "High tide is at noon.", "source_id": "source-0"},
            {"id": "file-1", "file_name": "scan.pdf", "content": null}],
        "tools": [{"id": "tool-0", "name": "archival_memory_search"}],
        "groups": [], "sources": [], "mcp_servers": [], "metadata": {"revision_id": "x"}, "created_at": "2025-05-02T00:00:00Z",
        "passages": [{"id": "passage-1", "text": "The ferry leaves at ebb.", "tags": ["ferry"], "created_at": "2025-04-01T00:00:00Z"}],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_file_of_letta_arrives_whole_and_twice_is_once() {
    let home = Home::new();
    let _server = home.serve().await;
    let path = file(&home, "sam.af", agent_file().to_string());

    let dry = told(&home, "letta", &path, "sam", &["--dry-run"]);
    assert_eq!((&dry["made"], &dry["dry_run"]), (&json!(true), &json!(true)));
    home.wire("vctx.sock").get("/v1/agents/sam").await.refused(404, "AGENT_NOT_FOUND");

    let first = told(&home, "letta", &path, "sam", &[]);
    assert_eq!(rows(&first), rows(&dry));
    let new = [
        "memory blocks > blocks: 1 new, 0 there",
        "messages > recall: 4 new, 0 there",
        "memory blocks > archive: 1 new, 0 there",
        "files > archive: 1 new, 0 there",
        "archival passages > archive: 1 new, 0 there",
    ];
    assert_eq!(rows(&first), new);
    let names: Vec<String> = left(&first).into_iter().map(|(what, _)| what).collect();
    for what in ["tools", "`llm_config`", "`tool_ids`", "rendered system prompts", "files"] {
        assert!(names.iter().any(|name| name == what), "{what} is not told: {names:?}");
    }

    let sam = Agent::at(home.wire("vctx.sock"), "sam");
    let state = sam.state().await;
    assert_eq!(
        (&state["system"], &state["context_window"]),
        (&json!("You are Sam."), &json!(16_000))
    );
    assert_eq!(state["working_blocks"][0]["content"], "Bea sails.");
    let expected = [
        ("user", "Where is the boat?"),
        ("assistant", "Looking.\n[called archival_memory_search {\"query\":\"boat\"}]"),
        ("tool", "[\"The boat lies at pier 4.\"]"),
        ("assistant", "At pier 4."),
    ];
    let expected: Vec<(String, String)> =
        expected.map(|(role, text)| (role.into(), text.into())).into();
    assert_eq!(said(&sam.messages().await), expected);
    let found = sam
        .done("search_archival", &json!({"query_text": "when does the ferry leave", "limit": 1}))
        .await;
    let passage = &found["result"]["results"][0];
    assert_eq!(
        (&passage["doc_id"], &passage["provenance"]["tags"]),
        (&json!("letta/passages/passage-1"), &json!(["ferry"]))
    );
    let long = sam.done("search_archival", &json!({"query_text": "a very long note", "filter": {"doc_id": "letta/blocks/long notes"}})).await;
    assert!(long["result"]["results"][0].is_object(), "{long:#}");

    let version = sam.state().await["version"].clone();
    let second = told(&home, "letta", &path, "sam", &[]);
    assert!(rows(&second).iter().all(|row| row.contains(": 0 new")), "{second:#}");
    assert_eq!((&second["made"], sam.state().await["version"].clone()), (&json!(false), version));
    home.assert_verified("vctx.sock", "sam");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_agent_changed_since_is_kept_unless_it_is_to_be_replaced() {
    let home = Home::new();
    let _server = home.serve().await;
    file(&home, "memories/prefs.md", "Likes tea.");
    file(&home, "memories/trips/elba.md", "By boat.");
    file(&home, "memories/long.md", "Line of a log.\n".repeat(1_000));
    let root = home.path("memories");
    let first = told(&home, "anthropic-memory", &root, "ada", &[]);
    assert_eq!(
        rows(&first),
        ["memory files > blocks: 2 new, 0 there", "memory files > archive: 1 new, 0 there"]
    );

    let ada = Agent::at(home.wire("vctx.sock"), "ada");
    let asked = json!({"command": "view", "path": "/memories/trips/elba.md"});
    let shown = ada.done("memory", &asked).await;
    assert!(
        shown.to_string().contains("By boat."),
        "the memory tool has it by its path: {shown:#}"
    );
    ada.done("store_core", &json!({"block_id": "prefs.md", "content": "Likes coffee."})).await;
    file(&home, "memories/long.md", "Line of another log.\n".repeat(1_000));
    let second = told(&home, "anthropic-memory", &root, "ada", &[]);
    assert_eq!(rows(&second), ["memory files > blocks: 0 new, 1 there"]);
    assert_eq!(
        left(&second),
        [
            ("memory files: prefs.md".to_owned(), 1),
            ("memory files: memories/long.md".to_owned(), 1)
        ]
    );
    let kept = ada.done("fetch_core", &json!({"block_id": "prefs.md"})).await;
    assert_eq!(kept["result"]["content"], "Likes coffee.");

    let third = told(&home, "anthropic-memory", &root, "ada", &["--replace"]);
    assert_eq!(
        rows(&third),
        ["memory files > blocks: 1 new, 1 there", "memory files > archive: 1 new, 0 there"]
    );
    let fourth = told(&home, "anthropic-memory", &root, "ada", &["--replace"]);
    assert_eq!(
        rows(&fourth),
        ["memory files > blocks: 0 new, 2 there", "memory files > archive: 0 new, 1 there"]
    );
    let written = ada.done("fetch_core", &json!({"block_id": "prefs.md"})).await;
    assert_eq!(written["result"]["content"], "Likes tea.");
    let found = ada
        .done("search_archival", &json!({"query_text": "line of another log", "limit": 1}))
        .await;
    assert!(
        found["result"]["results"][0]["text"].as_str().is_some_and(|text| text.contains("another")),
        "{found:#}"
    );
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_knowledge_graph_and_an_export_of_memories_are_found_again() {
    let home = Home::new();
    let _server = home.serve().await;
    let graph = file(
        &home,
        "memory.jsonl",
        r#"{"type":"entity","name":"Bea","entityType":"person","observations":["keeps the Swallow at pier 4","likes tea"]}
{"type":"entity","name":"Elba","entityType":"island","observations":[]}
{"type":"relation","from":"Bea","to":"Elba","relationType":"sails_to"}
"#,
    );
    let first = told(&home, "mcp-memory", &graph, "ada", &[]);
    assert_eq!(
        rows(&first),
        [
            "observations > recall: 2 new, 0 there",
            "entities without observations > recall: 1 new, 0 there",
            "relations > recall: 1 new, 0 there"
        ]
    );
    let export = json!({"results": [
        {"id": "1", "memory": "Prefers morning meetings", "user_id": "bea", "hash": "h", "created_at": "2025-03-04T05:06:07Z", "metadata": {"type": "preference"}},
        {"id": "2", "memory": "Leads the redesign", "user_id": "leo", "created_at": "2025-03-05T05:06:07Z"}]});
    let export = file(&home, "export.json", export.to_string());
    let two = refused(&home, "mem0", &export, "ada", 65);
    assert!(
        two["error"].as_str().is_some_and(|text| text.contains("memories of 2: bea, leo")),
        "{two:#}"
    );
    let bea = told(&home, "mem0", &export, "ada", &["--only", "bea"]);
    assert_eq!(
        (rows(&bea), left(&bea)),
        (vec!["memories > recall: 1 new, 0 there".to_owned()], vec![("memories".to_owned(), 1)])
    );

    let ada = Agent::at(home.wire("vctx.sock"), "ada");
    for (query, text) in [
        ("Swallow pier", "Bea (person): keeps the Swallow at pier 4"),
        ("sails_to Elba", "Bea sails_to Elba"),
        ("morning meetings", "Prefers morning meetings\n[type: preference]"),
    ] {
        let found = ada.done("search_recall", &json!({"query": query, "rehydrate": false})).await;
        assert_eq!(found["result"]["results"][0]["content"], text, "{query}");
    }
    let mail = ada.done("search_recall", &json!({"query": "meetings", "rehydrate": false, "after": "2025-03-04", "before": "2025-03-05"})).await;
    assert_eq!(
        mail["result"]["results"].as_array().map(Vec::len),
        Some(1),
        "it was said that day: {mail:#}"
    );
    for (from, path, more) in
        [("mcp-memory", &graph, &[][..]), ("mem0", &export, &["--only", "bea"][..])]
    {
        let again = told(&home, from, path, "ada", more);
        assert!(rows(&again).iter().all(|row| row.contains(": 0 new")), "{again:#}");
    }
    let table = import(&home, "mem0", &export, "ada", &["--only", "bea"]);
    let table = String::from_utf8(table.stdout).expect("text");
    assert!(
        table.contains("the agent ada exists already")
            && table.contains("of others than --only names"),
        "{table}"
    );
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn memories_whose_times_run_backwards_keep_their_times() {
    let home = Home::new();
    let _server = home.serve().await;
    let memory = |id: u32, day: u32| {
        json!({"id": id.to_string(), "memory": format!("The rent is {} euros", 700 + day), "user_id": "bea",
            "created_at": format!("2025-03-{day:02}T09:00:00Z")})
    };
    let export = json!({"results": [memory(1, 20), memory(2, 12), memory(3, 4)]});
    let export = file(&home, "export.json", export.to_string());
    let told = told(&home, "mem0", &export, "ada", &[]);
    assert_eq!(rows(&told), ["memories > recall: 3 new, 0 there"]);
    let ada = Agent::at(home.wire("vctx.sock"), "ada");
    let asked = json!({"query": "rent", "rehydrate": false});
    let found = ada.done("search_recall", &asked).await;
    let list = found["result"]["results"].as_array().expect("a list");
    let said: Vec<&str> = list.iter().map(|entry| entry["said_at"].as_str().unwrap()).collect();
    // The newest statement comes first, wherever it is in the file.
    let days = ["2025-03-20", "2025-03-12", "2025-03-04"];
    assert!(said.iter().zip(days).all(|(said, day)| said.starts_with(day)), "{found:#}");
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_known_is_refused_by_name_and_nothing_is_written() {
    let home = Home::new();
    let _server = home.serve().await;
    let mut unknown = agent_file();
    unknown["archives"] = json!([{"id": "archive-0"}]);
    let unknown = file(&home, "new.af", unknown.to_string());
    let fault = refused(&home, "letta", &unknown, "sam", 65);
    assert!(
        fault["error"].as_str().is_some_and(|text| text.contains("`archives` is not known")),
        "{fault:#}"
    );
    assert!(
        fault["next"].as_str().is_some_and(|text| text.contains("--leave archives")),
        "{fault:#}"
    );
    home.wire("vctx.sock").get("/v1/agents/sam").await.refused(404, "AGENT_NOT_FOUND");
    let done = told(&home, "letta", &unknown, "sam", &["--leave", "archives"]);
    assert!(left(&done).contains(&("`archives`".to_owned(), 1)), "{done:#}");
    refused(&home, "letta", &home.path("none.af"), "sam", 66);
    refused(&home, "mcp-memory", &unknown, "sam", 65);
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_is_killed_is_gone_on_with_by_the_same_command() {
    let home = Home::new();
    let _server = home.serve().await;
    let lines: Vec<String> = (0..MANY)
        .map(|n| {
            json!({"memory": format!("Fact number {n} about the harbour."), "user_id": "bea"})
                .to_string()
        })
        .collect();
    let export = file(&home, "many.jsonl", lines.join("\n"));
    let path = export.display().to_string();
    let socket = home.path("vctx.sock").display().to_string();
    for written_before in [1, 400, 1_200] {
        let name = format!("cut-{written_before}");
        let agent = Agent::create(home.wire("vctx.sock"), &name, 4096, "").await;
        let mut begun = command(&Tuning::default());
        begun.args(["import", "--from", "mem0", &path, "--agent", &name, "--socket", &socket]);
        let mut child = begun.spawn().expect("an import");
        for _ in 0..LOOKS_MAX {
            let next = agent.state().await["queue"]["next_seq"].as_u64().unwrap_or(1);
            if next > written_before || child.try_wait().expect("a child").is_some() {
                break;
            }
        }
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        let rest = told(&home, "mem0", &export, &name, &[]);
        let counted = |name: &str| rest["taken"][0][name].as_u64().expect("a number") as usize;
        assert_eq!(counted("new") + counted("there"), MANY, "{rest:#}");
        let stored: Vec<String> =
            said(&agent.messages().await).into_iter().map(|(_, text)| text).collect();
        let expected: Vec<String> =
            (0..MANY).map(|n| format!("Fact number {n} about the harbour.")).collect();
        assert_eq!(stored, expected, "each once, in its order");
        home.assert_verified("vctx.sock", &name);
    }
}
