//! Plain values of the memory: core, messages, events, token counts, changes and receipts.

pub mod change;
pub mod core;
pub mod event;
pub mod message;
pub mod receipt;
pub mod render;
pub mod tokens;

pub use tokens::{Encoding, TokenCounter};
