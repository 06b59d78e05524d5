//! Text functions without a model: token counts, lexical vectors, the built-in summariser and the
//! drift of summaries.

mod clauses;
mod composed;
mod dated;
pub mod drift;
mod facts;
mod filler_words;
mod grammar;
pub mod lexical;
mod lexicon;
pub mod local;
mod near;
mod selection;
mod superseded;
mod tiktoken;
mod vocabulary;

pub(crate) use clauses::ends_sentence;
pub use composed::composed;
pub use dated::may_write;
pub use near::nearest;
pub use tiktoken::{EarlierTiktoken, Tiktoken};
