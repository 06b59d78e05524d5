//! Tests MCP over a real child process: both lifecycles (with and without `initialize`), every
//! tool, keys and revisions, and the server that clients start and share.

use std::os::unix::net::UnixListener;
use std::time::Duration;

use serde_json::{Value, json};

use crate::chance::Chance;
use crate::home::{Home, Tuning};
use crate::line::{Line, Servers};
use crate::talk::{Agent, said};

/// Returns valid arguments for a tool; the test calls each tool for a new agent.
fn arguments(tool: &str) -> Value {
    match tool {
        "store_core" => json!({"block_id": "human", "content": "Likes tea."}),
        "fetch_core" => json!({"block_id": "human"}),
        "append_fifo" => json!({"message": "Shall we sail to Elba?", "role": "user"}),
        "evict_fifo" => json!({"target_tokens": 0}),
        "search_recall" => json!({"query": "Elba"}),
        "write_recall" => json!({"entries": [{"content": "Born in May."}]}),
        "search_archival" => json!({"query_text": "where does the boat lie"}),
        "ingest_archival" => {
            json!({"doc_id": "boat.md", "chunks": ["The boat lies in the harbour. ", "It is blue."]})
        }
        "record_heartbeat" => json!({"state": "continue"}),
        "trace_memory" => json!({"from": "agent"}),
        "build_context" => json!({"question": "Where does the boat lie?"}),
        other => panic!("the tool {other} has no arguments here"),
    }
}

fn names(tools: &Value) -> Vec<String> {
    let tools = tools.as_array().expect("tools").iter();
    tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_begins_with_initialize_is_served() {
    let home = Home::new();
    let _server = home.serve().await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut line = Line::start(&home, &[], &Tuning::default());
        let about = line.initialize(version).await;
        assert_eq!(about["protocolVersion"], version);
        assert_eq!(about["serverInfo"]["name"], "vctx");
        assert!(about["capabilities"]["tools"].is_object(), "{about:#}");
        assert!(about["instructions"].as_str().is_some_and(|text| text.contains("store_core")));
        let listed = line.ask("tools/list", json!({})).await;
        assert!(listed["result"]["resultType"].is_null(), "that name came later than {version}");
        let called = line.tool("append_fifo", arguments("append_fifo")).await;
        assert_eq!(Line::done(called)["flush"], Value::Null);
        line.leave().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_everything_with_each_request_is_served() {
    let home = Home::new();
    let _server = home.serve().await;
    let mut line = Line::start(&home, &[], &Tuning::default());
    line.without_initialize("2026-07-28");
    let found = line.ask("server/discover", json!({})).await["result"].clone();
    let versions = found["supportedVersions"].as_array().expect("versions");
    assert!(versions.contains(&json!("2026-07-28")), "{found:#}");
    let listed = line.ask("tools/list", json!({})).await["result"].clone();
    assert_eq!(listed["resultType"], "complete");
    assert!(listed["ttlMs"].is_u64() && listed["cacheScope"].is_string(), "{listed:#}");
    let called = line.tool("append_fifo", arguments("append_fifo")).await;
    assert_eq!(called["resultType"], "complete");
    Line::done(called);
    line.without_initialize("1999-01-01");
    let refused = line.ask("tools/list", json!({})).await;
    assert_eq!(refused["error"]["code"], -32022, "{refused:#}");
    line.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_are_those_of_the_server_with_all_hints() {
    let home = Home::new();
    let mut usual = Line::initialized(&home, &[]).await;
    let nine = usual.ask("tools/list", json!({})).await["result"]["tools"].clone();
    usual.leave().await;
    let mut line = Line::initialized(&home, &["--all-tools"]).await;
    let listed = line.ask("tools/list", json!({})).await["result"]["tools"].clone();
    let (usual, on_request) = (names(&nine), names(&listed));
    assert_eq!(on_request[..usual.len()], usual[..]);
    assert_eq!(on_request[usual.len()..], ["trace_memory", "build_context"]);
    assert_eq!(Servers::of(&home).ids().len(), 0, "a list needs no server");
    let _server = home.serve().await;
    let path = "/v1/tools?profile=compact";
    let served = home.wire("vctx.sock").get(path).await.ok()["tools"].clone();
    assert_eq!(names(&listed), names(&served));
    for (tool, served) in
        listed.as_array().expect("tools").iter().zip(served.as_array().expect("tools"))
    {
        assert_eq!(tool["inputSchema"], served["parameters"]);
        assert_eq!(tool["description"], served["description"]);
        assert!(tool["title"].as_str().is_some_and(|title| !title.is_empty()), "{tool:#}");
        assert_eq!(tool["outputSchema"]["type"], "object");
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(tool["annotations"][hint].is_boolean(), "{hint}: {tool:#}");
        }
        let input = tool["inputSchema"].to_string();
        assert!(!input.contains("idempotency") && !input.contains("_rev"), "{input}");
    }
    line.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_answers_in_the_form_it_announces() {
    let home = Home::new();
    let _server = home.serve().await;
    let mut line = Line::initialized(&home, &["--agent", "ada", "--all-tools"]).await;
    let listed = line.ask("tools/list", json!({})).await["result"]["tools"].clone();
    for tool in listed.as_array().expect("tools") {
        let name = tool["name"].as_str().expect("a name");
        let result = line.tool(name, arguments(name)).await;
        let reads = tool["annotations"]["readOnlyHint"] == true;
        assert_eq!(result["_meta"]["vctx/retry_safe"], reads, "{name}");
        assert_eq!(result["_meta"]["vctx/idempotency-key"].is_null(), reads, "{name}");
        let told = Line::done(result);
        assert_eq!(told["retry_safe"], reads, "{name}");
        for field in
            tool["outputSchema"]["properties"]["result"]["required"].as_array().expect("a list")
        {
            let field = field.as_str().expect("a name");
            assert!(!told["result"][field].is_null(), "{name} has no {field}: {told:#}");
        }
    }
    for (search, words) in [("search_recall", "Elba"), ("search_archival", "harbour")] {
        let told = Line::done(line.tool(search, arguments(search)).await);
        assert!(told["result"]["results"].to_string().contains(words), "{search}: {told:#}");
    }
    // The model of the client does not see the window, so copies go into it only on request.
    for (asked, copies) in
        [(json!({"query": "Elba"}), false), (json!({"query": "Elba", "rehydrate": true}), true)]
    {
        let told = Line::done(line.tool("search_recall", asked).await);
        assert_eq!(told["result"]["tokens_added"] != 0, copies, "{told:#}");
    }
    line.leave().await;
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_calls_are_told_so_that_a_model_can_mend_them() {
    let home = Home::new();
    let _server = home.serve().await;
    let mut line = Line::initialized(&home, &[]).await;
    let unknown = line.ask("tools/call", json!({"name": "fly", "arguments": {}})).await;
    assert_eq!(unknown["error"]["code"], -32602);
    assert!(unknown["error"]["data"]["tools"].to_string().contains("append_fifo"));
    let key = json!({"name": "append_fifo", "arguments": {}, "_meta": {"vctx/idempotency-key": 7}});
    assert_eq!(line.ask("tools/call", key).await["error"]["code"], -32602);

    for (arguments, field) in [
        (json!({"message": "Hi", "rle": "user"}), "rle"),
        (json!({"message": "Hi"}), "role"),
        (json!({"message": 7, "role": "user"}), "message"),
        (json!({"message": "Hi", "role": "user", "_rev": "*"}), "_rev"),
        (json!({"message": "Hi", "role": "user", "idempotency_key": "k"}), "idempotency_key"),
    ] {
        let told = Line::refused(&line.tool("append_fifo", arguments).await, "INVALID_ARGUMENT");
        assert_eq!(told["field"], field, "{told:#}");
        assert!(told["next"].as_str().is_some_and(|next| next.contains("field")), "{told:#}");
    }
    let long =
        json!({"block_id": "b", "content": "word ".repeat(20_000), "policy": {"pinned": true}});
    let told = Line::refused(&line.tool("store_core", long).await, "PIN_LIMIT_EXCEEDED");
    assert!(told["next"].is_string() && told["retry_safe"] == false, "{told:#}");
    line.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_made_by_its_first_write_and_by_no_read() {
    let home = Home::new();
    let _server = home.serve().await;
    let wire = home.wire("vctx.sock");
    let arguments_of = ["--agent", "new", "--context-window", "5000"];
    let mut line = Line::initialized(&home, &arguments_of).await;
    let read = line.tool("fetch_core", json!({"block_id": "human"})).await;
    let told = Line::refused(&read, "BLOCK_NOT_FOUND");
    assert_eq!(told["blocks"], json!([]));
    for search in ["search_recall", "search_archival"] {
        let told = Line::done(line.tool(search, arguments(search)).await);
        assert_eq!(told["result"]["results"], json!([]), "{search}");
        let wrong = line.tool(search, json!({"limit": "many"})).await;
        Line::refused(&wrong, "INVALID_ARGUMENT");
    }
    let core = line.ask("resources/read", json!({"uri": "vctx://agent/new/core"})).await;
    let core = core["result"]["contents"][0]["text"].as_str().expect("a text").to_owned();
    assert_eq!(serde_json::from_str::<Value>(&core).expect("JSON")["blocks"], json!([]));
    assert_eq!(wire.get("/v1/agents/new").await.code(), "AGENT_NOT_FOUND");

    Line::done(line.tool("store_core", arguments("store_core")).await);
    assert_eq!(wire.get("/v1/agents/new").await.ok()["context_window"], 5000);
    let read = Line::done(line.tool("fetch_core", json!({"block_id": "human"})).await);
    assert_eq!(read["result"]["content"], "Likes tea.");

    let listed = line.ask("resources/list", json!({})).await["result"]["resources"].clone();
    let uris: Vec<&str> =
        listed.as_array().expect("a list").iter().filter_map(|r| r["uri"].as_str()).collect();
    assert_eq!(
        uris,
        ["vctx://agent/new/core", "vctx://agent/new/summary", "vctx://agent/new/context"]
    );
    for uri in uris.into_iter().filter(|uri| !uri.ends_with("summary")) {
        let read = line.ask("resources/read", json!({"uri": uri})).await;
        assert!(
            read["result"]["contents"][0]["text"]
                .as_str()
                .is_some_and(|t| t.contains("Likes tea."))
        );
    }
    let other = line.ask("resources/read", json!({"uri": "vctx://agent/default/core"})).await;
    assert_eq!(other["error"]["code"], -32002, "{other:#}");
    line.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_the_client_makes_a_call_safe_to_repeat() {
    let home = Home::new();
    let _server = home.serve().await;
    let mut line = Line::initialized(&home, &[]).await;
    let call = arguments("append_fifo");
    let first = line.tool_with("append_fifo", call.clone(), Some("call-1")).await;
    assert_eq!(first["_meta"]["vctx/idempotency-key"], "call-1");
    let first = Line::done(first);
    assert_eq!((&first["retry_safe"], &first["replayed"]), (&json!(true), &json!(false)));
    // A new client process knows no revision. It needs none to get the stored answer of an earlier
    // call, because the idempotency key is enough.
    let mut other = Line::initialized(&home, &[]).await;
    for line in [&mut line, &mut other] {
        let again = Line::done(line.tool_with("append_fifo", call.clone(), Some("call-1")).await);
        assert_eq!(again["replayed"], true);
        assert_eq!(again["receipt"], first["receipt"]);
    }
    let changed = json!({"message": "Other words", "role": "user"});
    let refused = line.tool_with("append_fifo", changed, Some("call-1")).await;
    Line::refused(&refused, "IDEMPOTENCY_KEY_REUSED");
    let ada = Agent::at(home.wire("vctx.sock"), "default");
    assert_eq!(ada.messages().await.len(), 1);
    for line in [line, other] {
        line.leave().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_change_by_others_a_model_is_shown_what_is_current() {
    let home = Home::new();
    let _server = home.serve().await;
    let mut line = Line::initialized(&home, &["--agent", "ada"]).await;
    Line::done(line.tool("store_core", arguments("store_core")).await);
    let ada = Agent::at(home.wire("vctx.sock"), "ada");

    ada.done("store_core", &json!({"block_id": "human", "content": "Likes coffee."})).await;
    let block = json!({"block_id": "human", "content": "Likes tea and milk."});
    let told = Line::refused(&line.tool("store_core", block.clone()).await, "REVISION_STALE");
    assert_eq!(told["changed"], json!(["block:human"]));
    assert_eq!(told["current"], json!({"blocks": {"human": "Likes coffee."}}));
    assert!(told["next"].as_str().is_some_and(|next| next.contains("current")), "{told:#}");
    Line::done(line.tool("store_core", block).await);

    ada.append("user", "Said elsewhere.").await;
    let mine = json!({"message": "Said here.", "role": "user"});
    let told = Line::refused(&line.tool("append_fifo", mine.clone()).await, "REVISION_STALE");
    let newest = told["current"]["newest_messages"].as_array().expect("messages").clone();
    assert_eq!(newest.last().expect("one")["content"], "Said elsewhere.");
    let done = line.tool("append_fifo", mine).await;
    assert!(done["_meta"]["vctx/built_on"].is_string(), "{done:#}");
    Line::done(done);

    ada.done(
        "store_core",
        &json!({"block_id": "human", "content": "", "policy": {"mode": "delete"}}),
    )
    .await;
    let block = json!({"block_id": "human", "content": "x", "policy": {"mode": "append"}});
    let told = Line::refused(&line.tool("store_core", block).await, "REVISION_STALE");
    assert_eq!(told["current"], json!({"blocks": {"human": null}}));
    line.leave().await;
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_replaced_on_the_revision_that_this_client_saw() {
    let home = Home::new();
    let _server = home.serve().await;
    let mut line = Line::initialized(&home, &["--agent", "ada"]).await;
    Line::done(line.tool("append_fifo", arguments("append_fifo")).await);
    // Each version differs, because an ingest of the stored document changes nothing.
    let document =
        |version: u64| json!({"doc_id": "tides.md", "chunks": [format!("Version {version}.")]});
    let first = line.tool("ingest_archival", document(1)).await;
    assert_eq!(first["_meta"]["vctx/built_on"], "", "unknown, so it must be new");
    let first = Line::done(first);
    let second = line.tool("ingest_archival", document(2)).await;
    assert_eq!(second["_meta"]["vctx/built_on"], first["_rev"]);
    Line::done(second);

    let ada = Agent::at(home.wire("vctx.sock"), "ada");
    ada.done("ingest_archival", &document(3)).await;
    let refused = line.tool("ingest_archival", document(4)).await;
    let told = Line::refused(&refused, "REVISION_STALE");
    assert_eq!(told.get("current"), None);
    assert!(told["next"].as_str().is_some_and(|next| next.contains("call again")), "{told:#}");
    Line::done(line.tool("ingest_archival", document(4)).await);
    // After this client read the memory, data was only added to it, so the server still accepts the
    // client's revision.
    Line::done(line.tool("append_fifo", arguments("append_fifo")).await);
    line.leave().await;

    // A client of another conversation cannot overwrite the document, because this client has not
    // seen the document yet.
    let mut other = Line::initialized(&home, &["--agent", "ada"]).await;
    let refused = other.tool("ingest_archival", document(5)).await;
    Line::refused(&refused, "REVISION_STALE");
    Line::done(other.tool("ingest_archival", document(5)).await);
    other.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_about_something_else_hides_no_change_of_a_block() {
    let home = Home::new();
    let _server = home.serve().await;
    let mut line = Line::initialized(&home, &["--agent", "ada"]).await;
    let block = |content: &str| json!({"block_id": "human", "content": content});
    Line::done(line.tool("store_core", block("Likes tea.")).await);
    let ada = Agent::at(home.wire("vctx.sock"), "ada");
    ada.done("store_core", &block("Likes coffee.")).await;
    // The next answers contain newer revisions, but do not show the block, so the client still
    // counts as not having seen it.
    Line::done(line.tool("append_fifo", arguments("append_fifo")).await);
    Line::done(line.tool("search_recall", json!({"query": "harbour"})).await);
    let told =
        Line::refused(&line.tool("store_core", block("Likes milk.")).await, "REVISION_STALE");
    assert!(told["current"]["blocks"]["human"].to_string().contains("Likes coffee."), "{told:#}");
    // After this answer the client has seen the block.
    Line::done(line.tool("store_core", block("Likes milk.")).await);
    line.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_come_together_follow_each_other() {
    let home = Home::new();
    let _server = home.serve().await;
    let mut line = Line::initialized(&home, &["--agent", "ada"]).await;
    let mut asked = Vec::new();
    for number in 0..12 {
        let call = json!({"message": format!("Message {number}"), "role": "user"});
        asked.push(
            line.begin("tools/call", json!({"name": "append_fifo", "arguments": call})).await,
        );
    }
    let mut answered = Vec::new();
    for _ in &asked {
        let answer = line.read().await;
        assert_eq!(answer["result"]["isError"], false, "{answer:#}");
        answered.push(answer["id"].as_u64().expect("an id"));
    }
    answered.sort_unstable();
    assert_eq!(answered, asked);
    let messages = Agent::at(home.wire("vctx.sock"), "ada").messages().await;
    let wanted: Vec<(String, String)> =
        (0..12).map(|number| ("user".into(), format!("Message {number}"))).collect();
    assert_eq!(said(&messages), wanted);
    line.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clients_start_one_server_and_share_it() {
    let home = Home::new();
    let servers = Servers::of(&home);
    // A socket file left by a killed server.
    drop(UnixListener::bind(home.path("vctx.sock")).expect("a dead socket"));
    let mut one = Line::initialized(&home, &["--agent", "one", "--idle-exit-s", "2"]).await;
    let mut two = Line::initialized(&home, &["--agent", "two", "--idle-exit-s", "2"]).await;
    let call = || json!({"name": "append_fifo", "arguments": arguments("append_fifo")});
    one.begin("tools/call", call()).await;
    two.begin("tools/call", call()).await;
    for line in [&mut one, &mut two] {
        let answer = line.read().await;
        assert_eq!(answer["result"]["isError"], false, "{answer:#}");
    }
    let server = servers.only();
    assert_eq!(servers.served(), 1);

    // Both clients notice that the server is dead, and together start one new server.
    servers.kill(server);
    one.begin("tools/call", call()).await;
    two.begin("tools/call", call()).await;
    for line in [&mut one, &mut two] {
        let answer = line.read().await;
        assert_eq!(answer["result"]["isError"], false, "{answer:#}");
    }
    let server = servers.only();
    assert_eq!(servers.served(), 2);

    one.leave().await;
    Line::done(two.tool("append_fifo", arguments("append_fifo")).await);
    assert_eq!(servers.only(), server, "the first client took the server along");
    two.leave().await;
    servers.gone().await;
    assert!(!home.path("vctx.sock").exists());
    assert!(servers.said().contains("no connection is open any more"));

    // The next server shows the data that was written through the earlier servers.
    let mut three = Line::initialized(&home, &["--agent", "two", "--idle-exit-s", "2"]).await;
    let context = three.ask("resources/read", json!({"uri": "vctx://agent/two/context"})).await;
    let text = context["result"]["contents"][0]["text"].as_str().expect("a text").to_owned();
    assert_eq!(text.matches("Shall we sail to Elba?").count(), 3);
    assert_ne!(servers.only(), server);
    home.assert_verified("vctx.sock", "two");
    three.leave().await;
    servers.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_is_started_again_and_nothing_is_lost_or_doubled() {
    let home = Home::new();
    let servers = Servers::of(&home);
    let mut line = Line::initialized(&home, &["--agent", "ada", "--idle-exit-s", "60"]).await;
    let mut chance = Chance::new(7);
    let (mut wanted, mut kills) = (Vec::new(), 0);
    for number in 0..24 {
        let text = format!("Message {number}");
        let call = json!({"name": "append_fifo", "arguments": {"message": text, "role": "user"}});
        line.begin("tools/call", call).await;
        if number % 6 == 5 {
            tokio::time::sleep(Duration::from_micros(chance.below(4_000))).await;
            servers.kill(servers.only());
            kills += 1;
        }
        let answer = line.read().await;
        assert_eq!(answer["result"]["isError"], false, "{answer:#}");
        wanted.push(("user".to_owned(), text));
    }
    let agent = Agent::at(home.wire("vctx.sock"), "ada");
    Line::done(line.tool("append_fifo", json!({"message": "The end", "role": "user"})).await);
    wanted.push(("user".into(), "The end".into()));
    assert_eq!(servers.served(), kills + 1);
    assert_eq!(said(&agent.messages().await), wanted);
    home.assert_verified("vctx.sock", "ada");
    line.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_start_says_why_and_where_its_log_is() {
    let home = Home::new();
    let servers = Servers::of(&home);
    let tuning = Tuning::variable("ARANGO_URL", "http://localhost:8529");
    let mut line = Line::start(&home, &[], &tuning);
    line.initialize("2025-11-25").await;
    let told =
        Line::refused(&line.tool("append_fifo", arguments("append_fifo")).await, "UNREACHABLE");
    let log = home.path("data/server.log");
    assert!(
        told["next"].as_str().is_some_and(|next| next.contains(log.to_str().expect("plain"))),
        "{told:#}"
    );
    assert!(
        told["detail"].as_str().is_some_and(|detail| detail.contains("ARANGO_URL")),
        "{told:#}"
    );
    assert_eq!(servers.ids().len(), 0);
    line.leave().await;
}

#[cfg(feature = "full-tests")]
/// Returns a Python interpreter with the official SDK: the one that the environment variable names,
/// or the one that `.ci/full` creates.
fn python() -> Option<std::path::PathBuf> {
    if let Some(named) = std::env::var_os("VCTX_MCP_PYTHON") {
        return Some(std::path::PathBuf::from(named));
    }
    let target = std::path::Path::new(crate::home::PROGRAM)
        .ancestors()
        .nth(2)
        .expect("the target directory");
    Some(target.join("mcp-venv/bin/python")).filter(|path| path.exists())
}

#[cfg(feature = "full-tests")]
#[tokio::test(flavor = "multi_thread")]
async fn the_official_python_sdk_drives_every_tool() {
    let python = python().expect(
        "no Python with the MCP SDK; name one in VCTX_MCP_PYTHON (tests/mcp/requirements.txt)",
    );
    let home = Home::new();
    let servers = Servers::of(&home);
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/drive.py");
    let mut drive = std::process::Command::new(&python);
    drive.arg(script).arg(crate::home::PROGRAM).arg(home.path("vctx.sock")).arg(home.path("data"));
    home.add_outside(&mut drive);
    let output = drive.output().unwrap_or_else(|e| panic!("{}: {e}", python.display()));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let wire = home.wire("vctx.sock");
    let tools = names(&wire.get("/v1/tools").await.ok()["tools"]);
    for agent in ["sdk-legacy", "sdk-auto", "sdk-socket-legacy", "sdk-socket-auto"] {
        for tool in &tools {
            assert!(
                said.contains(&format!("{agent} {tool} ok")),
                "{tool} was not driven for {agent}:\n{said}"
            );
        }
        home.assert_verified("vctx.sock", agent);
    }
    home.assert_verified("vctx.sock", "sdk-memory");
    drop(servers);
}
