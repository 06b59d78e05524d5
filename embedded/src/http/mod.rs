//! Serves ArangoDB's HTTP API on Unix sockets by calls to the engine.

mod admin;
mod analyzers;
mod auth;
mod call;
mod cluster;
mod collection_body;
mod collection_data;
mod collections;
#[cfg(feature = "conformance")]
mod conformance;
mod cursor_calls;
mod cursors;
mod databases;
mod documents;
mod expected;
mod faults;
mod front;
mod graph_data;
mod graphs;
mod index_body;
mod indexes;
mod limits;
mod metrics;
mod own_threads;
mod pool;
mod queries;
mod read_only;
mod reply;
mod request;
mod routes;
mod server;
mod service;
mod threads;
mod tokens;
mod transactions;
mod user_calls;
mod vector_body;
mod view_body;
mod views;

pub use auth::{Auth, AuthSettings};
pub use limits::ALL as LIMITS;
pub use server::{Mode, serve};
