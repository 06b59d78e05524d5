//! vctx: a memory server for language models on ArangoDB over Unix sockets.

pub mod memory;
