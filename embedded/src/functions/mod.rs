//! AQL's pure functions: one table of name, arity and implementation; what needs data is part of the plan instead.

mod array;
mod calendar;
mod call;
mod date;
mod document;
mod misc;
mod numeric;
mod statistics;
mod string;
mod table;
mod type_check;

pub(crate) use array::flat;
pub use call::{Call, Warnings};
pub use string::like;
pub use table::{Function, function, refused};
#[cfg(test)]
mod tests;
