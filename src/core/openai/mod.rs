//! The OpenAI API: parses requests and writes answers in the chat and responses forms, decides
//! where a conversation continues, and writes vectors of texts.

mod answer;
mod chat;
mod chat_stream;
mod compaction;
mod continuation;
mod conversation;
mod embeddings;
mod fields;
mod responses;
mod responses_stream;
mod settings;

pub use answer::BETWEEN_TURNS;
pub use answer::{Answer, Ending, Head, Sight, Visible, visible};
pub(crate) use chat::without_tools;
pub use chat::{chat_answer, chat_options, fault, parse_chat};
pub use chat_stream::ChatStream;
pub use compaction::{Compaction, compact_answer, parse_compact};
pub use continuation::{Decision, KnownMessage, Next, branch_name, decide, fresh_name};
pub use conversation::{Conversation, Previous, RequestedAgent};
pub use embeddings::{EmbeddingsRequest, VectorFormat, embeddings_answer, parse_embeddings};
pub(crate) use fields::{Fields, checked_tools};
pub use responses::{parse_responses, responses_answer, responses_options};
pub use responses_stream::ResponsesStream;
pub use settings::DropinSettings;
