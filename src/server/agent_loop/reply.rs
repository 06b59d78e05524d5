//! Encodes and decodes the stored result of a run.

use serde_json::{Map, Value, json};

use super::records;
use super::request::{RunEnd, RunRequest};
use crate::executor::Executor;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::run::{RunReason, ToolCall};

/// Returns the stored form of a run's result, which has only numbers and names; texts stay in the
/// messages.
pub(super) fn stored_end(end: &RunEnd) -> Map<String, Value> {
    let ids: Vec<&str> = end.client_calls.iter().map(|call| call.id.as_str()).collect();
    let told = json!({"turns": end.turns, "usage": end.usage, "last_seq": end.last_seq,
        "client_calls": ids, "fault": end.fault});
    match told {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Decodes the stored result of a run. Takes the text and the calls from the answer's message,
/// which the stored result names.
pub(super) async fn again(
    executor: &Executor,
    request: &RunRequest,
    answer: &Value,
) -> Result<RunEnd> {
    let kept = &answer["result"];
    let odd = |e: serde_json::Error| {
        Error::new(Code::Internal, "the stored end of a run cannot be decoded").caused_by(e)
    };
    let reason: RunReason = serde_json::from_value(kept["reason"].clone()).map_err(odd)?;
    let usage = serde_json::from_value(kept["usage"].clone()).map_err(odd)?;
    let last_seq = kept["last_seq"].as_u64().unwrap_or(0);
    let (mut text, mut client_calls): (String, Vec<ToolCall>) = (String::new(), Vec::new());
    if let Some(said) = records::answer_at(executor, request, last_seq).await? {
        text = records::spoken(&said);
        let ids = kept["client_calls"].as_array().cloned().unwrap_or_default();
        client_calls
            .extend(said.calls.into_iter().filter(|call| ids.contains(&call.id.as_str().into())));
    }
    Ok(RunEnd {
        reason,
        text,
        client_calls,
        usage,
        turns: kept["turns"].as_u64().unwrap_or(0),
        last_seq,
        fault: kept["fault"].as_str().map(str::to_owned),
        warnings: Vec::new(),
    })
}
