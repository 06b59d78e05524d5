//! Plain values of the memory: core, messages, events, token counts, changes and receipts.

pub mod archive;
pub mod block_path;
pub mod capture;
pub mod change;
pub mod core;
pub mod event;
pub mod export;
mod fingerprint;
pub mod forget;
pub mod heartbeat;
pub mod joined;
pub mod markup;
pub mod message;
pub mod page;
pub mod plain;
pub mod prompt;
pub mod recall_vector;
pub mod receipt;
pub mod receipt_check;
pub mod reindex;
pub mod render;
pub mod run;
pub mod schedule;
pub mod thread;
pub mod tokens;
pub mod verify;

pub use fingerprint::Fingerprint;
pub use tokens::{Encoding, TokenCounter};
