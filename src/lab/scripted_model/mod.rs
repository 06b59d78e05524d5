//! `vctx scripted-model`: a deterministic chat model for tests and demos, polite or rude.

mod command;
mod polite;
mod rude;
mod said;
mod script;
mod seen;
mod server;

pub use command::{ScriptedModel, run};
