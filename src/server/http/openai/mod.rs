//! HTTP routes of the OpenAI API (`/v1/chat/completions`, `/v1/responses`, `/v1/models`) and of
//! Anthropic's messages API (`/v1/messages`), which differ only in their forms.

mod converse;
mod reply;
mod routes;
mod stream;

pub(super) use routes::{AGENT, chat, count_tokens, messages, models, responses};
pub use routes::{CountKnown, KnownMessages};
