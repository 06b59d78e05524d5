//! Text functions without a model: token counts, lexical vectors, the built-in summariser and the
//! drift of summaries.

mod composed;
pub mod drift;
mod filler_words;
pub mod lexical;
pub mod local;
mod telegraph;
mod tiktoken;

pub use composed::composed;
pub use tiktoken::{EarlierTiktoken, Tiktoken};
