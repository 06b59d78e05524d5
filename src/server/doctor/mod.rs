//! The doctor: asks a database for everything that the server relies on, in scratch that is always removed, and looks at a running deployment.

mod binds;
mod check;
mod errors;
mod health;
mod health_backlog;
mod health_schema;
mod objects;
mod queries;
mod report;
mod rights;
mod scratch;
mod server;
mod transactions;
mod vectors;
mod visit;

pub use check::{CHECKS, Check, INFERRED, Step, named};
pub use report::{Ended, Outcome, Report, Row};
pub use scratch::LEFTOVER_S;
pub use visit::{Asked, examine};
