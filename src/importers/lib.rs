//! `vctx import`: files of `vctx export` become the agents they were; memories of other systems become blocks, recall entries and archived documents; what is not taken is told by name.

mod anthropic;
mod command;
mod letta;
mod mcp_memory;
mod mem0;
mod own;
mod plan;
mod read;
mod tell;
mod write;

pub use command::{Import, run};
