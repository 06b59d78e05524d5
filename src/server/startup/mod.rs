//! The inside eye: what `guards/` check from outside, checked again before serving; the server does not serve when one fails.

mod checks;
pub mod sentences;

pub use checks::{
    Finding, Profile, VERSION_MIN, check_auth, check_database, check_one_shard, check_sockets,
    check_vector, release,
};
