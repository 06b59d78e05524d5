//! HTTP routes of the OpenAI API (`/v1/chat/completions`, `/v1/responses`, `/v1/responses/compact`,
//! `/v1/embeddings`, `/v1/models`) and of Anthropic's messages API (`/v1/messages`). The routes of
//! conversations differ only in their forms.

mod compact;
mod converse;
mod embeddings;
mod reply;
mod routes;
mod stream;

pub(super) use compact::compact;
pub(super) use embeddings::embeddings;
pub(super) use routes::{AGENT, chat, count_tokens, messages, models, responses};
pub use routes::{CountKnown, KnownMessages};
