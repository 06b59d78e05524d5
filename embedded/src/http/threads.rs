//! A pool of threads for engine work. The thread that became idle last runs the next job, because
//! its caches are warm; a thread that stays idle too long ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::error::{Code, Error, Result};
use crate::limits::QUERY_STACK_BYTES;

/// Time that a thread waits for work before it ends.
const IDLE_MAX: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads without a maximum. The caller limits the number of concurrent jobs, and
/// thereby the number of threads.
#[derive(Clone, Default)]
pub(super) struct Threads {
    idle: Arc<Mutex<Vec<Arc<Seat>>>>,
}

/// The slot where a thread waits for its next job.
#[derive(Default)]
struct Seat {
    job: Mutex<Option<Job>>,
    called: Condvar,
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Threads({} idle)", open(&self.idle).len())
    }
}

fn open<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Threads {
    /// Runs `work` on a pool thread; a panic becomes an internal error.
    pub(super) async fn run<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (answer, waiting) = oneshot::channel();
        self.start(Box::new(move || {
            let outcome = catch_unwind(AssertUnwindSafe(work));
            // The receiver is gone if the client has disconnected.
            let _ = answer.send(outcome);
        }))?;
        waiting.await.ok().and_then(std::result::Result::ok).ok_or_else(panicked)
    }

    /// Gives a job to an idle or a new thread.
    pub(super) fn start(&self, job: Job) -> Result<()> {
        let seat = open(&self.idle).pop();
        if let Some(seat) = seat {
            *open(&seat.job) = Some(job);
            seat.called.notify_one();
            return Ok(());
        }
        let idle = Arc::clone(&self.idle);
        let thread = std::thread::Builder::new().name("query".into()).stack_size(QUERY_STACK_BYTES);
        let spawned = thread.spawn(move || work(&idle, job));
        spawned.map(drop).map_err(|_| Error::of(Code::QueueFull))
    }
}

/// Runs `work` on the calling thread; a panic becomes an internal error.
pub(super) fn run_here<T>(work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| panicked())
}

fn panicked() -> Error {
    tracing::error!("a request ended in a panic");
    Error::of(Code::Internal)
}

fn work(idle: &Mutex<Vec<Arc<Seat>>>, first: Job) {
    let seat = Arc::new(Seat::default());
    let mut job = first;
    loop {
        job();
        open(idle).push(Arc::clone(&seat));
        match next(idle, &seat) {
            Some(next) => job = next,
            None => return,
        }
    }
}

/// Waits for the next job; returns `None` after a long wait. A thread removes its slot from the
/// list of idle slots before it ends. If the slot is no longer in the list, a job has been assigned
/// to it, and the thread continues to wait for the job.
fn next(idle: &Mutex<Vec<Arc<Seat>>>, seat: &Arc<Seat>) -> Option<Job> {
    let mut waiting = open(&seat.job);
    loop {
        if let Some(job) = waiting.take() {
            return Some(job);
        }
        let (guard, late) =
            seat.called.wait_timeout(waiting, IDLE_MAX).unwrap_or_else(PoisonError::into_inner);
        waiting = guard;
        if late.timed_out() && waiting.is_none() {
            drop(waiting);
            let mut seats = open(idle);
            if let Some(at) = seats.iter().position(|s| Arc::ptr_eq(s, seat)) {
                seats.remove(at);
                return None;
            }
            drop(seats);
            waiting = open(&seat.job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_thread_that_worked_last_works_next() {
        let threads = Threads::default();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..50 {
            seen.insert(threads.run(|| std::thread::current().id()).await.unwrap());
        }
        // A thread sends its answer shortly before it becomes idle, so the next job sometimes
        // starts another thread.
        assert!(seen.len() <= 3, "{seen:?}");
    }

    #[tokio::test]
    async fn many_at_once_all_end_and_a_panic_hurts_nobody() {
        let threads = Threads::default();
        let jobs: Vec<_> = (0..200u64)
            .map(|n| {
                let threads = threads.clone();
                tokio::spawn(async move {
                    threads.run(move || if n == 7 { panic!("on purpose") } else { n }).await
                })
            })
            .collect();
        let mut sum = 0;
        for job in jobs {
            sum += job.await.unwrap().unwrap_or(0);
        }
        assert_eq!(sum, 199 * 200 / 2 - 7);
    }
}
