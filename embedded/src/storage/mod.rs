//! Storage of sorted key-value pairs: a trait, a store on disk, and a store in memory for tests.

mod fjall;
mod group;
mod journal;
mod kv;
mod manifest;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod watched;

pub(crate) use self::fjall::FjallStore;
pub(crate) use kv::{Batch, Bytes, Operation, Snapshot, Store};
#[cfg(test)]
pub(crate) use memory::MemoryStore;
#[cfg(test)]
pub(crate) use watched::RecordingStore;
