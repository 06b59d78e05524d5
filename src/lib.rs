//! vctx: a memory server for language models on ArangoDB over Unix sockets.

pub mod app;
pub mod cli;
pub mod client;
pub mod clock;
pub mod config;
pub mod context;
pub mod error;
pub mod executor;
pub mod ids;
pub mod limits;
pub mod memory;
pub mod meters;
pub mod models;
pub mod policy;
pub mod server;
pub mod startup;
pub mod store;
pub mod telemetry;
pub mod tools;
