//! Selects the current texts that a model gets after a conflict, and makes the answers for an agent
//! that does not exist yet.

use serde_json::{Map, Value, json};

use crate::limits::MCP_CURRENT_MESSAGES;
use vctx_client::Problem;
use vctx_core::dialect::Translated;
use vctx_core::error::{Code, Error};
use vctx_core::memory::block_path::MemoryPath;
use vctx_core::policy::TEXT;
use vctx_core::tools::Call;

/// Maximum length in bytes of each current text that is shown after a conflict; a longer text is
/// truncated and ends with a note.
const MCP_CURRENT_BYTES_MAX: usize = 16 * 1024;

/// Prefix of block names in the list `changed` of a refusal.
pub(super) const BLOCK: &str = "block:";
/// Item of the list `changed` that the server sends if it no longer knows the caller's revision, so
/// that any text may have changed.
const UNKNOWN: &str = "unknown";

fn changed(problem: &Problem) -> impl Iterator<Item = &str> {
    let list = problem.fields.get("changed").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the names of the blocks that a refusal lists as changed.
pub(super) fn changed_blocks(problem: &Problem) -> Vec<String> {
    changed(problem).filter_map(|name| name.strip_prefix(BLOCK)).map(str::to_owned).collect()
}

/// Whether the changes include messages of the queue.
pub(super) fn wants_messages(problem: &Problem) -> bool {
    changed(problem).any(|name| name == "queue" || name == UNKNOWN)
}

/// Returns the position of the first of the newest messages that are shown after a conflict.
pub(super) fn first_message(state: &Value) -> u64 {
    let next = state.pointer("/queue/next_seq").and_then(Value::as_u64).unwrap_or(1);
    next.saturating_sub(MCP_CURRENT_MESSAGES).max(1)
}

/// Returns the current texts of the items that the problem reports as changed: blocks, the summary
/// and the newest messages. The text of a deleted block is null.
pub(super) fn of(problem: &Problem, state: &Value, messages: &[Value]) -> Value {
    let mut current = Map::new();
    let all = changed(problem).any(|name| name == UNKNOWN);
    let blocks = state["working_blocks"].as_array().map_or(&[][..], Vec::as_slice);
    let mut shown = Map::new();
    for name in changed(problem).filter_map(|name| name.strip_prefix(BLOCK)) {
        shown.insert(name.to_owned(), Value::Null);
    }
    for block in blocks {
        let Some(id) = block["id"].as_str() else { continue };
        if all || shown.contains_key(id) {
            shown.insert(id.to_owned(), cut(&block["content"]));
        }
    }
    if all || !shown.is_empty() {
        current.insert("blocks".into(), Value::Object(shown));
    }
    if all || changed(problem).any(|name| name == "summary") {
        current.insert("summary".into(), cut(&state["summary"]["content"]));
    }
    if wants_messages(problem) {
        let messages: Vec<Value> = messages
            .iter()
            .map(|m| json!({"seq": m["seq"], "role": m["role"], "content": cut(&m["content"])}))
            .collect();
        current.insert("newest_messages".into(), messages.into());
    }
    Value::Object(current)
}

/// Truncates a text to the length limit; a truncated text ends with a note.
fn cut(text: &Value) -> Value {
    let Some(whole) = text.as_str() else { return Value::Null };
    if whole.len() <= MCP_CURRENT_BYTES_MAX {
        return whole.into();
    }
    let end = whole.floor_char_boundary(MCP_CURRENT_BYTES_MAX);
    let left = whole.len() - end;
    json!(format!("{}… ({left} more bytes: this is not the whole text)", &whole[..end]))
}

/// Returns the names of the blocks that an answer shows in a list: blocks with their texts, and
/// the old and the new names of renamed blocks.
pub(super) fn listed_blocks(answer: &Value) -> Vec<String> {
    let blocks = answer["result"]["blocks"].as_array().into_iter().flatten();
    let names = blocks.flat_map(|block| {
        let shown = block["block_id"].as_str().filter(|_| block["content"].is_string());
        [shown, block["from"].as_str(), block["to"].as_str()]
    });
    names.flatten().map(str::to_owned).collect()
}

/// Returns the answer of a reading or searching tool for an agent that does not exist: the same
/// answer or error as for an agent with an empty memory.
pub(super) fn of_nobody(understood: Option<&Translated>) -> Result<Value, Problem> {
    let call = understood.map(|translated| &translated.call);
    let wording = understood.and_then(|translated| translated.wording.as_ref());
    let no_block = |block: &str| {
        let detail = format!("no block {block}: this memory is empty; make a block");
        let mut body = json!({"error": "BLOCK_NOT_FOUND", "detail": detail, "blocks": []});
        if let Some(wording) = wording {
            let error = Error::new(Code::BlockNotFound, detail);
            body[TEXT] = wording.refused(&error).into();
        }
        Problem::refused(404, &body, None)
    };
    let result = match call {
        Some(Call::FetchCore(fetch)) => match &fetch.block_id {
            Some(id) => return Err(no_block(id)),
            None => json!({"blocks": [], "_rev": ""}),
        },
        Some(Call::ViewCore(view)) => match &view.place {
            MemoryPath::Named(id) => return Err(no_block(id)),
            MemoryPath::Root => json!({"blocks": []}),
        },
        Some(_) | None => json!({"results": [], "tokens_added": 0, "next_page_token": null}),
    };
    let mut result = result.as_object().cloned().unwrap_or_default();
    if let Some(wording) = wording {
        result.insert(TEXT.into(), wording.answer_text(&result).into());
    }
    Ok(json!({"result": result, "_rev": null, "token_estimate": 0, "tokens": null, "flush": null}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stale(changed: &[&str]) -> Problem {
        let body = json!({"error": "REVISION_STALE", "detail": "d", "changed": changed});
        Problem::refused(412, &body, None)
    }

    fn state() -> Value {
        json!({"working_blocks": [{"id": "human", "content": "Tea."}, {"id": "plan", "content": "Sail."}],
            "summary": {"content": "They met."}, "queue": {"next_seq": 9}})
    }

    #[test]
    fn only_what_changed_is_shown() {
        let shown = of(&stale(&["block:human", "block:gone"]), &state(), &[]);
        assert_eq!(shown, json!({"blocks": {"human": "Tea.", "gone": null}}));
        let messages = [json!({"seq": 8, "role": "user", "content": "Hi", "digest": "…"})];
        let shown = of(&stale(&["queue", "summary"]), &state(), &messages);
        let newest = json!([{"seq": 8, "role": "user", "content": "Hi"}]);
        assert_eq!(shown, json!({"summary": "They met.", "newest_messages": newest}));
        assert!(wants_messages(&stale(&["queue"])) && !wants_messages(&stale(&["block:queue"])));
    }

    #[test]
    fn after_an_unknown_revision_everything_is_shown() {
        let shown = of(&stale(&["unknown"]), &state(), &[]);
        assert_eq!(shown["blocks"], json!({"human": "Tea.", "plan": "Sail."}));
        assert_eq!(shown["newest_messages"], json!([]));
        assert_eq!((first_message(&state()), first_message(&json!({}))), (4, 1));
    }

    #[test]
    fn a_long_text_says_that_it_goes_on() {
        let long = "é".repeat(MCP_CURRENT_BYTES_MAX);
        let shown = cut(&json!(long));
        let shown = shown.as_str().unwrap();
        assert!(shown.len() < MCP_CURRENT_BYTES_MAX + 100, "{}", shown.len());
        assert!(shown.ends_with(&format!(
            "({MCP_CURRENT_BYTES_MAX} more bytes: this is not the whole text)"
        )));
    }
}
