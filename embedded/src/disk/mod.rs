//! The engine's directory: whose it is, and that only one engine has it open.

mod directory;

pub(crate) use directory::Directory;
