//! Tests the OpenAI API and the messages API over real sockets: a client sends its whole history
//! with every call, to a server with a scripted model.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::home::{Home, PROGRAM, Process, Tuning};
use crate::talk::{Agent, said};
use crate::wire::{Answer, Wire};

mod bodies;
mod compaction;
mod embeddings;
mod forms;
mod labelled;
mod messages;

/// Window of the agents, and of the model, in tokens.
const WINDOW: u64 = 4_096;
/// Maximum number of polls for an expected state, and the pause between two polls.
const LOOKS: usize = 500;
const LOOK: Duration = Duration::from_millis(20);

/// A server with a scripted model.
struct Stage {
    home: Home,
    _engine: Process,
    servers: Vec<Process>,
    _model: Process,
    log: PathBuf,
}

/// Starts servers on `sockets` that share one database, and a model that follows a built-in script
/// or the given steps.
async fn stage(sockets: &[&str], script: &str) -> Stage {
    let home = Home::new();
    let (socket, log) = (home.path("model.sock"), home.path("asked.jsonl"));
    let script = if script.contains('{') {
        let steps = home.path("steps.jsonl");
        fs::write(&steps, script).expect("steps");
        steps.to_str().expect("a plain path").to_owned()
    } else {
        script.to_owned()
    };
    let mut command = Command::new(PROGRAM);
    command.args(["scripted-model", "--script", &script, "--window", &WINDOW.to_string()]);
    command.arg("--socket").arg(&socket).arg("--log").arg(&log);
    let model = Process::start(&home, "model", command);
    model.ready(std::slice::from_ref(&socket), None).await;
    let engine = home.engine().await;
    let mut servers = Vec::new();
    for name in sockets {
        let tuning = tuning(&socket);
        servers.push(home.server(name, "engine.sock", "engine-ro.sock", &tuning).await);
    }
    Stage { home, _engine: engine, servers, _model: model, log }
}

fn tuning(model: &Path) -> Tuning {
    let socket = model.to_str().expect("a plain path");
    let environment = [
        ("VCTX_CHAT__SOCKET", socket),
        ("VCTX_CHAT__MODEL", "scripted"),
        ("VCTX_CHAT__MAX_TOKENS", "256"),
        ("VCTX_CHAT__TOOLS", "[\"store_core\", \"search_recall\"]"),
        ("VCTX_DROPIN__CONTEXT_WINDOW", "4096"),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Tuning { environment: environment.into(), ..Tuning::default() }
}

impl Stage {
    fn wire(&self) -> Wire {
        self.home.wire("vctx.sock")
    }

    fn agent(&self, name: &str) -> Agent {
        Agent::at(self.wire(), name)
    }

    /// Returns the requests that the model received, oldest first.
    fn asked(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a line of the log")).collect()
    }

    /// Checks that every request fitted into the model's window.
    fn assert_never_too_much(&self) {
        for asked in self.asked() {
            let sent =
                asked["prompt_tokens"].as_u64().unwrap() + asked["max_tokens"].as_u64().unwrap();
            assert!(
                asked["status"] == 200 && sent <= WINDOW,
                "{} tokens: {}",
                sent,
                asked["status"]
            );
        }
    }
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

async fn post(wire: &Wire, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    wire.call("POST", path, headers, body.to_string()).await
}

async fn chat(wire: &Wire, body: &Value) -> Answer {
    post(wire, "/v1/chat/completions", &[], body).await
}

fn asking(messages: &[Value]) -> Value {
    json!({"model": "gpt", "messages": messages})
}

fn text(answer: &Value) -> String {
    answer["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
}

fn agent_of(answer: &Value) -> String {
    answer["vctx"]["agent"].as_str().expect("an agent").to_owned()
}

/// Returns the pieces (server-sent events) of a streamed answer.
fn pieces(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    let data = answer.text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).expect("JSON"))
        .collect()
}

/// Joins the pieces of a stream to the answer (`choice`) that a client sees.
fn put_together(pieces: &[Value]) -> Value {
    let (mut text, mut calls, mut reason) = (String::new(), Vec::new(), Value::Null);
    for piece in pieces {
        let choice = &piece["choices"][0];
        text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        calls.extend(
            choice["delta"]["tool_calls"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|call| call["function"].clone()),
        );
        if let Some(told) = choice["finish_reason"].as_str() {
            reason = told.into();
        }
    }
    json!({"text": text, "calls": calls, "reason": reason})
}

fn whole(answer: &Value) -> Value {
    let choice = &answer["choices"][0];
    let calls = choice["message"]["tool_calls"].as_array().cloned().unwrap_or_default();
    let calls: Vec<Value> = calls.iter().map(|call| call["function"].clone()).collect();
    json!({"text": text(answer), "calls": calls, "reason": choice["finish_reason"]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_is_sent_again_and_again_is_stored_once_and_never_outgrows_the_window() {
    const TURNS: usize = 60;
    let stage = stage(&["vctx.sock"], "echo").await;
    let wire = stage.wire();
    let mut history = vec![json!({"role": "system", "content": "Be brief."})];
    let (mut agent, mut wanted) = (String::new(), Vec::new());
    for turn in 0..TURNS {
        let question =
            format!("Message {turn}: the harbour log says {}", "tide and wind and ".repeat(12));
        history.push(user(&question));
        let answer = chat(&wire, &asking(&history)).await.ok();
        let said = text(&answer);
        assert_eq!(said, format!("You said: {question}"));
        assert_eq!(answer["choices"][0]["finish_reason"], "stop");
        let of = agent_of(&answer);
        assert!(agent.is_empty() || agent == of, "turn {turn} went to another agent");
        agent = of;
        wanted.extend([("user".to_owned(), question), ("assistant".to_owned(), said.clone())]);
        history.push(assistant(&said));
    }
    assert_eq!(said(&stage.agent(&agent).messages().await), wanted, "every message once");
    assert_eq!(stage.asked().len(), TURNS);
    stage.assert_never_too_much();
    let state = stage.agent(&agent).state().await;
    assert!(state["counters"]["flushes"].as_u64().is_some_and(|flushes| flushes > 1), "{state:#}");
    assert_eq!(state["system"], "Be brief.");
    stage.home.assert_verified("vctx.sock", &agent);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_message_parts_a_branch_with_the_blocks_of_that_time() {
    let stage = stage(&["vctx.sock"], "echo").await;
    let wire = stage.wire();
    let first = [user("one")];
    let answer = chat(&wire, &asking(&first)).await.ok();
    let parent = stage.agent(&agent_of(&answer));
    parent.done("store_core", &json!({"block_id": "human", "content": "Likes tea."})).await;
    let two = [user("one"), assistant(&text(&answer)), user("two")];
    let answer = chat(&wire, &asking(&two)).await.ok();
    assert_eq!(agent_of(&answer), parent.name);
    parent.done("store_core", &json!({"block_id": "human", "content": "Likes coffee."})).await;
    let before = parent.messages().await;

    let edited = [two[0].clone(), two[1].clone(), user("two, edited")];
    let answer = chat(&wire, &asking(&edited)).await.ok();
    assert_eq!(text(&answer), "You said: two, edited");
    let branch = stage.agent(&agent_of(&answer));
    assert_ne!(branch.name, parent.name);
    assert_eq!(answer["vctx"]["branch"], json!({"parent": parent.name, "seq": 2}));
    let state = branch.state().await;
    assert_eq!(state["branch"], json!({"parent": parent.name, "seq": 2}));
    assert_eq!(state["blocks"][0]["content"], "Likes tea.", "the block of that time");
    let texts: Vec<String> =
        said(&branch.messages().await).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["one", "You said: one", "two, edited", "You said: two, edited"]);
    assert_eq!(parent.messages().await, before, "the parent is as it was");

    // The edited conversation continues in the branch, the original one in the parent agent.
    let mut on = edited.to_vec();
    on.extend([assistant("You said: two, edited"), user("three")]);
    assert_eq!(agent_of(&chat(&wire, &asking(&on)).await.ok()), branch.name);
    let mut on = two.to_vec();
    on.extend([assistant("You said: two"), user("three")]);
    assert_eq!(agent_of(&chat(&wire, &asking(&on)).await.ok()), parent.name);
    // A history in which an answer is edited also creates a branch.
    let mut other = two.to_vec();
    other.extend([assistant("I said something else"), user("three")]);
    let answer = chat(&wire, &asking(&other)).await.ok();
    assert_eq!(answer["vctx"]["branch"], json!({"parent": parent.name, "seq": 3}));
    for agent in [&parent.name, &branch.name, &agent_of(&answer)] {
        stage.home.assert_verified("vctx.sock", agent);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_has_the_same_answer_at_once_later_and_on_another_server() {
    let stage = stage(&["vctx.sock", "second.sock"], "echo").await;
    let history = [json!({"role": "system", "content": "Be brief."}), user("one")];
    let (one, two) = (stage.wire(), stage.home.wire("second.sock"));
    let (body, third) = (asking(&history), stage.wire());
    let together = tokio::join!(chat(&one, &body), chat(&two, &body), chat(&third, &body));
    let first = together.0.ok();
    for other in [together.1, together.2, chat(&two, &body).await] {
        let other = other.ok();
        assert_eq!((whole(&other), agent_of(&other)), (whole(&first), agent_of(&first)));
        assert_eq!(other["id"], first["id"]);
        assert_eq!(other["created"], first["created"]);
    }
    let mut streamed = body.clone();
    streamed["stream"] = true.into();
    assert_eq!(put_together(&pieces(&chat(&two, &streamed).await)), whole(&first));
    assert_eq!(stage.asked().len(), 1, "the model was asked once");
    let agent = stage.agent(&agent_of(&first));
    assert_eq!(said(&agent.messages().await).len(), 2);

    // A first message with another system text begins another conversation.
    let other =
        chat(&one, &asking(&[json!({"role": "system", "content": "Be long."}), user("one")]))
            .await
            .ok();
    assert_ne!(agent_of(&other), agent.name);
    // Of two conversations with equal messages, a request continues the one with the same system
    // text. If a request has a new system text, this text replaces the conversation's system text.
    for (system, wanted) in [("Be brief.", &agent.name), ("Be long.", &agent_of(&other))] {
        let system = json!({"role": "system", "content": system});
        let on = [system, user("one"), assistant("You said: one"), user("two")];
        assert_eq!(agent_of(&chat(&one, &asking(&on)).await.ok()), *wanted);
    }
    let changed = json!({"role": "system", "content": "Be kind."});
    let on = [
        changed,
        user("one"),
        assistant("You said: one"),
        user("two"),
        assistant("You said: two"),
        user("three"),
    ];
    let answer = chat(&one, &asking(&on)).await.ok();
    assert_eq!(stage.agent(&agent_of(&answer)).state().await["system"], "Be kind.");
    stage.home.assert_verified("vctx.sock", &agent_of(&answer));
}

/// Steps of a model that first searches its memory, then calls the client's tool, then answers.
const TOOLS: &str = r#"{"when": "weather", "text": "I note it. ", "calls": [{"name": "store_core", "arguments": {"block_id": "human", "content": "Asks for the weather."}}], "repeat": true}
{"when": "Done.", "text": "Let me look.", "calls": [{"id": "look-1", "name": "look", "arguments": {"where": "here"}}], "repeat": true}
{"when": "rain", "text": "It rains.", "repeat": true}
{"when": "thanks", "text": "You are welcome.", "repeat": true}
"#;

fn look() -> Value {
    json!({"type": "function", "function": {"name": "look", "description": "looks", "parameters": {"type": "object", "properties": {"where": {"type": "string"}}}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_tools_run_inside_and_the_clients_own_come_out_whole_and_in_pieces() {
    let stage = stage(&["vctx.sock"], TOOLS).await;
    let wire = stage.wire();
    let mut told = Vec::new();
    for stream in [false, true] {
        let mut history = vec![user("How is the weather?")];
        let mut choices = Vec::new();
        for _ in 0..3 {
            // Two users whose conversations have the same words have separate memories.
            let mut body = json!({"model": "gpt", "user": format!("user-{stream}"), "messages": history, "tools": [look()], "temperature": 0});
            body["stream"] = stream.into();
            let answer = chat(&wire, &body).await;
            let choice = if stream { put_together(&pieces(&answer)) } else { whole(&answer.ok()) };
            let mut said = assistant(choice["text"].as_str().expect("a text"));
            match choice["calls"].as_array().map(Vec::len) {
                Some(1) => {
                    let function = choice["calls"][0].clone();
                    said["tool_calls"] =
                        json!([{"id": "look-1", "type": "function", "function": function}]);
                    history.extend([
                        said,
                        json!({"role": "tool", "tool_call_id": "look-1", "content": "rain"}),
                    ]);
                }
                _ => history.extend([said, user("thanks")]),
            }
            choices.push(choice);
        }
        told.push(choices);
    }
    assert_eq!(told[0], told[1]);
    let look = json!({"name": "look", "arguments": "{\"where\":\"here\"}"});
    assert_eq!(
        told[0],
        [
            json!({"text": "I note it. \n\nLet me look.", "calls": [look], "reason": "tool_calls"}),
            json!({"text": "It rains.", "calls": [], "reason": "stop"}),
            json!({"text": "You are welcome.", "calls": [], "reason": "stop"}),
        ]
    );
    let asked = stage.asked();
    assert_eq!(asked.len(), 8);
    let offered = asked[0]["request"]["tools"].as_array().expect("tools").iter();
    let names: Vec<&str> = offered.filter_map(|tool| tool["function"]["name"].as_str()).collect();
    assert_eq!(names, ["store_core", "search_recall", "look"]);
    assert_eq!(asked[0]["request"]["temperature"], 0);
    let listed = wire.get("/v1/agents").await.ok();
    let agents = listed["agents"].as_array().expect("agents").clone();
    assert_eq!(agents.len(), 2);
    for agent in agents {
        let agent = stage.agent(agent["agent"].as_str().expect("a name"));
        let roles: Vec<String> =
            said(&agent.messages().await).into_iter().map(|(role, _)| role).collect();
        assert_eq!(
            roles,
            ["user", "assistant", "tool", "assistant", "tool", "assistant", "user", "assistant"]
        );
        assert_eq!(agent.state().await["blocks"][0]["content"], "Asks for the weather.");
        stage.home.assert_verified("vctx.sock", &agent.name);
    }
}

/// Steps of a model that streams slowly if the user asks for it.
const SLOW: &str = r#"{"when": "slowly", "text": "One word and another word and a further word and the last word of them all.", "pause_ms": 150, "repeat": true}
{"when": "", "text": "Here I am.", "repeat": true}
"#;

/// Sends a request and disconnects after `texts` pieces of text; returns the received text.
fn leave_after(socket: &Path, body: &Value, texts: usize) -> String {
    let mut stream = UnixStream::connect(socket).expect("a connection");
    let body = body.to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: vctx\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("a head");
    stream.write_all(body.as_bytes()).expect("a body");
    let (mut came, mut buffer) = (String::new(), [0; 512]);
    loop {
        let count = stream.read(&mut buffer).expect("an answer");
        assert!(count > 0, "it ended: {came}");
        came.push_str(&String::from_utf8_lossy(&buffer[..count]));
        let data = came.lines().filter_map(|line| line.strip_prefix("data: "));
        let told = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
        let told: Vec<String> = told
            .filter_map(|piece| piece["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
            .filter(|text| !text.is_empty())
            .collect();
        if told.len() >= texts {
            return told.concat();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_leaves_a_clean_state_and_goes_on() {
    let stage = stage(&["vctx.sock"], SLOW).await;
    let wire = stage.wire();
    let mut body =
        json!({"model": "vctx/ada", "messages": [user("Speak slowly.")], "stream": true});
    let part = leave_after(&stage.home.path("vctx.sock"), &body, 2);
    assert!(part.starts_with("One word") && part.len() < 40, "{part}");
    let ada = stage.agent("ada");
    for look in 0.. {
        let state = ada.state().await;
        if state["run"].is_null() {
            break;
        }
        assert!(look < LOOKS, "a run is open: {state:#}");
        tokio::time::sleep(LOOK).await;
    }
    assert_eq!(said(&ada.messages().await), [("user".to_owned(), "Speak slowly.".to_owned())]);
    // The next request continues the conversation with the received part as the answer.
    body["messages"] = json!([user("Speak slowly."), assistant(&part), user("Are you there?")]);
    body["stream"] = false.into();
    let answer = chat(&wire, &body).await.ok();
    assert_eq!((text(&answer).as_str(), agent_of(&answer).as_str()), ("Here I am.", "ada"));
    assert!(answer["vctx"].get("branch").is_none(), "{answer}");
    let texts: Vec<String> =
        said(&ada.messages().await).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["Speak slowly.", &part, "Are you there?", "Here I am."]);
    stage.home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_after_it_was_cut_off_is_answered() {
    let stage = stage(&["vctx.sock"], SLOW).await;
    let body = json!({"model": "gpt", "messages": [user("Speak slowly.")], "stream": true});
    leave_after(&stage.home.path("vctx.sock"), &body, 1);
    let told = put_together(&pieces(&chat(&stage.wire(), &body).await));
    assert_eq!(
        told["text"],
        "One word and another word and a further word and the last word of them all."
    );
    let listed = stage.wire().get("/v1/agents").await.ok();
    assert_eq!(listed["agents"].as_array().map(Vec::len), Some(1));
    let agent = stage.agent(listed["agents"][0]["agent"].as_str().expect("a name"));
    assert_eq!(said(&agent.messages().await).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_named_by_path_model_or_header_and_keeps_all_conversations() {
    let stage = stage(&["vctx.sock"], "echo").await;
    let wire = stage.wire();
    let ada = Agent::create(stage.wire(), "ada", WINDOW, "You are Ada.").await;
    let path = "/v1/agents/ada/chat/completions";
    let one = post(&wire, path, &[], &asking(&[user("by path")])).await.ok();
    let mut body = asking(&[user("by model")]);
    body["model"] = "vctx/ada".into();
    let two = chat(&wire, &body).await.ok();
    let header = [("x-vctx-agent", "ada")];
    let three =
        post(&wire, "/v1/chat/completions", &header, &asking(&[user("by header")])).await.ok();
    for answer in [&one, &two, &three] {
        assert_eq!(agent_of(answer), "ada");
    }
    assert_eq!(two["model"], "vctx/ada");
    // The two conversations continue separately, but both use the memory of one agent.
    let on = [user("by path"), assistant("You said: by path"), user("and on")];
    let four = post(&wire, path, &[], &asking(&on)).await.ok();
    assert_eq!(agent_of(&four), "ada");
    let state = ada.state().await;
    assert_eq!((&state["system"], &state["queue"]["count"]), (&json!("You are Ada."), &json!(8)));
    let models = wire.get("/v1/models").await.ok();
    let ids: Vec<&str> = models["data"]
        .as_array()
        .expect("models")
        .iter()
        .filter_map(|model| model["id"].as_str())
        .collect();
    assert_eq!(ids, ["scripted", "vctx-lexical", "vctx/ada"]);
    let missing =
        chat(&wire, &json!({"model": "vctx/new", "messages": [user("hello")]})).await.ok();
    assert_eq!(agent_of(&missing), "new", "made by its first message");
}

/// Steps of a model whose first answer is an error.
const FAILS: &str = r#"{"status": 400, "body": {"error": {"message": "no"}}}
{"when": "", "text": "Here I am.", "repeat": true}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_failed_is_asked_again_by_the_same_request() {
    let stage = stage(&["vctx.sock"], FAILS).await;
    for server in &stage.servers {
        server.expect("the model gave no answer");
    }
    let body = asking(&[user("Are you there?")]);
    let failed = chat(&stage.wire(), &body).await;
    assert_eq!((failed.status, &failed.body["error"]["code"]), (503, &json!("MODEL_UNAVAILABLE")));
    let answer = chat(&stage.wire(), &body).await.ok();
    assert_eq!(text(&answer), "Here I am.");
    let agent = stage.agent(&agent_of(&answer));
    assert_eq!(said(&agent.messages().await).len(), 2);
    stage.home.assert_verified("vctx.sock", &agent.name);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_of_another_tenant_is_not_known() {
    let stage = stage(&["vctx.sock"], "echo").await;
    let mut acme = tuning(&stage.home.path("model.sock"));
    acme.environment.push(("VCTX_SERVER__TENANT".into(), "acme".into()));
    let _acme = stage.home.server("acme.sock", "engine.sock", "engine-ro.sock", &acme).await;
    let (own, theirs) = (stage.wire(), stage.home.wire("acme.sock"));
    let mut body = asking(&[user("the same words")]);
    for name in ["gpt", "vctx/ada"] {
        body["model"] = name.into();
        let one = chat(&own, &body).await.ok();
        let two = chat(&theirs, &body).await.ok();
        assert_ne!(one["id"], two["id"]);
    }
    let asked = stage.asked().len();
    assert_eq!(asked, 4, "each was asked for itself");
    let first =
        post(&own, "/v1/responses", &[], &json!({"model": "gpt", "user": "u", "input": "one"}))
            .await
            .ok();
    let on = json!({"model": "gpt", "previous_response_id": first["id"], "input": "two"});
    let refused = post(&theirs, "/v1/responses", &[], &on).await;
    let nobodys = json!({"model": "gpt", "previous_response_id": format!("resp_{}", "0".repeat(64)), "input": "two"});
    let unknown = post(&theirs, "/v1/responses", &[], &nobodys).await;
    assert_eq!((refused.status, &refused.text), (400, &unknown.text));
    let listed = theirs.get("/v1/models").await.ok();
    assert_eq!(listed["data"].as_array().map(Vec::len), Some(4), "{listed}");
    for (socket, list) in [
        ("vctx.sock", own.get("/v1/agents").await.ok()),
        ("acme.sock", theirs.get("/v1/agents").await.ok()),
    ] {
        for agent in list["agents"].as_array().expect("agents") {
            stage.home.assert_verified(socket, agent["agent"].as_str().expect("a name"));
        }
    }
}
