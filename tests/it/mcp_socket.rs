//! Tests MCP on a Unix socket: many clients, each with its own conversation, resources that are
//! single messages or chunks, and prompts.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::home::{Home, Process, Tuning, command};
use crate::line::{Line, Servers};
use crate::talk::Agent;

/// Maximum number of clients of a socket (`MCP_CLIENTS_MAX`).
const CLIENTS_MAX: usize = vctx::limits::MCP_CLIENTS_MAX;
/// Maximum length of a message, in bytes (`MCP_LINE_BYTES_MAX`).
const MCP_LINE_BYTES_MAX: usize = vctx::limits::MCP_LINE_BYTES_MAX;

/// Starts `vctx mcp --listen` on a socket in the test's directory.
async fn listening(home: &Home, socket: &str, arguments: &[&str]) -> Process {
    let mut program = command(&Tuning::default());
    program.arg("mcp").arg("--listen").arg(home.path(socket));
    program.arg("--socket").arg(home.path("vctx.sock"));
    program.arg("--data-dir").arg(home.path("data")).args(arguments);
    home.add_outside(&mut program);
    let process = Process::start(home, "mcp-socket", program);
    process.ready(&[home.path(socket)], None).await;
    process
}

async fn client(home: &Home, socket: &str) -> Line {
    let mut line = Line::connect(&home.path(socket)).await;
    line.initialize("2025-11-25").await;
    line
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_share_a_memory_and_each_has_seen_its_own() {
    let home = Home::new();
    let server = home.serve().await;
    let process = listening(&home, "mcp/mcp.sock", &["--agent", "ada"]).await;
    let mode =
        |path: PathBuf| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(home.path("mcp/mcp.sock")), 0o660);
    assert_eq!(mode(home.path("mcp")), 0o700);

    let (mut one, mut two) =
        (client(&home, "mcp/mcp.sock").await, client(&home, "mcp/mcp.sock").await);
    let store = |content: &str| json!({"block_id": "human", "content": content});
    Line::done(one.tool("store_core", store("Likes tea.")).await);
    let read = Line::done(two.tool("fetch_core", json!({"block_id": "human"})).await);
    assert_eq!(read["result"]["content"], "Likes tea.");
    Line::done(one.tool("store_core", store("Likes coffee.")).await);
    // Client two has seen only the block about tea.
    let told = Line::refused(&two.tool("store_core", store("Likes milk.")).await, "REVISION_STALE");
    assert_eq!(told["current"]["blocks"]["human"], "Likes coffee.");
    Line::done(two.tool("store_core", store("Likes milk.")).await);
    // A client that does not send `initialize` is served on the same socket too.
    let mut three = Line::connect(&home.path("mcp/mcp.sock")).await;
    three.without_initialize("2026-07-28");
    let read = Line::done(three.tool("fetch_core", json!({"block_id": "human"})).await);
    assert_eq!(read["result"]["content"], "Likes milk.");
    for line in [one, two, three] {
        line.leave().await;
    }
    assert!(process.stop().await.success());
    assert!(!home.path("mcp/mcp.sock").exists(), "the socket goes with the program");
    home.assert_verified("vctx.sock", "ada");
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_client_too_many_is_told_so_and_a_place_that_is_left_is_taken() {
    let home = Home::new();
    let process = listening(&home, "mcp.sock", &[]).await;
    process.expect("a client was refused");
    let mut lines = Vec::new();
    for _ in 0..CLIENTS_MAX {
        lines.push(client(&home, "mcp.sock").await);
    }
    let mut refused = Line::connect(&home.path("mcp.sock")).await;
    let told = refused.read().await;
    assert_eq!(told["error"]["code"], -32000, "{told:#}");
    lines.pop().expect("a client").leave().await;
    // A permit for a further client becomes free only when the server has closed the old
    // connection, so the test tries repeatedly.
    let mut taken = None;
    for _ in 0..200 {
        let mut line = Line::connect(&home.path("mcp.sock")).await;
        let asked = line.try_initialize("2025-11-25").await;
        if asked["result"].is_object() {
            taken = Some(line);
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    taken.expect("a place").leave().await;
    for line in lines {
        line.leave().await;
    }
    assert_eq!(
        Servers::of(&home).ids().len(),
        0,
        "no client asked for anything that needs a server"
    );
    assert!(process.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_is_no_message_is_answered_and_the_next_one_is_served() {
    let home = Home::new();
    let process = listening(&home, "mcp.sock", &[]).await;
    let mut line = client(&home, "mcp.sock").await;
    let (deep, long) = ("[".repeat(1_000), vec![b'a'; MCP_LINE_BYTES_MAX]);
    for (bad, code) in [
        (&b"{\"jsonrpc\": \"2.0\""[..], -32700),
        (deep.as_bytes(), -32700),
        (b"\"\xff\"", -32700),
        (&long, -32700),
        (b"[1, 2]", -32600),
    ] {
        line.send_bytes(bad).await;
        let answer = line.read().await;
        assert_eq!(answer["error"]["code"], code, "{answer:#}");
        assert_eq!(answer["id"], serde_json::Value::Null, "{answer:#}");
        assert!(line.ask("tools/list", json!({})).await["result"].is_object());
    }
    line.leave().await;
    assert!(process.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_say_nothing_leave_their_places_to_others() {
    let home = Home::new();
    let process = listening(&home, "mcp.sock", &[]).await;
    process.expect("a client was refused");
    // One client more than there are places. A second one is refused if the connection by which
    // `listening` found the socket ready still holds a place.
    let mut silent = Vec::new();
    for _ in 0..=CLIENTS_MAX {
        silent.push(Line::connect(&home.path("mcp.sock")).await);
    }
    let mut refused = 0;
    for mut line in silent {
        if let Some(text) = line.next_line().await {
            assert!(text.contains("-32000"), "{text}");
            refused += 1;
        }
        line.assert_disconnected().await;
    }
    assert!((1..=2).contains(&refused), "{refused} clients were refused");
    // Without the silent clients' places, at most one of these two is served.
    let (one, two) = (client(&home, "mcp.sock").await, client(&home, "mcp.sock").await);
    one.leave().await;
    two.leave().await;
    assert!(process.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn single_entries_are_resources_and_nobody_elses() {
    let home = Home::new();
    let _server = home.serve().await;
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 8192, "").await;
    bob.append("user", "Bob likes silence.").await;
    let mut line = Line::initialized(&home, &["--agent", "ada"]).await;
    Line::done(
        line.tool("append_fifo", json!({"message": "Shall we sail to Elba?", "role": "user"}))
            .await,
    );
    let document = json!({"doc_id": "boat.md", "chunks": ["The boat lies in the harbour."]});
    Line::done(line.tool("ingest_archival", document).await);
    let found = Line::done(
        line.tool("search_archival", json!({"query_text": "where does the boat lie"})).await,
    );
    let id = found["result"]["results"][0]["id"].as_str().expect("an id").to_owned();
    let key = id.strip_prefix("archival_docs/").unwrap_or(&id).to_owned();

    let listed =
        line.ask("resources/templates/list", json!({})).await["result"]["resourceTemplates"]
            .clone();
    let templates: Vec<&str> = listed
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|t| t["uriTemplate"].as_str())
        .collect();
    assert_eq!(templates, ["vctx://agent/ada/recall/{seq}", "vctx://agent/ada/archive/{key}"]);
    for (uri, words) in [
        ("vctx://agent/ada/recall/1".to_owned(), "Shall we sail to Elba?"),
        (format!("vctx://agent/ada/archive/{key}"), "The boat lies in the harbour."),
        ("vctx://agent/ada/summary".to_owned(), "\"revision\":0"),
    ] {
        let read = line.ask("resources/read", json!({"uri": uri})).await;
        let text = read["result"]["contents"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("{uri}: {read:#}"));
        assert!(text.contains(words), "{uri}: {text}");
    }
    for uri in [
        "vctx://agent/ada/recall/2",
        "vctx://agent/ada/archive/0000",
        "vctx://agent/bob/recall/1",
        "vctx://agent/ada/recall/0",
    ] {
        let missing = line.ask("resources/read", json!({"uri": uri})).await;
        assert_eq!(missing["error"]["code"], -32002, "{uri}: {missing:#}");
    }
    let about = line.ask("prompts/list", json!({})).await["result"]["prompts"].clone();
    let names: Vec<&str> =
        about.as_array().expect("a list").iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(names, ["use_memory", "remember"]);
    let text = "Ada moves to Genoa in May.";
    let prompt =
        line.ask("prompts/get", json!({"name": "remember", "arguments": {"text": text}})).await;
    let said = prompt["result"]["messages"][0]["content"]["text"].as_str().expect("a text");
    assert!(said.contains(text) && said.contains("store_core"), "{said}");
    let missing = line.ask("prompts/get", json!({"name": "remember"})).await;
    assert_eq!(missing["error"]["code"], -32602, "{missing:#}");
    line.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dialect_is_told_in_its_own_words_and_knows_no_other_names() {
    let home = Home::new();
    let _server = home.serve().await;
    let mut line = Line::initialized(&home, &["--agent", "ada", "--dialect", "anthropic"]).await;
    let view = json!({"command": "view", "path": "/memories"});
    let empty = line.tool("memory", view.clone()).await;
    assert_eq!(
        (&empty["isError"], &empty["_meta"]["vctx/retry_safe"]),
        (&json!(false), &json!(true))
    );
    assert!(
        empty["content"][0]["text"].as_str().is_some_and(|t| t.ends_with("\n0B\t/memories")),
        "{empty:#}"
    );
    let missing = line.tool("memory", json!({"command": "view", "path": "/memories/a"})).await;
    assert_eq!(
        missing["content"][0]["text"],
        "The path /memories/a does not exist. Please provide a valid path."
    );
    // Reads did not create the agent; the creation of the first file creates it.
    assert_eq!(home.wire("vctx.sock").get("/v1/agents/ada").await.code(), "AGENT_NOT_FOUND");
    let create = |path: &str| json!({"command": "create", "path": path, "file_text": "Tea."});
    Line::done(line.tool("memory", create("/memories/sea/human")).await);
    Line::done(line.tool("memory", create("/memories/sea/boat")).await);
    let rename =
        json!({"command": "rename", "old_path": "/memories/sea", "new_path": "/memories/land"});
    Line::done(line.tool("memory", rename).await);
    // Another client has changed a file in the directory. A client that has not seen the change
    // cannot delete the directory: it gets an error. The error shows the changed file, so the
    // client may then repeat the call.
    let ada = Agent::at(home.wire("vctx.sock"), "ada");
    ada.done("core_memory_append", &json!({"label": "land..boat", "content": "Blue."})).await;
    let delete = json!({"command": "delete", "path": "/memories/land"});
    let told = Line::refused(&line.tool("memory", delete.clone()).await, "REVISION_STALE");
    assert_eq!(told["current"]["blocks"]["land..boat"], "Tea.\nBlue.");
    Line::done(line.tool("memory", delete).await);
    let unknown = line.ask("tools/call", json!({"name": "store_core", "arguments": {}})).await;
    assert_eq!(unknown["error"]["code"], -32602);
    assert!(unknown["error"]["data"]["tools"].to_string().contains("\"memory\""), "{unknown:#}");
    line.leave().await;

    let mut line = Line::initialized(&home, &["--agent", "ada", "--dialect", "memgpt"]).await;
    let sent = line.tool("send_message", json!({"message": "Hello."})).await;
    assert_eq!(sent["content"][0]["text"], "Sent.");
    let kept =
        line.tool("archival_memory_insert", json!({"content": "The ferry leaves at noon."})).await;
    assert_eq!(kept["isError"], false, "{kept:#}");
    let found = line.tool("archival_memory_search", json!({"query": "ferry"})).await;
    assert!(
        found["content"][0]["text"]
            .as_str()
            .is_some_and(|t| t.starts_with("Showing 1 of 1 results: ")),
        "{found:#}"
    );
    line.leave().await;
    home.assert_verified("vctx.sock", "ada");
}

#[cfg(feature = "full-tests")]
/// Returns the directory of the TypeScript SDK: the one that the environment variable names, or the
/// one that `.ci/full` installs.
fn sdk() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("VCTX_MCP_NODE_MODULES") {
        return Some(PathBuf::from(named));
    }
    let target = std::path::Path::new(crate::home::PROGRAM)
        .ancestors()
        .nth(2)
        .expect("the target directory");
    Some(target.join("mcp-node"))
        .filter(|path| path.join("node_modules/@modelcontextprotocol/sdk").exists())
}

#[cfg(feature = "full-tests")]
#[tokio::test(flavor = "multi_thread")]
async fn the_official_typescript_sdk_drives_every_tool_over_pipes_and_over_a_socket() {
    let sdk = sdk().expect("no MCP SDK for TypeScript; name a directory with its node_modules in VCTX_MCP_NODE_MODULES (tests/mcp/package.json)");
    let home = Home::new();
    let servers = Servers::of(&home);
    let process = listening(
        &home,
        "mcp.sock",
        &["--agent", "ts-socket", "--idle-exit-s", "30", "--all-tools"],
    )
    .await;
    // Node resolves modules relative to the script, so the script is copied next to the SDK.
    let script = sdk.join("drive.mjs");
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/drive.mjs");
    std::fs::copy(source, &script).expect("the script");
    let mut drive = std::process::Command::new("node");
    drive
        .arg(script)
        .arg(crate::home::PROGRAM)
        .arg(home.path("vctx.sock"))
        .arg(home.path("data"))
        .arg(home.path("mcp.sock"));
    home.add_outside(&mut drive);
    let output = drive.output().expect("node runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let tools = home.wire("vctx.sock").get("/v1/tools").await.ok()["tools"].clone();
    for door in ["pipes", "socket"] {
        for tool in tools.as_array().expect("tools") {
            let line = format!("{door} {} ok", tool["name"].as_str().expect("a name"));
            assert!(said.contains(&line), "{line} was not said:\n{said}");
        }
        home.assert_verified("vctx.sock", &format!("ts-{door}"));
    }
    assert!(process.stop().await.success());
    drop(servers);
}

/// Number of requests of a client that reads nothing, and the most memory that the program may use
/// for their answers, in KiB; without a limit, they take 400 MiB.
const UNREAD: usize = 2_000;
const UNREAD_KIB_MAX: u64 = 64 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_nothing_is_not_read_and_gets_all_answers_later() {
    let home = Home::new();
    let process = listening(&home, "mcp.sock", &[]).await;
    let mut other = client(&home, "mcp.sock").await;
    assert!(other.ask("tools/list", json!({})).await["result"].is_object());
    let idle = process.resident_kib();
    let deaf = client(&home, "mcp.sock").await;
    let (mut output, mut input) = deaf.halves();
    let sending = tokio::spawn(async move {
        for id in 1..=UNREAD {
            let line = json!({"jsonrpc": "2.0", "id": format!("r{id}"), "method": "tools/list"});
            input.write_all(format!("{line}\n").as_bytes()).await.expect("it is read later");
        }
        input
    });
    // Each answer of the other client shows that the program had time to read the deaf client.
    for _ in 0..50 {
        assert!(other.ask("tools/list", json!({})).await["result"].is_object());
    }
    let grown = process.resident_kib().saturating_sub(idle);
    assert!(grown < UNREAD_KIB_MAX, "the answers take {} MiB", grown / 1_024);
    let mut ids = std::collections::BTreeSet::new();
    while ids.len() < UNREAD {
        let line = output.next_line().await.expect("a readable line").expect("an answer");
        let answer: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert!(answer["result"]["tools"].is_array(), "{answer:#}");
        ids.insert(answer["id"].as_str().expect("an id").to_owned());
    }
    drop(sending.await.expect("all requests were read"));
    // A cancelled request leaves its place, too.
    for id in 0..40 {
        let params = json!({"requestId": id, "reason": "no longer needed"});
        other
            .send_bytes(
                json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string().as_bytes(),
            )
            .await;
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        other.send_bytes(cancel.to_string().as_bytes()).await;
    }
    other.send_bytes(br#"{"jsonrpc": "2.0", "id": "last", "method": "ping"}"#).await;
    while other.read().await["id"] != "last" {}
    other.leave().await;
    assert!(process.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn large_messages_share_a_bounded_amount_of_memory() {
    let home = Home::new();
    let process = listening(&home, "mcp.sock", &[]).await;
    let mut other = client(&home, "mcp.sock").await;
    let mut lines = Vec::new();
    for _ in 0..12 {
        lines.push(client(&home, "mcp.sock").await);
    }
    let idle = process.resident_kib();
    let beginning = br#"{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"x": ""#;
    let text = vec![b'a'; MCP_LINE_BYTES_MAX - 1_000_000];
    for line in &mut lines {
        line.send_piece(beginning).await;
        line.send_piece(&text).await;
    }
    assert!(other.ask("ping", json!({})).await["result"].is_object());
    let grown = process.resident_kib().saturating_sub(idle);
    assert!(grown < 128 * 1024, "twelve unfinished messages take {} MiB", grown / 1_024);
    let mut refused = 0;
    for mut line in lines {
        line.send_bytes(br#""}}"#).await;
        let answer = line.read().await;
        match answer["error"]["code"].as_i64() {
            Some(-32000) => refused += 1,
            _ => assert_eq!(answer["id"], 7, "{answer:#}"),
        }
        assert!(line.ask("ping", json!({})).await["result"].is_object());
        line.leave().await;
    }
    assert!((8..12).contains(&refused), "{refused} of 12 were refused");
    let many = format!(
        r#"{{"jsonrpc": "2.0", "id": 8, "method": "ping", "params": {{"x": [{}[]]}}}}"#,
        "[],".repeat(300_000)
    );
    other.send_bytes(many.as_bytes()).await;
    assert_eq!(other.read().await["error"]["code"], -32600);
    other.leave().await;
    assert!(process.stop().await.success());
}
