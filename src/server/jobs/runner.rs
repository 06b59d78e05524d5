//! Runs jobs: one task for each, at once and then after a pause, one run after the other, until the server stops.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use vctx_core::error::Result;
use vctx_core::limits::{DRAIN_MS_MAX, JOB_MS_MAX};

/// Something a server does by itself.
pub trait Job: Send + Sync + 'static {
    /// Names it in the log.
    const NAME: &'static str;
    /// Time between the end of one run and the begin of the next.
    const PAUSE: Duration;

    /// One run. It ends early when `stopping` turns true; what it did until then stands.
    fn run(&self, stopping: &watch::Receiver<bool>) -> impl Future<Output = Result<()>> + Send;
}

/// The jobs of a server. Dropping it ends them where they are.
pub struct Runner {
    stopping: watch::Receiver<bool>,
    tasks: JoinSet<()>,
}

impl Runner {
    /// A runner without jobs; they will end when `stopping` turns true.
    pub fn new(stopping: watch::Receiver<bool>) -> Self {
        Self { stopping, tasks: JoinSet::new() }
    }

    /// Runs a job now, and again after each pause.
    pub fn start<J: Job>(&mut self, job: J) {
        self.tasks.spawn(repeat(job, self.stopping.clone()));
    }

    /// Waits until every job has ended. A run that takes longer than [`DRAIN_MS_MAX`] is cut off; its writes are whole or not there.
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
            // One failure is no news: the database may be stopping, and the next run may do. A second one
            // in a row is, once: a database that is away is reported elsewhere too, with each call.
            Some(error) if failures == 1 => {
                tracing::warn!(job = J::NAME, error, "a job failed twice; it is tried again");
            }
            Some(error) => tracing::debug!(job = J::NAME, error, failures, "a job failed"),
            None if failures > 1 => tracing::info!(job = J::NAME, "a job works again"),
            None => {}
        }
        failures = if error.is_some() { failures + 1 } else { 0 };
        tokio::select! {
            () = tokio::time::sleep(J::PAUSE) => {}
            // A dropped sender means that the program ends.
            _ = stopping.wait_for(|stop| *stop) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use vctx_core::error::{Code, Error};

    /// Counts its runs; every other one fails.
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
