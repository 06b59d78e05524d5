//! Tests the API contract on a server without configuration: agents, the five tools, keys,
//! revisions, lists, lifecycle and sockets.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::home::{Home, PROGRAM};
use crate::outside::needs_an_engine_of_its_own;
use crate::talk::{Agent, key, said};
use crate::wire::Answer;
use crate::{count, home};

/// Checks the fields of a tool's answer, except the field `result`.
#[track_caller]
fn check_envelope(answer: &Answer, fields: &[&str]) {
    let body = &answer.body;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let mut found: Vec<&str> =
        body["result"].as_object().expect("a result").keys().map(String::as_str).collect();
    let mut wanted = fields.to_vec();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted, "{}", answer.text);
    let revision = body["_rev"].as_str().expect("a revision");
    assert_eq!(answer.headers["etag"], format!("\"{revision}\""));
    assert!(body["token_estimate"].is_i64(), "{}", answer.text);
    let part = |name: &str| body["tokens"][name].as_u64().unwrap_or_else(|| panic!("{name}"));
    let sum: u64 = ["system", "tools", "working", "fifo", "summary", "notices", "clock"]
        .map(part)
        .iter()
        .sum();
    assert_eq!(part("occupancy"), sum);
    assert!(["ok", "warning", "flush"].contains(&body["pressure"].as_str().expect("a pressure")));
    assert_eq!(body["heartbeat"]["tokens_remaining"], body["tokens"]["free"]);
    assert_eq!(body["heartbeat"]["opportunity"], part("free") >= 256);
    assert_eq!(body["replayed"], false);
}

/// Tests the main part of the API contract on one server; `no_network.rs` repeats this test in a
/// process without any network interface.
pub(crate) async fn core_of_the_contract(home: &Home) {
    let _server = home.serve().await;
    let wire = home.wire("vctx.sock");
    let body = json!({"context_window": 8192, "system": "You are kind."});

    let made = wire.put("/v1/agents/ada", &body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let again = wire.put("/v1/agents/ada", &body).await;
    assert_eq!((again.status, &again.body["_rev"]), (200, &made.body["_rev"]));
    let other = json!({"context_window": 4096, "system": "You are kind."});
    let refused = wire.put("/v1/agents/ada", &other).await.refused(409, "AGENT_EXISTS");
    assert_eq!(refused["_rev"], made.body["_rev"]);

    let ada = Agent::at(wire, "ada");
    let state = ada.state().await;
    assert_eq!(state["_rev"], made.body["_rev"]);
    assert_eq!(
        state["budget"],
        json!({"warning": 5734, "flush": 7372, "target": 4096, "max": 8192})
    );
    assert_eq!(state["queue"]["head_seq"], 1);
    assert_eq!(state["chain"]["length"], 0);

    five_tools(&ada).await;
    keys_replay(&ada).await;
    revisions_guard(&ada).await;
}

async fn five_tools(ada: &Agent) {
    let call = async |tool: &str, arguments: Value| {
        let revision = ada.revision().await;
        ada.tool(tool, &arguments, &key(), &revision).await
    };
    let stored = call("store_core", json!({"block_id": "human", "content": "Likes tea."})).await;
    check_envelope(&stored, &["block_id", "_rev", "token_estimate"]);
    assert_eq!(stored.body["result"]["_rev"], stored.body["_rev"]);

    let path = format!("{}/tools/fetch_core", ada.path());
    let fetched = ada.wire.call("POST", &path, &[], r#"{"block_id": "human"}"#).await;
    check_envelope(&fetched, &["block_id", "content", "_rev", "token_estimate", "role", "pinned"]);
    assert_eq!(fetched.body["result"]["content"], "Likes tea.");
    assert_eq!(fetched.body["_rev"], stored.body["_rev"]);

    let appended = call("append_fifo", json!({"message": "Hello 👋", "role": "user"})).await;
    check_envelope(&appended, &["message_id", "token_estimate"]);
    assert_eq!(appended.body["receipt"]["seq"], 1);
    let added = appended.body["result"]["token_estimate"].as_u64().map(|n| n + count::opening());
    assert_eq!(appended.body["token_estimate"].as_u64(), added, "and the line with the day");

    let entries = json!({"entries": [{"content": "Born in May."}, {"content": "Has a boat.", "role": "user"}]});
    let written = call("write_recall", entries).await;
    check_envelope(&written, &["inserted_ids", "total_tokens"]);
    assert_eq!(written.body["result"]["inserted_ids"].as_array().map(Vec::len), Some(2));
    assert_eq!(written.body["token_estimate"], 0, "recall entries take no room in the window");

    let evicted = call("evict_fifo", json!({"strategy": "fifo", "target_tokens": 0})).await;
    check_envelope(&evicted, &["evicted_count", "new_summary_tokens", "after_occupancy"]);
    assert_eq!(evicted.body["result"]["evicted_count"], 1);
    assert_eq!(evicted.body["result"]["after_occupancy"], evicted.body["tokens"]["occupancy"]);

    let messages = ada.messages().await;
    let kinds: Vec<&str> = messages.iter().map(|m| m["kind"].as_str().expect("a kind")).collect();
    assert_eq!(kinds, ["turn", "recall", "recall"]);
    assert_eq!(messages[0]["in_queue"], false);
    assert!(messages[0]["evicted_batch_id"].is_string());
    assert_eq!(said(&messages)[0], ("user".into(), "Hello 👋".into()));
    let context = ada.context().await;
    let rendered = context["messages"].as_array().expect("messages");
    assert_eq!(context["tokens"]["occupancy"], count::window(rendered));
}

async fn keys_replay(ada: &Agent) {
    let revision = ada.revision().await;
    let call = json!({"message": "Once.", "role": "user"});
    let first = ada.tool("append_fifo", &call, "once", &revision).await.ok();
    let length = ada.messages().await.len();
    // The revision is stale by now, but the repeated call succeeds, because the server looks up the
    // key before it checks the revision.
    let mut second = ada.tool("append_fifo", &call, "once", &revision).await.ok();
    assert_eq!(second["replayed"], true);
    second["replayed"] = false.into();
    assert_eq!(second, first);
    assert_eq!(ada.messages().await.len(), length);
    // The idempotency key and the revision may also be sent as arguments instead of headers.
    let inside =
        json!({"message": "Once.", "role": "user", "idempotency_key": "once", "_rev": "*"});
    let path = format!("{}/tools/append_fifo", ada.path());
    let third = ada.wire.call("POST", &path, &[], inside.to_string()).await.ok();
    assert_eq!((&third["replayed"], &third["_rev"]), (&json!(true), &first["_rev"]));
    let other = json!({"message": "Twice.", "role": "user"});
    ada.tool("append_fifo", &other, "once", "*").await.refused(409, "IDEMPOTENCY_KEY_REUSED");
    let tool = json!({"block_id": "human", "content": "x"});
    ada.tool("store_core", &tool, "once", "*").await.refused(409, "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(ada.messages().await.len(), length);
}

async fn revisions_guard(ada: &Agent) {
    let stale = ada.revision().await;
    let block = |text: &str| json!({"block_id": "human", "content": text});
    let newer = ada.tool("store_core", &block("Likes coffee."), &key(), &stale).await.ok();
    let refused = ada.tool("store_core", &block("Likes milk."), &key(), &stale).await;
    let refused = refused.refused(412, "REVISION_STALE");
    assert_eq!(refused["_rev"], newer["_rev"]);
    assert_eq!(refused["changed"], json!(["block:human"]));
    // A stale revision is accepted if the call does not depend on anything that has changed since.
    let other = json!({"block_id": "plan", "content": "Sail."});
    ada.tool("store_core", &other, &key(), &stale).await.ok();
    let unknown = ada.tool("store_core", &block("x"), &key(), "no-such-revision").await;
    assert_eq!(unknown.refused(412, "REVISION_STALE")["changed"], json!(["unknown"]));
    assert_eq!(ada.state().await["blocks"][0]["content"], "Likes coffee.");
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_tools_keys_and_revisions() {
    core_of_the_contract(&Home::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writing_call_names_its_key_and_its_revision() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    let path = format!("{}/tools/append_fifo", ada.path());
    let body = r#"{"message": "Hello", "role": "user"}"#;
    let send = async |headers: &[(&str, &str)]| ada.wire.call("POST", &path, headers, body).await;
    send(&[("if-match", "*")]).await.refused(400, "IDEMPOTENCY_KEY_REQUIRED");
    send(&[("idempotency-key", "k")]).await.refused(428, "PRECONDITION_REQUIRED");
    send(&[]).await.refused(400, "IDEMPOTENCY_KEY_REQUIRED");
    assert_eq!(ada.messages().await.len(), 0);
    let patch = ada.wire.call("PATCH", &ada.path(), &[], r#"{"context_window": 5000}"#).await;
    patch.refused(400, "IDEMPOTENCY_KEY_REQUIRED");
    let event = json!({"class": "user_interaction", "name": "login", "content": "Ada is here.", "idempotency_key": "e1"});
    let path = format!("{}/events", ada.path());
    let posted = ada.wire.call("POST", &path, &[], event.to_string()).await.ok();
    assert_eq!(posted["receipt"]["seq"], 1, "an event implies any revision");
    assert_eq!(ada.messages().await[0]["kind"], "event");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_describes_itself_and_its_agents() {
    let home = Home::new();
    let _server = home.serve().await;
    let wire = home.wire("vctx.sock");
    for name in ["zoe", "ada", "mia.2-x_y"] {
        let body = json!({"context_window": 4096});
        assert_eq!(wire.put(&format!("/v1/agents/{name}"), &body).await.status, 201);
    }
    let listed = wire.get("/v1/agents").await.ok();
    let names: Vec<&str> = listed["agents"]
        .as_array()
        .expect("agents")
        .iter()
        .map(|a| a["agent"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["ada", "mia.2-x_y", "zoe"]);
    assert_eq!(listed["next"], Value::Null);
    let first = wire.get("/v1/agents?limit=2").await.ok();
    assert_eq!((&first["agents"][1], &first["next"]), (&listed["agents"][1], &json!("mia.2-x_y")));
    let second = wire.get("/v1/agents?after=mia.2-x_y&limit=2").await.ok();
    assert_eq!(second, json!({"agents": [listed["agents"][2]], "next": null}));
    wire.get("/v1/agents?after=a/b").await.refused(400, "INVALID_NAME");
    for wrong in ["limit=0", "limit=10001", "from=ada"] {
        wire.get(&format!("/v1/agents?{wrong}")).await.refused(400, "INVALID_ARGUMENT");
    }

    let tools = wire.get("/v1/tools?format=json-schema").await.ok();
    let tools = tools["tools"].as_array().expect("tools").clone();
    let names: Vec<&str> = tools.iter().map(|t| t["name"].as_str().expect("a name")).collect();
    let wanted = [
        "store_core",
        "fetch_core",
        "append_fifo",
        "evict_fifo",
        "search_recall",
        "write_recall",
        "search_archival",
        "ingest_archival",
        "record_heartbeat",
        "trace_memory",
        "build_context",
    ];
    assert_eq!(names, wanted);
    for tool in &tools {
        assert_eq!(tool["parameters"]["type"], "object", "{tool:#}");
        assert_eq!(tool["parameters"]["additionalProperties"], false, "{tool:#}");
        let shown = tool.to_string();
        for hidden in ["idempotency", "_rev", "$ref"] {
            assert!(!shown.contains(hidden), "a model sees {hidden}: {shown}");
        }
    }
    wire.get("/v1/tools?format=smoke-signals").await.refused(400, "INVALID_ARGUMENT");
    assert_eq!(wire.get("/healthz").await.ok()["status"], "ok");
    assert_eq!(wire.get("/readyz").await.ok()["status"], "ready");
    let paths = wire.get("/v1/openapi.json").await.ok()["paths"].clone();
    assert!(paths["/v1/agents/{agent}/messages"]["get"].is_object());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_has_the_methods_that_are_described_and_no_other() {
    let home = Home::new();
    let _server = home.serve().await;
    let wire = home.wire("vctx.sock");
    let described = wire.get("/v1/openapi.json").await.ok()["paths"].clone();
    for (path, methods) in described.as_object().expect("paths") {
        let mut asked = path.clone();
        while let Some((before, after)) = asked.split_once('{') {
            let (name, after) = after.split_once('}').expect("a name in braces");
            let parameters = methods.as_object().expect("methods").values();
            for parameters in parameters.map(|method| &method["parameters"]) {
                let known = parameters.as_array().expect("parameters").iter();
                let known = known.filter(|one| one["in"] == "path" && one["name"] == name);
                assert_eq!(known.count(), 1, "{name} of {path}");
            }
            asked = format!("{before}7{after}");
        }
        for method in ["GET", "PUT", "POST", "PATCH", "DELETE"] {
            let answer = wire.call(method, &asked, &[], "{}").await;
            let is_described = methods[method.to_lowercase()].is_object();
            assert_eq!(answer.status == 405, !is_described, "{method} {path}: {}", answer.text);
            assert_ne!(answer.body["error"], "ROUTE_NOT_FOUND", "{method} {path}");
            assert_ne!(answer.body["error"], "INTERNAL", "{method} {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_add_up() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "Be brief.").await;
    for text in ["one", "two", "three"] {
        ada.append("user", text).await;
    }
    ada.tool("append_fifo", &json!({"role": "user"}), &key(), "*")
        .await
        .refused(400, "INVALID_ARGUMENT");
    ada.tool("fetch_core", &json!({"block_id": "none"}), &key(), "*")
        .await
        .refused(404, "BLOCK_NOT_FOUND");
    let metrics = home.wire("metrics.sock").get("/metrics").await;
    let value = |name: &str| -> f64 {
        let line = metrics.text.lines().find(|line| line.split(' ').next() == Some(name));
        let number = line.and_then(|line| line.split(' ').next_back()?.parse().ok());
        number.unwrap_or_else(|| panic!("no {name} in\n{}", metrics.text))
    };
    assert_eq!(value(r#"vctx_tool_calls_total{tool="append_fifo",outcome="OK"}"#), 3.0);
    assert_eq!(value(r#"vctx_tool_calls_total{tool="fetch_core",outcome="BLOCK_NOT_FOUND"}"#), 1.0);
    assert_eq!(value(r#"vctx_tool_duration_seconds_count{tool="append_fifo"}"#), 3.0);
    let tokens = ada.state().await["tokens"].clone();
    let mut sum = 0.0;
    for part in ["system", "tools", "working", "fifo", "summary", "notices", "clock", "free"] {
        let gauge = value(&format!("token_{part}"));
        assert_eq!(Some(gauge), tokens[part].as_f64(), "{part}");
        sum += gauge;
    }
    assert_eq!(sum, 4096.0);
    let help = metrics.text.lines().filter(|l| l.starts_with("# HELP")).count();
    assert!(help >= 12, "{help} metrics with help");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_one_line_that_leads_to_its_audit_row_and_holds_neither_key_nor_content() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "Be brief.").await;
    let own = "a-key-of-the-caller";
    let call = json!({"message": "The sloop has a brass compass.", "role": "user"});
    ada.tool("append_fifo", &call, own, "*").await.ok();
    ada.tool("append_fifo", &call, own, "stale").await.ok();
    ada.tool("append_fifo", &call, "another-key", "stale").await.refused(412, "REVISION_STALE");
    let query =
        "FOR e IN memory_events FILTER e.details.tool == 'append_fifo' RETURN e.details.key_hash";
    let hash = home.database_inside().row(query, json!({})).await;
    let digits = &hash.as_str().expect("a hash")[..16];
    assert!(server.stop().await.success());
    let said = server.said();
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| line.contains(r#"call tool="append_fifo" agent="ada""#))
        .collect();
    assert_eq!(lines.len(), 3, "{lines:#?}");
    let field = format!(" key_hash=\"{digits}\" ");
    for (line, same, code) in [(0, true, "OK"), (1, true, "OK"), (2, false, "REVISION_STALE")] {
        assert_eq!(lines[line].contains(&field), same, "{}", lines[line]);
        assert!(lines[line].contains(&format!(" code=\"{code}\" ")), "{}", lines[line]);
    }
    for secret in [own, "another-key", "sloop", "Be brief"] {
        assert!(!said.contains(secret), "{secret} is in the log");
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap_or_else(|e| panic!("{}: {e}", path.display())).permissions().mode()
        & 0o777
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_are_private_live_ones_are_kept_and_dead_ones_replaced() {
    if needs_an_engine_of_its_own("looks at its sockets") {
        return;
    }
    let home = Home::new();
    let directory = home.path("run");
    // A socket file left by a killed server.
    std::fs::create_dir(&directory).expect("a directory");
    std::fs::set_permissions(&directory, Permissions::from_mode(0o700)).expect("a mode");
    drop(UnixListener::bind(home.path("run/vctx.sock")).expect("a dead socket"));
    let server = home.serve_with("run/vctx.sock", &home::Tuning::default()).await;
    for socket in ["run/vctx.sock", "run/metrics.sock", "data/arangod.sock", "data/arangod-ro.sock"]
    {
        assert_eq!(mode(&home.path(socket)), 0o660, "{socket}");
    }
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(&home.path("data")), 0o700);
    assert_eq!(mode(&home.path("data/root.password")), 0o600);

    let socket = home.path("run/vctx.sock");
    let second = std::process::Command::new(PROGRAM)
        .args(["serve", "--socket"])
        .arg(&socket)
        .arg("--data-dir")
        .arg(home.path("other"))
        .output()
        .expect("the program runs");
    assert_eq!(second.status.code(), Some(73), "{}", String::from_utf8_lossy(&second.stderr));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another server answers"));
    assert!(home.wire("run/vctx.sock").is_ready().await, "the first server goes on");

    assert!(server.stop().await.success());
    for socket in ["run/vctx.sock", "run/metrics.sock", "data/arangod.sock", "data/arangod-ro.sock"]
    {
        assert!(!home.path(socket).exists(), "{socket} is left behind");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_removes_a_file_that_is_no_socket_from_the_path_of_its_socket() {
    let home = Home::new();
    let (file, link) = (home.path("notes.md"), home.path("link.sock"));
    std::fs::write(&file, "all that I know").expect("a file");
    symlink("notes.md", &link).expect("a link");
    let at = |name: &str| home.path(name).to_str().expect("a plain path").to_owned();
    let (data, free) = (at("data"), at("free.sock"));
    let mut cases_begun = 0;
    for taken in [at("notes.md"), at("link.sock")] {
        let cases: [(&str, &[&str]); 7] = [
            ("", &["serve", "--data-dir", &data, "--socket", &taken]),
            (&taken, &["serve", "--data-dir", &data, "--socket", &free]),
            ("", &["engine", "--data-dir", &data, "--socket", &taken]),
            ("", &["engine", "--data-dir", &data, "--socket", &free, "--ro-socket", &taken]),
            ("", &["proxy", "--mode", "ro", "--upstream", "/run/db.sock", "--listen", &taken]),
            ("", &["mcp", "--agent", "ada", "--listen", &taken]),
            ("", &["scripted-model", "--script", "echo", "--socket", &taken]),
        ];
        for (metrics, arguments) in cases {
            let mut command = home::command(&home::Tuning::default());
            command.args(arguments).env("ARANGO_ROOT_PASSWORD", home::PASSWORD);
            command.env("VCTX_SERVER__METRICS_SOCKET", metrics);
            cases_begun += 1;
            let process = home::Process::start(&home, &format!("case-{cases_begun}"), command);
            process.expect("other users may read the directory of the socket");
            // If the server started successfully, it would not end, and the test would fail while
            // it waits for the end.
            assert!(!process.end().await.success(), "{arguments:?}");
            let said = process.said();
            assert!(said.contains(&format!("{taken} is not a socket")), "{arguments:?}: {said}");
            let text = std::fs::read_to_string(&file).expect("still there");
            assert_eq!(text, "all that I know", "{arguments:?}");
            let to = std::fs::read_link(&link).expect("still a link");
            assert_eq!(to, Path::new("notes.md"), "{arguments:?}");
        }
    }
}

/// Starts an engine on the data directory of `home`, with the given password for `root`.
async fn engine_alone(home: &Home, password: Option<&str>) -> home::Process {
    let mut command = home::command(&home::Tuning::default());
    command.args(["engine", "--socket"]).arg(home.path("engine.sock"));
    command.arg("--data-dir").arg(home.path("data"));
    command.envs(password.map(|password| ("ARANGO_ROOT_PASSWORD", password)));
    let engine = home::Process::start(home, "engine", command);
    engine.ready(&[home.path("engine.sock")], None).await;
    engine
}

/// Sends a request as the user `root`, and returns the status.
async fn status_of_root(home: &Home, password: &str) -> u16 {
    let credentials = STANDARD.encode(format!("root:{password}"));
    let headers = [("authorization", &*format!("Basic {credentials}"))];
    home.wire("engine.sock").call("GET", "/_api/database", &headers, String::new()).await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_told_no_password_makes_one_and_never_takes_an_empty_one() {
    let home = Home::new();
    let engine = engine_alone(&home, None).await;
    let file = home.path("data/root.password");
    assert_eq!(mode(&file), 0o600);
    assert!(engine.said().contains(file.to_str().expect("a plain path")), "{}", engine.said());
    let password = std::fs::read_to_string(&file).expect("a password");
    assert!(password.len() >= 32, "a short password");
    assert_eq!(status_of_root(&home, "").await, 401);
    assert_eq!(status_of_root(&home, &password).await, 200);
    assert!(engine.stop().await.success());
    // Later starts keep the password.
    let engine = engine_alone(&home, None).await;
    assert_eq!(status_of_root(&home, &password).await, 200);
    assert!(engine.stop().await.success());

    // If `root` already exists, a later start writes no password file.
    let home = Home::new();
    let engine = engine_alone(&home, Some("told")).await;
    assert_eq!(status_of_root(&home, "told").await, 200);
    assert!(engine.stop().await.success());
    let engine = engine_alone(&home, None).await;
    assert_eq!(status_of_root(&home, "told").await, 200);
    assert!(!home.path("data/root.password").exists());
    assert!(engine.stop().await.success());

    let home = Home::new();
    let mut command = home::command(&home::Tuning::default());
    command.args(["engine", "--socket"]).arg(home.path("engine.sock"));
    command.arg("--data-dir").arg(home.path("data")).env("ARANGO_ROOT_PASSWORD", "");
    let refused = command.output().expect("the program runs");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(78), "{said}");
    assert!(said.contains("ARANGO_ROOT_PASSWORD is empty: set it to a password"), "{said}");
    assert!(!home.path("engine.sock").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_changes_nothing() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 1024, "Be brief.").await;
    for turn in 0..40 {
        ada.append("user", format!("Turn {turn}: {}", count::words(20))).await;
    }
    let (state, messages, context) = (ada.state().await, ada.messages().await, ada.context().await);
    assert!(server.stop().await.success());
    let server = home.serve().await;
    assert_eq!(ada.state().await, state);
    assert_eq!(ada.messages().await, messages);
    server.kill();
    let _server = home.serve().await;
    let ada = ada.again();
    assert_eq!(ada.context().await, context);
    home.assert_verified("vctx.sock", "ada");
}
