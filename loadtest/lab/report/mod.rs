//! `vctx report`: one self-contained page about an agent's memory; figures, ids and times, but no
//! text of the memory.

mod chart;
mod command;
mod figures;
mod latency;
mod page;

pub use command::{Report, run};
