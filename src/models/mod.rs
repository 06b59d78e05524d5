//! Models answer and never decide: here token counts.

mod tiktoken;

pub use tiktoken::Tiktoken;
