//! The form in which the result of a tool call becomes part of the conversation. The result is a
//! tool message alone, or a tool message after an assistant message that contains the call.

use serde::Serialize;

/// The messages that a tool call appends to the queue for its result. The call's other writes are
/// in the same transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Capture {
    /// Only the tool's message, because the queue already contains the call.
    Result {
        /// Id that the model gave to the tool call.
        tool_call_id: String,
    },
    /// The assistant's message with the tool call, and the tool's message. The id of the tool call
    /// is derived from the idempotency key.
    Pair {
        /// Name of the tool in the captured call.
        name: String,
        /// Arguments of the tool call as a JSON text.
        arguments: String,
    },
}

impl Capture {
    /// Returns a capture that appends only the result, for a tool call that is already in the
    /// queue.
    pub fn answering(tool_call_id: impl Into<String>) -> Self {
        Self::Result { tool_call_id: tool_call_id.into() }
    }
}
