//! The engine's data directory and its lock against a second engine.

mod directory;
mod seal;

pub(crate) use directory::Directory;
pub(crate) use seal::Seal;
