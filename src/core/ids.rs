//! Defines the trait of sources of document keys, salts and jitter, and a seeded source for
//! repeatable results. The source of random values is in the folder `src/base`.

use std::sync::Mutex;

use crate::sha::Sha256;

/// Generates document keys, salts for digests, and random numbers for jitter.
pub trait Ids: Send + Sync {
    /// Returns a key that sorts by time (UUID version 7, RFC 9562).
    fn key(&self) -> String;
    /// Returns 128 random bits in hex, for the salt of a digest.
    fn salt(&self) -> String;
    /// Returns a number below `bound`, for jitter.
    fn below(&self, bound: u64) -> u64;
}

/// A source of keys, salts and numbers that are derived from a seed.
#[derive(Debug)]
pub struct SeededIds {
    seed: u64,
    count: Mutex<u64>,
}

impl SeededIds {
    /// Returns a source of ids; equal seeds give equal ids.
    pub fn new(seed: u64) -> Self {
        Self { seed, count: Mutex::new(0) }
    }

    /// Returns 128 bits derived from the seed and a counter.
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
