//! Paths of OpenAI's clients: `/v1/chat/completions`, `/v1/responses`, `/v1/models`.

mod converse;
mod reply;
mod routes;
mod stream;

pub use routes::{HowMuch, Known};
pub(super) use routes::{agent_chat, agent_responses, chat, models, responses};
