//! Lets large reading calls run in a bounded amount of memory: a call takes as many permits as the
//! last call of the same path needed.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::limits::{
    LARGE_CALL_WAIT_MS, LARGE_CALLS_BYTES_MAX, LARGE_CALLS_WAITING_MAX, UNKNOWN_CALLS_AT_ONCE,
};

/// Memory of a call for each byte of its answer: the database's rows and their text, the text that
/// arrives, the values that are made of it, and the answer's text.
const BYTES_PER_ANSWER_BYTE: u64 = 8;
/// Unit in which memory is counted, in bytes.
const UNIT_BYTES: u64 = 64 * 1024;
/// Length of an answer up to which a call is small, in bytes. Small calls take no permit.
const SMALL_BYTES: u64 = 64 * 1024;
/// Pause between two looks at a path of which another call learns the length, in milliseconds.
const LEARN_LOOK_MS: u64 = 5;
/// Maximum number of paths whose length is remembered; when there are more, all are forgotten.
const PATHS_KNOWN_MAX: usize = 16_384;

/// The lengths of answers by path, and the permits of large calls of all listeners.
#[derive(Debug)]
pub(super) struct Weights {
    /// The length of the last answers in bytes; `None` while the first call runs.
    known: Mutex<HashMap<String, Option<u64>>>,
    large: Semaphore,
    unknown: Semaphore,
    waiting: Semaphore,
}

/// The weights of the calls of this process.
pub(super) static WEIGHTS: LazyLock<Weights> = LazyLock::new(|| Weights {
    known: Mutex::default(),
    large: Semaphore::new(LARGE_CALLS_BYTES_MAX.div_ceil(UNIT_BYTES) as usize),
    unknown: Semaphore::new(UNKNOWN_CALLS_AT_ONCE),
    waiting: Semaphore::new(LARGE_CALLS_WAITING_MAX),
});

/// The right of one reading call to use memory.
pub(super) struct Weight<'a> {
    _learning: Option<Learning<'a>>,
    _permit: Option<SemaphorePermit<'a>>,
}

/// The first call of a path. If it ends without an answer, the path is unknown again.
struct Learning<'a> {
    weights: &'a Weights,
    path: &'a str,
}

impl Drop for Learning<'_> {
    fn drop(&mut self) {
        let mut known = self.weights.known();
        if known.get(self.path) == Some(&None) {
            known.remove(self.path);
        }
    }
}

impl Weights {
    fn known(&self) -> MutexGuard<'_, HashMap<String, Option<u64>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the length of the path's last answer in bytes, `None` while another call learns it.
    /// If the length is unknown, this call learns it.
    fn look<'a>(&'a self, path: &'a str) -> Result<Option<u64>, Learning<'a>> {
        let mut known = self.known();
        if let Some(bytes) = known.get(path) {
            return Ok(*bytes);
        }
        if known.len() >= PATHS_KNOWN_MAX {
            known.retain(|_, bytes| bytes.is_none());
        }
        known.insert(path.to_owned(), None);
        Err(Learning { weights: self, path })
    }

    /// Waits until a reading call of the path may use memory; `None` if too many calls wait, or if
    /// the wait is too long.
    pub(super) async fn admit<'a>(&'a self, path: &'a str) -> Option<Weight<'a>> {
        let looked = self.look(path);
        if let Ok(Some(0..=SMALL_BYTES)) = looked {
            return Some(Weight { _learning: None, _permit: None });
        }
        // The first call of a path does not count, because its length is unknown.
        let _waiting = match &looked {
            Ok(_) => Some(self.waiting.try_acquire().ok()?),
            Err(_) => None,
        };
        let most = Duration::from_millis(LARGE_CALL_WAIT_MS);
        timeout(most, self.weighed(path, looked)).await.ok()
    }

    async fn weighed<'a>(
        &'a self,
        path: &'a str,
        mut looked: Result<Option<u64>, Learning<'a>>,
    ) -> Weight<'a> {
        loop {
            match looked {
                Ok(None) => {
                    tokio::time::sleep(Duration::from_millis(LEARN_LOOK_MS)).await;
                    looked = self.look(path);
                }
                Ok(Some(0..=SMALL_BYTES)) => return Weight { _learning: None, _permit: None },
                Ok(Some(bytes)) => {
                    let needed = bytes.saturating_mul(BYTES_PER_ANSWER_BYTE);
                    let units = needed.min(LARGE_CALLS_BYTES_MAX).div_ceil(UNIT_BYTES);
                    let units = u32::try_from(units).unwrap_or(u32::MAX);
                    let permit = self.large.acquire_many(units).await.ok();
                    return Weight { _learning: None, _permit: permit };
                }
                Err(first) => {
                    let permit = self.unknown.acquire().await.ok();
                    return Weight { _learning: Some(first), _permit: permit };
                }
            }
        }
    }

    /// Remembers the length of an answer, in bytes. A smaller answer halves the remembered length,
    /// because the next one may be as large as the last ones.
    pub(super) fn note(&self, path: &str, bytes: u64) {
        let mut known = self.known();
        let before = known.get(path).copied().flatten().unwrap_or(0);
        known.insert(path.to_owned(), Some(bytes.max(before / 2)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights() -> Weights {
        Weights {
            known: Mutex::default(),
            large: Semaphore::new(LARGE_CALLS_BYTES_MAX.div_ceil(UNIT_BYTES) as usize),
            unknown: Semaphore::new(UNKNOWN_CALLS_AT_ONCE),
            waiting: Semaphore::new(1),
        }
    }

    /// Returns whether a call of the path has to wait.
    async fn waits(weights: &Weights, path: &str) -> bool {
        timeout(Duration::from_millis(30), weights.admit(path)).await.is_err()
    }

    #[tokio::test]
    async fn one_call_learns_the_length_and_large_calls_share_the_memory() {
        let weights = weights();
        let first = weights.admit("/a").await.expect("room");
        assert!(waits(&weights, "/a").await, "another call learns the length");
        drop(first);
        let first = weights.admit("/a").await.expect("the first call had no answer");
        weights.note("/a", LARGE_CALLS_BYTES_MAX / 2 / BYTES_PER_ANSWER_BYTE);
        drop(first);
        let (one, two) = (weights.admit("/a").await, weights.admit("/a").await);
        assert!(one.is_some() && two.is_some());
        assert!(waits(&weights, "/a").await, "the memory is in use");
        let waiting = weights.waiting.try_acquire().expect("no call waits");
        assert!(weights.admit("/a").await.is_none(), "another call waits already");
        drop(waiting);
        weights.note("/b", SMALL_BYTES);
        assert!(!waits(&weights, "/b").await, "small calls always run");
        drop((one, two));
        assert!(!waits(&weights, "/a").await);
    }
}
