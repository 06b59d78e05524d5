//! Runs engine work outside of the event loop, in groups (lanes) that do not block each other;
//! threads, queues and body sizes are limited.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Code, Error, Result};

use super::limits::{
    BEGINNERS_MAX, BODIES_BYTES_MAX, BODY_UNIT, FINISHERS_MAX, QUEUE_MAX, STREAM_WORKERS_MAX,
    WORKERS_MAX,
};
use super::own_threads;
use super::threads::{Threads, run_here};

/// A group of requests with its own limit of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// All requests without a lane of their own.
    Common,
    /// Operations inside a stream transaction.
    Stream,
    /// Begin of a stream transaction, which may wait for exclusive locks.
    Begin,
    /// Commit or abort of a stream transaction, for which other requests may wait.
    Finish,
}

/// All lanes, each with a limited number of running and of waiting requests.
#[derive(Debug)]
pub(super) struct Pool {
    common: LanePlaces,
    stream: LanePlaces,
    begin: LanePlaces,
    finish: LanePlaces,
    bodies: Arc<Semaphore>,
    threads: Threads,
}

#[derive(Debug)]
struct LanePlaces {
    running: Arc<Semaphore>,
    admitted: Arc<Semaphore>,
}

impl LanePlaces {
    fn new(threads: usize) -> Self {
        Self {
            running: Arc::new(Semaphore::new(threads)),
            admitted: Arc::new(Semaphore::new(threads + QUEUE_MAX)),
        }
    }
}

impl Pool {
    /// Returns a pool without threads; threads are started when needed.
    pub(super) fn new() -> Self {
        Self {
            common: LanePlaces::new(WORKERS_MAX),
            stream: LanePlaces::new(STREAM_WORKERS_MAX),
            begin: LanePlaces::new(BEGINNERS_MAX),
            finish: LanePlaces::new(FINISHERS_MAX),
            bodies: Arc::new(Semaphore::new(BODIES_BYTES_MAX / BODY_UNIT)),
            threads: Threads::default(),
        }
    }

    /// Returns a permit for the bytes of a request body, or error 503/21003 if the limit is
    /// reached. The caller must hold the permit as long as the body is in memory.
    pub(super) fn room(&self, bytes: usize) -> Result<OwnedSemaphorePermit> {
        let units =
            u32::try_from(bytes.div_ceil(BODY_UNIT)).map_err(|_| Error::of(Code::HttpTooLarge))?;
        Arc::clone(&self.bodies)
            .try_acquire_many_owned(units)
            .map_err(|_| Error::of(Code::QueueFull))
    }

    /// Runs `work` on a thread that may block. Errors: 503/21003 if the lane's queue is full, 500
    /// if `work` panics.
    pub(super) async fn run<T, F>(&self, lane: Lane, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let places = match lane {
            Lane::Common => &self.common,
            Lane::Stream => &self.stream,
            Lane::Begin => &self.begin,
            Lane::Finish => &self.finish,
        };
        let admitted = Arc::clone(&places.admitted)
            .try_acquire_owned()
            .map_err(|_| Error::of(Code::QueueFull))?;
        let running = Arc::clone(&places.running)
            .acquire_owned()
            .await
            .map_err(|_| Error::of(Code::ShuttingDown))?;
        let job = move || {
            let _places = (admitted, running);
            work()
        };
        if own_threads::is_own() {
            return run_here(job);
        }
        self.threads.run(job).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_queue_is_refused_and_other_lanes_go_on() {
        let pool = Pool::new();
        let all = u32::try_from(FINISHERS_MAX + QUEUE_MAX).expect("fits");
        let held = Arc::clone(&pool.finish.admitted).acquire_many_owned(all).await.expect("open");
        let refused = pool.run(Lane::Finish, || ()).await.expect_err("full");
        assert_eq!((refused.status(), refused.code.num()), (503, 21003));
        assert_eq!(pool.run(Lane::Common, || 7).await.expect("runs"), 7);
        drop(held);
        pool.run(Lane::Finish, || ()).await.expect("runs again");
    }

    #[test]
    fn bodies_share_their_room() {
        let pool = Pool::new();
        let held = pool.room(BODIES_BYTES_MAX - BODY_UNIT).expect("room");
        drop(pool.room(BODY_UNIT).expect("just fits"));
        assert_eq!(pool.room(BODY_UNIT + 1).expect_err("full").code.num(), 21003);
        drop(held);
        drop(pool.room(BODY_UNIT + 1).expect("room again"));
    }

    #[tokio::test]
    async fn a_panic_is_an_internal_error() {
        let failed = Pool::new().run(Lane::Common, || panic!("on purpose")).await;
        assert_eq!(failed.map(|(): ()| ()).expect_err("panicked").status(), 500);
    }
}
