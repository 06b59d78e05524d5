//! Tests compactions: how they are written, and what a request may send together with one.

use serde_json::{Value, json};
use vctx_core::error::Result;
use vctx_core::memory::conversation::ClientMessage;
use vctx_core::memory::message::Role;
use vctx_core::openai::{
    Compaction, Conversation, Previous, compact_answer, parse_compact, parse_responses,
};

fn thread() -> String {
    "ab".repeat(32)
}

/// Returns the items of a compaction before which the given texts of the user are repeated.
fn compacted(texts: &[&str]) -> Vec<Value> {
    let kept: Vec<ClientMessage> =
        texts.iter().map(|text| ClientMessage::text(Role::User, *text)).collect();
    let compaction = Compaction::new(thread(), &kept);
    let answer = compact_answer(&compaction, &kept, 7, json!({"agent": "a"}));
    answer["output"].as_array().expect("items").clone()
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn parsed(input: &[Value]) -> Result<Conversation> {
    let body = json!({"model": "m", "input": input});
    parse_responses(body.as_object().expect("an object").clone(), &|_| false)
}

fn refused(input: &[Value]) -> String {
    parsed(input).expect_err("refused").fields["field"].as_str().expect("a field").to_owned()
}

#[test]
fn an_answer_has_the_messages_of_the_user_and_one_compaction() {
    let kept = [ClientMessage::text(Role::User, "one"), ClientMessage::text(Role::User, "two")];
    let answer = compact_answer(&Compaction::new(thread(), &kept), &kept, 7, json!({"agent": "a"}));
    assert_eq!(
        (&answer["object"], &answer["created_at"], &answer["vctx"]["agent"]),
        (&json!("response.compaction"), &json!(7), &json!("a"))
    );
    assert_eq!(answer["usage"]["total_tokens"], 0);
    let output = answer["output"].as_array().expect("items");
    let kinds: Vec<&str> = output.iter().filter_map(|item| item["type"].as_str()).collect();
    assert_eq!(kinds, ["message", "message", "compaction"]);
    assert_eq!(output[1]["content"], json!([{"type": "input_text", "text": "two"}]));
    let content = output[2]["encrypted_content"].as_str().expect("a text");
    assert!(!content.contains("one") && content.len() < 150, "{content}");
    assert_ne!(answer["id"], json!(format!("resp_{}", thread())));
}

#[test]
fn what_a_compaction_repeated_is_not_said_again() {
    let mut input = compacted(&["one", " two ", "one"]);
    input.push(user("three"));
    let whole = parsed(&input).unwrap();
    assert_eq!(whole.previous, Some(Previous::Compacted(thread())));
    assert_eq!(whole.said, [ClientMessage::text(Role::User, "three")]);
    // A client may drop some of the repeated messages, and may send its system text first.
    for part in [vec![3], vec![1, 3], vec![0, 2, 3]] {
        let mut items = vec![json!({"role": "developer", "content": "Be brief."})];
        items.extend(part.iter().map(|at| input[*at].clone()));
        items.push(user("three"));
        let found = parsed(&items).unwrap();
        assert_eq!((&found.previous, &found.said), (&whole.previous, &whole.said));
        assert_eq!(found.system.as_deref(), Some("Be brief."));
    }
    let mut marked = input[3].clone();
    marked["created_by"] = "someone".into();
    assert_eq!(parsed(&[marked, user("three")]).unwrap().said, whole.said);
}

#[test]
fn what_a_compaction_does_not_stand_for_is_refused_by_its_place() {
    let items = compacted(&["one", "two"]);
    let compaction = items[2].clone();
    let answer = json!({"role": "assistant", "content": "You said: one"});
    for (input, field) in [
        (vec![user("zero"), compaction.clone(), user("x")], "input[0]"),
        (vec![user("one"), answer.clone(), compaction.clone(), user("x")], "input[1]"),
        (vec![user("two"), user("one"), compaction.clone(), user("x")], "input[1]"),
        (vec![user("one"), user("one"), compaction.clone(), user("x")], "input[1]"),
        (
            vec![
                json!({"type": "reasoning", "summary": []}),
                user("one"),
                json!({"role": "developer", "content": "Now obey."}),
                compaction.clone(),
                user("x"),
            ],
            "input[2]",
        ),
        (vec![compaction.clone(), compaction.clone(), user("x")], "input[1].type"),
        (vec![compaction.clone()], "input"),
        (vec![compaction.clone(), answer], "input"),
        (vec![json!({"type": "compaction"}), user("x")], "input[0].encrypted_content"),
    ] {
        assert_eq!(refused(&input), field, "{input:?}");
    }
    let own = compaction["encrypted_content"].as_str().expect("a text");
    for odd in [
        "gAAAAABpM0Yj-",
        &own[1..],
        &own[..own.len() - 1],
        &own.replace("ab", "AB"),
        &own.replace('.', ""),
        &format!("{own}é"),
    ] {
        let item = json!({"type": "compaction", "encrypted_content": odd});
        assert_eq!(refused(&[item, user("x")]), "input[0].encrypted_content", "{odd}");
    }
    let body = json!({"model": "m", "input": [compaction, user("x")],
        "previous_response_id": format!("resp_{}", thread())});
    let both = parse_responses(body.as_object().expect("an object").clone(), &|_| false);
    assert_eq!(both.expect_err("refused").fields["field"], "input[0].type");
}

#[test]
fn a_request_names_the_conversation_by_its_history_or_its_last_answer() {
    let parsed = |body: Value| parse_compact(body.as_object().expect("an object").clone());
    let answer = json!({"role": "assistant", "content": "hello"});
    let history = parsed(json!({"model": "m", "user": "u", "input": [
        {"role": "system", "content": "Be brief."}, user("hi"), answer]}))
    .unwrap();
    assert_eq!((history.said.len(), history.previous), (2, None));
    assert_eq!(history.labels.user.as_deref(), Some("u"));
    let id = format!("resp_{}", thread());
    let last = parsed(json!({"model": "m", "input": null, "previous_response_id": id,
        "instructions": "Be brief.", "prompt_cache_key": "k", "service_tier": "auto"}))
    .unwrap();
    assert_eq!(last.previous, Some(Previous::AnswerTo(thread())));
    let again = parsed(json!({"model": "m", "input": compacted(&["one"])})).unwrap();
    assert_eq!(again.previous, Some(Previous::Compacted(thread())));
    for (body, field) in [
        (json!({"model": "m"}), "input"),
        (json!({"model": "m", "input": ""}), "input"),
        (json!({"model": "m", "input": []}), "input"),
        (json!({"input": "hi"}), "model"),
        (json!({"model": null, "input": "hi"}), "model"),
        (
            json!({"model": "m", "input": "hi", "previous_response_id": "resp_1"}),
            "previous_response_id",
        ),
        (json!({"model": "m", "input": "hi", "conversation": "conv_1"}), "conversation"),
        (json!({"model": "m", "input": "hi", "tools": [1]}), "tools"),
    ] {
        let error = parsed(body).expect_err("refused");
        assert_eq!(error.fields["field"], field, "{error}");
    }
}
