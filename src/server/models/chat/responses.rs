//! Reads answers of OpenAI's responses API.

use serde_json::Value;

use super::assemble::{Assembly, fault_class, rubbish};
use super::fault::ChatFault;
use super::model::Finish;
use vctx_core::memory::run::Usage;

/// Reads a streamed event, and returns its text. Events that are not named here say nothing that
/// the others do not say.
pub(super) fn piece(assembly: &mut Assembly, value: &Value) -> Result<String, ChatFault> {
    assembly.is_begun = true;
    let (part, item) = (&value["output_index"], &value["item"]);
    match value["type"].as_str().unwrap_or_default() {
        "response.output_text.delta" | "response.refusal.delta" => {
            return Ok(value["delta"].as_str().unwrap_or_default().to_owned());
        }
        "response.output_item.added" if item["type"] == "function_call" => {
            assembly.begin_call(part, &item["call_id"], &item["name"]);
        }
        "response.function_call_arguments.delta" => assembly.add_arguments(part, &value["delta"]),
        "response.output_item.done" if item["type"] == "function_call" => {
            assembly.set_arguments(part, &item["arguments"]);
        }
        "response.completed" | "response.incomplete" => {
            ended(assembly, &value["response"]);
            assembly.is_over = true;
        }
        "response.failed" => return Err(fault_class(&value["response"]["error"])),
        "error" => return Err(fault_class(value)),
        _ => {}
    }
    Ok(String::new())
}

/// Reads a complete answer (`response`); an error if the value is none.
pub(super) fn whole(assembly: &mut Assembly, value: &Value) -> Result<(), ChatFault> {
    let output = value["output"].as_array().ok_or_else(rubbish)?;
    for item in output {
        match item["type"].as_str().unwrap_or_default() {
            "message" => {
                for part in item["content"].as_array().into_iter().flatten() {
                    let text = part["text"].as_str().or_else(|| part["refusal"].as_str());
                    assembly.content.push_str(text.unwrap_or_default());
                }
            }
            "function_call" => assembly.call(&item["call_id"], &item["name"], &item["arguments"]),
            _ => {}
        }
    }
    ended(assembly, value);
    Ok(())
}

/// Reads the end of an answer: why it ended, and its tokens.
fn ended(assembly: &mut Assembly, response: &Value) {
    let finish = match response.pointer("/incomplete_details/reason").and_then(Value::as_str) {
        Some("content_filter") => Finish::ContentFilter,
        Some(_) => Finish::Length,
        None => Finish::Stop,
    };
    assembly.finish = Some(finish);
    let usage = &response["usage"];
    if let (Some(prompt), Some(completion)) =
        (usage["input_tokens"].as_u64(), usage["output_tokens"].as_u64())
    {
        assembly.usage = Some(Usage { prompt, completion });
    }
}
