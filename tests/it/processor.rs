//! Runs over real sockets: polite models solve their tasks by tools alone, rude ones end within their budget, and whoever is killed, nothing happens twice.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::chance::Chance;
use crate::count;
use crate::home::{Home, Process, Tuning};
use crate::provider;
use crate::scripted::Scripted;
use crate::talk::{Agent, key, said};
use crate::wire::Answer;

/// Window of the agents.
const WINDOW: u64 = 4096;
/// Name of the server's socket.
const SOCKET: &str = "vctx.sock";

/// A model, a server and an agent.
struct Stage {
    home: Home,
    model: Scripted,
    server: Process,
    ada: Agent,
}

impl Stage {
    async fn new(script: &str, tools: &[&str], window: u64, more: &[(&str, &str)]) -> Stage {
        let home = Home::new();
        let model = Scripted::start(&home, script, &["--window", &window.to_string()]).await;
        Stage::with(home, model, tools, window, more).await
    }

    async fn steps(steps: &[Value], tools: &[&str]) -> Stage {
        let home = Home::new();
        let model = Scripted::steps(&home, steps).await;
        Stage::with(home, model, tools, 8192, &[]).await
    }

    async fn with(
        home: Home,
        model: Scripted,
        tools: &[&str],
        window: u64,
        more: &[(&str, &str)],
    ) -> Stage {
        let mut tuning = model.tuning(tools);
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        tuning.environment.extend(more.iter().map(own));
        let server = home.serve_with(SOCKET, &tuning).await;
        let ada = Agent::create(home.wire(SOCKET), "ada", window, "Be brief.").await;
        // A script is faster than a model.
        patch(&ada, &json!({"heartbeat": {"rps_limit": 64}})).await;
        Stage { home, model, server, ada }
    }

    /// One run that must end.
    async fn run(&self, body: &Value) -> Value {
        run(&self.ada, body, &key()).await.ok()
    }

    /// What is true after every run: nothing open, nothing lost, each call with one result.
    async fn assert_clean(&self) {
        let state = self.ada.state().await;
        assert_eq!(state["heartbeat"]["chain"], Value::Null, "{state:#}");
        let messages = self.ada.messages().await;
        let mut open: BTreeMap<String, u64> = BTreeMap::new();
        for message in &messages {
            for call in message["meta"]["tool_calls"].as_array().into_iter().flatten() {
                *open.entry(call["id"].as_str().expect("an id").into()).or_default() += 1;
            }
            if let Some(id) = message["meta"]["tool_call_id"].as_str() {
                *open.get_mut(id).expect("a result after its call") -= 1;
            }
        }
        open.retain(|_, count| *count > 0);
        assert_eq!(open, BTreeMap::new(), "calls without a result");
        let (starts, ends) = (self.events("run_start").await, self.events("run_end").await);
        assert_eq!(starts.len(), ends.len(), "{starts:?} {ends:?}");
        self.home.assert_verified(SOCKET, "ada");
    }

    /// Details of the events of a kind, oldest first.
    async fn events(&self, kind: &str) -> Vec<Value> {
        let page = self.ada.wire.get(&format!("{}/events?limit=1000", self.ada.path())).await.ok();
        let events = page["events"].as_array().expect("events").iter();
        events.filter(|event| event["type"] == kind).map(|event| event["details"].clone()).collect()
    }

    /// No request was larger than the window, whatever the model counts.
    fn assert_fits(&self, window: u64) {
        for request in self.model.requests() {
            let needs = request["prompt_tokens"].as_u64().expect("a number")
                + request["max_tokens"].as_u64().expect("a number");
            assert!(needs <= window, "{needs} of {window}");
            assert_eq!(request["status"], 200, "refused by the model");
        }
    }
}

async fn patch(ada: &Agent, body: &Value) {
    let key = key();
    let headers = [("idempotency-key", key.as_str()), ("if-match", "*")];
    ada.wire.call("PATCH", &ada.path(), &headers, body.to_string()).await.ok();
}

async fn run(ada: &Agent, body: &Value, key: &str) -> Answer {
    let path = format!("{}/runs", ada.path());
    ada.wire.call("POST", &path, &[("idempotency-key", key)], body.to_string()).await
}

/// A UUID by chance.
fn uuid(chance: &mut Chance) -> String {
    let mut part = |digits: usize| {
        let digit = |_| {
            char::from(b"0123456789abcdef"[usize::try_from(chance.below(16)).expect("a digit")])
        };
        (0..digits).map(digit).collect::<String>()
    };
    format!("{}-{}-4{}-a{}-{}", part(8), part(4), part(3), part(3), part(12))
}

/// Calls of a tool that were recorded.
fn calls_of(messages: &[Value], tool: &str) -> usize {
    let calls =
        messages.iter().flat_map(|m| m["meta"]["tool_calls"].as_array().into_iter().flatten());
    calls.filter(|call| call["function"]["name"] == tool).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_follows_nested_keys_with_one_call_more_than_lookups() {
    let stage = Stage::new("nested-kv", &["search_archival"], WINDOW, &[]).await;
    let mut chance = Chance::new(11);
    let mut pairs: Vec<(String, String)> =
        (0..140).map(|_| (uuid(&mut chance), uuid(&mut chance))).collect();
    // Chains of 0 to 4 nestings, side by side, none sharing a pair.
    let mut first = 0;
    let mut questions = Vec::new();
    for nestings in 0..=4 {
        let last = first + nestings;
        for at in first..last {
            pairs[at].1 = pairs[at + 1].0.clone();
        }
        questions.push((nestings + 1, pairs[first].0.clone(), pairs[last].1.clone()));
        first = last + 1;
    }
    let chunks: Vec<String> = pairs
        .iter()
        .map(|(key, value)| format!("Key-value pair: key = {key}, value = {value}"))
        .collect();
    stage.ada.done("ingest_archival", &json!({"doc_id": "kv", "chunks": chunks})).await;
    let mut before = 0;
    for (lookups, start, value) in questions {
        let question = format!("What is the value of the key {start}?");
        let end = stage.run(&json!({"input": question})).await;
        assert_eq!(end["reason"], "yield", "{end:#}");
        assert_eq!(end["text"], format!("The value is {value}."));
        let calls = calls_of(&stage.ada.messages().await, "search_archival");
        assert_eq!(calls - before, lookups + 1, "calls for {lookups} lookups");
        assert_eq!(end["turns"], lookups + 2);
        before = calls;
    }
    stage.assert_fits(WINDOW);
    stage.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_reads_a_document_of_many_pages_and_answers_with_all_of_it() {
    let tools = ["search_archival", "store_core"];
    let stage = Stage::new("pages", &tools, WINDOW, &[]).await;
    let code = |n: u64| 10_000 + n * 379 % 80_000;
    let sentence = "The keeper writes down what the night brought, as always in a hand that nobody reads with ease.";
    let chunks: Vec<String> = (0..24)
        .map(|n| {
            format!("Harbour log, entry {n}: code {}. {sentence} {sentence} {sentence}", code(n))
        })
        .collect();
    stage.ada.done("ingest_archival", &json!({"doc_id": "log", "chunks": chunks})).await;
    let mut all: Vec<String> = (0..24).map(|n| code(n).to_string()).collect();
    all.sort();
    let end = stage.run(&json!({"input": "Collect every code of \"harbour log\"."})).await;
    assert_eq!(end["text"], format!("24 codes: {}", all.join(" ")), "{end:#}");
    let messages = stage.ada.messages().await;
    let pages = calls_of(&messages, "search_archival");
    assert!(pages > 3, "{pages} pages");
    assert_eq!(end["turns"], pages + 1, "a page for each inference, and one that answers");
    stage.assert_fits(WINDOW);
    stage.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_a_beat_gives_control_back_and_one_with_it_does_not() {
    let store = |more: Value| {
        let mut arguments = json!({"block_id": "human", "content": "likes tea"});
        arguments
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().cloned().expect("an object"));
        json!({"calls": [{"name": "store_core", "arguments": arguments}]})
    };
    let steps = [
        store(json!({})),
        store(json!({"request_heartbeat": true})),
        json!({"when": "block_id", "text": "Noted."}),
    ];
    let stage = Stage::steps(&steps, &["store_core"]).await;
    let once = stage.run(&json!({"input": "I like tea."})).await;
    assert_eq!(
        (&once["reason"], &once["turns"], &once["text"]),
        (&json!("yield"), &json!(1), &json!(""))
    );
    let twice = stage.run(&json!({"input": "Remember it."})).await;
    assert_eq!((&twice["turns"], &twice["text"]), (&json!(2), &json!("Noted.")));
    // The second inference of that run saw the result of its call.
    let last = &stage.model.requests()[2]["request"]["messages"];
    let tool = last.as_array().expect("messages").iter().rfind(|m| m["role"] == "tool");
    assert!(
        tool.is_some_and(|m| m["content"].as_str().is_some_and(|t| t.contains("human"))),
        "{last:#}"
    );
    stage.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_call_is_seen_by_the_next_inference_of_the_same_run() {
    let steps = [
        json!({"calls": [{"name": "fetch_core", "arguments": {"block_id": "nothing"}},
            {"name": "fly", "arguments": {}}, {"name": "store_core", "arguments": "{\"block_id\""}]}),
        json!({"text": "I see."}),
    ];
    let stage = Stage::steps(&steps, &["fetch_core", "store_core"]).await;
    let end = stage.run(&json!({"input": "What do you know?"})).await;
    assert_eq!(
        (&end["reason"], &end["turns"], &end["text"]),
        (&json!("yield"), &json!(2), &json!("I see."))
    );
    let results: Vec<String> = said(&stage.ada.messages().await)
        .into_iter()
        .filter_map(|(role, text)| (role == "tool").then_some(text))
        .collect();
    for (result, code) in
        results.iter().zip(["BLOCK_NOT_FOUND", "TOOL_NOT_FOUND", "INVALID_ARGUMENT"])
    {
        assert!(result.contains(code), "{result}");
    }
    let sent = stage.model.requests()[1]["request"]["messages"].to_string();
    assert!(sent.contains("BLOCK_NOT_FOUND") && sent.contains("not_understood"), "{sent}");
    stage.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_rude_model_ends_within_its_budget_and_leaves_nothing_open() {
    for (script, reasons, turns) in [
        ("rubbish", &["repairs"][..], 8),
        ("circle", &["loop_detected"], 4),
        ("endless", &["depth"], 9),
        ("giant", &["yield", "depth", "repairs", "loop_detected"], 9),
        ("wrong-ids", &["yield", "depth"], 4),
        ("slow", &["model_failed", "yield"], 2),
        ("cut", &["model_failed"], 1),
        ("hang-up", &["model_failed"], 1),
        ("overflow", &["model_failed", "tokens"], 1),
        ("rate-limit", &["yield"], 1),
        ("refuses", &["model_failed"], 1),
        ("down", &["model_failed"], 1),
    ] {
        // Only the one that takes its time is not waited for.
        let patience = if script == "slow" { "1500" } else { "30000" };
        let more = [("VCTX_CHAT__TIMEOUT_MS", patience)];
        let home = Home::new();
        let model = Scripted::start(&home, script, &[]).await;
        let tools = ["store_core", "search_recall", "record_heartbeat"];
        let stage = Stage::with(home, model, &tools, 8192, &more).await;
        stage.server.expect("the model gave no answer");
        let end = stage.run(&json!({"input": "Hello there.", "beat": "always"})).await;
        let reason = end["reason"].as_str().expect("a reason").to_owned();
        assert!(reasons.contains(&reason.as_str()), "{script}: {end:#}");
        assert!(end["turns"].as_u64().expect("a number") <= turns, "{script}: {end:#}");
        let told = stage.events("run_end").await;
        assert_eq!(told.len(), 1, "{script}");
        assert_eq!(
            (&told[0]["reason"], &told[0]["turns"]),
            (&end["reason"], &end["turns"]),
            "{script}"
        );
        assert_eq!(told[0]["calls_cut_off"], 0, "{script}");
        stage.assert_clean().await;
        // The agent is as good as before.
        let state = stage.ada.state().await;
        let occupancy = state["tokens"]["occupancy"].as_u64().expect("a number");
        assert!(occupancy <= 8192, "{script}: {occupancy}");
        stage.ada.append("user", "Still there?").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_again_is_the_same_run() {
    let stage = Stage::new("echo", &["store_core"], WINDOW, &[]).await;
    let body = json!({"input": "Good morning."});
    let first = run(&stage.ada, &body, "morning").await.ok();
    assert_eq!(first["text"], "You said: Good morning.");
    let again = run(&stage.ada, &body, "morning").await.ok();
    assert_eq!(first, again);
    assert_eq!(stage.model.requests().len(), 1);
    assert_eq!(stage.ada.messages().await.len(), 2);
    stage.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_the_client_end_the_run_and_their_results_begin_the_next() {
    let steps = [
        json!({"calls": [{"id": "w1", "name": "weather", "arguments": {"at": "Kiel"}}]}),
        json!({"when": "windy", "text": "Take a coat."}),
    ];
    let stage = Stage::steps(&steps, &["store_core"]).await;
    let weather = json!({"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}});
    let end = stage.run(&json!({"input": "Coat?", "client_tools": [weather]})).await;
    assert_eq!(end["reason"], "client_calls");
    assert_eq!(
        end["client_calls"],
        json!([{"id": "w1", "name": "weather", "arguments": "{\"at\":\"Kiel\"}"}])
    );
    let result = json!([{"role": "tool", "content": "windy", "tool_call_id": "w1"}]);
    let end = stage.run(&json!({"input": result, "client_tools": [weather]})).await;
    assert_eq!((&end["reason"], &end["text"]), (&json!("yield"), &json!("Take a coat.")));
    stage.assert_clean().await;
}

/// Names of the tools of the newest request.
fn offered(stage: &Stage) -> Vec<String> {
    let requests = stage.model.requests();
    let tools = requests.last().expect("a request")["request"]["tools"].as_array().cloned();
    let name = |tool: Value| tool["function"]["name"].as_str().expect("a name").to_owned();
    tools.unwrap_or_default().into_iter().map(name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_offers_five_tools_unless_it_is_told_otherwise() {
    let stage = Stage::new("echo", &[], 8192, &[]).await;
    let ask = async |tools: Value| {
        let mut body = json!({"input": "Good morning."});
        if !tools.is_null() {
            body["tools"] = tools;
        }
        stage.run(&body).await;
        offered(&stage)
    };
    let chat =
        ["store_core", "search_recall", "write_recall", "search_archival", "record_heartbeat"];
    assert_eq!(ask(Value::Null).await, chat);
    assert_eq!(ask(json!(["all"])).await.len(), 10);
    assert_eq!(ask(json!(["fetch_core"])).await, ["fetch_core"]);
    assert_eq!(ask(json!([])).await, Vec::<String>::new());
    let unknown = run(&stage.ada, &json!({"input": "x", "tools": ["fetch"]}), &key()).await;
    unknown.refused(400, "INVALID_ARGUMENT");
    // What is offered then leaves room for half of the window, which a flush reaches.
    ask(Value::Null).await;
    while stage.events("flush").await.is_empty() {
        stage.ada.append("user", count::words(120)).await;
    }
    let flush = stage.events("flush").await.remove(0);
    assert_eq!(flush["target_reached"], true, "{flush:#}");
    let tools = stage.ada.state().await["tokens"]["tools"].as_u64().expect("tokens");
    assert!((1..8192 / 3).contains(&tools), "{tools}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_names_all_tools_or_those_of_its_dialect() {
    for (more, count) in [
        (&[("VCTX_CHAT__TOOLS", "[all]")][..], 10),
        (&[("VCTX_CHAT__DIALECT", "memgpt")], 5),
        (&[("VCTX_CHAT__DIALECT", "anthropic")], 5),
        (&[("VCTX_CHAT__DIALECT", "anthropic"), ("VCTX_CHAT__TOOLS", "[all]")], 9),
    ] {
        let stage = Stage::new("echo", &[], 16_384, more).await;
        stage.run(&json!({"input": "Good morning."})).await;
        assert_eq!(offered(&stage).len(), count, "{more:?}: {:?}", offered(&stage));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_parts_a_call_of_the_client_from_its_result() {
    let steps = [
        json!({"calls": [{"id": "w1", "name": "weather", "arguments": {}},
            {"id": "w2", "name": "weather", "arguments": {}}]}),
        json!({"text": "I wait."}),
        json!({"text": "Take a coat."}),
        json!({"calls": [{"id": "w3", "name": "weather", "arguments": {}}]}),
        json!({"text": "No coat."}),
    ];
    let stage = Stage::steps(&steps, &["store_core"]).await;
    let weather = json!([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]);
    let run = async |input: Value| {
        let end = stage.run(&json!({"input": input, "client_tools": weather})).await;
        (end["reason"].as_str().expect("a reason").to_owned(), end["text"].clone())
    };
    let result =
        |id: &str, text: &str| json!([{"role": "tool", "content": text, "tool_call_id": id}]);
    assert_eq!(run(json!("Coat?")).await.0, "client_calls");
    // The user goes on before the client has run its tools.
    assert_eq!(run(json!("Never mind.")).await, ("yield".into(), json!("I wait.")));
    // Then one result comes, and after the call has left another.
    assert_eq!(run(result("w1", "windy")).await, ("yield".into(), json!("Take a coat.")));
    assert_eq!(run(json!("And tomorrow?")).await.0, "client_calls");
    stage.ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    assert_eq!(run(result("w3", "calm")).await, ("yield".into(), json!("No coat.")));
    let requests = stage.model.requests();
    assert_eq!(requests.len(), steps.len());
    for request in requests {
        let messages = request["request"]["messages"].as_array().expect("messages");
        assert_eq!(provider::fault(messages), None, "{messages:#?}");
    }
    let turns = stage.ada.wire.get(&format!("{}/prompts", stage.ada.path())).await.ok();
    for turn in turns["prompts"].as_array().expect("prompts") {
        let path = format!("{}/prompts/{}", stage.ada.path(), turn["turn"]);
        assert_eq!(stage.ada.wire.get(&path).await.ok()["exact"], true);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_model_a_run_is_refused() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire(SOCKET), "ada", WINDOW, "").await;
    run(&ada, &json!({"input": "Hello"}), "k").await.refused(503, "MODEL_UNAVAILABLE");
    assert_eq!(ada.messages().await.len(), 0);
}

/// Longest pause of a slow step, in milliseconds: long enough to be killed in.
const SLOW_MS: u64 = 400;

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_server_was_killed_goes_on_where_it_stood() {
    let search = |word: &str| {
        json!({"pause_ms": SLOW_MS / 8, "calls": [{"name": "store_core",
            "arguments": {"block_id": "notes", "content": word, "policy": {"mode": "append"}, "request_heartbeat": true}}]})
    };
    let mut steps: Vec<Value> = (0..4).map(|n| search(&format!("note {n}"))).collect();
    steps.push(json!({"text": "All noted.", "repeat": true}));
    for killed_after_ms in [50, 250, 450, 700, 1_000] {
        let stage = Stage::steps(&steps, &["store_core"]).await;
        let body = json!({"input": "Take four notes."});
        let first = {
            let ada = stage.ada.again();
            let body = body.clone();
            tokio::spawn(async move {
                let path = format!("{}/runs", ada.path());
                ada.wire
                    .try_call("POST", &path, &[("idempotency-key", "notes")], body.to_string())
                    .await
            })
        };
        tokio::time::sleep(Duration::from_millis(killed_after_ms)).await;
        stage.server.kill();
        let cut_off = first.await.expect("a task");
        let server = stage.home.serve_with(SOCKET, &stage.model.tuning(&["store_core"])).await;
        server.expect(crate::home::TORN_TAIL);
        let ada = stage.ada.again();
        let end = run(&ada, &body, "notes").await.ok();
        assert_eq!(
            (&end["reason"], &end["text"]),
            (&json!("yield"), &json!("All noted.")),
            "{killed_after_ms}"
        );
        if let Ok(answer) = cut_off {
            assert_eq!(answer.ok()["text"], end["text"]);
        }
        // The model took each step once, and each note stands once: a call that was made is not made again.
        let notes = ada.done("fetch_core", &json!({"block_id": "notes"})).await;
        let notes = notes["result"]["content"].as_str().expect("a text").to_owned();
        let asked = stage.model.requests().len();
        let lines: Vec<&str> = notes.lines().collect();
        let mut once = lines.clone();
        once.dedup();
        assert_eq!(lines, once, "{killed_after_ms}: {asked} asked");
        let stage = Stage { server, ada, ..stage };
        stage.assert_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_nobody_goes_on_with_is_ended_and_its_agent_is_free() {
    let home = Home::new();
    let model = Scripted::start(&home, "slow", &[]).await;
    let engine = home.engine().await;
    let tuning = model.tuning(&["store_core"]);
    let first = home.server("first.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    let second =
        home.server("second.sock", "engine.sock", "engine-ro.sock", &Tuning::default()).await;
    let ada = Agent::create(home.wire("first.sock"), "ada", WINDOW, "").await;
    let path = format!("{}/runs", ada.path());
    let body = json!({"input": "Hello"}).to_string();
    let away = ada.again();
    let cut_off = tokio::spawn(async move {
        away.wire.try_call("POST", &path, &[("idempotency-key", "k")], body).await
    });
    while model.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    first.kill();
    assert!(cut_off.await.expect("a task").is_err());
    let ada = Agent::at(home.wire("second.sock"), "ada");
    // The sweep of the other server ends it; nobody has to ask.
    let mut ends = Vec::new();
    for _ in 0..600 {
        let page = ada.wire.get(&format!("{}/events?limit=1000", ada.path())).await.ok();
        let events = page["events"].as_array().expect("events").iter();
        ends = events.filter(|event| event["type"] == "run_end").cloned().collect();
        if !ends.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(ends.len(), 1);
    assert_eq!(
        (&ends[0]["details"]["reason"], &ends[0]["details"]["by"]),
        (&json!("cancelled"), &json!("sweep"))
    );
    ada.append("user", "Anybody?").await;
    home.assert_verified("second.sock", "ada");
    drop((second, engine));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_knows_the_tools_by_memgpts_names_follows_nested_keys_too() {
    let more = [("VCTX_CHAT__DIALECT", "memgpt")];
    let stage = Stage::new("nested-kv", &["archival_memory_search"], WINDOW, &more).await;
    let mut chance = Chance::new(23);
    let keys: Vec<String> = (0..4).map(|_| uuid(&mut chance)).collect();
    let chunks: Vec<String> = keys
        .windows(2)
        .map(|pair| format!("Key-value pair: key = {}, value = {}", pair[0], pair[1]))
        .collect();
    stage.ada.done("ingest_archival", &json!({"doc_id": "kv", "chunks": chunks})).await;
    let question = format!("What is the value of the key {}?", keys[0]);
    let end = stage.run(&json!({"input": question})).await;
    assert_eq!(end["text"], format!("The value is {}.", keys[3]), "{end:#}");
    let calls = calls_of(&stage.ada.messages().await, "archival_memory_search");
    assert_eq!(calls, chunks.len() + 1);
    stage.assert_fits(WINDOW);
    stage.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_ends_its_run_and_nothing_is_half_said() {
    let stage = Stage::new("slow", &["store_core"], WINDOW, &[]).await;
    let away = stage.ada.again();
    let asked = tokio::spawn(async move { run(&away, &json!({"input": "Hello"}), "gone").await });
    while stage.model.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    asked.abort();
    let mut ends = Vec::new();
    for _ in 0..600 {
        ends = stage.events("run_end").await;
        if !ends.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!((ends.len(), &ends[0]["reason"]), (1, &json!("cancelled")));
    assert_eq!(said(&stage.ada.messages().await), [("user".to_owned(), "Hello".to_owned())]);
    stage.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_wrote_while_the_model_was_thinking_is_not_overwritten() {
    let store = |block: &str, content: &str, mode: &str| {
        json!({"name": "store_core",
            "arguments": {"block_id": block, "content": content, "policy": {"mode": mode}}})
    };
    let calls = [
        store("human", "Mine.", "replace"),
        store("plans", "Sail.", "replace"),
        store("plans", " At dawn.", "append"),
    ];
    let steps = [
        json!({"when": "go", "calls": calls, "pause_ms": 60}),
        json!({"text": "Noted.", "repeat": true}),
    ];
    let stage = Stage::steps(&steps, &["store_core"]).await;
    stage.ada.done("store_core", &json!({"block_id": "human", "content": "As it was."})).await;
    let runner = stage.ada.again();
    let running = tokio::spawn(async move { run(&runner, &json!({"input": "go"}), &key()).await });
    while stage.model.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stage.ada.done("store_core", &json!({"block_id": "human", "content": "Theirs."})).await;
    let end = running.await.expect("a run").ok();
    assert_eq!((&end["reason"], &end["text"]), (&json!("yield"), &json!("Noted.")), "{end:#}");
    let context = stage.ada.context().await["messages"].to_string();
    assert!(context.contains("Theirs.") && !context.contains("As it was."), "{context}");
    let messages = stage.ada.messages().await;
    let results: Vec<&str> = messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().expect("a text"))
        .collect();
    assert!(results[0].contains("REVISION_STALE"), "{results:?}");
    assert!(!results[1].contains("error") && !results[2].contains("error"), "{results:?}");
    let core = stage.ada.state().await["blocks"].to_string();
    assert!(core.contains("Theirs.") && !core.contains("Mine."), "{core}");
    assert!(core.contains("Sail.") && core.contains("At dawn."), "one's own is no news: {core}");
    stage.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_is_it_by_a_run_that_another_server_goes_on_with() {
    let beat = json!({"name": "record_heartbeat", "arguments": {"state": "continue"}});
    let store = json!({"name": "store_core",
        "arguments": {"block_id": "human", "content": "Mine."}});
    let steps = [
        json!({"when": "go", "calls": [beat, beat, beat, store]}),
        json!({"text": "Noted.", "repeat": true}),
    ];
    let tools = ["record_heartbeat", "store_core"];
    let stage = Stage::steps(&steps, &tools).await;
    stage.ada.done("store_core", &json!({"block_id": "human", "content": "As it was."})).await;
    // One beat a second: the run waits between its calls, and is killed there.
    patch(&stage.ada, &json!({"heartbeat": {"rps_limit": 1}})).await;
    let runner = stage.ada.again();
    let body = json!({"input": "go"});
    let first = {
        let (path, body) = (format!("{}/runs", runner.path()), body.to_string());
        tokio::spawn(async move {
            runner.wire.try_call("POST", &path, &[("idempotency-key", "go")], body).await
        })
    };
    while !stage.ada.messages().await.iter().any(|message| message["role"] == "tool") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stage.server.kill();
    assert!(first.await.expect("a task").is_err(), "it was over before it was killed");
    let server = stage.home.serve_with(SOCKET, &stage.model.tuning(&tools)).await;
    server.expect(crate::home::TORN_TAIL);
    let ada = stage.ada.again();
    ada.done("store_core", &json!({"block_id": "human", "content": "Theirs."})).await;
    let end = run(&ada, &body, "go").await.ok();
    assert_eq!((&end["reason"], &end["text"]), (&json!("yield"), &json!("Noted.")), "{end:#}");
    let blocks = ada.state().await["blocks"].to_string();
    assert!(blocks.contains("Theirs.") && !blocks.contains("Mine."), "{blocks}");
    let messages = ada.messages().await;
    let refused = messages.iter().filter(|message| message["role"] == "tool");
    let refused = refused.filter(|m| m["content"].to_string().contains("REVISION_STALE"));
    assert_eq!(refused.count(), 1);
    let stage = Stage { server, ada, ..stage };
    stage.assert_clean().await;
}
