//! The durable schema: databases, collections, indexes, views, analyzers, graphs, settings; swapped as whole values.

mod collections;
mod databases;
mod indexes;
mod names;
mod others;
mod record;
mod state;
mod vectors;

pub(crate) use state::Catalog;
pub use vectors::Training;
