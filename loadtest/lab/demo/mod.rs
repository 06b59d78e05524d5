//! `vctx demo`: plays a long conversation through a small window, kills the server and the engine
//! while it plays, and checks at the end that nothing was lost.

mod command;
mod input;
mod metrics;
mod picture;
mod planted;
mod play;
mod proof;
mod score;
mod stage;

pub use command::{Demo, interruption, run};
pub use score::Score;
pub use stage::{Role, Stage};
