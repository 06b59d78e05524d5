//! Tests the contexts of prompts: when a run's prompt gets one, that it replays byte by byte from
//! its context pack, that `why` knows it, and that forgetting reaches it.

use serde_json::{Value, json};

use crate::forgotten::forgotten;
use crate::home::{Home, Tuning};
use crate::scripted::Scripted;
use crate::talk::{Agent, key};

const SOCKET: &str = "vctx.sock";
/// What the memory holds on the question, in the order of the log.
const FACTS: [&str; 4] = [
    "My dentist is Dr. Roe in the Harbour Street.",
    "The sloop has two sails and a brass compass.",
    "We had soup yesterday.",
    "My sister plays the violin in an orchestra.",
];
const QUESTION: &str = "In which street is my dentist?";
const MANUAL: &str = "The ferry leaves at nine. A ticket costs four euros. Dogs travel free.";

async fn run(ada: &Agent, body: &Value) -> Value {
    let (path, key) = (format!("{}/runs", ada.path()), key());
    ada.wire.call("POST", &path, &[("idempotency-key", &key)], body.to_string()).await.ok()
}

async fn replay(ada: &Agent, turn: u64) -> Value {
    ada.wire.get(&format!("{}/prompts/{turn}", ada.path())).await.ok()
}

async fn why(ada: &Agent, query: &str) -> Value {
    ada.wire.get(&format!("{}/why?{query}", ada.path())).await.ok()
}

/// Returns the built context in a request to the model, if it has one.
fn context_of(request: &Value) -> Option<&str> {
    let messages = request["messages"].as_array().expect("messages");
    let texts = messages.iter().filter_map(|message| message["content"].as_str());
    texts
        .into_iter()
        .find(|text| text.contains("[From memory]") || text.contains("[From documents]"))
}

/// Returns the messages of a prompt without the clock, which goes on between two calls.
pub(crate) fn timeless(prompt: &Value) -> Vec<&Value> {
    let messages = prompt["messages"].as_array().expect("messages").iter();
    let is_clock =
        |one: &&Value| one["content"].as_str().is_some_and(|text| text.starts_with("Now: "));
    messages.filter(|one| !is_clock(one)).collect()
}

/// Makes an agent whose memory holds the facts and the manual outside its window.
async fn filled(home: &Home) -> Agent {
    let ada = Agent::create(home.wire(SOCKET), "ada", 8_192, "Be brief.").await;
    for text in FACTS {
        ada.append("user", text).await;
    }
    ada.done("evict_fifo", &json!({"target_tokens": 0, "summarize": false})).await;
    ada.done("ingest_archival", &json!({"doc_id": "ferry.md", "document": MANUAL})).await;
    ada
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_shows_what_the_memory_holds_and_replays_byte_by_byte() {
    let home = Home::new();
    let model = Scripted::start(&home, "echo", &[]).await;
    let server = home.serve_with(SOCKET, &model.tuning(&["store_core"])).await;
    let ada = filled(&home).await;
    run(&ada, &json!({"input": QUESTION})).await;
    let requests = model.requests();
    let request = &requests[0]["request"];
    let context = context_of(request).expect("a context");
    assert!(context.contains("Dr. Roe in the Harbour Street"), "{context}");
    assert!(!context.contains("soup"), "{context}");
    // The question is the last message of the user, behind the context.
    let messages = request["messages"].as_array().expect("messages");
    let is_user = |message: &&Value| message["role"] == "user";
    let last = messages.iter().rfind(is_user).expect("a user message");
    assert!(last["content"].as_str().expect("a text").ends_with(QUESTION), "{messages:#?}");
    let replayed = replay(&ada, 1).await;
    assert_eq!(replayed["exact"], true, "{replayed:#}");
    let pack = replayed["prompt"]["pack"].as_str().expect("a pack").to_owned();
    let items = replayed["manifest"]["items"].as_array().expect("items");
    assert!(items.iter().any(|item| item["section"] == "context" && item["id"] == pack.as_str()));

    // Why it was in the prompt.
    let told = why(&ada, "text=dentist%20Roe%20Harbour%20Street").await;
    let held = told["prompts"]["held"].as_array().expect("ranges");
    let places = held[0]["as"].as_array().expect("places");
    let is_context = |place: &Value| {
        place.as_str().is_some_and(|place| place.starts_with("context: message 1, grade"))
    };
    assert!(places.iter().any(is_context), "{told:#}");
    let told = why(&ada, "turn=1").await;
    assert_eq!(told["context"]["pack"], pack.as_str(), "{told:#}");
    assert_eq!(told["context"]["items"][0]["origin"]["seq"], 1, "{told:#}");

    // Small talk, a run and an agent that want no context have none.
    run(&ada, &json!({"input": "Thanks a lot!"})).await;
    run(&ada, &json!({"input": QUESTION, "engineer": "off"})).await;
    let off = json!({"engineer": "off"}).to_string();
    let patched = key();
    let headers = [("idempotency-key", patched.as_str()), ("if-match", "*")];
    ada.wire.call("PATCH", &ada.path(), &headers, off).await.ok();
    run(&ada, &json!({"input": "Which instrument does my sister play?"})).await;
    for request in &model.requests()[1..] {
        assert_eq!(context_of(&request["request"]), None, "{request:#}");
    }

    // A restart changes no prompt.
    let requests: Vec<String> = (1..=4).map(|turn| turn.to_string()).collect();
    let mut before = Vec::new();
    for turn in 1..=4 {
        before.push(replay(&ada, turn).await["request"].clone());
    }
    drop(server);
    let _server = home.serve_with(SOCKET, &model.tuning(&["store_core"])).await;
    for (turn, request) in (1..=4).zip(before) {
        let again = replay(&ada, turn).await;
        assert_eq!((&again["request"], &again["exact"]), (&request, &json!(true)), "{requests:?}");
    }
    home.assert_verified(SOCKET, "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_builds_a_context_and_records_a_prompt_with_it() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = filled(&home).await;
    ada.append("user", "What does a ticket for the ferry cost?").await;
    let path = format!("{}/context", ada.path());
    let built = ada.wire.call("POST", &path, &[], "{}".to_owned()).await.ok();
    let again = ada.wire.call("POST", &path, &[], "{}".to_owned()).await.ok();
    assert_eq!(built["pack"], again["pack"], "the same state builds the same pack");
    let prompts = format!("{}/prompts", ada.path());
    let body = |pack: &Value| json!({"run": "r", "model": "m", "pack": pack}).to_string();
    let unknown = key();
    let refused = ada
        .wire
        .call("POST", &prompts, &[("idempotency-key", unknown.as_str())], body(&json!("0abc")))
        .await;
    assert_eq!(refused.refused(400, "INVALID_ARGUMENT")["field"], "pack");
    let known = key();
    let headers = [("idempotency-key", known.as_str())];
    let made = ada.wire.call("POST", &prompts, &headers, body(&built["pack"])).await.ok();
    let request: Value =
        serde_json::from_str(made["request"].as_str().expect("a text")).expect("JSON");
    assert_eq!(request["messages"], built["messages"]);
    assert!(context_of(&request).expect("a context").contains("four euros"));
    assert_eq!(replay(&ada, 1).await["exact"], true);
    let repeated = ada.wire.call("POST", &prompts, &headers, body(&built["pack"])).await.ok();
    assert_eq!(repeated["request"], made["request"]);

    // An export takes the pack along, to another database and name.
    let (other, of_other) = (Home::new(), "other.sock");
    let _other_server = other.serve_with(of_other, &Tuning::default()).await;
    let export = ada.wire.get(&format!("{}/export", ada.path())).await;
    let imported =
        other.wire(of_other).call("POST", "/v1/agents/bea/import", &[], export.text).await;
    assert_eq!(imported.status, 201, "{}", imported.text);
    let bea = Agent::at(other.wire(of_other), "bea");
    let there = replay(&bea, 1).await;
    assert_eq!((&there["exact"], &there["request"]), (&json!(true), &made["request"]));
    other.assert_verified(of_other, "bea");

    // A replaced document changes no prompt; a forgotten one goes from the pack too.
    let newer = MANUAL.replace("four", "five");
    ada.done("ingest_archival", &json!({"doc_id": "ferry.md", "document": newer})).await;
    assert_eq!(replay(&ada, 1).await["exact"], true);
    forgotten(&ada, &json!({"doc_id": "ferry.md"})).await;
    let told = replay(&ada, 1).await;
    assert_eq!(told["gone"][0]["section"], "context", "{told:#}");
    assert!(!told.to_string().contains("four euros"), "{told:#}");
    let left = home.database_inside();
    let packs = left.rows("FOR p IN context_packs FILTER p.agent_id == 'ada' RETURN p", json!({}));
    assert!(packs.await.is_empty());
    home.assert_verified(SOCKET, "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_message_goes_from_the_contexts_that_showed_it() {
    let home = Home::new();
    let model = Scripted::start(&home, "echo", &[]).await;
    let _server = home.serve_with(SOCKET, &model.tuning(&["store_core"])).await;
    let ada = filled(&home).await;
    run(&ada, &json!({"input": QUESTION})).await;
    forgotten(&ada, &json!({"seqs": [1]})).await;
    let told = replay(&ada, 1).await;
    assert_eq!(told["gone"][0]["section"], "context", "{told:#}");
    assert_eq!(told["gone"][0]["seq"], 1, "{told:#}");
    assert!(!told.to_string().contains("Roe"), "{told:#}");
    assert_eq!(told["differs"], json!([]), "{told:#}");
    home.assert_verified(SOCKET, "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_setting_off_a_prompt_is_the_window_alone() {
    for (configured, of_agent, of_run) in
        [(Some("off"), None, None), (None, Some("off"), None), (Some("always"), None, Some("off"))]
    {
        let home = Home::new();
        let model = Scripted::start(&home, "echo", &[]).await;
        let mut tuning = model.tuning(&[]);
        if let Some(configured) = configured {
            tuning.environment.push(("VCTX_CONTEXT__ENGINEER".into(), configured.into()));
        }
        let _server = home.serve_with(SOCKET, &tuning).await;
        let ada = filled(&home).await;
        if let Some(of_agent) = of_agent {
            let (key, body) = (key(), json!({"engineer": of_agent}).to_string());
            let headers = [("idempotency-key", key.as_str()), ("if-match", "*")];
            ada.wire.call("PATCH", &ada.path(), &headers, body).await.ok();
        }
        for question in [QUESTION, "What does a ticket for the ferry cost?", "Thanks a lot!"] {
            let mut body = json!({"input": question});
            if let Some(of_run) = of_run {
                body["engineer"] = of_run.into();
            }
            run(&ada, &body).await;
            let requests = model.requests();
            let sent = &requests.last().expect("a request")["request"];
            let window = ada.context().await;
            // The window is now one message longer: the answer.
            let before = timeless(&window);
            let before = &before[..before.len() - 1];
            assert_eq!(timeless(sent), before, "{configured:?} {of_agent:?} {of_run:?}");
        }
        let packs = home.database_inside();
        let packs = packs.rows("FOR p IN context_packs RETURN p", json!({})).await;
        assert!(packs.is_empty(), "{packs:?}");
    }
}
