//! Self-checks: one list of checks that run before serving, every minute, and in `vctx doctor`.

mod database;
mod list;
pub mod sentences;
mod sockets;
mod watch;

use std::fmt;

pub(crate) use database::{
    Licence, VERSION_MIN, check_auth, check_one_shard, check_vector, mode, release,
};
pub use database::{Profile, check_database};
pub(crate) use list::*;
pub use list::{CHECKS, Check, INFERRED, Step, When, by_hand, by_name};
pub use sockets::check_sockets;
pub(crate) use sockets::check_tcp;
pub use watch::{SelfChecks, beat_max, record, watch};

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub check: &'static Check,
    /// Whether the check passed; the server does not start after a failed check.
    pub passed: bool,
    /// One sentence that states the observation; after a failure it also states the remedy.
    pub sentence: String,
}

impl Finding {
    pub(crate) fn new(check: &'static Check, passed: bool, sentence: impl Into<String>) -> Self {
        Self { check, passed, sentence: sentence.into() }
    }

    /// Name of the check in logs and metrics.
    pub fn label(&self) -> &'static str {
        match self.check.when {
            When::Always(label) | When::Serving(label) => label,
            When::Hand => self.check.id,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.label(), self.sentence)
    }
}
