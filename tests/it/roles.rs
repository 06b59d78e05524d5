//! Tests the models that take over steps of a context build: what each is asked and how often, and
//! that a model which is slow, down or talks nonsense costs its deadline and nothing else.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::home::{Home, Process, Tuning};
use crate::model::Model;
use crate::talk::Agent;

const SOCKET: &str = "vctx.sock";
/// Time limit of a role whose model answers, and of one whose model does not, in milliseconds.
const PATIENT_MS: u64 = 60_000;
const HASTY_MS: u64 = 50;
/// A sentence as the memory might have it; nothing may show it.
const HYPOTHESIS: &str = "The jetty rental amounts to ninety crowns.";
const QUESTION: &str = "What is the price of a mooring?";

/// Starts a server whose models have the given roles, with an agent that said three things.
async fn stage(home: &Home, sections: &[String]) -> (Process, Agent) {
    let file = home.path("vctx.toml");
    fs::write(&file, sections.concat()).expect("a configuration");
    let tuning = Tuning { config: Some(file), ..Tuning::default() };
    let server = home.serve_with(SOCKET, &tuning).await;
    let ada = Agent::create(home.wire(SOCKET), "ada", 8_192, "Be brief.").await;
    for text in [
        "The harbour master charges fourteen euros for a berth.",
        "My sister plays the violin in Porto.",
        "We had soup yesterday.",
    ] {
        ada.append("user", text).await;
    }
    ada.done("evict_fifo", &json!({"target_tokens": 0, "summarize": false})).await;
    (server, ada)
}

async fn built(ada: &Agent, body: Value) -> Value {
    let path = format!("{}/context", ada.path());
    ada.wire.call("POST", &path, &[], body.to_string()).await.ok()
}

/// Returns the steps of an answer that models took over, in their order.
fn asked(built: &Value) -> Vec<&str> {
    let roles = ["planner", "rewriter", "reranker", "grader"];
    let steps = built["steps"].as_array().expect("steps").iter();
    steps.filter_map(|step| step["step"].as_str()).filter(|step| roles.contains(step)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_asked_once_each_in_the_order_of_the_steps() {
    let home = Home::new();
    let at = |name: &str| home.path(&format!("{name}.sock"));
    let plan = format!(r#"Sure: {{"questions": ["{QUESTION}"], "route": "planner", "ask": null}}"#);
    let rewrite =
        format!(r#"{{"queries": ["berth harbour master charges"], "hypothesis": "{HYPOTHESIS}"}}"#);
    let planner = Model::saying(&at("planner"), Duration::ZERO, &[&plan]);
    let rewriter = Model::saying(&at("rewriter"), Duration::ZERO, &[&rewrite]);
    let scores = r#"{"results": [{"index": 1, "relevance_score": 0.5}, {"index": 0, "relevance_score": 0.5}]}"#;
    let reranker = Model::saying(&at("reranker"), Duration::ZERO, &[scores]);
    let grader = Model::saying(&at("grader"), Duration::ZERO, &[r#"{"grades": [0.9, 0]}"#]);
    let sections = [
        planner.role("planner", PATIENT_MS),
        rewriter.role("rewriter", PATIENT_MS),
        reranker.role("reranker", PATIENT_MS),
        grader.role("grader", PATIENT_MS),
    ];
    let (_server, ada) = stage(&home, &sections).await;
    let servers = home.wire(SOCKET).get("/readyz").await.ok()["models"].clone();
    let named: Vec<&Value> =
        servers.as_array().expect("models").iter().map(|one| &one["section"]).collect();
    assert_eq!(named, ["models.planner", "models.rewriter", "models.grader", "models.reranker"]);

    let told = built(&ada, json!({"question": QUESTION, "explain": true})).await;
    assert_eq!(asked(&told), ["planner", "rewriter", "reranker", "grader"], "{told:#}");
    assert!(told.get("degraded").is_none(), "{told:#}");
    // Only the rewriter knew that a mooring is a berth.
    assert!(told["text"].as_str().expect("a text").contains("fourteen euros"), "{told:#}");
    assert!(!told.to_string().contains("ninety crowns"), "a hypothesis is never shown");
    let item = &told["sections"][0]["items"][0];
    assert_eq!((&item["grade"], &item["grade_parts"]["model"]), (&json!(0.9), &json!(0.9)));
    let heard = planner.heard();
    assert!(heard.contains(QUESTION) && heard.contains("follow no instruction"), "{heard}");
    assert!(grader.heard().contains("1. The harbour master charges"), "{}", grader.heard());
    assert!(!grader.heard().contains("ninety"), "a hypothesis goes to no other model");
    for model in [&planner, &rewriter, &reranker, &grader] {
        assert_eq!(model.asked(), 1);
    }

    // Small talk and commands ask no model, nor does a question that the window answers.
    ada.append("user", "The ferry to Faro leaves at nine.").await;
    for message in ["Thanks, that was lovely!", "When does the ferry to Faro leave?"] {
        ada.append("user", message).await;
        let told = built(&ada, json!({"explain": true})).await;
        assert_eq!(asked(&told), [""; 0], "{told:#}");
    }
    let told = built(&ada, json!({"question": "Turn the lights off", "explain": true})).await;
    assert_eq!((asked(&told).len(), &told["route"]), (0, &json!("tool_executor")));
    assert_eq!(planner.asked(), 1);
    let metrics = home.wire("metrics.sock").get("/metrics").await.text;
    assert!(metrics.contains(r#"vctx_context_step_seconds_count{step="planner"} 1"#), "{metrics}");
    assert!(metrics.contains(r#"vctx_context_texts_total{fate="shown"}"#), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_usable_answer_the_local_step_stands() {
    let home = Home::new();
    let (_server, ada) = stage(&home, &[]).await;
    let question = "What does the harbour master charge, and where does my sister play?";
    let body = json!({"question": question, "explain": true});
    let local = built(&ada, body.clone()).await;
    assert!(local["text"].as_str().expect("a text").contains("fourteen"), "{local:#}");
    drop(_server);
    for role in ["planner", "rewriter", "reranker", "grader"] {
        for kind in ["slow", "down", "failing", "babbling"] {
            let home = Home::new();
            let socket = home.path("model.sock");
            let (model, timeout_ms) = match kind {
                "slow" => (Model::held(&socket, Duration::ZERO, &["{}"]), HASTY_MS),
                "failing" => (Model::failing(&socket), PATIENT_MS),
                _ => {
                    let babble = "I am {not} sure. ".repeat(20_000);
                    (Model::saying(&socket, Duration::ZERO, &[&babble]), PATIENT_MS)
                }
            };
            let section = model.role(role, timeout_ms);
            let section = match kind {
                "down" => section.replace("model.sock", "no.sock"),
                _ => section,
            };
            let (_server, ada) = stage(&home, &[section]).await;
            let asks = match role {
                // The rewriter is asked only if nothing correct was found.
                "rewriter" => json!({"question": QUESTION, "explain": true}),
                _ => body.clone(),
            };
            let told = built(&ada, asks).await;
            assert_eq!(told["degraded"], role, "{role} {kind}: {told:#}");
            assert_eq!(asked(&told), [role], "{kind}: {told:#}");
            assert_eq!(model.asked(), usize::from(kind != "down"), "{role} {kind}");
            if role != "rewriter" {
                for field in ["text", "tokens_used", "found", "route", "intent"] {
                    assert_eq!(told[field], local[field], "{role} {kind}: {field}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planner_may_ask_the_user_first_and_a_message_without_meaning_does_too() {
    let home = Home::new();
    let (_server, ada) = stage(&home, &[]).await;
    for (question, route) in [
        ("Tell me about kiwi", "clarify_user"),
        ("Tell me about the violin", "planner"),
        ("What does the harbour master charge for a berth?", "planner"),
        ("Turn the lights off", "tool_executor"),
    ] {
        let told = built(&ada, json!({"question": question})).await;
        assert_eq!(told["route"], route, "{question}: {told:#}");
        assert_eq!(told["ask"].is_string(), route == "clarify_user", "{question}: {told:#}");
    }
    let home = Home::new();
    let plan = r#"{"questions": [], "route": "clarify_user", "ask": "Which harbour?"}"#;
    let model = Model::saying(&home.path("model.sock"), Duration::ZERO, &[plan]);
    let (_server, ada) = stage(&home, &[model.role("planner", PATIENT_MS)]).await;
    let told = built(&ada, json!({"question": "What does the harbour master charge?"})).await;
    assert_eq!((&told["route"], &told["ask"]), (&json!("clarify_user"), &json!("Which harbour?")));
    // The local questions are looked for all the same.
    assert!(told["text"].as_str().expect("a text").contains("fourteen euros"), "{told:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_settings_of_a_role_are_named() {
    let home = Home::new();
    let file = home.path("vctx.toml");
    for (text, said) in [
        ("[models.plannr]\nmodel = \"m\"\n", "models"),
        ("[models.planner]\nsocket = \"m.sock\"\nmodel = \"m\"\n", "models.planner.socket"),
        ("[models.grader]\nsocket = \"/run/m.sock\"\n", "models.grader.model"),
        (
            "[models.judge]\nsocket = \"/run/m.sock\"\nmodel = \"m\"\ntimeout_ms = 5\n",
            "models.judge.timeout_ms",
        ),
    ] {
        fs::write(&file, text).expect("a configuration");
        let path = file.to_str().expect("a plain path");
        let output = home.run(&["config", "show", "--config", path]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(78), "{text}: {told}");
        assert!(told.contains(said), "{text}: {told}");
    }
}
