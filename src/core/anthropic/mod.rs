//! Anthropic's messages API: parses requests and writes answers in the messages form.
//!
//! Conversations, their threads and the decision where they continue are those of the OpenAI API.

mod answer;
mod count;
mod parse;
mod stream;

pub use answer::{fault, messages_answer};
pub use count::estimated_tokens;
pub use parse::{messages_options, parse_count, parse_messages};
pub use stream::MessagesStream;
