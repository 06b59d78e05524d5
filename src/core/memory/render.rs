//! How each part of a memory stands in a rendered window: one chat message each, so that costs add up exactly.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::core::{Block, Core, OpenCall, Summary};
use super::markup;
use super::message::{Role, rendered};
use super::tokens::{REPLY_TOKENS, TokenCounter, message_cost};

/// First line of the rendered summary.
const SUMMARY_HEADING: &str =
    "Summary of the earlier conversation (the messages themselves are in recall storage):";

/// Stands in the place of a result.
const NO_RESULT: &str = "[no result yet]";

fn system_message(content: &str) -> Value {
    rendered(Role::System, content, &Map::new())
}

/// The system instructions.
pub fn system(content: &str) -> Value {
    system_message(content)
}

/// A block of the working context.
pub fn block(b: &Block) -> Value {
    let pin = if b.pinned { " pinned" } else { "" };
    let content = shown(&b.content, b.escaped);
    system_message(&format!(
        "<block id=\"{}\" role=\"{}\"{pin}>\n{content}\n</block>",
        b.id, b.role
    ))
}

/// The recursive summary.
pub fn summary(s: &Summary) -> Value {
    system_message(&headed(&shown(&s.content, s.escaped)))
}

fn headed(content: &str) -> String {
    format!("{SUMMARY_HEADING}\n{content}")
}

fn shown(content: &str, is_escaped: bool) -> Cow<'_, str> {
    if is_escaped { markup::escaped(content) } else { Cow::Borrowed(content) }
}

/// What stands in the place of a result that has not come yet.
pub fn no_result(call: &OpenCall) -> Value {
    let meta = Map::from_iter([("tool_call_id".to_owned(), Value::from(call.id.as_str()))]);
    rendered(Role::Tool, NO_RESULT, &meta)
}

/// A notice.
pub fn notice(content: &str) -> Value {
    system_message(content)
}

/// Cost of the system instructions, with the tokens that prime the reply.
pub fn system_cost(counter: &dyn TokenCounter, content: &str) -> u64 {
    message_cost(counter, &system(content)) + REPLY_TOKENS
}

/// Decides how a block whose text was just written renders, and counts that.
pub fn settle_block(counter: &dyn TokenCounter, b: &mut Block) {
    b.escaped = markup::has_block_markup(&b.content);
    b.token_estimate = message_cost(counter, &block(b));
}

/// The same of a summary.
pub fn settle_summary(counter: &dyn TokenCounter, s: &mut Summary) {
    s.escaped = markup::has_block_markup(&s.content);
    s.token_estimate = summary_cost(counter, &s.content);
}

/// Cost of a new summary; nothing is rendered for an empty one.
pub fn summary_cost(counter: &dyn TokenCounter, content: &str) -> u64 {
    if content.is_empty() {
        return 0;
    }
    message_cost(counter, &system_message(&headed(&markup::escaped(content))))
}

/// Settles what was written before there was escaping, and has markup in it.
pub fn settle_old(counter: &dyn TokenCounter, core: &mut Core) {
    for b in &mut core.working_blocks {
        if !b.escaped && markup::has_block_markup(&b.content) {
            settle_block(counter, b);
        }
    }
    let summary = &mut core.queue_head_summary;
    if !summary.escaped && markup::has_block_markup(&summary.content) {
        settle_summary(counter, summary);
    }
}

/// A call that waits for its result.
pub fn open_call(counter: &dyn TokenCounter, id: &str, seq: u64) -> OpenCall {
    let mut call = OpenCall { id: id.to_owned(), seq, token_estimate: 0, replaced: false };
    call.token_estimate = message_cost(counter, &no_result(&call));
    call
}

/// Cost of a notice.
pub fn notice_cost(counter: &dyn TokenCounter, content: &str) -> u64 {
    message_cost(counter, &notice(content))
}

/// Counts everything of a core anew, except its queue.
pub fn recount(counter: &dyn TokenCounter, core: &mut Core) {
    core.system.token_estimate = system_cost(counter, &core.system.content);
    for b in &mut core.working_blocks {
        settle_block(counter, b);
    }
    settle_summary(counter, &mut core.queue_head_summary);
    for call in core.open_calls.iter_mut().flatten() {
        call.token_estimate = message_cost(counter, &no_result(call));
    }
    for n in &mut core.notices {
        n.token_estimate = notice_cost(counter, &n.content);
    }
}
