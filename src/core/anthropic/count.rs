//! Estimates how many tokens a conversation takes as the client sends it.

use crate::memory::TokenCounter;
use crate::memory::conversation::ClientMessage;
use crate::openai::Conversation;

/// Estimated tokens of a message besides its texts: the marks around it and its role.
const MESSAGE_TOKENS: u64 = 4;

/// Estimates the tokens of the system text, the messages and the tools of a conversation. The model
/// gets a window of limited size instead, which may have fewer tokens.
pub fn estimated_tokens(conversation: &Conversation, counter: &dyn TokenCounter) -> u64 {
    let of_message = |said: &ClientMessage| {
        let calls = said.calls.iter();
        let calls = calls.map(|call| counter.count(&call.name) + counter.count(&call.arguments));
        MESSAGE_TOKENS + counter.count(&said.text) + calls.sum::<u64>()
    };
    let system = conversation.system.as_deref().map_or(0, |system| counter.count(system));
    let said: u64 = conversation.said.iter().map(of_message).sum();
    let tools: u64 = conversation.tools.iter().map(|tool| counter.count(&tool.to_string())).sum();
    system + said + tools
}
