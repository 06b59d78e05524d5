//! Runs queries: text → syntax tree → plan → rows, with plans cached by query text.

mod cache;
mod parsed;
mod prepared;

pub use crate::exec::Stats;
pub use parsed::parse_only;
pub use prepared::{Access, Answer, Prepared, Query, QueryOptions, prepare};
