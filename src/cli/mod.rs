//! The command line: one file per subcommand; `main.rs` only calls [`run`].

mod agent;
mod args;
mod context;
mod conveyance;
mod demo;
mod engine;
mod eval;
mod exit;
mod history;
mod mcp;
mod messages;
mod output;
mod reindex;
mod report;
mod run;
mod schedule;
mod serve;
mod setup;
mod state;
mod target;
mod tool;
mod tools;
mod trace;
mod verify;

pub use run::run;
