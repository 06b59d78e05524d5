//! Execution: rows pass through a plan's nodes one by one, until a later node needs no more rows.

mod budget;
mod collect;
mod executor;
mod gather;
mod host;
mod modify;
mod near;
#[cfg(feature = "conformance")]
mod paths;
mod search;
mod source;
mod traverse;
mod view;
mod weighed;
#[cfg(feature = "conformance")]
mod window;

pub use budget::Budget;
pub use executor::{Executor, Stats};
