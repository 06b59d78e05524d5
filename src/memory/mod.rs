//! Plain values of memory: what is kept, counted and handed around, without deciding or acting.

mod tokens;

pub use tokens::{Encoding, TokenCounter, UnknownEncoding};
