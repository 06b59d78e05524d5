//! The command line: one file per subcommand; `main.rs` only calls [`run`].

mod agent;
mod agent_run;
mod args;
mod chat;
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
mod replay;
mod report;
mod run;
mod schedule;
mod scripted_model;
mod serve;
mod setup;
mod state;
mod target;
mod tool;
mod tools;
mod trace;
mod verify;
mod why;

pub use run::run;
