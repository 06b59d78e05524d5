//! Tests runs of the agent loop over real sockets: well-behaved models solve their tasks with
//! tools, runs of faulty models end within their budget, and no kill causes an effect twice.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::chance::{Chance, uuid};
use crate::home::{Home, Process};
use crate::scripted::Scripted;
use crate::talk::{Agent, assert_closed, key, run_events, said};
use crate::wire::Answer;
use crate::{count, provider};

mod takeover;

/// Window of the agents, in tokens.
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
        // A scripted model answers faster than a real one, so the test raises the rate limit of
        // heartbeats.
        patch(&ada, &json!({"heartbeat": {"rps_limit": 64}})).await;
        Stage { home, model, server, ada }
    }

    /// Runs the agent once, and waits until the run has ended.
    async fn run(&self, body: &Value) -> Value {
        run(&self.ada, body, &key()).await.ok()
    }

    /// Checks what must hold after every run: no run is open, no message is lost, and each call has
    /// one result.
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
        let (starts, ends) = (self.run_events("start").await, self.run_events("end").await);
        assert_eq!(starts.len(), ends.len(), "{starts:?} {ends:?}");
        self.home.assert_verified(SOCKET, "ada");
    }

    /// Returns the details of all events of one type, oldest first.
    async fn events(&self, kind: &str) -> Vec<Value> {
        let page = self.ada.wire.get(&format!("{}/events?limit=1000", self.ada.path())).await.ok();
        assert_closed(&page);
        let events = page["events"].as_array().expect("events").iter();
        events.filter(|event| event["type"] == kind).map(|event| event["details"].clone()).collect()
    }

    /// Returns the beginnings (`start`) or ends (`end`) of all runs, oldest first.
    async fn run_events(&self, what: &str) -> Vec<Value> {
        let mut told = run_events(&self.ada).await;
        told.retain(|event| event["event"] == what);
        told
    }

    /// Checks that no request was larger than the window, by the model's own token count.
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

/// Returns the number of recorded calls to a tool.
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
    // Five questions are prepared, which need 0 to 4 further lookups after the first one: the value
    // of a pair is the key of the next pair. No pair belongs to two questions.
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
        json!({"when": "Done.", "text": "Noted."}),
    ];
    let stage = Stage::steps(&steps, &["store_core"]).await;
    let once = stage.run(&json!({"input": "I like tea."})).await;
    assert_eq!(
        (&once["reason"], &once["turns"], &once["text"]),
        (&json!("yield"), &json!(1), &json!(""))
    );
    let twice = stage.run(&json!({"input": "Remember it."})).await;
    assert_eq!((&twice["turns"], &twice["text"]), (&json!(2), &json!("Noted.")));
    // The second inference of the run saw the result of the call that the first inference made.
    let last = &stage.model.requests()[2]["request"]["messages"];
    let tool = last.as_array().expect("messages").iter().rfind(|m| m["role"] == "tool");
    assert!(tool.is_some_and(|m| m["content"].as_str().is_some_and(|t| t == "Done.")), "{last:#}");
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
    let all = said(&stage.ada.messages().await);
    let of = |role| all.iter().filter(move |(of, _)| of == role).map(|(_, text)| text);
    assert!(of("tool").count() == 3 && of("tool").all(|text| text == "Failed."), "{all:?}");
    let codes = ["BLOCK_NOT_FOUND", "TOOL_NOT_FOUND", "INVALID_ARGUMENT"];
    assert_eq!(of("system").count(), codes.len(), "a system message for each error: {all:?}");
    for (error, code) in of("system").zip(codes) {
        assert!(error.starts_with(&format!("Error {code}: ")), "{error}");
    }
    let sent = stage.model.requests()[1]["request"]["messages"].to_string();
    assert!(sent.contains("BLOCK_NOT_FOUND") && sent.contains("not_understood"), "{sent}");
    stage.assert_clean().await;
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
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
        // Only the slow script gets a short timeout, so that its request exceeds the timeout.
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
        let told = stage.run_events("end").await;
        assert_eq!(told.len(), 1, "{script}");
        assert_eq!(
            (&told[0]["reason"], &told[0]["turns"]),
            (&end["reason"], &end["turns"]),
            "{script}"
        );
        assert_eq!(told[0]["calls_cut_off"], 0, "{script}");
        stage.assert_clean().await;
        // The agent is still usable after the run.
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

/// Returns the names of the tools in the newest request.
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
    assert_eq!(ask(json!(["all"])).await.len(), 11);
    assert_eq!(ask(json!(["fetch_core"])).await, ["fetch_core"]);
    assert_eq!(ask(json!([])).await, Vec::<String>::new());
    let unknown = run(&stage.ada, &json!({"input": "x", "tools": ["fetch"]}), &key()).await;
    unknown.refused(400, "INVALID_ARGUMENT");
    // The offered tools leave half of the window free, so that a flush can reach its target.
    ask(Value::Null).await;
    while stage.events("flush").await.is_empty() {
        stage.ada.append("user", count::words(120)).await;
    }
    let flush = stage.events("flush").await.remove(0);
    assert_eq!(flush["target_reached"], true, "{flush:#}");
    // The tools of a run cost tokens only as long as the run is open.
    assert_eq!(stage.ada.state().await["tokens"]["tools"], 0);
    let path = format!("{}/prompts", stage.ada.path());
    let prompts = stage.ada.wire.get(&path).await.ok()["prompts"].clone();
    let tools = prompts[0]["offered"]["token_estimate"].as_u64().expect("tokens");
    assert!((1..=900).contains(&tools), "{tools}");
    // A run warns if its tools leave too little of the window for the conversation.
    let body = json!({"input": "Good morning.", "tools": ["all"]});
    assert_eq!(stage.run(&body).await["warnings"], Value::Null);
    let small = Agent::create(stage.ada.wire.again(), "bea", 1_200, "You are Bea.").await;
    assert_eq!(small.state().await["warnings"], Value::Null);
    let end = run(&small, &body, &key()).await.ok();
    let warning = end["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains(" of 1200 tokens (system "), "{warning}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_names_all_tools_or_those_of_its_dialect() {
    for (more, count) in [
        (&[("VCTX_CHAT__TOOLS", "[all]")][..], 11),
        (&[("VCTX_CHAT__DIALECT", "memgpt")], 5),
        (&[("VCTX_CHAT__DIALECT", "anthropic")], 5),
        (&[("VCTX_CHAT__DIALECT", "ues")], 5),
        (&[("VCTX_CHAT__DIALECT", "anthropic"), ("VCTX_CHAT__TOOLS", "[all]")], 10),
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
    // The user sends a message before the client has run the tools that the model called.
    assert_eq!(run(json!("Never mind.")).await, ("yield".into(), json!("I wait.")));
    // Then one result arrives while its call is still in the window, and another result after its
    // call was evicted.
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
