//! HTTP routes of the OpenAI API: `/v1/chat/completions`, `/v1/responses`, `/v1/models`.

mod converse;
mod reply;
mod routes;
mod stream;

pub(super) use routes::{AGENT, chat, models, responses};
pub use routes::{CountKnown, KnownMessages};
