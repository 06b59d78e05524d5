//! Models answer and never decide: here token counts and summaries.

mod drift;
pub mod local;
mod telegraph;
mod tiktoken;
mod words;

pub use tiktoken::Tiktoken;
