//! How each part of a memory stands in a rendered window: one chat message each, so that costs add up exactly.

use serde_json::{Map, Value};

use super::core::{Block, Core};
use super::message::{Role, rendered};
use super::tokens::{REPLY_TOKENS, TokenCounter, message_cost};

/// First line of the rendered summary.
const SUMMARY_HEADING: &str =
    "Summary of the earlier conversation (the messages themselves are in recall storage):";

fn system_message(content: &str) -> Value {
    rendered(Role::System, content, &Map::new())
}

/// The system instructions.
pub fn system(content: &str) -> Value {
    system_message(content)
}

/// A block of the working context.
pub fn block(id: &str, role: &str, content: &str, pinned: bool) -> Value {
    let pin = if pinned { " pinned" } else { "" };
    system_message(&format!("<block id=\"{id}\" role=\"{role}\"{pin}>\n{content}\n</block>"))
}

/// The recursive summary.
pub fn summary(content: &str) -> Value {
    system_message(&format!("{SUMMARY_HEADING}\n{content}"))
}

/// A notice.
pub fn notice(content: &str) -> Value {
    system_message(content)
}

/// Cost of the system instructions, with the tokens that prime the reply.
pub fn system_cost(counter: &dyn TokenCounter, content: &str) -> u64 {
    message_cost(counter, &system(content)) + REPLY_TOKENS
}

/// Cost of a block.
pub fn block_cost(counter: &dyn TokenCounter, b: &Block) -> u64 {
    message_cost(counter, &block(&b.id, &b.role, &b.content, b.pinned))
}

/// Cost of a summary; nothing is rendered for an empty one.
pub fn summary_cost(counter: &dyn TokenCounter, content: &str) -> u64 {
    if content.is_empty() { 0 } else { message_cost(counter, &summary(content)) }
}

/// Cost of a notice.
pub fn notice_cost(counter: &dyn TokenCounter, content: &str) -> u64 {
    message_cost(counter, &notice(content))
}

/// Counts everything of a core anew, except its queue.
pub fn recount(counter: &dyn TokenCounter, core: &mut Core) {
    core.system.token_estimate = system_cost(counter, &core.system.content);
    for b in &mut core.working_blocks {
        b.token_estimate = block_cost(counter, b);
    }
    core.queue_head_summary.token_estimate =
        summary_cost(counter, &core.queue_head_summary.content);
    for n in &mut core.notices {
        n.token_estimate = notice_cost(counter, &n.content);
    }
}
