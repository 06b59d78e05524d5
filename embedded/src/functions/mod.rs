//! AQL's pure functions: one table of name, arity and implementation; what needs data is part of the plan instead.

mod array;
mod bits;
mod calendar;
mod call;
mod date;
mod document;
mod geo;
mod hash;
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
pub use regex::matches_regex;
pub use string::like;
pub use table::{Function, arity, function, refused};
#[cfg(test)]
mod tests;
