//! The engine's directory: whose it is, and that only one engine has it open.

mod directory;
mod seal;

pub(crate) use directory::Directory;
pub(crate) use seal::Seal;
