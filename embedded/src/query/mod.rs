//! A query's way: text → syntax tree → plan → rows; plans are kept by text.

mod cache;
mod parsed;
mod prepared;

pub use crate::exec::Stats;
pub use parsed::parse_only;
pub use prepared::{Access, Answer, Prepared, Query, QueryOptions, prepare};
