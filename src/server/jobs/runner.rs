//! Runs each job on its own task until the server stops: once immediately, then again after each
//! pause.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::DRAIN_MS_MAX;

/// Time limit for one round of a job, in milliseconds. A longer round is interrupted, which is
/// harmless because every single write is atomic.
const JOB_MS_MAX: u64 = 60_000;

/// A task that a server repeats.
pub trait Job: Send + Sync + 'static {
    /// Name of the job in log lines.
    const NAME: &'static str;
    /// Time from the end of one round to the start of the next.
    const PAUSE: Duration;

    /// Runs one round of the job. The round ends early when `stopping` becomes true; completed
    /// writes stay.
    fn run(&self, stopping: &watch::Receiver<bool>) -> impl Future<Output = Result<()>> + Send;
}

/// Ignores errors that only mean that the agent is busy with other writes or is being moved; the
/// next round tries again.
pub(super) fn busy(error: Error) -> Result<()> {
    match error.code {
        Code::Conflict | Code::Overloaded | Code::AgentMoving => Ok(()),
        _ => Err(error),
    }
}

/// Returns the result of a read, or `None` if the server stops first. A job's read may be
/// interrupted at any point.
pub(super) async fn unless_stopping<T>(
    stopping: &watch::Receiver<bool>,
    read: impl Future<Output = Result<T>>,
) -> Result<Option<T>> {
    let mut stopping = stopping.clone();
    tokio::select! {
        rows = read => rows.map(Some),
        // If the sender of the stop signal is dropped, the program is ending.
        _ = stopping.wait_for(|stop| *stop) => Ok(None),
    }
}

/// The running jobs of a server. If the runner is dropped, the jobs are aborted.
pub struct Runner {
    stopping: watch::Receiver<bool>,
    tasks: JoinSet<()>,
}

impl Runner {
    /// Makes a runner without jobs. Its jobs end when `stopping` becomes true.
    pub fn new(stopping: watch::Receiver<bool>) -> Self {
        Self { stopping, tasks: JoinSet::new() }
    }

    /// Runs a job now, and again after each pause.
    pub fn start<J: Job>(&mut self, job: J) {
        self.tasks.spawn(repeat(job, self.stopping.clone()));
    }

    /// Waits until every job has ended. After [`DRAIN_MS_MAX`], interrupts the jobs that still run,
    /// which is harmless because every single write is atomic.
    pub async fn ended(mut self) {
        let all = async {
            while let Some(ended) = self.tasks.join_next().await {
                if let Err(error) = ended {
                    tracing::error!(%error, "a job panicked");
                }
            }
        };
        let drained = tokio::time::timeout(Duration::from_millis(DRAIN_MS_MAX), all).await;
        if drained.is_err() {
            tracing::warn!(
                drain_ms = DRAIN_MS_MAX,
                "a job still ran when the drain limit was reached"
            );
            self.tasks.shutdown().await;
        }
    }
}

async fn repeat<J: Job>(job: J, mut stopping: watch::Receiver<bool>) {
    let mut failures = 0_u64;
    while !*stopping.borrow() {
        let run = tokio::time::timeout(Duration::from_millis(JOB_MS_MAX), job.run(&stopping));
        let error = match run.await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.chain()),
            Err(_) => Some(format!("not done within {JOB_MS_MAX} ms")),
        };
        match &error {
            // Only the second consecutive failure of a job is logged as a warning. A single failure
            // may come from a restart of the database, which the calls report too.
            Some(error) if failures == 1 => {
                tracing::warn!(job = J::NAME, error, "a job failed twice; it will be tried again");
            }
            Some(error) => tracing::debug!(job = J::NAME, error, failures, "a job failed"),
            None if failures > 1 => tracing::info!(job = J::NAME, "a job works again"),
            None => {}
        }
        failures = if error.is_some() { failures + 1 } else { 0 };
        tokio::select! {
            () = tokio::time::sleep(J::PAUSE) => {}
            // If the sender of the stop signal is dropped, the program is ending.
            _ = stopping.wait_for(|stop| *stop) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A job that counts its rounds; every second round fails.
    struct Counting(Arc<AtomicU32>);

    impl Job for Counting {
        const NAME: &'static str = "counting";
        const PAUSE: Duration = Duration::from_millis(1);

        async fn run(&self, _: &watch::Receiver<bool>) -> Result<()> {
            match self.0.fetch_add(1, Ordering::SeqCst) % 2 {
                0 => Ok(()),
                _ => Err(Error::new(Code::StoreUnavailable, "away")),
            }
        }
    }

    #[tokio::test]
    async fn a_job_runs_again_after_a_failure_until_it_is_told_to_stop() {
        let (stop, stopping) = watch::channel(false);
        let runs = Arc::<AtomicU32>::default();
        let mut runner = Runner::new(stopping);
        runner.start(Counting(Arc::clone(&runs)));
        while runs.load(Ordering::SeqCst) < 5 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        stop.send_replace(true);
        runner.ended().await;
        let done = runs.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(runs.load(Ordering::SeqCst), done, "it stands still");
    }

    #[tokio::test]
    async fn a_server_that_stops_at_once_runs_no_job() {
        let (stop, stopping) = watch::channel(false);
        stop.send_replace(true);
        let runs = Arc::<AtomicU32>::default();
        let mut runner = Runner::new(stopping);
        runner.start(Counting(Arc::clone(&runs)));
        runner.ended().await;
        assert_eq!(runs.load(Ordering::SeqCst), 0);
    }
}
