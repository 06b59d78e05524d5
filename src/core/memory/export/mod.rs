//! An agent as a file: rows that name no agent, in one order, one to a line; and the check that such a file is whole and sound.

mod check;
mod exact;
mod part;
mod row;
mod tally;

pub use check::in_order;
pub use check::{Checked, Checker};
pub use exact::exact;
pub use part::Part;
pub use row::{Owner, carried, settled};
pub use tally::{Header, Tally, VectorKind, line_of, parted};

#[cfg(test)]
mod tests;
