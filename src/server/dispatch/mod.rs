//! What happens by itself at some time: whoever is called when a schedule wants its agent to run.

mod runner;

pub use runner::Runner;
