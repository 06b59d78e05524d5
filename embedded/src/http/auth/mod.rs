//! Authentication and authorisation: passwords, tokens, users and their grants.

mod access;
mod digest;
mod front_door;
mod grants;
mod token;
mod users;

pub use front_door::{Auth, AuthSettings};

pub(super) use access::AccessToken;
pub(super) use digest::random;
pub(super) use front_door::Caller;
pub(super) use grants::{ANY, Level};
pub(super) use users::User;
