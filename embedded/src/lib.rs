//! An ArangoDB-compatible engine: a library and a thin binary that answer ArangoDB's HTTP API on a Unix socket.

mod catalog;
mod data;
mod disk;
mod encode;
mod engine;
pub mod error;
pub mod exec;
pub mod expr;
pub mod functions;
pub mod http;
mod index;
pub mod limits;
pub mod plan;
pub mod query;
pub mod schema;
mod storage;
pub mod syntax;
pub mod txn;
pub mod value;

pub use engine::{Engine, Options};
