//! Data types of an agent's memory: core, messages, events, token counts, changes and receipts.

pub mod answer_key;
pub mod archive;
pub mod block_path;
pub mod canonical;
pub mod capture;
pub mod change;
pub mod conversation;
pub mod core;
pub mod edges;
pub mod event;
pub mod export;
mod fingerprint;
pub mod forget;
pub mod form;
pub mod heartbeat;
pub mod held;
pub mod json_weight;
pub mod local_time;
pub mod markup;
pub mod message;
pub mod page;
pub mod prompt;
pub mod recall_vector;
pub mod receipt;
pub mod receipt_check;
pub mod reindex;
pub mod run;
pub mod schedule;
pub mod shown;
pub mod stored;
pub mod strict;
pub mod strict_json;
pub mod tokens;
pub mod verify;

pub use fingerprint::Fingerprint;
pub use tokens::{Encoding, TokenCounter};
