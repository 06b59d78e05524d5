//! Tests proofs: a prompt is recorded before it is sent, and can be reassembled byte by byte after
//! any later change of the memory.

use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use vctx::memory::event::named;
use vctx::memory::receipt::{canonical_json, sha256};

use crate::chance::rounds;
use crate::count;
use crate::home::{Home, Tuning, command};
use crate::scripted::Scripted;
use crate::talk::{Agent, assert_closed, key, run_events};

mod held;
mod life;
mod older;

/// Number of prompts that the long test records.
const TURNS: u64 = 1_000;

/// An agent runtime with its own model, which records its prompts on the server.
pub(crate) struct Runtime {
    pub(crate) agent: Agent,
    pub(crate) model: &'static str,
}

impl Runtime {
    fn at(agent: Agent) -> Self {
        Self { agent, model: "parrot-1" }
    }

    fn path(&self, rest: &str) -> String {
        format!("{}/prompts{rest}", self.agent.path())
    }

    async fn post(&self, rest: &str, key: &str, body: &Value) -> crate::wire::Answer {
        let headers = [("idempotency-key", key)];
        self.agent.wire.call("POST", &self.path(rest), &headers, body.to_string()).await
    }

    /// Records the next prompt of a run.
    pub(crate) async fn ask(&self, run: &str, tools: &Value) -> Value {
        let body = json!({"run": run, "model": self.model, "tools": tools,
            "options": {"temperature": 0.7, "stream": true, "max_tokens": 512}});
        self.post("", &key(), &body).await.ok()
    }

    /// Records the model's answer.
    pub(crate) async fn said(&self, run: &str, turn: u64, rest: Value) -> Value {
        let mut body = json!({"run": run, "finish": "stop"});
        for (name, value) in rest.as_object().expect("an object") {
            body[name] = value.clone();
        }
        self.post(&format!("/{turn}/answer"), &key(), &body).await.ok()
    }

    pub(crate) async fn replay(&self, turn: u64) -> Value {
        self.agent.wire.get(&self.path(&format!("/{turn}"))).await.ok()
    }
}

fn tools(n: u64) -> Value {
    json!([{"type": "function", "function": {"name": format!("look_{n}"), "description": "Look it up.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}}}])
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

async fn runtime(home: &Home, window: u64) -> Runtime {
    let agent = Agent::create(home.wire("vctx.sock"), "ada", window, "Be brief.").await;
    Runtime::at(agent)
}

/// Changes the memory between two prompts, by edits, events, calls with results, searches, another
/// window size, and another token encoding.
async fn between(runtime: &Runtime, run: &str, turn: u64) {
    let agent = &runtime.agent;
    let sentence =
        format!("Answer {turn}: the berth costs {} crowns. {}", turn * 7, count::words(12));
    match turn % 10 {
        3 => {
            let calls = json!([{"id": format!("c{turn}"), "name": "look_0", "arguments": "{\"query\": \"berth\"}"}]);
            runtime.said(run, turn, json!({"tool_calls": calls, "finish": "tool_calls"})).await;
            let result =
                json!({"content": format!("found {turn}"), "tool_call_id": format!("c{turn}")});
            agent.append("tool", result).await;
        }
        5 => {
            runtime
                .said(
                    run,
                    turn,
                    json!({"content": sentence, "usage": {"prompt": 700, "completion": 30}}),
                )
                .await;
            let block =
                json!({"block_id": format!("b{}", turn % 3), "content": format!("Plan {turn}.")});
            agent.done("store_core", &block).await;
        }
        // If a prompt has no answer, the next prompt marks it as lost.
        7 => {}
        _ if turn.is_multiple_of(4) => {
            runtime.said(run, turn, json!({"content": sentence, "end_run": "yield"})).await;
        }
        _ => {
            runtime.said(run, turn, json!({"content": sentence})).await;
        }
    }
    if turn.is_multiple_of(9) {
        let event = json!({"class": "system", "name": "tide", "content": {"height": turn}});
        let headers = [("idempotency-key", key()), ("if-match", "*".to_owned())];
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        agent
            .wire
            .call("POST", &format!("{}/events", agent.path()), &headers, event.to_string())
            .await
            .ok();
    }
    if turn.is_multiple_of(25) {
        agent
            .done(
                "search_recall",
                &json!({"query": format!("berth costs {} crowns", (turn / 2) * 7)}),
            )
            .await;
    }
    if turn.is_multiple_of(100) {
        let (window, encoding) =
            if turn.is_multiple_of(200) { (1536, "o200k_base") } else { (2048, "cl100k_base") };
        let patch = json!({"context_window": window, "encoding": encoding, "system": format!("Be brief, since {turn}.")});
        let headers = [("idempotency-key", key()), ("if-match", "*".to_owned())];
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        agent.wire.call("PATCH", &agent.path(), &headers, patch.to_string()).await.ok();
    }
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_prompts_are_put_together_again_after_a_restart() {
    let home = Home::new();
    let server = home.serve().await;
    let runtime = runtime(&home, 1536).await;
    let mut sent: Vec<String> = Vec::new();
    let turns = rounds("PROOF_TURNS", TURNS);
    for turn in 1..=turns {
        let run = format!("run-{}", turn.div_ceil(4));
        runtime.agent.append("user", format!("Question {turn}: what of {}?", turn * 3)).await;
        let asked = runtime.ask(&run, &tools(turn % 4)).await;
        assert_eq!(asked["turn"], turn, "turns are dense");
        sent.push(asked["request"].as_str().expect("the bytes").to_owned());
        between(&runtime, &run, turn).await;
    }
    let state = runtime.agent.state().await;
    assert!(state["counters"]["flushes"].as_u64() > Some(turns / 50), "{state:#}");
    assert_eq!(state["turns"], turns);
    assert!(server.stop().await.success());

    let _server = home.serve().await;
    let mut sections = std::collections::BTreeSet::new();
    for (turn, sent) in (1..).zip(&sent) {
        let again = runtime.replay(turn).await;
        assert_eq!(again["request"].as_str(), Some(sent.as_str()), "prompt {turn}");
        assert_eq!(again["exact"], true, "prompt {turn}: {} {}", again["gone"], again["differs"]);
        assert_eq!(again["prompt"]["request_digest"], sha256(sent), "prompt {turn}");
        assert_eq!(again["prompt"]["context_digest"], sha256(&canonical_json(&again["manifest"])));
        for item in again["manifest"]["items"].as_array().expect("items") {
            sections.insert(item["section"].as_str().expect("a name").to_owned());
        }
    }
    let all = ["fifo", "notices", "summary", "system", "working"];
    assert!(all.iter().all(|section| sections.contains(*section)), "{sections:?}");
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_is_recorded_once_and_ends_once() {
    let home = Home::new();
    let _server = home.serve().await;
    let runtime = runtime(&home, 4096).await;
    runtime.agent.append("user", "What does the berth cost?").await;
    let body = json!({"run": "r1", "model": "parrot-1", "tools": tools(1), "options": {"temperature": 1.0}});
    let first = runtime.post("", "ask-1", &body).await.ok();
    let sent: Value =
        serde_json::from_str(first["request"].as_str().expect("bytes")).expect("JSON");
    assert_eq!(sent["messages"], runtime.agent.context().await["messages"]);
    assert_eq!(
        (&sent["model"], &sent["temperature"], &sent["tools"]),
        (&json!("parrot-1"), &json!(1), &tools(1))
    );
    // A request for a prompt that repeats an idempotency key gets the earlier prompt again, even if
    // messages were appended since.
    runtime.agent.append("user", "And the harbour?").await;
    let again = runtime.post("", "ask-1", &body).await.ok();
    assert_eq!(
        (&again["turn"], &again["request"], &again["replayed"]),
        (&json!(1), &first["request"], &json!(true))
    );
    assert_eq!(again["end"], Value::Null);

    let answer = json!({"run": "r1", "finish": "stop", "content": "Fourteen.", "usage": {"prompt": 10, "completion": 2}});
    let done = runtime.post("/1/answer", "answer-1", &answer).await.ok();
    let twice = runtime.post("/1/answer", "answer-1", &answer).await.ok();
    assert_eq!((&twice["replayed"], &twice["result"]), (&json!(true), &done["result"]));
    runtime.post("/1/answer", "answer-2", &answer).await.refused(409, "RUN_LOST");
    let ended = runtime.post("", "ask-1", &body).await.ok();
    assert_eq!(
        (&ended["end"]["finish"], &ended["end"]["answer_seq"]),
        (&json!("stop"), &done["result"]["seq"])
    );
    let messages = runtime.agent.messages().await;
    let said: Vec<&Value> = messages.iter().filter(|m| m["role"] == "assistant").collect();
    assert_eq!(
        (said.len(), &said[0]["content"], &said[0]["meta"]["turn"]),
        (1, &json!("Fourteen."), &json!(1))
    );

    // Another run must wait until the current run has ended. An answer without text adds no
    // message.
    let other = json!({"run": "r2", "model": "parrot-1"});
    let refused = runtime.post("", "ask-2", &other).await.refused(409, "RUN_BUSY");
    assert!(refused["retry_after_ms"].as_u64() > Some(0), "{refused}");
    let second = runtime.ask("r1", &json!([])).await;
    assert_eq!(second["turn"], 2);
    let failed = json!({"run": "r1", "finish": "model_failed", "end_run": "model_failed"});
    runtime.post("/2/answer", "answer-3", &failed).await.ok();
    assert_eq!(runtime.agent.messages().await.len(), messages.len());
    let third = runtime.post("", "ask-2", &other).await.ok();
    assert_eq!(third["turn"], 3);
    let listed = runtime.agent.wire.get(&runtime.path("")).await.ok();
    let ends: Vec<&Value> =
        listed["prompts"].as_array().expect("rows").iter().map(|p| &p["finish"]).collect();
    assert_eq!(ends, [&json!("stop"), &json!("model_failed"), &Value::Null]);
    let events = runtime.agent.wire.get(&format!("{}/events", runtime.agent.path())).await.ok();
    assert_closed(&events);
    let told = run_events(&runtime.agent).await;
    let what: Vec<&Value> = told.iter().map(|event| &event["event"]).collect();
    assert_eq!(what, ["start", "end", "start"]);
    let run = json!(named("ada", "r1"));
    assert_eq!((&told[1]["run"], &told[1]["reason"]), (&run, &json!("model_failed")), "{told:?}");
    runtime.agent.wire.get(&runtime.path("/9")).await.refused(404, "PROMPT_NOT_FOUND");
    runtime.agent.wire.get(&runtime.path("/x")).await.refused(400, "INVALID_ARGUMENT");
    home.assert_verified("vctx.sock", "ada");
}

/// Saved files contain messages and the salts of receipts. Only their owner may read them, even if
/// they replace a file that everyone could read.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_saves_its_owner_alone_may_read() {
    let home = Home::new();
    let model = Scripted::start(&home, "echo", &[]).await;
    let _server = home.serve_with("vctx.sock", &model.tuning(&[])).await;
    let runtime = runtime(&home, 16_384).await;
    runtime.agent.append("user", "My locker's code is 4711.").await;
    let spoken = json!({"input": "And yours?"});
    let path = format!("{}/runs", runtime.agent.path());
    let headers = [("idempotency-key", key())];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    runtime.agent.wire.call("POST", &path, &headers, spoken.to_string()).await.ok();

    let socket = home.path("vctx.sock");
    let commands: [&[&str]; 5] = [
        &["verify", "--agent", "ada", "--save"],
        &["context", "--agent", "ada", "--save"],
        &["replay", "ada", "--turn", "1", "--save"],
        &["export", "--agent", "ada", "--out"],
        &["report", "--agent", "ada", "--force"],
    ];
    for (at, arguments) in commands.iter().enumerate() {
        let file = home.path(&format!("saved-{at}"));
        fs::write(&file, "before").expect("a file");
        fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("a mode");
        let mut command = command(&Tuning::default());
        command.args(*arguments).arg(&file).arg("--socket").arg(&socket);
        let output = command.output().expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(mode(&file), 0o600, "{arguments:?}");
        let text = fs::read_to_string(&file).expect("text");
        assert!(text.contains("ada") || text.contains("4711"), "{arguments:?}: {text}");
    }
    assert!(!model.requests().is_empty());
    assert_eq!(mode(&home.path("model.jsonl")), 0o600, "the log of a scripted model");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_somebody_changed_is_found_in_the_prompt() {
    let home = Home::new();
    let _server = home.serve().await;
    let runtime = runtime(&home, 4096).await;
    for turn in 1..=3 {
        runtime.agent.append("user", format!("Question {turn}.")).await;
        runtime.ask("r", &tools(1)).await;
        runtime.said("r", turn, json!({"content": format!("Answer {turn}.")})).await;
    }
    let database = home.database_inside();
    assert_eq!(runtime.replay(3).await["exact"], true);
    let differs = async |query: &str, undo: &str| {
        database.rows(query, json!({})).await;
        let found = runtime.replay(3).await;
        assert_eq!(found["exact"], false, "{query}");
        database.rows(undo, json!({})).await;
        assert_eq!(runtime.replay(3).await["exact"], true, "{undo}");
        found["differs"].as_array().expect("a list").clone()
    };
    let found = differs(
        "FOR m IN messages FILTER m.seq == 3 UPDATE m WITH {content: 'Question 9.'} IN messages",
        "FOR m IN messages FILTER m.seq == 3 UPDATE m WITH {content: 'Question 2.'} IN messages",
    )
    .await;
    assert_eq!((&found[0]["seq"], found.len()), (&json!(3), 4), "{found:#?}");
    let found = differs(
        "FOR v IN core_versions UPDATE v WITH {system: MERGE(v.system, {content: 'Be rude.'})} IN core_versions",
        "FOR v IN core_versions UPDATE v WITH {system: MERGE(v.system, {content: 'Be brief.'})} IN core_versions",
    )
    .await;
    assert_eq!(found.len(), 4, "the text, messages, manifest and request: {found:#?}");
    let found = differs(
        "FOR t IN tool_sets UPDATE t WITH {text: SUBSTITUTE(t.text, 'Look', 'Cook')} IN tool_sets",
        "FOR t IN tool_sets UPDATE t WITH {text: SUBSTITUTE(t.text, 'Cook', 'Look')} IN tool_sets",
    )
    .await;
    assert_eq!(found[0]["what"], "the tools differ from the offered tools", "{found:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_counts_a_tenth_more_is_told_of_and_learned_from() {
    let home = Home::new();
    let _server = home.serve().await;
    let runtime = runtime(&home, 8192).await;
    runtime.agent.append("user", format!("Hello. {}", count::words(1_000))).await;
    let mut seen = Vec::new();
    for (turn, tenth) in (1..).zip([10, 11, 10]) {
        let asked = runtime.ask("r", &json!([])).await;
        let estimate = asked["token_estimate"].as_u64().expect("a number");
        let usage = json!({"prompt": estimate * tenth / 10, "completion": 5});
        let done = runtime.said("r", turn, json!({"content": "Yes.", "usage": usage})).await;
        let factor = asked["factor_permille"].as_u64().expect("a number");
        assert_eq!(
            asked["safe_estimate"].as_u64(),
            Some((estimate * factor.max(1000)).div_ceil(1000))
        );
        seen.push((factor, done["result"]["variance_flag"] == true));
    }
    assert_eq!(seen[0], (1000, false));
    assert_eq!((seen[1].0, seen[1].1), (1000, true));
    assert!((1099..=1100).contains(&seen[2].0) && !seen[2].1, "{seen:?}");
    let listed = runtime.agent.wire.get(&runtime.path("")).await.ok();
    let learned = &listed["learned"][0];
    assert_eq!((&learned["model"], &learned["samples"]), (&json!("parrot-1"), &json!(3)));
    assert!(
        learned["factor_permille"].as_u64().is_some_and(|f| f > 1000 && f < seen[2].0),
        "{learned}"
    );
    assert_eq!(listed["prompts"][1]["variance_flag"], true);
    let events = runtime.agent.wire.get(&format!("{}/events", runtime.agent.path())).await.ok();
    let told: Vec<&Value> = events["events"]
        .as_array()
        .expect("rows")
        .iter()
        .filter(|e| e["details"]["code"] == "PROMPT_VARIANCE")
        .collect();
    assert_eq!((told.len(), &told[0]["details"]["turn"]), (1, &json!(2)), "{told:?}");
    assert_eq!(told[0]["type"], "error");
    let query = "FOR e IN memory_events COLLECT type = e.type SORT type RETURN type";
    let stored = home.database_inside().rows(query, json!({})).await;
    assert_eq!(stored, ["audit", "error"], "the rows have the closed types, too");
    let metrics = home.wire("metrics.sock").get("/metrics").await;
    assert!(metrics.text.contains("vctx_prompt_variance_flags_total 1"), "no flag in the metrics");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_no_window_holds_lies_in_recall_storage_whole() {
    let home = Home::new();
    let _server = home.serve().await;
    let runtime = runtime(&home, 1024).await;
    runtime.agent.append("user", "Tell me everything.").await;
    runtime.ask("r", &json!([])).await;
    let text = format!("Everything: {}", count::words(3_000));
    let done = runtime.said("r", 1, json!({"content": text, "finish": "length"})).await;
    let spooled = done["result"]["spooled"].as_array().expect("ids");
    let messages = runtime.agent.messages().await;
    let whole = messages.iter().find(|m| m["id"] == spooled[0]).expect("the entry");
    assert_eq!((&whole["content"], &whole["kind"]), (&json!(text), &json!("spool")));
    let shown = messages.iter().find(|m| m["seq"] == done["result"]["seq"]).expect("the answer");
    assert_eq!((&shown["role"], &shown["in_queue"]), (&json!("assistant"), &json!(true)));
    assert!(text.starts_with(shown["content"].as_str().expect("a text").trim_end_matches('…')));
    let context = runtime.agent.context().await;
    assert!(context["tokens"]["occupancy"].as_u64() <= Some(1024), "{}", context["tokens"]);
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_whose_server_was_killed_is_on_record_and_its_run_is_taken_over() {
    let home = Home::new();
    let server = home.serve().await;
    let first = runtime(&home, 4096).await;
    first.agent.append("user", "What does the berth cost?").await;
    let body = json!({"run": "r1", "model": "parrot-1", "tools": tools(1), "lease_ms": 10_000});
    let sent = first.post("", "ask-1", &body).await.ok();
    server.kill();

    let _server = home.serve().await;
    let runtime = Runtime::at(Agent::at(home.wire("vctx.sock"), "ada"));
    let again = runtime.replay(1).await;
    assert_eq!((&again["request"], &again["exact"]), (&sent["request"], &json!(true)));
    assert_eq!(again["prompt"]["waits"], true);
    let resent = runtime.post("", "ask-1", &body).await.ok();
    assert_eq!((&resent["request"], &resent["replayed"]), (&sent["request"], &json!(true)));
    // No client continues the first run. After its lease has expired, another run may begin, and
    // the prompt of the first run counts as lost.
    let other = json!({"run": "r2", "model": "parrot-1"});
    let mut refused = 0;
    let second = loop {
        let answer = runtime.post("", "ask-2", &other).await;
        match answer.code() {
            "RUN_BUSY" => {
                let wait =
                    answer.refused(409, "RUN_BUSY")["retry_after_ms"].as_u64().expect("a wait");
                refused += 1;
                assert!(refused < 100 && wait < 20_000, "{refused} {wait}");
                tokio::time::sleep(std::time::Duration::from_millis(wait)).await;
            }
            _ => break answer.ok(),
        }
    };
    assert_eq!(second["turn"], 2);
    let late = json!({"run": "r1", "finish": "stop", "content": "Fourteen."});
    runtime.post("/1/answer", &key(), &late).await.refused(409, "RUN_LOST");
    let listed = runtime.agent.wire.get(&runtime.path("")).await.ok();
    assert_eq!(
        (&listed["prompts"][0]["finish"], &listed["prompts"][1]["waits"]),
        (&json!("lost"), &json!(true))
    );
    assert_eq!((&listed["run"]["id"], &listed["turns"]), (&json!("r2"), &json!(2)));
    assert!(
        runtime.agent.messages().await.iter().all(|m| m["role"] != "assistant"),
        "nobody answered"
    );
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_model_of_a_run_received_is_what_is_on_record() {
    let home = Home::new();
    let store = json!({"block_id": "human", "content": "likes tea", "request_heartbeat": true});
    let steps = [
        json!({"calls": [{"name": "store_core", "arguments": store}]}),
        json!({"text": "Noted."}),
        json!({"text": "You like tea."}),
    ];
    let file = home.path("steps.jsonl");
    let lines: Vec<String> = steps.iter().map(Value::to_string).collect();
    fs::write(&file, lines.join("\n")).expect("a script");
    let script = file.to_str().expect("a plain path");
    let model = Scripted::start(&home, script, &["--usage-permille", "1150"]).await;
    let _server = home.serve_with("vctx.sock", &model.tuning(&["store_core"])).await;
    let runtime = runtime(&home, 8192).await;
    for text in ["I like tea.", "What do I like?"] {
        let key = key();
        let headers = [("idempotency-key", key.as_str())];
        let path = format!("{}/runs", runtime.agent.path());
        let end = runtime
            .agent
            .wire
            .call("POST", &path, &headers, json!({"input": text}).to_string())
            .await
            .ok();
        assert_eq!(end["reason"], "yield", "{end}");
    }
    let received = model.requests();
    assert_eq!(received.len(), 3);
    for (turn, one) in (1..).zip(&received) {
        let again = runtime.replay(turn).await;
        let request = again["request"].as_str().expect("bytes");
        assert_eq!(request, canonical_json(&one["request"]), "prompt {turn}");
        assert_eq!(
            (&again["exact"], &again["prompt"]["waits"]),
            (&json!(true), &json!(false)),
            "{again:#}"
        );
        let counted = one["prompt_tokens"].as_u64().expect("a number") * 1150 / 1000;
        assert_eq!(again["prompt"]["usage"]["prompt"], counted, "prompt {turn}");
        assert_eq!(again["prompt"]["variance_flag"], true, "prompt {turn}: {}", again["prompt"]);
    }
    let listed = runtime.agent.wire.get(&runtime.path("")).await.ok();
    let answers: Vec<&Value> =
        listed["prompts"].as_array().expect("rows").iter().map(|p| &p["answer_seq"]).collect();
    let said = runtime.agent.messages().await;
    let by_model = said.iter().filter(|m| m["role"] == "assistant").map(|m| &m["seq"]);
    assert_eq!(answers, by_model.collect::<Vec<_>>());
    assert_eq!(
        (&listed["run"], &listed["learned"][0]["samples"]),
        (&Value::Null, &json!(3)),
        "{listed:#}"
    );
    let life = runtime
        .agent
        .wire
        .get(&format!("{}/why?text=I%20like%20tea", runtime.agent.path()))
        .await
        .ok();
    assert_eq!(life["prompts"]["held"][0]["turns"], json!([1, 3]), "{:#}", life["prompts"]);
}
