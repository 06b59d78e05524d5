//! The thinking crate alone: rules, splitters and texts on values that lie in memory.

mod policy;
mod split;
