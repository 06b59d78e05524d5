//! Tries every database feature that the server uses, in temporary collections that are always
//! removed; can also check a running deployment.

mod binds;
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

pub use report::{End, Outcome, Report, Row};
pub use scratch::LEFTOVER_S;
pub use visit::{Order, examine};
