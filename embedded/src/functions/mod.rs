//! AQL's pure functions, in a table of names, arities and implementations. Functions that need data
//! are evaluated by plan nodes or by the host.

mod array;
mod calendar;
mod call;
#[cfg(feature = "conformance")]
mod conformance;
mod date;
mod document;
mod like;
mod misc;
mod numeric;
mod regex;
mod statistics;
mod string;
mod table;
mod type_check;
mod zone;

pub(crate) use array::flat;
pub use call::{Call, Warnings};
pub use like::like;
pub(crate) use misc::random_uuid;
pub use regex::matches_regex;
pub use table::{Function, arity, function, left_out, refused};
#[cfg(test)]
mod tests;
