//! ArangoDB's HTTP API on Unix sockets, over the engine.

mod admin;
mod analyzers;
mod auth;
mod call;
mod collection_body;
mod collection_data;
mod collections;
mod cursor_calls;
mod cursors;
mod databases;
mod documents;
mod front;
mod graph_data;
mod graphs;
mod index_body;
mod indexes;
mod limits;
mod pool;
mod queries;
mod read_only;
mod reply;
mod request;
mod routes;
mod server;
mod service;
mod threads;
mod transactions;
mod user_calls;
mod vector_body;
mod view_body;
mod views;

pub use admin::COMPATIBLE_VERSION;
pub use auth::{Auth, AuthSettings};
pub use server::{Mode, serve};
