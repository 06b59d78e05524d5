//! Models answer and never decide: here token counts and summaries.

mod drift;
mod gateway;
pub mod local;
mod telegraph;
mod tiktoken;
mod words;

pub use gateway::{Gateway, GatewaySettings};
pub use tiktoken::Tiktoken;
