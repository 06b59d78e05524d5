//! Converts answers and problems to MCP results, which have structured content, the same content as
//! text, and metadata for the client.

use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::{Map, Value, json};

use super::bridge::{Outcome, Trouble};
use vctx_client::{Fault, Problem};
use vctx_core::policy::TEXT;
use vctx_core::tools::{told_answer, told_error};

/// Metadata key for the idempotency key, in a call and in its result.
pub(super) const KEY: &str = "vctx/idempotency-key";
/// Metadata key in a call. With this key, the server appends the call's result to the conversation.
/// The value is `true`, or the id of the tool call that the result answers.
pub(super) const CAPTURE: &str = "vctx/capture";
/// Metadata key in a result; the value says whether a repetition of the call has no further effect.
const RETRY_SAFE: &str = "vctx/retry_safe";
/// Metadata key in a result; the value is the revision that the call built on.
const BUILT_ON: &str = "vctx/built_on";

/// Attributes of problem details that only repeat other attributes. The results omit them.
const DOUBLED: [&str; 6] = ["type", "title", "status", "detail", "error", "system_message"];

/// Returns the MCP result of a call to the named tool.
pub(super) fn result(tool: &str, outcome: Outcome) -> CallToolResult {
    let mut result = match outcome.answer {
        Ok(answer) => call_result(tool, envelope(answer, outcome.retry_safe)),
        Err(trouble) => refused(trouble, outcome.retry_safe),
    };
    let mut meta = Map::new();
    meta.insert(RETRY_SAFE.into(), outcome.retry_safe.into());
    if let Some(key) = outcome.key {
        meta.insert(KEY.into(), key.into());
    }
    if let Some(revision) = outcome.built_on {
        meta.insert(BUILT_ON.into(), revision.into());
    }
    result.meta = Some(MetaObject(meta));
    result
}

/// Returns an answer as structured content for programs, and as the text that a model reads: the
/// text of the tool with a last line, or the text that the dialect prescribes.
fn call_result(tool: &str, answer: Value) -> CallToolResult {
    let text = told_answer(tool, &answer);
    let mut result = CallToolResult::structured(answer);
    result.content = vec![ContentBlock::text(text)];
    result
}

fn envelope(answer: Value, retry_safe: bool) -> Value {
    let mut map = match answer {
        Value::Object(map) => map,
        other => Map::from_iter([("result".to_owned(), other)]),
    };
    // The idempotency key is only for the client, so it is removed from the content that the model
    // sees.
    map.remove("idempotency_key");
    map.insert("retry_safe".into(), retry_safe.into());
    Value::Object(map)
}

/// Advice to the model after a conflict, if the current texts are shown.
const SHOWN: &str = "somebody else has written since; `current` shows what changed: decide again and call again, the next call builds on it";

/// Returns a problem as a tool result, so that the model can read the problem and correct its call.
fn refused(trouble: Trouble, retry_safe: bool) -> CallToolResult {
    let Trouble { problem, current } = trouble;
    let next = match (&current, problem.code.as_str()) {
        (Some(_), "REVISION_STALE") => Some(SHOWN.to_owned()),
        _ => next_step(&problem),
    };
    let mut told = Map::new();
    told.insert("error".into(), problem.code.as_str().into());
    told.insert("detail".into(), problem.detail.as_str().into());
    if let Some(next) = &next {
        told.insert("next".into(), next.as_str().into());
    }
    if let Some(seconds) = problem.retry_after_s {
        told.insert("retry_after_s".into(), seconds.into());
    }
    let own = problem.fields.iter().filter(|(name, _)| !DOUBLED.contains(&name.as_str()));
    told.extend(own.map(|(name, value)| (name.clone(), value.clone())));
    if let Some(current) = current {
        told.insert("current".into(), current);
    }
    told.insert("retry_safe".into(), retry_safe.into());
    let told = Value::Object(told);
    let text = told[TEXT].as_str().map(str::to_owned);
    let text = text.unwrap_or_else(|| told_text(&problem, next.as_deref(), &told));
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    result.structured_content = Some(told);
    result
}

/// Returns the text in which a model reads a problem: what was wrong, what to do, and the current
/// texts after a conflict.
fn told_text(problem: &Problem, next: Option<&str>, told: &Value) -> String {
    let own = problem.fields.iter().filter(|(name, _)| !DOUBLED.contains(&name.as_str()));
    let fields = own.map(|(name, value)| (name.clone(), value.clone())).collect();
    let mut text = told_error(&problem.code, &problem.detail, &fields);
    if let Some(next) = next {
        text.push_str(&format!(" Next: {next}."));
    }
    if !told["current"].is_null() {
        text.push_str(&format!("\ncurrent: {}", told["current"]));
    }
    text
}

/// Returns advice for the model or the operator, to be shown after the server's description of the
/// problem.
fn next_step(problem: &Problem) -> Option<String> {
    if matches!(problem.fault, Fault::Unreachable) {
        return problem.next.clone();
    }
    let text = match problem.code.as_str() {
        "REVISION_STALE" => {
            "somebody else has written since: read it again if need be and call again, the next call builds on what is there now"
        }
        "INVALID_ARGUMENT" => "correct the argument that `field` names and call again",
        "BLOCK_NOT_FOUND" => "use one of `blocks`, or make the block with store_core",
        "TOKEN_BUDGET_EXCEEDED" => "shorten the text, or make room with evict_fifo, and call again",
        "PIN_LIMIT_EXCEEDED" => "unpin or shorten a pinned block with store_core",
        "BODY_TOO_LARGE" => "split the text over several calls",
        "IDEMPOTENCY_KEY_REUSED" => "give each new call a key of its own",
        "UNANSWERED" | "TIMEOUT" => "the call may have had its effect: check before you call again",
        "PAGE_TOKEN_INVALID" | "PAGE_EXPIRED" => "leave page_token out to search again",
        "HEARTBEAT_RATE_LIMITED" | "HEARTBEAT_COOLDOWN" => {
            "wait `retry_after_ms` and call again, or end your turn"
        }
        "CONFLICT" | "OVERLOADED" | "STORE_UNAVAILABLE" | "NOT_READY" => {
            "wait a moment and call again"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// Returns the reason why a resource cannot be read, as the `data` of an MCP error.
pub(super) fn data(problem: &Problem) -> Value {
    json!({"error": problem.code, "detail": problem.detail, "next": next_step(problem)})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(answer: Result<Value, Trouble>) -> Outcome {
        Outcome { key: Some("k".into()), retry_safe: false, built_on: Some("_r".into()), answer }
    }

    #[test]
    fn an_answer_is_structured_and_a_text_for_the_model() {
        let answer = json!({"result": {"a": 1}, "_rev": "_s", "idempotency_key": "k"});
        let result = result("store_core", outcome(Ok(answer)));
        let told = json!({"result": {"a": 1}, "_rev": "_s", "retry_safe": false});
        assert_eq!(
            (result.is_error, result.structured_content.as_ref()),
            (Some(false), Some(&told))
        );
        assert_eq!(serde_json::to_value(&result.content[0]).unwrap()["text"], "Done.\n[rev _s]");
        let meta = json!({RETRY_SAFE: false, KEY: "k", BUILT_ON: "_r"});
        assert_eq!(serde_json::to_value(&result.meta).unwrap(), meta);
    }

    #[test]
    fn a_problem_keeps_its_code_its_fields_and_says_what_to_do() {
        let body = json!({"type": "t", "status": 422, "error": "TOKEN_BUDGET_EXCEEDED", "detail": "short of 41 tokens",
            "required_headroom": 41});
        let trouble = Trouble::from(Problem::refused(422, &body, None));
        let result = result("store_core", outcome(Err(trouble)));
        let told = result.structured_content.unwrap();
        assert_eq!(result.is_error, Some(true));
        assert_eq!(told["required_headroom"], 41);
        assert_eq!((told.get("type"), told.get("status")), (None, None));
        assert!(told["next"].as_str().unwrap().contains("evict_fifo"));
    }
}
