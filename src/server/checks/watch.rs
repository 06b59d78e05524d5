//! Repeats the self-checks of a running server: probes the storage tiers every few seconds, and
//! runs the checks every minute.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::{FLAG, Finding, Profile, check_database, check_sockets};
use crate::executor::Executor;
use crate::store::Admin;
use vctx_base::clock;
use vctx_core::limits::PROBE_MS_MAX;

/// Pause between two rounds of checks, in milliseconds.
const CHECKS_MS: u64 = 60_000;
/// Longest duration of one round of checks, in milliseconds; after this time the server treats the
/// database as unresponsive.
const CHECKS_MS_MAX: u64 = 10_000;

/// The database and the server's socket, which the checks examine.
pub struct SelfChecks {
    /// The connection to the database that the checks use.
    pub admin: Admin,
    pub profile: Profile,
    /// Whether setup found the vector index feature; used for users who may not probe that feature.
    pub vector_recorded: bool,
    /// The server's own socket.
    pub socket: PathBuf,
}

impl SelfChecks {
    /// Runs every check once; skips the database checks if the database does not answer.
    pub async fn look(&self) -> Vec<Finding> {
        match check_database(&self.admin, self.vector_recorded).await {
            Ok((profile, mut findings)) => {
                findings.extend(check_sockets(&self.socket, profile));
                findings
            }
            Err(fault) => {
                tracing::debug!(%fault, "the database was not checked");
                check_sockets(&self.socket, self.profile)
            }
        }
    }
}

/// Returns the maximum time between two updates of `beat` by a healthy [`watch()`]; `None` if
/// probes are off.
pub fn beat_max(probe_ms: u64) -> Option<Duration> {
    let once = probe_ms + PROBE_MS_MAX + CHECKS_MS_MAX;
    (probe_ms != 0).then(|| Duration::from_millis(2 * once))
}

/// Until the server stops, probes the storage tiers and reads the state of the vector index every
/// `probe_ms` milliseconds, runs the checks every minute, and writes the time of the last round to
/// `beat`. With `probe_ms` = 0, does nothing. Closes the idle sessions of the Conveyance score
/// concurrently, so that this work does not delay a probe.
pub async fn watch(
    executor: Arc<Executor>,
    self_checks: SelfChecks,
    probe_ms: u64,
    beat: watch::Sender<Instant>,
    stopping: watch::Receiver<bool>,
) {
    if probe_ms == 0 {
        return;
    }
    let pause = Duration::from_millis(probe_ms);
    tokio::join!(
        look(&executor, &self_checks, pause, beat, stopping.clone()),
        close_sessions(&executor, pause, stopping),
    );
}

async fn look(
    executor: &Executor,
    self_checks: &SelfChecks,
    pause: Duration,
    beat: watch::Sender<Instant>,
    mut stopping: watch::Receiver<bool>,
) {
    let mut looked: Option<Instant> = None;
    while !*stopping.borrow() {
        executor.scores().probe().await;
        let is_due = looked.is_none_or(|at| at.elapsed() >= Duration::from_millis(CHECKS_MS));
        let all = async {
            executor.scores().show_vector_index(is_due).await;
            if is_due {
                record(executor, &self_checks.look().await);
            }
        };
        if tokio::time::timeout(Duration::from_millis(CHECKS_MS_MAX), all).await.is_err() {
            tracing::debug!(limit_ms = CHECKS_MS_MAX, "the database was not checked in time");
        }
        if is_due {
            looked = Some(clock::now());
        }
        beat.send_replace(clock::now());
        rest(pause, &mut stopping).await;
    }
}

async fn close_sessions(executor: &Executor, pause: Duration, mut stopping: watch::Receiver<bool>) {
    while !*stopping.borrow() {
        executor.scores().close_idle_sessions().await;
        rest(pause, &mut stopping).await;
    }
}

/// Sleeps for the pause, but returns early if the server stops.
async fn rest(pause: Duration, stopping: &mut watch::Receiver<bool>) {
    tokio::select! {
        () = tokio::time::sleep(pause) => {}
        // If the sender of the stop signal is dropped, the program is ending.
        _ = stopping.wait_for(|stop| *stop) => {}
    }
}

/// Hands the check findings to the executor, which shows them in the metrics.
pub fn record(executor: &Executor, findings: &[Finding]) {
    for finding in findings {
        let check = finding.label();
        executor.scores().guarded(check, finding.passed);
        if finding.check == FLAG {
            let on = if finding.passed { 1.0 } else { 0.0 };
            metrics::gauge!(vctx_base::metric::VECTOR_FEATURE).set(on);
        }
        if !finding.passed {
            tracing::debug!(check, sentence = finding.sentence, "a guard is red");
        }
    }
}
