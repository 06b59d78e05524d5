//! vctx: a memory server for language models.

pub mod memory;
pub mod models;
pub mod startup;
