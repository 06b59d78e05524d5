//! Locks of whole collections, either shared by several writers or exclusive.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::error::{Code, Error, Result};

#[derive(Debug, Default)]
struct Writers {
    shared: usize,
    alone: bool,
    /// Number of threads that wait for an exclusive lock. While a thread waits for an exclusive
    /// lock, requests for shared locks must wait, too.
    waiting: usize,
}

#[derive(Debug, Default)]
struct Table {
    writers: HashMap<u64, Writers>,
    /// Number of threads that sleep until a lock is released. If no thread sleeps, no wake-up is
    /// sent, which saves a system call.
    asleep: usize,
}

/// The locks of all collections, by collection id.
#[derive(Debug, Default)]
pub(crate) struct CollectionLocks {
    table: Mutex<Table>,
    freed: Condvar,
}

/// The collection locks of one transaction; dropping the value releases the locks.
#[derive(Debug, Default)]
pub(crate) struct CollectionGuard {
    locks: Vec<(u64, bool)>,
    table: Option<Arc<CollectionLocks>>,
}

impl CollectionLocks {
    /// Locks collections in the order of their ids, so that two callers never wait for each other.
    /// Each request is a collection id and whether the lock is exclusive. Returns error 18 if the
    /// locks are not free after `wait`; `None` waits without a limit.
    pub(crate) fn take(
        self: &Arc<Self>,
        mut wanted: Vec<(u64, bool)>,
        wait: Option<Duration>,
    ) -> Result<CollectionGuard> {
        let deadline = wait.map(|wait| Instant::now() + wait);
        wanted.sort_unstable();
        // If a collection is requested twice, the exclusive request is used, which sorts last.
        wanted.reverse();
        wanted.dedup_by_key(|(id, _)| *id);
        wanted.reverse();
        let mut guard =
            CollectionGuard { locks: Vec::with_capacity(wanted.len()), table: Some(self.clone()) };
        for (id, alone) in wanted {
            self.take_one(id, alone, deadline)?;
            guard.locks.push((id, alone));
        }
        Ok(guard)
    }

    fn take_one(&self, id: u64, alone: bool, deadline: Option<Instant>) -> Result<()> {
        let mut table = self.table.lock().expect("only moves inside");
        let mut queued = false;
        loop {
            let writers = table.writers.entry(id).or_default();
            let free =
                !writers.alone && if alone { writers.shared == 0 } else { writers.waiting == 0 };
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let late = !free && left.is_some_and(|left| left.is_zero());
            if free || late {
                writers.waiting -= usize::from(queued);
            } else if alone && !queued {
                queued = true;
                writers.waiting += 1;
            }
            if free {
                writers.alone = alone;
                writers.shared += usize::from(!alone);
                return Ok(());
            }
            if late {
                self.freed.notify_all();
                return Err(Error::of(Code::LockTimeout));
            }
            table.asleep += 1;
            table = match left {
                Some(left) => self.freed.wait_timeout(table, left).expect("only moves inside").0,
                None => self.freed.wait(table).expect("only moves inside"),
            };
            table.asleep -= 1;
        }
    }
}

impl Drop for CollectionGuard {
    fn drop(&mut self) {
        let Some(locks) = self.table.take().filter(|_| !self.locks.is_empty()) else { return };
        let mut table = locks.table.lock().expect("only moves inside");
        for (id, alone) in self.locks.drain(..) {
            let Some(writers) = table.writers.get_mut(&id) else { continue };
            if alone {
                writers.alone = false;
            } else {
                writers.shared -= 1;
            }
            if writers.shared == 0 && !writers.alone && writers.waiting == 0 {
                table.writers.remove(&id);
            }
        }
        let is_awaited = table.asleep > 0;
        drop(table);
        if is_awaited {
            locks.freed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_share_and_an_exclusive_one_is_alone() {
        let locks = Arc::new(CollectionLocks::default());
        let soon = Some(Duration::from_millis(5));
        let first = locks.take(vec![(1, false), (2, false)], soon).unwrap();
        let second = locks.take(vec![(1, false)], soon).unwrap();
        assert_eq!(
            locks.take(vec![(1, true), (1, false)], soon).unwrap_err().code,
            Code::LockTimeout
        );
        drop((first, second));
        let alone = locks.take(vec![(1, true)], soon).unwrap();
        assert_eq!(locks.take(vec![(1, false)], soon).unwrap_err().code, Code::LockTimeout);
        locks.take(vec![(2, true)], soon).unwrap();
        drop(alone);
        locks.take(vec![(1, false)], None).unwrap();
        assert!(locks.table.lock().unwrap().writers.is_empty());
    }
}
