//! Tests Anthropic's messages API, and Anthropic's client library.

use serde_json::{Value, json};

use super::{TOOLS, WINDOW, agent_of, asking, assistant, chat, pieces, post, stage, user};
use crate::home::Tuning;
use crate::talk::{Agent, said};
use crate::wire::{Answer, Wire};

const PATH: &str = "/v1/messages";

fn body(messages: &[Value]) -> Value {
    json!({"model": "claude", "max_tokens": 256, "messages": messages})
}

/// Sends a request whole or streamed, and returns the answer as a client sees it.
async fn message(wire: &Wire, body: &Value, stream: bool) -> Value {
    let mut body = body.clone();
    body["stream"] = stream.into();
    let answer = post(wire, PATH, &[], &body).await;
    if stream { put_together(&answer) } else { answer.ok() }
}

/// Joins the events of a streamed answer to the message that a client sees.
fn put_together(answer: &Answer) -> Value {
    let events = pieces(answer);
    let names = answer.text.lines().filter_map(|line| line.strip_prefix("event: "));
    let kinds = events.iter().map(|event| event["type"].as_str().expect("a type"));
    assert!(names.eq(kinds), "{}", answer.text);
    let mut message = events[0]["message"].clone();
    for event in &events {
        let index = event["index"].as_u64().and_then(|index| usize::try_from(index).ok());
        match event["type"].as_str().expect("a type") {
            "content_block_start" => {
                let content = message["content"].as_array_mut().expect("a list");
                assert_eq!(index, Some(content.len()));
                content.push(event["content_block"].clone());
            }
            "content_block_delta" => {
                let block = &mut message["content"][index.expect("an index")];
                match event["delta"]["text"].as_str() {
                    Some(text) => {
                        let before = block["text"].as_str().expect("a text").to_owned();
                        block["text"] = (before + text).into();
                    }
                    None => {
                        let input = event["delta"]["partial_json"].as_str().expect("JSON");
                        block["input"] = serde_json::from_str(input).expect("JSON");
                    }
                }
            }
            "message_delta" => {
                message["stop_reason"] = event["delta"]["stop_reason"].clone();
                message["usage"] = event["usage"].clone();
            }
            _ => {}
        }
    }
    assert_eq!(events.last().expect("events")["type"], "message_stop");
    message
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_of_the_messages_form_is_stored_once_and_never_outgrows_the_window() {
    const TURNS: usize = 40;
    let stage = stage(&["vctx.sock"], "echo").await;
    let wire = stage.wire();
    let (mut history, mut wanted, mut agents) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..TURNS {
        let question =
            format!("Message {turn}: the harbour log says {}", "tide and wind and ".repeat(16));
        history.push(user(&question));
        let mut asked = body(&history);
        asked["system"] = json!([{"type": "text", "text": "Be brief."}]);
        let answer = message(&wire, &asked, turn % 2 == 1).await;
        let said = format!("You said: {question}");
        assert_eq!(answer["content"], json!([{"type": "text", "text": said}]));
        assert_eq!(
            (&answer["stop_reason"], &answer["role"]),
            (&json!("end_turn"), &json!("assistant"))
        );
        for count in ["input_tokens", "output_tokens"] {
            assert!(answer["usage"][count].as_u64().is_some_and(|tokens| tokens > 0), "{answer}");
        }
        agents.push(agent_of(&answer));
        wanted.extend([("user".to_owned(), question), ("assistant".to_owned(), said)]);
        history.push(json!({"role": "assistant", "content": answer["content"]}));
    }
    agents.dedup();
    assert_eq!(agents.len(), 1, "it went to another agent");
    let agent = stage.agent(&agents[0]);
    assert_eq!(said(&agent.messages().await), wanted, "every message once");
    assert_eq!(stage.asked().len(), TURNS);
    stage.assert_never_too_much();
    let state = agent.state().await;
    assert!(state["counters"]["flushes"].as_u64().is_some_and(|flushes| flushes > 1), "{state:#}");
    assert_eq!(state["system"], "Be brief.");
    stage.home.assert_verified("vctx.sock", &agent.name);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_message_has_the_same_answer_streamed_or_not_and_in_the_chat_form() {
    let stage = stage(&["vctx.sock"], "echo").await;
    let wire = stage.wire();
    let asked = body(&[user("one")]);
    let first = message(&wire, &asked, false).await;
    for stream in [false, true] {
        let again = message(&wire, &asked, stream).await;
        let repeated = json!({"input_tokens": 0, "output_tokens": 0});
        assert_eq!(again["usage"], repeated, "a repeated answer takes no tokens");
        for name in ["id", "content", "stop_reason", "model", "vctx"] {
            assert_eq!(again[name], first[name], "{name}");
        }
    }
    assert_eq!(stage.asked().len(), 1, "the model was asked once");
    // The conversation continues in the other form, since the thread is the same.
    let on = [user("one"), assistant("You said: one"), user("two")];
    let second = chat(&wire, &asking(&on)).await.ok();
    assert_eq!(agent_of(&second), agent_of(&first));
    let thinking = json!({"type": "thinking", "thinking": "Hm.", "signature": "s"});
    let text = json!({"type": "text", "text": "You said: two"});
    let mut on = on.to_vec();
    on.extend([json!({"role": "assistant", "content": [thinking, text]}), user("three")]);
    let third = message(&wire, &body(&on), true).await;
    assert_eq!(agent_of(&third), agent_of(&first));
    let agent = stage.agent(&agent_of(&first));
    assert_eq!(said(&agent.messages().await).len(), 6);
    // An edited message makes a branch, as in the other forms.
    let edited = [user("one"), assistant("You said: one"), user("two, edited")];
    let branch = message(&wire, &body(&edited), false).await;
    assert_eq!(branch["vctx"]["branch"], json!({"parent": agent.name, "seq": 2}));
    stage.home.assert_verified("vctx.sock", &agent.name);
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_a_claude_client_come_out_and_their_results_come_back() {
    let stage = stage(&["vctx.sock"], TOOLS).await;
    let wire = stage.wire();
    let schema = json!({"type": "object", "properties": {"where": {"type": "string"}}});
    let tool = json!({"name": "look", "description": "looks", "input_schema": schema});
    let mut told = Vec::new();
    for stream in [false, true] {
        let mut history = vec![user("How is the weather?")];
        let mut answers = Vec::new();
        for _ in 0..3 {
            let mut asked = body(&history);
            asked["tools"] = json!([tool]);
            asked["tool_choice"] = json!({"type": "auto"});
            asked["temperature"] = 0.into();
            // Two users whose conversations have the same words have separate memories.
            asked["metadata"] = json!({"user_id": format!("user-{stream}")});
            let answer = message(&wire, &asked, stream).await;
            history.push(json!({"role": "assistant", "content": answer["content"]}));
            let next = match answer["stop_reason"].as_str() {
                Some("tool_use") => {
                    let rain = [json!({"type": "text", "text": "rain"})];
                    json!([{"type": "tool_result", "tool_use_id": "look-1", "content": rain}])
                }
                _ => "thanks".into(),
            };
            history.push(json!({"role": "user", "content": next}));
            answers.push(json!([answer["content"], answer["stop_reason"]]));
        }
        told.push(answers);
    }
    assert_eq!(told[0], told[1]);
    let text = |text: &str| json!({"type": "text", "text": text});
    let call =
        json!({"type": "tool_use", "id": "look-1", "name": "look", "input": {"where": "here"}});
    assert_eq!(
        told[0],
        [
            json!([[text("I note it. \n\nLet me look."), call], "tool_use"]),
            json!([[text("It rains.")], "end_turn"]),
            json!([[text("You are welcome.")], "end_turn"]),
        ]
    );
    let asked = stage.asked();
    assert_eq!(asked.len(), 8);
    let offered = asked[0]["request"]["tools"].as_array().expect("tools");
    let look = json!({"name": "look", "description": "looks", "parameters": schema});
    assert_eq!(offered[2]["function"], look);
    assert_eq!(asked[0]["request"]["temperature"], 0);
    let listed = wire.get("/v1/agents").await.ok();
    for agent in listed["agents"].as_array().expect("agents") {
        let agent = stage.agent(agent["agent"].as_str().expect("a name"));
        let roles: Vec<String> =
            said(&agent.messages().await).into_iter().map(|(role, _)| role).collect();
        let turn = ["user", "assistant", "tool", "assistant", "tool", "assistant"];
        assert_eq!(roles, [&turn[..], &["user", "assistant"]].concat());
        stage.home.assert_verified("vctx.sock", &agent.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claude_client_names_its_agent_and_its_key_is_in_no_log() {
    let stage = stage(&["vctx.sock"], "echo").await;
    let wire = stage.wire();
    Agent::create(stage.wire(), "ada", WINDOW, "You are Ada.").await;
    let own = [("x-api-key", "sk-ant-secret"), ("anthropic-version", "2023-06-01")];
    let named = [&own[..], &[("x-vctx-agent", "ada")]].concat();
    let mut by_model = body(&[user("by model")]);
    by_model["model"] = "vctx/ada".into();
    for (path, headers, body) in [
        ("/v1/agents/ada/anthropic/v1/messages", &own[..], body(&[user("by path")])),
        (PATH, &own[..], by_model),
        (PATH, &named[..], body(&[user("by header")])),
    ] {
        let answer = post(&wire, path, headers, &body).await;
        assert_eq!(answer.headers["x-vctx-agent"], "ada", "{}", answer.text);
        assert_eq!(agent_of(&answer.ok()), "ada");
    }
    let state = stage.agent("ada").state().await;
    assert_eq!((&state["system"], &state["queue"]["count"]), (&json!("You are Ada."), &json!(6)));
    assert!(!stage.servers[0].said().contains("sk-ant-secret"), "the key is in the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tokens_of_a_history_are_estimated_and_nothing_is_stored() {
    let stage = stage(&["vctx.sock"], "echo").await;
    let wire = stage.wire();
    let count = async |path: &str, messages: &[Value]| {
        let body = json!({"model": "claude", "system": "Be brief.", "messages": messages});
        let counted = post(&wire, path, &[], &body).await.ok();
        assert_eq!(counted["estimate"], true);
        counted["input_tokens"].as_u64().expect("a number")
    };
    let (path, long) = ("/v1/messages/count_tokens", "tide and wind and ".repeat(4_000));
    let (few, many) = (count(path, &[user("hi")]).await, count(path, &[user(&long)]).await);
    assert!((5..20).contains(&few) && (16_000..16_100).contains(&many), "{few} {many}");
    let of_agent = "/v1/agents/ada/anthropic/v1/messages/count_tokens";
    assert_eq!(count(of_agent, &[user("hi")]).await, few);
    assert!(stage.asked().is_empty());
    assert_eq!(wire.get("/v1/agents").await.ok()["agents"], json!([]), "nothing was made");
    let refused = post(&wire, path, &[], &json!({"model": "m", "messages": []})).await;
    assert_eq!((refused.status, &refused.body["error"]["param"]), (400, &json!("messages")));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_claude_client_cannot_have_is_refused_in_the_form_that_it_reads() {
    let stage = stage(&["vctx.sock"], "echo").await;
    let wire = stage.wire();
    let image = json!({"role": "user", "content": [{"type": "image", "source": {}}]});
    let with = |name: &str, value: Value| {
        let mut body = body(&[user("hi")]);
        body[name] = value;
        body
    };
    for (asked, param) in [
        (with("top_k", 4.into()), "top_k"),
        (with("max_tokens", Value::Null), "max_tokens"),
        (with("stream", "yes".into()), "stream"),
        (body(&[image]), "messages[0].content[0].type"),
        (body(&[]), "messages"),
        (body(&[user("hi"), assistant("So")]), "messages"),
        (with("model", "vctx/a b".into()), "agent"),
    ] {
        let refused = post(&wire, PATH, &[], &asked).await;
        let error = &refused.body["error"];
        assert_eq!((refused.status, &error["param"]), (400, &json!(param)), "{}", refused.text);
        assert_eq!(refused.body["type"], "error");
        assert_eq!(error["type"], "invalid_request_error");
        let text = error["message"].as_str().expect("a message");
        assert!(text.contains(param) || param == "agent", "{text}");
    }
    assert!(stage.asked().is_empty());
    assert_eq!(wire.get("/v1/agents").await.ok()["agents"], json!([]), "nothing was made");
    let long = body(&[user(&"tide and wind and ".repeat(4_000))]);
    let refused = post(&wire, PATH, &[], &long).await;
    let error = &refused.body["error"];
    let expected = (422, &json!("invalid_request_error"), &json!("TOKEN_BUDGET_EXCEEDED"));
    assert_eq!((refused.status, &error["type"], &error["code"]), expected, "{}", refused.text);
    // A server without a model reports that no model is configured.
    let bare =
        stage.home.server("bare.sock", "engine.sock", "engine-ro.sock", &Tuning::default()).await;
    bare.expect("no chat model is configured");
    let refused = post(&stage.home.wire("bare.sock"), PATH, &[], &body(&[user("hi")])).await;
    let error = &refused.body["error"];
    assert_eq!((refused.status, &error["type"]), (503, &json!("overloaded_error")));
}

#[cfg(feature = "full-tests")]
#[tokio::test(flavor = "multi_thread")]
async fn the_anthropic_package_holds_a_conversation_of_two_hundred_turns() {
    let python = super::forms::python().expect("no Python with the anthropic package; name one in VCTX_OPENAI_PYTHON (tests/dropin/requirements.txt)");
    let stage = stage(&["vctx.sock"], "echo").await;
    let script =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dropin/drive_claude.py");
    let mut drive = std::process::Command::new(&python);
    drive.arg(script).arg(stage.home.path("vctx.sock"));
    let output = drive.output().unwrap_or_else(|e| panic!("{}: {e}", python.display()));
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    for part in ["turns 200", "streamed ok", "tools ok", "path ok", "refused ok", "async ok"] {
        assert!(told.contains(part), "{part} is missing:\n{told}");
    }
    let all = said(&stage.agent("python").messages().await);
    assert_eq!(all.len(), 400);
    for (turn, pair) in all.chunks(2).enumerate() {
        assert!(
            pair[0].0 == "user" && pair[0].1.starts_with(&format!("Turn {turn}: ")),
            "{pair:?}"
        );
        assert_eq!(pair[1], ("assistant".to_owned(), format!("You said: {}", pair[0].1)));
    }
    stage.assert_never_too_much();
    stage.home.assert_verified("vctx.sock", "python");
}
