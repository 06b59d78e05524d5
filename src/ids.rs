//! Ids: the only chance in the house; real ones, and seeded ones for tests.

use std::sync::Mutex;

use uuid::Uuid;

use crate::memory::receipt;

/// Makes keys, salts and jitter.
pub trait Ids: Send + Sync {
    /// A key that sorts by time (UUID version 7, RFC 9562).
    fn key(&self) -> String;
    /// 128 bits of chance in hex, to salt a digest.
    fn salt(&self) -> String;
    /// A number below `bound`, for jitter.
    fn below(&self, bound: u64) -> u64;
}

/// Chance from the operating system.
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

/// Ids that follow from a seed.
#[derive(Debug)]
pub struct SeededIds {
    seed: u64,
    count: Mutex<u64>,
}

impl SeededIds {
    /// The same seed gives the same ids.
    pub fn new(seed: u64) -> Self {
        Self { seed, count: Mutex::new(0) }
    }

    fn next(&self) -> String {
        let mut count = self.count.lock().expect("no holder panics");
        *count += 1;
        receipt::sha256(&format!("{}:{}", self.seed, *count))
    }
}

impl Ids for SeededIds {
    fn key(&self) -> String {
        self.next()[..32].to_owned()
    }

    fn salt(&self) -> String {
        self.next()[..32].to_owned()
    }

    fn below(&self, bound: u64) -> u64 {
        u64::from_str_radix(&self.next()[..15], 16).expect("hex digits") % bound.max(1)
    }
}
