//! Locks of single keys, held until the transaction ends: the first writer wins, the others wait a little or fail.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::encode::Space;

const SHARDS: usize = 16;

/// A key of the store, written as its space and its bytes.
pub(crate) type LockKey = (Space, Vec<u8>);

#[derive(Default)]
struct Shard {
    owners: Mutex<HashMap<LockKey, u64>>,
    freed: Condvar,
}

/// Who writes which key.
pub(crate) struct Locks {
    shards: [Shard; SHARDS],
    hasher: RandomState,
}

impl Default for Locks {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Shard::default()), hasher: RandomState::new() }
    }
}

/// What a try came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// It is new; the owner has to give it back.
    New,
    /// The owner had it already.
    Held,
    /// Somebody else has it and kept it.
    Refused,
}

impl Locks {
    fn shard(&self, key: &LockKey) -> &Shard {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// Takes a key for `owner`, waiting at most `wait`.
    pub(crate) fn take(&self, owner: u64, key: &LockKey, wait: Duration) -> Grant {
        let shard = self.shard(key);
        let mut owners = shard.owners.lock().expect("only moves inside");
        let mut deadline = None;
        loop {
            match owners.get(key) {
                None => {
                    owners.insert(key.clone(), owner);
                    return Grant::New;
                }
                Some(held) if *held == owner => return Grant::Held,
                Some(_) => {}
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + wait);
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Grant::Refused;
            }
            owners = shard.freed.wait_timeout(owners, left).expect("only moves inside").0;
        }
    }

    /// Gives keys back.
    pub(crate) fn free(&self, keys: impl IntoIterator<Item = LockKey>) {
        for key in keys {
            let shard = self.shard(&key);
            shard.owners.lock().expect("only moves inside").remove(&key);
            shard.freed.notify_all();
        }
    }

    /// Keys that are locked now.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.shards.iter().map(|shard| shard.owners.lock().unwrap().len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_owner_waits_until_the_first_is_done_or_its_time_is_over() {
        let locks = Locks::default();
        let key = (Space::Indexes, vec![1]);
        assert_eq!(locks.take(1, &key, Duration::ZERO), Grant::New);
        assert_eq!(locks.take(1, &key, Duration::ZERO), Grant::Held);
        assert_eq!(locks.take(2, &key, Duration::from_millis(5)), Grant::Refused);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| locks.take(2, &key, Duration::from_secs(10)));
            std::thread::sleep(Duration::from_millis(5));
            locks.free([key.clone()]);
            assert_eq!(second.join().unwrap(), Grant::New);
        });
        assert_eq!(locks.held(), 1);
    }
}
