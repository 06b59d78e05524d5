//! A call whose result stays in the conversation: as the tool's message, or as one pair with the message that makes the call.

use serde::Serialize;

/// How a call's result is appended, in the same transaction as its effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Capture {
    /// The tool's message alone: what makes the call stands in the queue.
    Result {
        /// The call that the result answers, as the model named it.
        tool_call_id: String,
    },
    /// The assistant's message that makes the call, and the tool's: nobody else appends them. The id is made of the call's key.
    Pair {
        /// The tool as it was called.
        name: String,
        /// Its arguments as a JSON text.
        arguments: String,
    },
}

impl Capture {
    /// The result of a call that stands in the queue.
    pub fn answering(tool_call_id: impl Into<String>) -> Self {
        Self::Result { tool_call_id: tool_call_id.into() }
    }
}
