//! An ArangoDB-compatible engine: a library and a thin binary that answer ArangoDB's HTTP API on a Unix socket.

pub mod error;
pub mod expr;
pub mod functions;
pub mod plan;
pub mod query;
pub mod schema;
pub mod syntax;
pub mod txn;
pub mod value;
