//! Checks service levels with an open loop: calls start at a fixed rate even if earlier calls have
//! not been answered. Other clients write at the same time.

pub(crate) mod corpus;
mod open_loop;
mod report;
mod run;
mod scenario;
mod server;
pub(crate) mod vectors;

pub(crate) use run::run;
