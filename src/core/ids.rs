//! Keys, salts and jitter as an argument; the machine's are in `base`, seeded ones for tests here.

use std::sync::Mutex;

use sha2::{Digest as _, Sha256};

/// Makes keys, salts and jitter.
pub trait Ids: Send + Sync {
    /// A key that sorts by time (UUID version 7, RFC 9562).
    fn key(&self) -> String;
    /// 128 bits of chance in hex, to salt a digest.
    fn salt(&self) -> String;
    /// A number below `bound`, for jitter.
    fn below(&self, bound: u64) -> u64;
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

    /// 128 bits that follow from the seed and the place in the row.
    fn next(&self) -> u128 {
        let mut count = self.count.lock().expect("no holder panics");
        *count += 1;
        let digest = Sha256::digest(format!("{}:{}", self.seed, *count));
        digest.iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte))
    }
}

impl Ids for SeededIds {
    fn key(&self) -> String {
        format!("{:032x}", self.next())
    }

    fn salt(&self) -> String {
        format!("{:032x}", self.next())
    }

    fn below(&self, bound: u64) -> u64 {
        u64::try_from(self.next() % u128::from(bound.max(1))).expect("below a u64")
    }
}
