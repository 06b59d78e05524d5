//! `vctx import`: restores agents from files of `vctx export`, and converts memories of other
//! systems to blocks, recall entries and archived documents.

mod anthropic;
mod command;
mod letta;
mod limits;
mod mcp_memory;
mod mem0;
mod own;
mod plan;
mod read;
mod tell;
mod write;

pub use command::{Import, run};
pub use limits::ALL as LIMITS;
