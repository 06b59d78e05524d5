//! Texts without a model: token counts, lexical vectors, the local summary and how far a summary drifts.

mod composed;
pub mod drift;
pub mod lexical;
pub mod local;
mod telegraph;
mod tiktoken;
mod words;

pub use composed::composed;
pub use tiktoken::Tiktoken;
