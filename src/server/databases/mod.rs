//! Agents in several databases: each call goes to the place that its agent is in, and an agent moves from one place to another.

mod fleet;
mod lists;
mod moving;
mod place;
mod rendezvous;

pub use fleet::Fleet;
pub use moving::Moves;
pub use place::{Place, Places};
