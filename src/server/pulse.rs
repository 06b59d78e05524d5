//! What the server looks at every few seconds: its tiers, its guards, and sessions that are over.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::executor::Executor;
use crate::startup::{self, Finding, Profile};
use crate::store::Admin;
use vctx_base::clock;
use vctx_core::limits::{GUARDS_MS, GUARDS_MS_MAX, PROBE_MS_MAX};

/// How often, and when a session is over.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Pause between two probes of the tiers, in milliseconds; 0: none in the background.
    pub probe_ms: u64,
    /// Quiet time that ends the session of an agent, in milliseconds.
    pub session_idle_ms: u64,
}

impl Settings {
    /// What is wrong with them.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.probe_ms != 0 && !(500..=60_000).contains(&self.probe_ms) {
            faults.push("conveyance.probe_ms: use 500 to 60000, or 0 for none".into());
        }
        if self.session_idle_ms == 0 {
            faults.push("conveyance.session_idle_ms: use 1 or more".into());
        }
        faults
    }
}

/// The inside eye with what it needs to look again.
pub struct Guards {
    /// The database as the checks reach it.
    pub admin: Admin,
    /// What kind of database it is.
    pub profile: Profile,
    /// Whether setup saw the vector index feature, for users that may not probe it.
    pub vector_recorded: bool,
    /// Our socket.
    pub socket: PathBuf,
}

impl Guards {
    /// Runs every check once. The database's own are left out while it does not answer: the probes tell that.
    pub async fn look(&self) -> Vec<Finding> {
        match startup::check_database(&self.admin, self.vector_recorded).await {
            Ok((profile, mut findings)) => {
                findings.extend(startup::check_sockets(&self.socket, profile));
                findings
            }
            Err(fault) => {
                tracing::debug!(%fault, "the database was not checked");
                startup::check_sockets(&self.socket, self.profile)
            }
        }
    }
}

/// Longest time between two beats of [`watch()`] while it is alive, whatever the database does; `None`: it never looks.
pub fn beat_max(settings: &Settings) -> Option<Duration> {
    let once = settings.probe_ms + PROBE_MS_MAX + GUARDS_MS_MAX;
    (settings.probe_ms != 0).then(|| Duration::from_millis(2 * once))
}

/// Looks until the server stops, and notes in `beat` when it last did. Sessions that are over are scored beside the probes, so that many of them delay none.
pub async fn watch(
    executor: Arc<Executor>,
    guards: Guards,
    settings: Settings,
    beat: watch::Sender<Instant>,
    stopping: watch::Receiver<bool>,
) {
    if settings.probe_ms == 0 {
        return;
    }
    let pause = Duration::from_millis(settings.probe_ms);
    tokio::join!(
        look(&executor, &guards, pause, beat, stopping.clone()),
        close_sessions(&executor, pause, stopping),
    );
}

async fn look(
    executor: &Executor,
    guards: &Guards,
    pause: Duration,
    beat: watch::Sender<Instant>,
    mut stopping: watch::Receiver<bool>,
) {
    let mut looked: Option<Instant> = None;
    while !*stopping.borrow() {
        executor.probe().await;
        if looked.is_none_or(|at| at.elapsed() >= Duration::from_millis(GUARDS_MS)) {
            let all = async {
                take(executor, &guards.look().await);
                executor.show_vector_index().await;
            };
            if tokio::time::timeout(Duration::from_millis(GUARDS_MS_MAX), all).await.is_err() {
                tracing::debug!(limit_ms = GUARDS_MS_MAX, "the database was not checked in time");
            }
            looked = Some(clock::now());
        }
        beat.send_replace(clock::now());
        rest(pause, &mut stopping).await;
    }
}

async fn close_sessions(executor: &Executor, pause: Duration, mut stopping: watch::Receiver<bool>) {
    while !*stopping.borrow() {
        executor.close_idle_sessions().await;
        rest(pause, &mut stopping).await;
    }
}

/// A pause that ends when the server stops.
async fn rest(pause: Duration, stopping: &mut watch::Receiver<bool>) {
    tokio::select! {
        () = tokio::time::sleep(pause) => {}
        // A dropped sender means that the program ends.
        _ = stopping.wait_for(|stop| *stop) => {}
    }
}

/// Hands findings to the executor, which counts them.
pub fn take(executor: &Executor, findings: &[Finding]) {
    for finding in findings {
        executor.guarded(finding.check, finding.passed);
        if finding.check == VECTOR_CHECK {
            let on = if finding.passed { 1.0 } else { 0.0 };
            metrics::gauge!(vctx_base::metric::VECTOR_FEATURE).set(on);
        }
        if !finding.passed {
            tracing::debug!(check = finding.check, sentence = finding.sentence, "a guard is red");
        }
    }
}

/// The check whose outcome has a metric of its own.
const VECTOR_CHECK: &str = "vector-flag";
