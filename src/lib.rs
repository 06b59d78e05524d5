//! vctx: a memory server for language models on ArangoDB over Unix sockets.

pub mod app;
pub mod cli;
pub mod client;
pub mod memory;
