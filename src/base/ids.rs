//! Makes random keys, salts and jitter from random numbers of the operating system. The program
//! uses no other source of random numbers.

use uuid::Uuid;

pub use vctx_core::ids::{Ids, SeededIds};

/// A source of random numbers that reads from the operating system.
#[derive(Debug, Default)]
pub struct SystemIds;

impl Ids for SystemIds {
    fn key(&self) -> String {
        #[allow(clippy::disallowed_methods, reason = "this file is the chance")]
        Uuid::now_v7().to_string()
    }

    fn salt(&self) -> String {
        #[allow(clippy::disallowed_methods, reason = "this file is the chance")]
        Uuid::new_v4().simple().to_string()
    }

    fn below(&self, bound: u64) -> u64 {
        #[allow(clippy::disallowed_methods, reason = "this file is the chance")]
        let (high, low) = Uuid::new_v4().as_u64_pair();
        (high ^ low) % bound.max(1)
    }
}
