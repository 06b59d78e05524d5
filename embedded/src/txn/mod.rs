//! Transactions: a snapshot, an overlay of own writes, locks where the first writer wins, and one commit.

mod transaction;

pub use transaction::{
    Declared, IndexRange, OverwriteMode, Scan, Transaction, WriteOptions, Written,
};
