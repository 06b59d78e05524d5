//! Tests `vctx judge`: the record of prompts with a context, its measures, and verdicts of another
//! judge.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::home::Home;
use crate::model::Model;
use crate::talk::{Agent, key};

const SOCKET: &str = "vctx.sock";

/// Records a prompt for a question, with a context if there is one, and its answer.
async fn answered(ada: &Agent, question: &str, answer: &str) {
    ada.append("user", question).await;
    let context = format!("{}/context", ada.path());
    let built = ada.wire.call("POST", &context, &[], "{}".to_owned()).await.ok();
    let prompts = format!("{}/prompts", ada.path());
    let body = json!({"run": "r", "model": "m", "pack": built.get("pack")});
    let asked = post(ada, &prompts, &body).await;
    let body = json!({"run": "r", "content": answer, "finish": "stop"});
    post(ada, &format!("{prompts}/{}/answer", asked["turn"]), &body).await;
}

async fn post(ada: &Agent, path: &str, body: &Value) -> Value {
    let key = key();
    ada.wire.call("POST", path, &[("idempotency-key", &key)], body.to_string()).await.ok()
}

/// Runs `vctx judge`; returns its exit code, what it prints, and its errors.
fn judge(home: &Home, arguments: &[&str]) -> (Option<i32>, String, String) {
    let socket = home.path(SOCKET);
    let mut all = vec!["judge", "ada", "--socket", socket.to_str().expect("a plain path")];
    all.extend(arguments);
    let output = home.run(&all);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_with_a_context_are_on_record_with_their_answers_and_measures() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire(SOCKET), "ada", 8_192, "Be brief.").await;
    ada.append("user", "My dentist is Dr. Roe in the Harbour Street.").await;
    ada.append("user", "We had soup yesterday.").await;
    ada.done("evict_fifo", &json!({"target_tokens": 0, "summarize": false})).await;
    let manual = "The ferry leaves at nine. A ticket for the ferry costs 14 euros.";
    ada.done("ingest_archival", &json!({"doc_id": "ferry.md", "document": manual})).await;
    let (code, _, said) = judge(&home, &[]);
    assert_eq!(code, Some(67), "{said}");
    answered(
        &ada,
        "In which street is my dentist?",
        "Your dentist Dr. Roe is in the Harbour Street.",
    )
    .await;
    answered(&ada, "Thanks a lot!", "You are welcome.").await;
    answered(
        &ada,
        "What does a ticket for the ferry cost?",
        "A ticket for the ferry costs 93 euros.",
    )
    .await;

    let out = home.path("record.jsonl");
    let path = out.to_str().expect("a plain path");
    let (code, table, said) = judge(&home, &["--out", path]);
    assert_eq!(code, Some(0), "{said}");
    assert!(table.contains("faithfulness      0.50        2"), "{table}");
    let mode = std::fs::metadata(&out).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(&out).expect("a text");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.iter().map(|line| &line["prompt"]).collect::<Vec<_>>(), [1, 3], "{text}");
    let (street, ticket) = (&lines[0], &lines[1]);
    assert_eq!(street["question"], "In which street is my dentist?");
    assert_eq!(street["answer"], "Your dentist Dr. Roe is in the Harbour Street.");
    assert_eq!((&street["faithfulness"], &street["completeness"]), (&json!(1.0), &json!(1.0)));
    let shown = &street["context"][0];
    assert!(shown["text"].as_str().expect("a text").contains("Dr. Roe"), "{street:#}");
    assert_eq!(shown["origin"], json!({"store": "recall", "id": shown["origin"]["id"], "seq": 1}));
    assert_eq!(ticket["faithfulness"], 0.0, "{ticket:#}");
    assert_eq!(ticket["unsupported"], json!(["A ticket for the ferry costs 93 euros."]));
    let texts = ticket["context"].as_array().expect("items").iter();
    let texts: Vec<&str> = texts.filter_map(|item| item["text"].as_str()).collect();
    assert!(texts.iter().any(|text| text.contains("14 euros")), "{ticket:#}");
    let (_, table, _) = judge(&home, &["--prompt", "3"]);
    assert!(table.contains("     3          0.00") && !table.contains("street"), "{table}");

    // A judge of one's own.
    let given = home.path("verdicts.jsonl");
    let path = given.to_str().expect("a plain path");
    let line = json!({"prompt": 3, "faithfulness": 0.25, "relevance": 1, "completeness": null});
    std::fs::write(&given, format!("{line}\n")).expect("a file");
    let (code, told, said) = judge(&home, &["--merge", path, "--json"]);
    assert_eq!(code, Some(0), "{said}");
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told["judge"]["faithfulness"], json!({"mean": 0.25, "prompts": 1}), "{told:#}");
    assert_eq!(told["judge"]["completeness"], json!({"mean": null, "prompts": 0}), "{told:#}");
    assert_eq!(told["built_in"]["faithfulness"], json!({"mean": 0.0, "prompts": 1}), "{told:#}");
    for (wrong, code, part) in [
        (line.to_string().replace('3', "2"), 67, "prompt 2 of ada shows no context"),
        (line.to_string().replace('3', "9"), 67, "no prompt 9"),
        (line.to_string().replace("0.25", "25"), 65, "line 1: faithfulness: 25"),
    ] {
        std::fs::write(&given, wrong).expect("a file");
        let (exit, told, said) = judge(&home, &["--merge", path]);
        assert!(exit == Some(code) && said.contains(part), "{part}: {told}{said}");
    }
    home.assert_verified(SOCKET, "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_model_judges_beside_the_built_in_judge() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire(SOCKET), "ada", 8_192, "Be brief.").await;
    ada.append("user", "My dentist is Dr. Roe in the Harbour Street.").await;
    ada.append("user", "The sloop has two sails and a brass compass.").await;
    ada.done("evict_fifo", &json!({"target_tokens": 0, "summarize": false})).await;
    let question = "In which street is my dentist?";
    answered(&ada, question, "Your dentist is in the Harbour Street.").await;
    answered(&ada, "How many sails has the sloop?", "The sloop has two sails.").await;
    let said = r#"{"faithfulness": 0.5, "relevance": 1, "completeness": null}"#;
    let model = Model::saying(&home.path("model.sock"), Duration::ZERO, &[said, "fine"]);
    let file = home.path("judge.toml");
    std::fs::write(&file, model.role("judge", 60_000)).expect("a configuration");
    let file = file.to_str().expect("a plain path").to_owned();
    let (code, told, errors) = judge(&home, &["--model", "--config", &file, "--json"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("no verdict on 1 of 2 prompts"), "{errors}");
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told["judge"]["faithfulness"], json!({"mean": 0.5, "prompts": 1}), "{told:#}");
    assert_eq!(told["built_in"]["faithfulness"]["prompts"], 2, "{told:#}");
    let heard = model.heard();
    assert!(heard.contains("two sails") && heard.contains("Quotations:"), "{heard}");
    let (code, _, errors) = judge(&home, &["--model"]);
    assert_eq!(code, Some(78), "{errors}");
    assert!(errors.contains("models.judge"), "{errors}");
}
