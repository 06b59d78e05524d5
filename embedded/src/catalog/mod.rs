//! The durable schema: databases, collections, indexes, views, analyzers, graphs and settings. Each
//! change replaces the entire definition of one of these objects.

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
