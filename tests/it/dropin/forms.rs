//! Tests `/v1/responses`, refusals, and OpenAI's client library.

use serde_json::{Value, json};

use super::{agent_of, asking, assistant, chat, pieces, post, stage, user};
use crate::home::Tuning;
use crate::talk::said;

#[tokio::test(flavor = "multi_thread")]
async fn the_responses_form_goes_on_by_history_or_by_the_id_of_an_answer() {
    let stage = stage(&["vctx.sock"], "echo").await;
    let wire = stage.wire();
    let ask = async |body: Value| post(&wire, "/v1/responses", &[], &body).await;
    let first =
        ask(json!({"model": "gpt", "instructions": "Be brief.", "input": "one"})).await.ok();
    assert_eq!(first["output"][0]["content"][0]["text"], "You said: one");
    assert_eq!(
        (&first["status"], &first["instructions"]),
        (&json!("completed"), &json!("Be brief."))
    );
    let agent = agent_of(&first);
    // The request continues the conversation because it names the id of the conversation's last
    // answer.
    let second = ask(json!({"model": "gpt", "previous_response_id": first["id"], "input": "two"}))
        .await
        .ok();
    assert_eq!(agent_of(&second), agent);
    // The request continues the conversation because it contains the whole history, in the format
    // of `/v1/responses` or of `/v1/chat/completions`.
    let mut input = vec![json!({"role": "user", "content": "one"})];
    input.extend(first["output"].as_array().expect("items").iter().cloned());
    input.push(user("two"));
    input.extend(second["output"].as_array().expect("items").iter().cloned());
    input.push(user("three"));
    let third =
        ask(json!({"model": "gpt", "instructions": "Be brief.", "input": input})).await.ok();
    assert_eq!(agent_of(&third), agent);
    let all = [
        json!({"role": "system", "content": "Be brief."}),
        user("one"),
        assistant("You said: one"),
        user("two"),
        assistant("You said: two"),
        user("three"),
        assistant("You said: three"),
        user("four"),
    ];
    let fourth = chat(&wire, &asking(&all)).await.ok();
    assert_eq!(agent_of(&fourth), agent);
    assert_eq!(said(&stage.agent(&agent).messages().await).len(), 8);
    // The conversation has already continued after the third answer, so a streamed request that
    // names this answer's id is refused.
    let body = json!({"model": "gpt", "previous_response_id": third["id"], "input": "five", "stream": true});
    let refused = ask(body).await;
    assert_eq!(
        (refused.status, &refused.body["error"]["param"]),
        (400, &json!("previous_response_id")),
        "{}",
        refused.text
    );
    let body = json!({"model": "gpt", "user": "u", "input": "five", "stream": true});
    let events = pieces(&ask(body).await);
    let last = events.last().expect("events");
    assert_eq!(
        (&last["type"], &last["response"]["output"][0]["content"][0]["text"]),
        (&json!("response.completed"), &json!("You said: five"))
    );
    let told: String = events
        .iter()
        .filter(|e| e["type"] == "response.output_text.delta")
        .filter_map(|e| e["delta"].as_str())
        .collect();
    assert_eq!(told, "You said: five");
    let unknown = ask(json!({"model": "gpt", "previous_response_id": format!("resp_{}", "0".repeat(64)), "input": "x"})).await;
    assert_eq!(
        (unknown.status, &unknown.body["error"]["param"]),
        (400, &json!("previous_response_id"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_honoured_is_refused_in_the_form_that_clients_read() {
    let stage = stage(&["vctx.sock"], "echo").await;
    let wire = stage.wire();
    for (body, param) in [
        (json!({"model": "gpt", "messages": [user("hi")], "n": 2}), "n"),
        (
            json!({"model": "gpt", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}),
            "messages[0].content[0].type",
        ),
        (json!({"model": "gpt", "messages": []}), "messages"),
        (json!({"messages": [user("hi")]}), "model"),
        (json!({"model": "vctx/a b", "messages": [user("hi")]}), "agent"),
    ] {
        let refused = chat(&wire, &body).await;
        let error = &refused.body["error"];
        assert_eq!((refused.status, &error["param"]), (400, &json!(param)), "{}", refused.text);
        assert_eq!(error["type"], "invalid_request_error");
        assert!(error["message"].as_str().is_some_and(|text| text.len() > 10));
    }
    assert!(stage.asked().is_empty());
    assert_eq!(wire.get("/v1/agents").await.ok()["agents"], json!([]), "nothing was made");
    // A server without a model reports that no model is configured.
    let bare =
        stage.home.server("bare.sock", "engine.sock", "engine-ro.sock", &Tuning::default()).await;
    bare.expect("no chat model is configured");
    let refused = chat(&stage.home.wire("bare.sock"), &asking(&[user("hi")])).await;
    assert_eq!(
        (refused.status, &refused.body["error"]["code"]),
        (503, &json!("MODEL_UNAVAILABLE"))
    );
}

#[cfg(feature = "full-tests")]
/// Returns a Python interpreter with the packages `openai` and `anthropic`, which `.ci/full`
/// installs.
pub(super) fn python() -> Option<std::path::PathBuf> {
    if let Some(named) = std::env::var_os("VCTX_OPENAI_PYTHON") {
        return Some(std::path::PathBuf::from(named));
    }
    let target = std::path::Path::new(crate::home::PROGRAM)
        .ancestors()
        .nth(2)
        .expect("the target directory");
    Some(target.join("openai-venv/bin/python")).filter(|path| path.exists())
}

#[cfg(feature = "full-tests")]
#[tokio::test(flavor = "multi_thread")]
async fn the_openai_package_holds_a_conversation_of_four_hundred_turns() {
    let python = python().expect("no Python with the openai package; name one in VCTX_OPENAI_PYTHON (tests/dropin/requirements.txt)");
    let stage = stage(&["vctx.sock"], "echo").await;
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dropin/drive.py");
    let mut drive = std::process::Command::new(&python);
    drive.arg(script).arg(stage.home.path("vctx.sock"));
    let output = drive.output().unwrap_or_else(|e| panic!("{}: {e}", python.display()));
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    for part in [
        "turns 400",
        "streamed ok",
        "async ok",
        "cancelled ok",
        "tools ok",
        "responses ok",
        "compacted ok",
        "embedded ok",
        "refused ok",
        "models ok",
    ] {
        assert!(told.contains(part), "{part} is missing:\n{told}");
    }
    let agent = stage.agent("python");
    let all = said(&agent.messages().await);
    assert_eq!(all.len(), 800);
    let wanted = |turn: usize| format!("Turn {turn}: ");
    for (turn, pair) in all.chunks(2).enumerate() {
        assert!(pair[0].0 == "user" && pair[0].1.starts_with(&wanted(turn)), "{pair:?}");
        assert_eq!(pair[1], ("assistant".to_owned(), format!("You said: {}", pair[0].1)));
    }
    stage.assert_never_too_much();
    stage.home.assert_verified("vctx.sock", "python");
}
