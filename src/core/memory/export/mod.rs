//! Exports an agent as a file, and checks export files. A file has one row per line in a fixed
//! order, and no row contains the agent's name.

mod check;
mod clone;
mod exact;
mod part;
mod row;
mod tally;

pub use check::in_order;
pub use check::{Checker, ImportPlan, checkpoint_line};
pub use clone::{CloneRows, entry_of};
pub use exact::exact;
pub use part::RowKind;
pub use row::{Owner, carried, settled};
pub use tally::{Header, Tally, VectorKind, line_of, parted};
