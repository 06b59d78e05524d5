//! Tests that the served API description is valid, that lists begin at 1 as it says, and that the
//! server does what it says with generated requests.

use serde_json::Value;

use crate::home::Home;
use crate::talk::Agent;

/// Calls `look` with each value inside of `value`, and with its place.
fn each(value: &Value, place: &str, look: &mut dyn FnMut(&Value, &str)) {
    look(value, place);
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(name, value)| each(value, &format!("{place}/{name}"), look));
        }
        Value::Array(list) => {
            list.iter()
                .enumerate()
                .for_each(|(at, value)| each(value, &format!("{place}/{at}"), look));
        }
        _ => {}
    }
}

/// Checks that an object has no fields but those that the specification names.
#[track_caller]
fn closed<'a>(object: &'a Value, required: &[&str], optional: &[&str], place: &str) -> &'a Value {
    let map = object.as_object().unwrap_or_else(|| panic!("{place} is no object"));
    for name in required {
        assert!(map.contains_key(*name), "{place} has no {name}");
    }
    for name in map.keys().map(String::as_str) {
        assert!(required.contains(&name) || optional.contains(&name), "{place} has {name}");
    }
    object
}

fn is_schema(schema: &Value, place: &str) {
    const KINDS: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];
    if schema.is_boolean() {
        return;
    }
    let map = schema.as_object().unwrap_or_else(|| panic!("{place} is no schema"));
    for (name, value) in map {
        let place = format!("{place}/{name}");
        match name.as_str() {
            "type" => {
                let kinds = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
                assert!(kinds.iter().all(|kind| KINDS.iter().any(|one| kind == one)), "{place}");
            }
            "properties" => {
                let properties = value.as_object().unwrap_or_else(|| panic!("{place}"));
                properties.iter().for_each(|(at, one)| is_schema(one, &format!("{place}/{at}")));
            }
            "items" | "additionalProperties" => is_schema(value, &place),
            "anyOf" | "oneOf" => {
                let choices = value.as_array().filter(|all| !all.is_empty());
                choices.expect(&place).iter().for_each(|one| is_schema(one, &place));
            }
            "required" => {
                let names = value.as_array().expect(&place);
                let known = |name: &Value| map["properties"].get(name.as_str().unwrap()).is_some();
                assert!(names.iter().all(known), "{place} names an unknown attribute");
            }
            "enum" => assert!(value.as_array().is_some_and(|all| !all.is_empty()), "{place}"),
            "minimum" | "maximum" => assert!(value.is_number(), "{place}"),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" => {
                assert!(value.is_u64(), "{place}");
            }
            "pattern" | "format" | "description" | "title" | "$ref" => {
                assert!(value.is_string(), "{place}");
            }
            "default" | "const" => {}
            _ => panic!("{place} is a keyword that this test does not know"),
        }
    }
}

/// Checks the media types of a body or an answer.
fn is_content(content: &Value, place: &str) {
    for (media, one) in content.as_object().unwrap_or_else(|| panic!("{place} has no content")) {
        assert!(media.contains('/'), "{place}: {media}");
        is_schema(&closed(one, &["schema"], &[], place)["schema"], place);
    }
}

fn is_operation(operation: &Value, path: &str) {
    let optional = ["requestBody"];
    closed(operation, &["summary", "parameters", "responses"], &optional, path);
    let mut names = Vec::new();
    for one in operation["parameters"].as_array().expect("parameters") {
        closed(one, &["name", "in", "schema"], &["required", "description", "example"], path);
        let (name, place) = (one["name"].as_str().unwrap(), one["in"].as_str().unwrap());
        assert!(["path", "query", "header"].contains(&place), "{path}: {name} in {place}");
        if place == "path" {
            assert_eq!(one["required"], true, "{path}: {name}");
            assert!(path.contains(&format!("{{{name}}}")), "{path} has no {name}");
        }
        assert!(!names.contains(&(name, place)), "{path} has {name} twice");
        names.push((name, place));
        is_schema(&one["schema"], &format!("{path} {name}"));
    }
    if let Some(body) = operation.get("requestBody") {
        is_content(&closed(body, &["required", "content"], &[], path)["content"], path);
    }
    for (status, answer) in operation["responses"].as_object().expect("responses") {
        let known = ["200", "201", "202", "4XX", "5XX"];
        assert!(known.contains(&status.as_str()), "{path}: {status}");
        is_content(&closed(answer, &["description", "content"], &[], path)["content"], path);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_of_the_api_is_valid() {
    let home = Home::new();
    let _server = home.serve().await;
    let document = home.wire("vctx.sock").get("/v1/openapi.json").await.ok();
    closed(&document, &["openapi", "info", "paths", "components"], &[], "");
    closed(&document["info"], &["title", "version"], &[], "info");
    assert_eq!(document["openapi"], "3.1.0");
    let components = closed(&document["components"], &["schemas"], &[], "components");
    for (name, schema) in components["schemas"].as_object().expect("schemas") {
        is_schema(schema, name);
    }
    for (path, operations) in document["paths"].as_object().expect("paths") {
        assert!(path.starts_with('/'), "{path}");
        let methods = ["get", "put", "post", "patch", "delete"];
        closed(operations, &[], &methods, path);
        operations.as_object().unwrap().values().for_each(|one| is_operation(one, path));
    }
    let mut references = 0;
    each(&document, "", &mut |value, place| {
        let Some(target) = value.get("$ref") else { return };
        let target = target.as_str().and_then(|to| to.strip_prefix('#'));
        let target = target.unwrap_or_else(|| panic!("{place} refers to another document"));
        assert!(document.pointer(target).is_some(), "{place} refers to {target}");
        references += 1;
    });
    assert!(references > 100, "{references} references");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_says_what_a_call_needs() {
    let home = Home::new();
    let _server = home.serve().await;
    let document = home.wire("vctx.sock").get("/v1/openapi.json").await.ok();
    let operation = |path: &str, method: &str| {
        let path = path.strip_prefix("tools/").map_or_else(
            || format!("/v1/agents/{{agent}}{path}"),
            |tool| format!("/v1/agents/{{agent}}/tools/{tool}"),
        );
        document["paths"][&path][method].clone()
    };
    let needs = |path: &str, method: &str| -> Vec<String> {
        let operation = operation(path, method);
        let all = operation["parameters"].as_array().cloned().unwrap_or_default();
        let needed = all.iter().filter(|one| one["in"] == "header" && one["required"] == true);
        needed.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let (key, both) = (vec!["Idempotency-Key"], vec!["Idempotency-Key", "If-Match"]);
    for (path, method, expected) in [
        ("tools/store_core", "post", &both),
        ("tools/core_memory_append", "post", &both),
        ("tools/archival_memory_insert", "post", &key),
        ("tools/fetch_core", "post", &vec![]),
        ("tools/search_recall", "post", &vec![]),
        ("tools/memory", "post", &vec![]),
        ("", "patch", &both),
        ("", "put", &vec![]),
        ("/runs", "post", &key),
        ("/events", "post", &key),
        ("/forget", "post", &both),
        ("/archive/{doc_id}", "delete", &both),
    ] {
        assert_eq!(&needs(path, method), expected, "{method} {path}");
    }
    let body = |path: &str, method: &str| {
        operation(path, method)["requestBody"]["content"]["application/json"]["schema"].clone()
    };
    let agent = body("", "put");
    assert_eq!(agent["required"], serde_json::json!(["context_window"]));
    assert_eq!(agent["properties"]["context_window"]["minimum"], 256);
    assert_eq!(body("/events", "post")["required"], serde_json::json!(["class", "content"]));
    let role = &body("tools/store_core", "post")["properties"]["policy"]["properties"]["role"];
    assert_eq!((&role["maxLength"], role["pattern"].is_string()), (&128.into(), true));
    assert_eq!(role["type"], serde_json::json!(["string", "null"]));
    for (path, method, status) in
        [("", "put", "201"), ("/import", "post", "201"), ("/forget", "post", "202")]
    {
        assert!(operation(path, method)["responses"][status].is_object(), "{method} {path}");
    }
    for (path, form) in
        [("/chat/completions", "OpenAIError"), ("/anthropic/v1/messages", "AnthropicError")]
    {
        let errors = &operation(path, "post")["responses"]["4XX"]["content"];
        let schema = errors["application/json"]["schema"]["$ref"].as_str().expect("a schema");
        assert!(schema.ends_with(form), "{path}: {schema}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_begins_at_one() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    for (list, name) in [
        ("messages", "from_seq"),
        ("history", "from_version"),
        ("prompts", "from_turn"),
        ("why?text=tea", "from_turn"),
    ] {
        let mark = if list.contains('?') { '&' } else { '?' };
        let path = |from: u64| format!("{}/{list}{mark}{name}={from}", ada.path());
        let refused = ada.wire.get(&path(0)).await.refused(400, "INVALID_ARGUMENT");
        assert_eq!(refused["field"], name, "{list}");
        ada.wire.get(&path(1)).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_prompt_is_checked_like_the_first() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    let path = format!("{}/prompts", ada.path());
    let prompt = async |lease_ms: u64| {
        let body = serde_json::json!({"run": "r1", "model": "m", "lease_ms": lease_ms});
        ada.wire.call("POST", &path, &[("idempotency-key", "k1")], body.to_string()).await
    };
    prompt(1_000).await.ok();
    for lease_ms in [999, 3_600_001] {
        let refused = prompt(lease_ms).await.refused(400, "INVALID_ARGUMENT");
        assert_eq!(refused["field"], "lease_ms");
    }
}

#[cfg(feature = "full-tests")]
mod generated {
    use std::io::{BufRead as _, BufReader};
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};

    use serde_json::json;

    use crate::home::{Home, PROGRAM, Process, Tuning};

    /// Window of the model and of the agents, in tokens.
    const WINDOW: u64 = 65_536;

    /// Returns the program that `.ci/full` installs, or that the environment variable names.
    fn schemathesis() -> PathBuf {
        if let Some(named) = std::env::var_os("VCTX_SCHEMATHESIS") {
            return PathBuf::from(named);
        }
        let target = Path::new(PROGRAM).ancestors().nth(2).expect("the target directory");
        target.join("openapi-venv/bin/schemathesis")
    }

    /// Relays a port of the loopback interface to the server's socket, since Schemathesis knows no
    /// sockets. Ends with its standard input.
    struct Relay {
        child: Child,
        port: u16,
    }

    impl Relay {
        fn start(folder: &Path, socket: &Path) -> Self {
            let mut relay = Command::new("python3");
            relay.arg(folder.join("relay.py")).arg(socket);
            relay.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = relay.spawn().expect("python3");
            let mut line = String::new();
            let mut told = BufReader::new(child.stdout.take().expect("its output"));
            told.read_line(&mut line).expect("a port");
            Self { child, port: line.trim().parse().expect("a port") }
        }
    }

    impl Drop for Relay {
        fn drop(&mut self) {
            drop(self.child.stdin.take());
            let _ = self.child.wait();
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn generated_requests_get_the_described_answers() {
        let program = schemathesis();
        assert!(
            program.exists(),
            "no Schemathesis: name one in VCTX_SCHEMATHESIS (tests/openapi/requirements.txt)"
        );
        let home = Home::new();
        let socket = home.path("model.sock");
        let mut model = Command::new(PROGRAM);
        model.args(["scripted-model", "--script", "echo", "--window", &WINDOW.to_string()]);
        model.arg("--socket").arg(&socket);
        let model = Process::start(&home, "model", model);
        model.ready(std::slice::from_ref(&socket), None).await;
        let environment = [
            ("VCTX_CHAT__SOCKET", socket.to_str().expect("a plain path")),
            ("VCTX_CHAT__MODEL", "scripted"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let tuning = Tuning { environment: environment.into(), ..Tuning::default() };
        let server = home.serve_with("vctx.sock", &tuning).await;
        let wire = home.wire("vctx.sock");
        for agent in ["ada", "eve"] {
            let body = json!({"context_window": WINDOW});
            let made = wire.put(&format!("/v1/agents/{agent}"), &body).await;
            assert_eq!(made.status, 201);
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openapi");
        let relay = Relay::start(&folder, &home.path("vctx.sock"));
        let address = format!("http://127.0.0.1:{}", relay.port);
        let seed = std::env::var("VCTX_OPENAPI_SEED").unwrap_or_else(|_| "1".to_owned());
        let mut run = Command::new(&program);
        run.current_dir(home.path(""));
        run.env("PYTHONPATH", &folder).env("SCHEMATHESIS_HOOKS", "hooks");
        run.env("PYTHONDONTWRITEBYTECODE", "1");
        run.arg("--config-file").arg(folder.join("schemathesis.toml"));
        run.args(["run", "--seed", &seed, &format!("{address}/v1/openapi.json")]);
        let output = run.output().expect("Schemathesis runs");
        let told = String::from_utf8_lossy(&output.stdout);
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}\n{complained}");
        assert!(told.contains("No issues found"), "{told}");
        drop(relay);
        let said = server.said();
        assert!(!said.contains("panicked"), "{said}");
    }
}
