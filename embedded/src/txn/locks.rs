//! Locks of single keys, held until the transaction ends: the first writer wins, the others wait a little or fail.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::encode::Space;
use crate::storage::Bytes;

const SHARDS: usize = 16;

/// A key of the store, written as its space and its bytes; hashed once, when it is made.
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

/// Takes the hash that a key brings as it is.
#[derive(Default)]
struct Brought(u64);

impl Hasher for Brought {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a lock's key writes one number")
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[derive(Default)]
struct Owners {
    by_key: HashMap<LockKey, u64, BuildHasherDefault<Brought>>,
    /// Those who wait for any of the keys: nobody is woken where nobody waits, since waking costs a system call.
    waiting: usize,
}

#[derive(Default)]
struct Shard {
    owners: Mutex<Owners>,
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
    /// A key as it is locked.
    pub(crate) fn key(&self, space: Space, bytes: Bytes) -> LockKey {
        LockKey { hash: self.hasher.hash_one((space, &*bytes)), space, bytes }
    }

    fn shard(&self, key: &LockKey) -> &Shard {
        // The map inside uses the lowest and the highest bits.
        &self.shards[(key.hash >> 32) as usize % SHARDS]
    }

    /// Takes a key for `owner`, waiting at most `wait`.
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

    /// Gives keys back.
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

    /// Keys that are locked now.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
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
        assert_eq!(locks.held(), 1);
    }
}
