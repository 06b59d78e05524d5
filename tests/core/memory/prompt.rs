//! Tests the manifests of recorded prompts, which list what a prompt contained.

use serde_json::{Map, Value, json};
use vctx_core::memory::model_api::ModelApi;
use vctx_core::memory::prompt::{Prompt, PromptEnd, ToolSet, ended};
use vctx_core::memory::run::Usage;
use vctx_core::model_api::ModelRequest;

#[test]
fn a_request_is_the_same_text_whatever_the_order_of_its_parts() {
    let options = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap();
    let messages = [json!({"role": "user", "content": "hi"})];
    let text = |given: &str| {
        let options = options(given);
        let request =
            ModelRequest { model: "m", messages: &messages, tools: None, options: &options };
        request.text(ModelApi::Chat)
    };
    assert_eq!(
        text(r#"{"temperature": 1.0, "stream": true}"#),
        text(r#"{"stream": true, "temperature": 1}"#)
    );
    assert_eq!(
        text(r#"{"stream": true}"#),
        r#"{"messages":[{"content":"hi","role":"user"}],"model":"m","stream":true}"#
    );
}

#[test]
fn a_tool_set_knows_whether_it_was_changed() {
    assert_eq!(ToolSet::of("ada", &[]), None);
    let mut set = ToolSet::of("ada", &[json!({"name": "a"})]).unwrap();
    assert!(set.holds() && set.key.starts_with("ada:"));
    set.text = set.text.replace('a', "b");
    assert!(!set.holds());
}

#[test]
fn a_row_survives_the_trip_through_json_with_and_without_an_end() {
    let mut row = json!({"_key": "ada:3", "agent_id": "ada", "turn": 3, "run": "r", "cause_seq": 1, "owner": "o",
        "version": 9, "core_rev": "_x", "head_seq": 1, "next_seq": 4, "chain": {"head": "c", "length": 3}, "summary_rev": 0,
        "notices": [], "encoding": "o200k_base", "policy": {"warning": 1, "flush": 2, "target": 3, "max": 4},
        "messages_digest": "m", "context_digest": "c", "token_estimate": 7, "model": "m", "tools": null, "options": "{}",
        "request_digest": "r", "factor_permille": 1000, "created_at": "t"});
    let prompt: Prompt = serde_json::from_value(row.clone()).unwrap();
    assert_eq!(prompt.end, None);
    let end = PromptEnd {
        finish: "stop".into(),
        answer_seq: Some(4),
        usage: Some(Usage { prompt: 8, completion: 2 }),
        counted_permille: Some(1142),
        variance_flag: true,
        duration_ms: 5,
        ended_at: "u".into(),
    };
    for (name, value) in ended("ada", 3, &end).as_object().unwrap() {
        row[name] = value.clone();
    }
    let prompt: Prompt = serde_json::from_value(row).unwrap();
    assert_eq!((prompt.end, prompt.key.as_str()), (Some(end), "ada:3"));
}
