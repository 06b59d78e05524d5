//! The chat form: a request of `/v1/chat/completions`, and its whole answer.

use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::conversation::Conversation;
use super::fields::{Fields, checked_tools, text_of};
use crate::error::{Error, Result};
use crate::memory::message::Role;
use crate::memory::thread::{Seen, SeenCall};

/// Fields that the model is given as they are.
const PASSED_ON: [&str; 14] = [
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "response_format",
    "reasoning_effort",
    "verbosity",
    "parallel_tool_calls",
    "tool_choice",
];

/// Fields that concern OpenAI's own servers: what is answered is the same without them.
const IGNORED: [&str; 8] = [
    "store",
    "metadata",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "prediction",
];

/// Reads a request; `taken` knows the names of the memory's own tools.
pub fn parse_chat(body: Map<String, Value>, taken: &dyn Fn(&str) -> bool) -> Result<Conversation> {
    let mut fields = Fields::of(Value::Object(body), "")?;
    refuse(&mut fields)?;
    let mut conversation = Conversation {
        model: fields.required("model")?,
        stream: fields.flag("stream")?,
        user: fields.text("user")?,
        ..Conversation::default()
    };
    if let Some(options) = fields.take("stream_options") {
        let mut options = Fields::of(options, "stream_options")?;
        conversation.usage = options.flag("include_usage")?;
        options.ignore(&["include_obfuscation"]);
        options.end()?;
    }
    for name in PASSED_ON {
        if let Some(value) = fields.take(name) {
            conversation.options.insert(name.into(), value);
        }
    }
    fields.ignore(&IGNORED);
    let tools = fields.list("tools")?;
    checked_tools(&tools, taken)?;
    conversation.tools = tools;
    without_tools(&mut conversation);
    for (number, message) in fields.list("messages")?.into_iter().enumerate() {
        conversation.said.push(message_of(message, &format!("messages[{number}]"))?);
    }
    fields.end()?;
    conversation.settled("messages")
}

/// Whoever chooses no tool has none; a choice among none is none.
pub(super) fn without_tools(conversation: &mut Conversation) {
    if conversation.options.get("tool_choice").is_some_and(|choice| choice == "none") {
        conversation.tools.clear();
    }
    if conversation.tools.is_empty() {
        conversation.options.remove("tool_choice");
        conversation.options.remove("parallel_tool_calls");
    }
}

/// What would make another answer than the one that is given here.
fn refuse(fields: &mut Fields) -> Result<()> {
    fields.refuse("n", &[json!(1)], "one answer is given to each request: leave it out")?;
    let plain = [json!(false), json!(0)];
    for name in ["logprobs", "top_logprobs"] {
        fields.refuse(name, &plain, "probabilities of tokens are not told: leave it out")?;
    }
    fields.refuse("modalities", &[json!(["text"])], "only text is answered")?;
    fields.refuse("audio", &[], "only text is answered")?;
    fields.refuse("functions", &[], "use tools")?;
    fields.refuse("function_call", &[json!("none"), json!("auto")], "use tool_choice")?;
    fields.refuse("web_search_options", &[], "there is no search of the web here")?;
    fields.refuse("moderation", &[], "nothing is moderated here")
}

/// A message of the chat form.
fn message_of(message: Value, at: &str) -> Result<Seen> {
    let mut fields = Fields::of(message, at)?;
    let role = match fields.required("role")?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" | "developer" => Role::System,
        "tool" => Role::Tool,
        "function" => return Err(fields.fault("role", "use tool and tool_call_id")),
        _ => return Err(fields.fault("role", "use system, developer, user, assistant or tool")),
    };
    let kinds: &[(&str, &str)] = match role {
        Role::Assistant => &[("text", "text"), ("refusal", "refusal")],
        Role::User | Role::System | Role::Tool => &[("text", "text")],
    };
    let content = fields.take("content").unwrap_or(Value::Null);
    let mut text = text_of(content, kinds, &fields.named("content"))?;
    if let Some(refusal) = fields.text("refusal")?.filter(|_| text.is_empty()) {
        text = refusal;
    }
    let calls = fields.list("tool_calls")?;
    let calls: Vec<SeenCall> = calls
        .into_iter()
        .enumerate()
        .map(|(number, call)| call_of(call, &format!("{at}.tool_calls[{number}]")))
        .collect::<Result<_>>()?;
    if !calls.is_empty() && role != Role::Assistant {
        return Err(fields.fault("tool_calls", "only the role assistant makes tool calls"));
    }
    let call_id = fields.text("tool_call_id")?;
    if (role == Role::Tool) != call_id.is_some() {
        return Err(fields
            .fault("tool_call_id", "the role tool names the call it answers, and no other does"));
    }
    fields.refuse("audio", &[], "only text is taken")?;
    fields.refuse("function_call", &[], "use tool_calls")?;
    fields.ignore(&["annotations", "reasoning", "reasoning_content"]);
    let name = fields.text("name")?.filter(|name| !name.is_empty());
    fields.end()?;
    let seen = Seen { role, text, name, calls, call_id };
    if seen.is_empty() && role == Role::User {
        return Err(Error::argument(&format!("{at}.content"), "empty: give a text"));
    }
    Ok(seen)
}

fn call_of(call: Value, at: &str) -> Result<SeenCall> {
    let mut fields = Fields::of(call, at)?;
    let id = fields.required("id")?;
    if fields.text("type")?.is_some_and(|kind| kind != "function") {
        return Err(fields.fault("type", "only calls of functions are taken"));
    }
    let mut function =
        Fields::of(fields.take("function").unwrap_or(Value::Null), &fields.named("function"))?;
    let (name, arguments) = (function.required("name")?, function.text("arguments")?);
    function.end()?;
    fields.ignore(&["index"]);
    fields.end()?;
    Ok(SeenCall { id, name, arguments: arguments.unwrap_or_default() })
}

/// A call as the chat form shows it.
pub(super) fn shown_call(call: &SeenCall) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

/// The whole answer.
pub fn chat_answer(answer: &Answer) -> Value {
    let seen = &answer.seen;
    let content = if seen.text.is_empty() && !seen.calls.is_empty() {
        Value::Null
    } else {
        seen.text.as_str().into()
    };
    let mut message =
        json!({"role": "assistant", "content": content, "refusal": null, "annotations": []});
    if !seen.calls.is_empty() {
        message["tool_calls"] = seen.calls.iter().map(shown_call).collect();
    }
    let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": answer.ending.chat()});
    let mut body = json!({
        "id": answer.head.chat_id(), "object": "chat.completion", "created": answer.head.created_s,
        "model": answer.head.model, "choices": [choice],
    });
    if let Some(usage) = answer.usage {
        body["usage"] = chat_usage(usage);
    }
    body["vctx"] = answer.head.told.clone();
    body
}

/// What was used, as the chat form tells it: tokens of all prompts and answers of the run.
pub(super) fn chat_usage((prompt, completion): (u64, u64)) -> Value {
    json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
}

/// A fault in the form that clients of OpenAI read.
pub fn fault(error: &Error) -> Value {
    let kind = match error.code.status() {
        400..=499 => "invalid_request_error",
        _ => "server_error",
    };
    let field = error.fields.get("field").cloned().unwrap_or_default();
    json!({"error": {"message": error.message, "type": kind, "param": field, "code": error.code.text()}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(body: Value) -> Result<Conversation> {
        let taken = |name: &str| name == "search_recall";
        parse_chat(body.as_object().expect("an object").clone(), &taken)
    }

    fn with(messages: Value) -> Result<Conversation> {
        parsed(json!({"model": "m", "messages": messages}))
    }

    /// The field that a refusal names.
    fn refused(outcome: Result<Conversation>) -> String {
        outcome.expect_err("refused").fields["field"].as_str().expect("a field").to_owned()
    }

    #[test]
    fn all_forms_of_a_history_are_the_same_history() {
        let plain = with(json!([
            {"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"},
            {"role": "user", "content": "a\nb"}])).unwrap();
        let written = with(json!([
            {"role": "developer", "content": [{"type": "text", "text": "be brief"}]},
            {"role": "user", "content": "hi", "name": null},
            {"role": "assistant", "content": [{"type": "text", "text": "hello"}], "refusal": null, "annotations": [], "audio": null,
                "function_call": null, "tool_calls": []},
            {"role": "assistant", "content": ""},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "text", "text": "b"}]}]))
        .unwrap();
        assert_eq!(plain, written);
        assert_eq!(plain.system.as_deref(), Some("be brief"));
        assert_eq!(plain.said.len(), 3);
    }

    #[test]
    fn the_first_system_text_stands_apart_and_later_ones_are_said() {
        let found =
            with(json!([{"role": "user", "content": "hi"}, {"role": "system", "content": "late"}]))
                .unwrap();
        assert_eq!((found.system, found.said[1].role), (None, Role::System));
        let found = with(
            json!([{"role": "system", "content": "a"}, {"role": "system", "content": "b"}, {"role": "user", "content": "hi"}]),
        );
        let found = found.unwrap();
        assert_eq!((found.system.as_deref(), found.said[0].text.as_str()), (Some("a"), "b"));
    }

    #[test]
    fn calls_and_their_answers_are_kept() {
        let call = json!({"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}});
        let found = with(
            json!([{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": ""}]),
        )
        .unwrap();
        assert_eq!(shown_call(&found.said[1].calls[0]), call);
        assert_eq!(found.said[2].call_id.as_deref(), Some("c1"));
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_by_name() {
        let user = json!([{"role": "user", "content": "hi"}]);
        for (name, value) in [
            ("n", json!(2)),
            ("logprobs", json!(true)),
            ("top_logprobs", json!(3)),
            ("modalities", json!(["text", "audio"])),
            ("audio", json!({"voice": "x"})),
            ("functions", json!([{"name": "f"}])),
            ("function_call", json!({"name": "f"})),
            ("web_search_options", json!({"a": 1})),
            ("moderation", json!({"model": "m"})),
            ("invented", json!(1)),
            ("stream", json!("yes")),
            ("user", json!(7)),
            ("tools", json!({})),
        ] {
            let mut body = json!({"model": "m", "messages": user});
            body[name] = value;
            assert_eq!(refused(parsed(body)), name);
        }
        for (tool, field) in [
            (json!({"type": "custom"}), "tools[0].type"),
            (json!({"type": "function", "function": {}}), "tools[0].function.name"),
            (
                json!({"type": "function", "function": {"name": "search_recall"}}),
                "tools[0].function.name",
            ),
        ] {
            assert_eq!(
                refused(parsed(json!({"model": "m", "messages": user, "tools": [tool]}))),
                field
            );
        }
    }

    #[test]
    fn what_asks_for_nothing_is_taken() {
        let found = parsed(json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "n": 1, "logprobs": false, "top_logprobs": 0,
            "modalities": ["text"], "functions": [], "audio": null, "store": true, "metadata": {"a": "b"}, "tool_choice": "auto",
            "temperature": 0.5, "stream": true, "stream_options": {"include_usage": true}}))
        .unwrap();
        assert_eq!(
            Value::Object(found.options),
            json!({"temperature": 0.5}),
            "a choice among no tools is none"
        );
        assert!(found.stream && found.usage);
    }

    #[test]
    fn a_message_that_is_none_is_refused_at_its_place() {
        for (message, field) in [
            (json!("hi"), "messages[1]"),
            (json!({"role": "pope", "content": "hi"}), "messages[1].role"),
            (json!({"role": "function", "name": "f", "content": "hi"}), "messages[1].role"),
            (json!({"role": "user", "content": 7}), "messages[1].content"),
            (json!({"role": "user", "content": ""}), "messages[1].content"),
            (
                json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}),
                "messages[1].content[0].type",
            ),
            (
                json!({"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}),
                "messages[1].content[0].type",
            ),
            (json!({"role": "user", "content": [{"type": "text"}]}), "messages[1].content[0].text"),
            (
                json!({"role": "user", "content": "hi", "tool_calls": [{"id": "c", "function": {"name": "f"}}]}),
                "messages[1].tool_calls",
            ),
            (json!({"role": "tool", "content": "hi"}), "messages[1].tool_call_id"),
            (
                json!({"role": "assistant", "tool_calls": [{"id": "c", "type": "custom"}]}),
                "messages[1].tool_calls[0].type",
            ),
            (
                json!({"role": "assistant", "content": "x", "audio": {"id": "a"}}),
                "messages[1].audio",
            ),
            (json!({"role": "user", "content": "x", "odd": 1}), "messages[1].odd"),
        ] {
            assert_eq!(
                refused(with(json!([{"role": "user", "content": "hi"}, message]))),
                field,
                "{message}"
            );
        }
        assert_eq!(refused(with(json!([]))), "messages");
        assert_eq!(refused(with(json!([{"role": "system", "content": "x"}]))), "messages");
        assert_eq!(
            refused(with(
                json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}])
            )),
            "messages"
        );
    }
}
