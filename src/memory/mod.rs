//! Plain values of the memory: core, messages, summary, events, token counts and receipts.

pub mod receipt;
pub mod receipt_check;
pub mod verify;
