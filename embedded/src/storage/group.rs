//! Group commit: commits that arrive while a group is being written form the next group. The thread
//! of one of these commits writes that group.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::kv::Batch;
use crate::error::{Code, Error, Result};
use crate::limits::{GROUP_BYTES_MAX, GROUP_COMMITS_MAX, GROUP_WAITING_MAX};

/// The reason why the store refuses writes, set once by the first failed write or sync.
#[derive(Clone, Debug, Default)]
pub(crate) struct Poison(Arc<Mutex<Option<String>>>);

impl Poison {
    /// Returns an error if an earlier write or sync failed.
    pub(crate) fn check(&self) -> Result<()> {
        match &*self.0.lock().expect("only moves inside") {
            None => Ok(()),
            Some(reason) => Err(Error::new(
                Code::ReadOnly,
                format!(
                    "writes are refused until the engine is restarted, because writing failed: {reason}"
                ),
            )),
        }
    }

    /// Returns the error for a commit whose group failed; such a commit may or may not be on disk.
    fn failed(&self) -> Error {
        let reason = self.0.lock().expect("only moves inside").clone().unwrap_or_default();
        Error::new(
            Code::SystemError,
            format!("writing failed, whether the commit is durable is not known: {reason}"),
        )
    }

    /// Records a failed write or sync; only the first failure is kept.
    pub(crate) fn set(&self, reason: impl ToString) {
        let mut slot = self.0.lock().expect("only moves inside");
        if slot.is_none() {
            let reason = reason.to_string();
            tracing::error!(%reason, "writing to the store failed; writes are refused until a restart");
            *slot = Some(reason);
        }
    }
}

#[derive(Default)]
struct Queue {
    waiting: Vec<(Batch, bool)>,
    /// Number of tickets issued so far; each commit takes one ticket.
    joined: u64,
    /// Number of tickets whose group has ended.
    done: u64,
    /// Number of tickets whose group was written; less than `done` after a failed write.
    written: u64,
    writing: bool,
    /// Number of threads that sleep until their commit is written. If no thread sleeps, no wake-up
    /// is sent, which saves a system call.
    asleep: usize,
}

/// Merges concurrent commits into groups.
#[derive(Default)]
pub(super) struct Group {
    queue: Mutex<Queue>,
    moved: Condvar,
    poison: Poison,
}

impl Group {
    /// Creates an empty queue of commits that shares the store's failure state.
    pub(super) fn new(poison: Poison) -> Self {
        Self { poison, ..Self::default() }
    }

    /// Commits a batch, and waits until its group is written. The function `write` receives all
    /// batches of a group, and whether one of them needs a sync.
    pub(super) fn commit(
        &self,
        batch: Batch,
        sync: bool,
        write: impl Fn(Vec<Batch>, bool) -> Result<()>,
    ) -> Result<()> {
        self.poison.check()?;
        let mut queue = self.queue.lock().expect("only moves inside");
        if queue.waiting.len() >= GROUP_WAITING_MAX {
            return Err(Error::of(Code::QueueFull));
        }
        queue.waiting.push((batch, sync));
        queue.joined += 1;
        let ticket = queue.joined;
        while queue.done < ticket {
            if queue.writing {
                queue.asleep += 1;
                queue = self.moved.wait(queue).expect("only moves inside");
                queue.asleep -= 1;
            } else {
                queue = self.lead(queue, &write);
            }
        }
        if ticket <= queue.written { Ok(()) } else { Err(self.poison.failed()) }
    }

    /// Writes the waiting commits as one group; the lock is released during the write.
    fn lead<'a>(
        &'a self,
        mut queue: MutexGuard<'a, Queue>,
        write: &impl Fn(Vec<Batch>, bool) -> Result<()>,
    ) -> MutexGuard<'a, Queue> {
        let count = group_size(&queue.waiting);
        let rest = queue.waiting.split_off(count);
        let group = std::mem::replace(&mut queue.waiting, rest);
        queue.writing = true;
        drop(queue);
        let leader = Leader { group: self, count: count as u64, written: false };
        leader.write(group, write);
        self.queue.lock().expect("only moves inside")
    }
}

/// The write of one group. Dropping the value ends the group, even after a panic, so that no thread
/// waits for a writing thread that panicked.
struct Leader<'a> {
    group: &'a Group,
    count: u64,
    written: bool,
}

impl Leader<'_> {
    fn write(mut self, group: Vec<(Batch, bool)>, write: &impl Fn(Vec<Batch>, bool) -> Result<()>) {
        let sync = group.iter().any(|(_, sync)| *sync);
        let batches = group.into_iter().map(|(batch, _)| batch).collect();
        let result = self.group.poison.check().and_then(|()| write(batches, sync));
        match result {
            Ok(()) => self.written = true,
            Err(error) => self.group.poison.set(error.message),
        }
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.group.poison.set("a commit ended in a panic");
        }
        let mut queue = self.group.queue.lock().expect("only moves inside");
        queue.done += self.count;
        if self.written {
            queue.written = queue.done;
        }
        queue.writing = false;
        let is_awaited = queue.asleep > 0;
        drop(queue);
        if is_awaited {
            self.group.moved.notify_all();
        }
    }
}

fn group_size(waiting: &[(Batch, bool)]) -> usize {
    let mut bytes = 0;
    let fits = waiting.iter().take(GROUP_COMMITS_MAX).take_while(|(batch, _)| {
        bytes += batch.bytes;
        bytes <= GROUP_BYTES_MAX
    });
    fits.count().max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn concurrent_commits_share_groups_and_each_is_written_once() {
        let group = Group::default();
        let (writes, commits) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let write = |batches: Vec<Batch>, sync: bool| {
                            assert!(sync);
                            writes.fetch_add(1, Ordering::Relaxed);
                            commits.fetch_add(batches.len(), Ordering::Relaxed);
                            std::thread::sleep(std::time::Duration::from_millis(2));
                            Ok(())
                        };
                        group.commit(Batch::default(), true, write).unwrap();
                    }
                });
            }
        });
        assert_eq!(commits.into_inner(), 160);
        assert!(writes.into_inner() < 120);
    }

    #[test]
    fn after_a_failure_every_commit_is_refused() {
        let group = Group::default();
        let broken = |_: Vec<Batch>, _: bool| Err(Error::new(Code::SystemError, "disk gone"));
        let error = group.commit(Batch::default(), true, broken).unwrap_err();
        assert_eq!(error.code, Code::SystemError);
        let error = group.commit(Batch::default(), false, |_, _| Ok(())).unwrap_err();
        assert_eq!(error.code, Code::ReadOnly);
        assert!(error.message.contains("disk gone"), "{error}");
    }
}
