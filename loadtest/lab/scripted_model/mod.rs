//! `vctx scripted-model`: a deterministic chat model for tests and demos, well-behaved or faulty.

mod answer;
mod command;
mod polite;
mod request;
mod rude;
mod script;
mod server;

pub use command::{ScriptedModel, run};
