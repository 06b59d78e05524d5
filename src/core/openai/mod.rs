//! The drop-in: what clients of OpenAI's chat and responses forms send and read, what of it is new, and where it goes on.

mod answer;
mod chat;
mod chat_stream;
mod conversation;
mod fields;
mod place;
mod responses;
mod responses_stream;
mod settings;

pub use answer::BETWEEN_TURNS;
pub use answer::{Answer, Ending, Head, Sight, Visible, visible};
pub use chat::{chat_answer, fault, parse_chat};
pub use chat_stream::ChatStream;
pub use conversation::{Conversation, Named};
pub use place::{Decision, Found, Next, branch_name, decide, fresh_name};
pub use responses::{parse_responses, responses_answer};
pub use responses_stream::ResponsesStream;
pub use settings::DropinSettings;
