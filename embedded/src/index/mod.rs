//! Computes the index entries of documents.

mod definition;
mod entries;

pub(crate) use definition::{
    check_definition, edge_index, expire_after, primary_index, users_index,
};
pub(crate) use entries::{EXPANSION, IndexEntry, entries};
