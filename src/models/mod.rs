//! Models answer and never decide: here token counts, summaries and vectors.

pub mod drift;
mod gateway;
pub mod lexical;
pub mod local;
mod telegraph;
mod tiktoken;
mod words;

pub use gateway::{Gateway, GatewaySettings};
pub use tiktoken::Tiktoken;
