//! Rows are pushed through a plan's nodes, one by one, until somebody downstream has enough.

mod budget;
mod collect;
mod executor;
mod gather;
mod host;
mod modify;
mod near;
mod paths;
mod search;
mod source;
mod traverse;
mod view;
mod weighed;
mod window;

pub use budget::{Budget, QUERY_BYTES_MAX};
pub use executor::{Executor, Stats};
