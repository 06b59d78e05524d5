//! `vctx report`: one self-contained page about an agent's memory, with figures, ids and times. It
//! contains texts of the memory only on request.

mod anatomy;
mod axis;
mod chart;
mod command;
mod conveyance;
mod figures;
mod gather;
mod html;
mod latency;
mod map;
mod messages;
mod missed;
mod page;
mod searches;
mod stores;
mod texts;
mod treemap;
mod turns;

pub use command::{Report, run};
