//! The engine's directory: whose it is, and that only one engine has it open, and what a power loss left of it.

mod directory;
mod journal;

pub(crate) use directory::Directory;
pub(crate) use journal::repair;
