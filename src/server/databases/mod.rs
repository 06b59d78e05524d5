//! Serves agents in several databases: each call runs in its agent's database, and an agent can
//! move to another database.

mod database;
mod fleet;
mod lists;
mod moving;
mod rendezvous;

pub use database::{Database, Databases};
pub use fleet::Fleet;
pub use moving::Moves;
