//! Locks of single keys, held until the transaction ends; the first writer of a key gets the lock.
//! Other writers wait for a limited time, and fail if the lock is not released.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::encode::Space;
use crate::storage::Bytes;

const SHARDS: usize = 16;

/// A key of the store with its key space, and a hash that is computed only once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockKey {
    hash: u64,
    space: Space,
    bytes: Bytes,
}

impl Hash for LockKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A hasher that returns the hash stored in a key.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("the hash of a lock's key is one number")
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[derive(Default)]
struct Owners {
    by_key: HashMap<LockKey, u64, BuildHasherDefault<KeyHasher>>,
    /// Number of threads that wait for a key's lock. If no thread waits, no wake-up is sent, which
    /// saves a system call.
    waiting: usize,
}

#[derive(Default)]
struct Shard {
    owners: Mutex<Owners>,
    freed: Condvar,
}

/// The table of locked keys, with the owner of each.
pub(crate) struct Locks {
    shards: [Shard; SHARDS],
    hasher: RandomState,
}

impl Default for Locks {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Shard::default()), hasher: RandomState::new() }
    }
}

/// The result of an attempt to lock a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// The owner obtained the lock, and must release it.
    New,
    /// The owner already had the lock.
    Held,
    /// Another transaction has the lock.
    Refused,
}

impl Locks {
    /// Creates a key of the lock table from a key of the store.
    pub(crate) fn key(&self, space: Space, bytes: Bytes) -> LockKey {
        LockKey { hash: self.hasher.hash_one((space, &*bytes)), space, bytes }
    }

    fn shard(&self, key: &LockKey) -> &Shard {
        // The shard is chosen by middle bits of the hash, because the hash map in a shard uses the
        // lowest and highest bits.
        &self.shards[(key.hash >> 32) as usize % SHARDS]
    }

    /// Locks a key for `owner`. If another owner has the lock, waits at most `wait` for its
    /// release.
    pub(crate) fn take(&self, owner: u64, key: &LockKey, wait: Duration) -> Grant {
        let shard = self.shard(key);
        let mut owners = shard.owners.lock().expect("only moves inside");
        let mut deadline = None;
        loop {
            match owners.by_key.get(key) {
                None => {
                    owners.by_key.insert(key.clone(), owner);
                    return Grant::New;
                }
                Some(held) if *held == owner => return Grant::Held,
                Some(_) => {}
            }
            if wait.is_zero() {
                return Grant::Refused;
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + wait);
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Grant::Refused;
            }
            owners.waiting += 1;
            owners = shard.freed.wait_timeout(owners, left).expect("only moves inside").0;
            owners.waiting -= 1;
        }
    }

    /// Releases the locks of some keys.
    pub(crate) fn free(&self, keys: impl IntoIterator<Item = LockKey>) {
        for key in keys {
            let shard = self.shard(&key);
            let mut owners = shard.owners.lock().expect("only moves inside");
            owners.by_key.remove(&key);
            let is_awaited = owners.waiting > 0;
            drop(owners);
            if is_awaited {
                shard.freed.notify_all();
            }
        }
    }

    /// Returns the number of locked keys.
    #[cfg(test)]
    pub(crate) fn locked_keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.owners.lock().unwrap().by_key.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_owner_waits_until_the_first_is_done_or_its_time_is_over() {
        let locks = Locks::default();
        let key = locks.key(Space::Indexes, [1].into());
        assert_eq!(locks.take(1, &key, Duration::ZERO), Grant::New);
        assert_eq!(locks.take(1, &key, Duration::ZERO), Grant::Held);
        assert_eq!(locks.take(2, &key, Duration::from_millis(5)), Grant::Refused);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| locks.take(2, &key, Duration::from_secs(10)));
            std::thread::sleep(Duration::from_millis(5));
            locks.free([key.clone()]);
            assert_eq!(second.join().unwrap(), Grant::New);
        });
        assert_eq!(locks.locked_keys(), 1);
    }
}
