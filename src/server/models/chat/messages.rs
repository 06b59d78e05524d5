//! Reads answers of Anthropic's messages API.

use serde_json::Value;

use super::assemble::{Assembly, overflow, rubbish, text_of};
use super::fault::ChatFault;
use super::model::Finish;
use vctx_core::memory::run::Usage;

/// Reads a streamed event, and returns its text. Events that are not named here, and blocks with
/// the model's thoughts, are no part of the answer.
pub(super) fn piece(assembly: &mut Assembly, value: &Value) -> Result<String, ChatFault> {
    assembly.is_begun = true;
    let part = &value["index"];
    match value["type"].as_str().unwrap_or_default() {
        "message_start" => count(assembly, &value["message"]["usage"]),
        "content_block_start" => {
            let block = &value["content_block"];
            match block["type"].as_str().unwrap_or_default() {
                "tool_use" => assembly.begin_call(part, &block["id"], &block["name"]),
                "text" => return Ok(text_of(&block["text"])),
                _ => {}
            }
        }
        "content_block_delta" => {
            let delta = &value["delta"];
            match delta["type"].as_str().unwrap_or_default() {
                "text_delta" => return Ok(text_of(&delta["text"])),
                "input_json_delta" => assembly.add_arguments(part, &delta["partial_json"]),
                _ => {}
            }
        }
        "message_delta" => {
            count(assembly, &value["usage"]);
            finished(assembly, &value["delta"]["stop_reason"])?;
        }
        "message_stop" => assembly.is_over = true,
        _ => {}
    }
    Ok(String::new())
}

/// Reads a complete answer (`message`); an error if the value is none.
pub(super) fn whole(assembly: &mut Assembly, value: &Value) -> Result<(), ChatFault> {
    for block in value["content"].as_array().ok_or_else(rubbish)? {
        match block["type"].as_str().unwrap_or_default() {
            "text" => assembly.content.push_str(block["text"].as_str().unwrap_or_default()),
            "tool_use" => assembly.call(&block["id"], &block["name"], &block["input"]),
            _ => {}
        }
    }
    count(assembly, &value["usage"]);
    finished(assembly, &value["stop_reason"])
}

/// Reads why the answer ended. A request that left no room in the model's context is a fault, after
/// which the run asks again with fewer messages.
fn finished(assembly: &mut Assembly, reason: &Value) -> Result<(), ChatFault> {
    assembly.finish = match reason.as_str() {
        None => return Ok(()),
        Some("model_context_window_exceeded") if assembly.content.is_empty() => {
            return Err(overflow());
        }
        Some("max_tokens" | "model_context_window_exceeded") => Some(Finish::Length),
        Some("tool_use") => Some(Finish::ToolCalls),
        Some("refusal") => Some(Finish::ContentFilter),
        Some(_) => Some(Finish::Stop),
    };
    Ok(())
}

/// Adds up the tokens of the prompt, which the API splits by how much of the prompt it had kept.
/// Later events repeat the counts or have more tokens of the answer.
fn count(assembly: &mut Assembly, usage: &Value) {
    let number = |name: &str| usage[name].as_u64().unwrap_or(0);
    let prompt = number("input_tokens")
        + number("cache_creation_input_tokens")
        + number("cache_read_input_tokens");
    let before = assembly.usage.unwrap_or(Usage { prompt: 0, completion: 0 });
    let completion = number("output_tokens");
    if prompt + completion > 0 {
        assembly.usage = Some(Usage {
            prompt: prompt.max(before.prompt),
            completion: completion.max(before.completion),
        });
    }
}
