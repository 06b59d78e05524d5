//! Reads answers of the chat completions API.

use serde_json::Value;

use super::assemble::{Assembly, arguments_of, rubbish, text_of};
use super::fault::ChatFault;
use super::model::Finish;
use vctx_core::limits::TOOL_CALLS_MAX;
use vctx_core::memory::run::{ToolCall, Usage};

/// Reads a streamed piece (`chat.completion.chunk`), and returns its text.
pub(super) fn piece(assembly: &mut Assembly, value: &Value) -> Result<String, ChatFault> {
    count(assembly, value);
    let Some(choice) = value.pointer("/choices/0") else { return Ok(String::new()) };
    assembly.is_begun = true;
    let delta = &choice["delta"];
    for call in delta["tool_calls"].as_array().into_iter().flatten() {
        call_piece(&mut assembly.calls, call)?;
    }
    finished(assembly, choice);
    let text = delta["content"].as_str().or_else(|| delta["refusal"].as_str());
    Ok(text.unwrap_or_default().to_owned())
}

/// Reads a complete answer (`chat.completion`); an error if the value is none.
pub(super) fn whole(assembly: &mut Assembly, value: &Value) -> Result<(), ChatFault> {
    count(assembly, value);
    let choice = value.pointer("/choices/0").filter(|choice| choice["message"].is_object());
    let choice = choice.ok_or_else(rubbish)?;
    let message = &choice["message"];
    let text = message["content"].as_str().or_else(|| message["refusal"].as_str());
    assembly.content = text.unwrap_or_default().to_owned();
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        assembly.call(&call["id"], &call["function"]["name"], &call["function"]["arguments"]);
    }
    finished(assembly, choice);
    Ok(())
}

fn call_piece(calls: &mut Vec<ToolCall>, piece: &Value) -> Result<(), ChatFault> {
    let last = calls.len().saturating_sub(1);
    let index = piece["index"].as_u64().and_then(|at| usize::try_from(at).ok());
    let index = index.unwrap_or(last);
    if index >= TOOL_CALLS_MAX {
        return Ok(());
    }
    if index > calls.len() {
        return Err(rubbish());
    }
    if index == calls.len() {
        let (id, name, arguments) = (String::new(), String::new(), String::new());
        calls.push(ToolCall { id, name, arguments });
    }
    let call = &mut calls[index];
    // Most model servers send a call's id and name once; some repeat them with each piece.
    if call.id.is_empty() {
        call.id = text_of(&piece["id"]);
    }
    if call.name.is_empty() {
        call.name = text_of(&piece["function"]["name"]);
    }
    call.arguments.push_str(&arguments_of(&piece["function"]["arguments"]));
    Ok(())
}

fn finished(assembly: &mut Assembly, choice: &Value) {
    if let Some(name) = choice["finish_reason"].as_str() {
        assembly.finish = Some(Finish::by_name(name));
    }
}

fn count(assembly: &mut Assembly, value: &Value) {
    let usage = &value["usage"];
    if let (Some(prompt), Some(completion)) =
        (usage["prompt_tokens"].as_u64(), usage["completion_tokens"].as_u64())
    {
        assembly.usage = Some(Usage { prompt, completion });
    }
}
