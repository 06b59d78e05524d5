//! Tests `/v1/responses/compact`: a compaction continues its conversation, in memory only once, and
//! no other agent's.

use serde_json::{Value, json};

use super::{Stage, WINDOW, agent_of, post, stage, tuning, user};
use crate::talk::{Agent, said};
use crate::wire::{Answer, Wire};

async fn respond(wire: &Wire, body: &Value) -> Answer {
    post(wire, "/v1/responses", &[], body).await
}

async fn compact(wire: &Wire, body: &Value) -> Answer {
    post(wire, "/v1/responses/compact", &[], body).await
}

fn asking(input: &[Value]) -> Value {
    json!({"model": "gpt", "input": input})
}

fn items(answer: &Value) -> Vec<Value> {
    answer["output"].as_array().expect("items").clone()
}

/// Returns the texts of the messages in a compaction's items, and checks that the last item is the
/// compaction.
fn kept(items: &[Value]) -> Vec<String> {
    let (last, messages) = items.split_last().expect("items");
    assert_eq!(last["type"], "compaction", "{last:#}");
    let text = |item: &Value| {
        assert_eq!((&item["type"], &item["role"]), (&json!("message"), &json!("user")));
        item["content"][0]["text"].as_str().expect("a text").to_owned()
    };
    messages.iter().map(text).collect()
}

/// Holds a conversation of two questions, and returns its items and the id of the last answer.
async fn conversation(wire: &Wire) -> (Vec<Value>, Value) {
    let mut history = vec![json!({"role": "developer", "content": "Be brief."})];
    let mut id = Value::Null;
    for question in ["one", "two"] {
        history.push(user(question));
        let answer = respond(wire, &asking(&history)).await.ok();
        history.extend(items(&answer));
        id = answer["id"].clone();
    }
    (history, id)
}

fn refused(answer: &Answer, param: &str, why: &str) {
    let error = &answer.body["error"];
    assert_eq!((answer.status, &error["param"]), (400, &json!(param)), "{}", answer.text);
    assert!(error["message"].as_str().is_some_and(|text| text.contains(why)), "{}", answer.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compacted_conversation_continues_and_is_stored_once() {
    let stage = stage(&["vctx.sock"], "echo").await;
    let wire = stage.wire();
    let (history, id) = conversation(&wire).await;
    let asked = stage.asked().len();
    let by_history = compact(&wire, &asking(&history)).await.ok();
    let by_id = compact(&wire, &json!({"model": "gpt", "previous_response_id": id})).await.ok();
    assert_eq!(by_history, by_id, "both name the same conversation");
    assert_eq!(by_history["object"], "response.compaction");
    assert_eq!(kept(&items(&by_history)), ["one", "two"]);
    let agent = agent_of(&by_history);
    let ada = stage.agent(&agent);
    let (revision, asked_now) = (ada.revision().await, stage.asked().len());
    assert_eq!(asked_now, asked, "no model is asked");

    let mut input = items(&by_history);
    for question in ["three", "four"] {
        input.push(user(question));
        let answer = respond(&wire, &asking(&input)).await.ok();
        assert_eq!(agent_of(&answer), agent);
        assert_eq!(answer["output"][0]["content"][0]["text"], format!("You said: {question}"));
        // The same request again gets the same answer, which is not stored again.
        let again = respond(&wire, &asking(&input)).await.ok();
        assert_eq!((&again["id"], &again["output"]), (&answer["id"], &answer["output"]));
        input.extend(items(&answer));
    }
    assert_ne!(ada.revision().await, revision);
    // A compaction of the compacted conversation stands for all of it.
    let second = compact(&wire, &asking(&input)).await.ok();
    assert_eq!(kept(&items(&second)), ["one", "two", "three", "four"]);
    let mut input = items(&second).split_off(4);
    input.push(user("five"));
    let answer = respond(&wire, &asking(&input)).await.ok();
    assert_eq!(agent_of(&answer), agent);
    let texts = said(&ada.messages().await);
    let texts: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
    let expected = ["one", "two", "three", "four", "five"].map(|said| format!("You said: {said}"));
    assert_eq!(texts.len(), 10, "{texts:?}");
    assert!(texts.iter().skip(1).step_by(2).eq(expected.iter()), "{texts:?}");
    assert_eq!(ada.state().await["system"], "Be brief.");
    // The model still sees what the client no longer sends.
    let prompt = stage.asked().last().expect("a prompt").to_string();
    assert!(prompt.contains("You said: one"), "{prompt}");
    stage.home.assert_verified("vctx.sock", &agent);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_conversation_of_the_memory_is_compacted() {
    let stage = stage(&["vctx.sock"], "echo").await;
    let wire = stage.wire();
    let (history, id) = conversation(&wire).await;
    let before = wire.get("/v1/agents").await.ok();
    refused(&compact(&wire, &asking(&[user("hello")])).await, "input", "0 of its 1 messages");
    let mut longer = history.clone();
    longer.push(user("three"));
    refused(&compact(&wire, &asking(&longer)).await, "input", "4 of its 5 messages");
    let mut others = asking(&history);
    others["user"] = "someone".into();
    refused(&compact(&wire, &others).await, "input", "same agent and user");
    let after_answer = json!({"model": "gpt", "previous_response_id": id, "input": "three"});
    refused(&compact(&wire, &after_answer).await, "input", "0 of its 1 messages");
    let unknown =
        json!({"model": "gpt", "previous_response_id": format!("resp_{}", "0".repeat(64))});
    refused(&compact(&wire, &unknown).await, "previous_response_id", "knows no answer");
    assert_eq!(wire.get("/v1/agents").await.ok(), before, "nothing was written");
    // A compaction's own id is no answer.
    let compaction = compact(&wire, &asking(&history)).await.ok();
    let on = json!({"model": "gpt", "previous_response_id": compaction["id"], "input": "three"});
    refused(&respond(&wire, &on).await, "previous_response_id", "knows no answer");
    // The conversation continues after the compaction in one way only.
    let mut input = items(&compaction);
    input.push(user("three"));
    respond(&wire, &asking(&input)).await.ok();
    *input.last_mut().expect("items") = user("another three");
    refused(&respond(&wire, &asking(&input)).await, "input", "already continued");
    // What came before the compaction and was not repeated by it is not dropped in silence.
    input.insert(1, user("one and a half"));
    refused(&respond(&wire, &asking(&input)).await, "input[1]", "after the compaction");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_continues_no_conversation_of_another_agent_or_tenant() {
    let stage = stage(&["vctx.sock"], "echo").await;
    let mut acme = tuning(&stage.home.path("model.sock"));
    acme.environment.push(("VCTX_SERVER__TENANT".into(), "acme".into()));
    let _acme = stage.home.server("acme.sock", "engine.sock", "engine-ro.sock", &acme).await;
    let (own, theirs) = (stage.wire(), stage.home.wire("acme.sock"));
    for name in ["ada", "bob"] {
        Agent::create(stage.wire(), name, WINDOW, "").await;
    }
    let of_ada = "/v1/agents/ada/responses";
    let first = post(&own, of_ada, &[], &asking(&[user("the code is 7")])).await.ok();
    let mut history = vec![user("the code is 7")];
    history.extend(items(&first));
    let compacted = post(&own, &format!("{of_ada}/compact"), &[], &asking(&history)).await.ok();
    assert_eq!(agent_of(&compacted), "ada");
    let mut input = items(&compacted);
    input.push(user("what is the code?"));
    let by_id = json!({"model": "gpt", "previous_response_id": first["id"], "input": "the code?"});
    let by_name = |name: &str, body: &Value| {
        let mut body = body.clone();
        body["model"] = format!("vctx/{name}").into();
        body
    };
    // Neither by path, by model nor by header may bob continue a conversation of ada.
    for (body, param) in [(&asking(&input), "input"), (&by_id, "previous_response_id")] {
        let header = [("x-vctx-agent", "bob")];
        for answer in [
            post(&own, "/v1/agents/bob/responses", &[], body).await,
            post(&own, "/v1/responses", &header, body).await,
            respond(&own, &by_name("bob", body)).await,
            post(&own, "/v1/agents/new/responses", &[], body).await,
            post(&theirs, of_ada, &[], body).await,
            respond(&theirs, body).await,
        ] {
            refused(&answer, param, "history");
        }
    }
    for (path, body) in [
        ("/v1/agents/bob/responses/compact", &asking(&history)),
        ("/v1/agents/bob/responses/compact", &asking(&items(&compacted))),
        ("/v1/agents/new/responses/compact", &asking(&items(&compacted))),
    ] {
        refused(&post(&own, path, &[], body).await, "input", "");
    }
    let id = json!({"model": "gpt", "previous_response_id": first["id"]});
    let foreign = post(&own, "/v1/agents/bob/responses/compact", &[], &id).await;
    refused(&foreign, "previous_response_id", "knows no answer");
    assert_eq!(said(&stage.agent("bob").messages().await), [], "nothing came to bob");
    assert_eq!(theirs.get("/v1/agents").await.ok()["agents"], json!([]));
    let listed = own.get("/v1/agents").await.ok();
    assert_eq!(listed["agents"].as_array().map(Vec::len), Some(2), "{listed}");
    // Ada's own clients may, by any of the names or by none.
    let answer = respond(&own, &by_name("ada", &asking(&input))).await.ok();
    assert_eq!(agent_of(&answer), "ada");
    let again = respond(&own, &asking(&input)).await.ok();
    assert_eq!((agent_of(&again), &again["id"]), ("ada".into(), &answer["id"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_is_compacted_under_the_name_of_its_agent() {
    let stage = stage(&["vctx.sock"], "echo").await;
    let wire = stage.wire();
    let path = "/v1/agents/ada/responses";
    let mut branch = String::new();
    let mut history = Vec::new();
    for question in ["one", "another one"] {
        history = vec![user(question)];
        let first = post(&wire, path, &[], &asking(&[user("begin")])).await.ok();
        history.splice(0..0, [user("begin"), items(&first)[0].clone()]);
        let answer = post(&wire, path, &[], &asking(&history)).await.ok();
        history.extend(items(&answer));
        branch = agent_of(&answer);
    }
    assert!(branch.starts_with("ada."), "{branch}");
    let compacted = post(&wire, &format!("{path}/compact"), &[], &asking(&history)).await.ok();
    assert_eq!(agent_of(&compacted), branch);
    assert_eq!(kept(&items(&compacted)), ["begin", "another one"]);
    let mut input = items(&compacted);
    input.push(user("on"));
    let answer = post(&wire, path, &[], &asking(&input)).await.ok();
    assert_eq!(agent_of(&answer), branch);
    let parent = post(&wire, &format!("/v1/agents/{branch}/responses"), &[], &asking(&input)).await;
    assert_eq!(agent_of(&parent.ok()), branch);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_needs_no_system_text_to_get_its_answer() {
    let stage: Stage = stage(&["vctx.sock"], "echo").await;
    let wire = stage.wire();
    let first = json!({"model": "gpt", "instructions": "Be brief.", "input": "one"});
    let first = respond(&wire, &first).await.ok();
    let on = json!({"model": "gpt", "previous_response_id": first["id"], "input": "two"});
    let (second, again) = (respond(&wire, &on).await.ok(), respond(&wire, &on).await.ok());
    assert_eq!((&second["id"], &second["output"]), (&again["id"], &again["output"]));
    assert_eq!(said(&stage.agent(&agent_of(&first)).messages().await).len(), 4);
}

#[cfg(feature = "full-tests")]
#[tokio::test(flavor = "multi_thread")]
async fn the_agents_sdk_compacts_its_session_and_nothing_is_doubled() {
    let python = super::forms::python().expect("no Python with the packages openai and openai-agents; name one in VCTX_OPENAI_PYTHON (tests/dropin/requirements.txt)");
    let stage = stage(&["vctx.sock"], "echo").await;
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dropin");
    let mut drive = std::process::Command::new(&python);
    drive.arg(folder.join("drive_agents.py")).arg(stage.home.path("vctx.sock"));
    let output = drive.output().unwrap_or_else(|e| panic!("{}: {e}", python.display()));
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    let listed = stage.wire().get("/v1/agents").await.ok();
    assert_eq!(listed["agents"].as_array().map(Vec::len), Some(3), "{listed}");
    for mode in ["auto", "previous_response_id", "input"] {
        assert!(told.contains(&format!("compaction {mode} ok")), "{told}");
        let name = format!("sdk-{mode}");
        let all = said(&stage.agent(&name).messages().await);
        assert_eq!(all.len(), 30, "{mode}: {all:#?}");
        for (turn, pair) in all.chunks(2).enumerate() {
            assert!(pair[0].1.starts_with(&format!("Turn {turn}: ")), "{pair:?}");
            assert_eq!(pair[1].1, format!("You said: {}", pair[0].1));
        }
        stage.home.assert_verified("vctx.sock", &name);
    }
    stage.assert_never_too_much();
}
