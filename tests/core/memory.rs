//! Tests of an agent's memory: values, receipts, proofs and exports.

mod block_path;
mod conversation;
mod event;
mod export;
mod markup;
mod prompt;
mod receipt;
mod receipt_check;
mod values;
mod verify;
