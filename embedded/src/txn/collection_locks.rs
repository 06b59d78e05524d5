//! Who may write a collection at all: many writers together, or one alone.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::error::{Code, Error, Result};

#[derive(Debug, Default)]
struct Writers {
    shared: usize,
    alone: bool,
    /// Those who wait to be alone; new shared writers stay behind them.
    waiting: usize,
}

#[derive(Debug, Default)]
struct Table {
    writers: HashMap<u64, Writers>,
    /// Those who sleep until something is freed: nobody is woken where nobody sleeps, since waking costs a system call.
    asleep: usize,
}

/// Locks of whole collections by number.
#[derive(Debug, Default)]
pub(crate) struct CollectionLocks {
    table: Mutex<Table>,
    freed: Condvar,
}

/// Locks of one transaction; dropping frees them.
#[derive(Debug, Default)]
pub(crate) struct Held {
    locks: Vec<(u64, bool)>,
    table: Option<Arc<CollectionLocks>>,
}

impl CollectionLocks {
    /// Takes collections (number, whether alone) in the order of their numbers, so that two takers never wait for each
    /// other; 18 when `wait` is over. No wait means for ever.
    pub(crate) fn take(
        self: &Arc<Self>,
        mut wanted: Vec<(u64, bool)>,
        wait: Option<Duration>,
    ) -> Result<Held> {
        let deadline = wait.map(|wait| Instant::now() + wait);
        wanted.sort_unstable();
        // The exclusive entry of a collection sorts last and wins.
        wanted.reverse();
        wanted.dedup_by_key(|(id, _)| *id);
        wanted.reverse();
        let mut held = Held { locks: Vec::with_capacity(wanted.len()), table: Some(self.clone()) };
        for (id, alone) in wanted {
            self.take_one(id, alone, deadline)?;
            held.locks.push((id, alone));
        }
        Ok(held)
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

impl Drop for Held {
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
