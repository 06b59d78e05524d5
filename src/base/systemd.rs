//! The service manager's side, systemd's or another's that speaks its protocols: sockets handed over, what it is told, and no core dumps.

use std::collections::BTreeMap;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use listenfd::ListenFd;
use sd_notify::NotifyState;
use tokio::sync::watch;

use crate::clock;
use vctx_core::limits::STATUS_CHARS_MAX;

/// Name of the API's socket (`FileDescriptorName=`).
pub const API: &str = "api";
/// Name of the metrics' socket.
pub const METRICS: &str = "metrics";

/// Sockets that were handed over, by name.
pub type Given = BTreeMap<String, UnixListener>;

/// Takes the sockets that `LISTEN_FDS` announces to this process (sd_listen_fds(3)); those of another process (`LISTEN_PID`) are not
/// ours. Call it before any thread is started. Errors: a sentence for whoever wrote the unit.
pub fn given() -> Result<Given, String> {
    let fault = |error| format!("the sockets of the service manager (LISTEN_FDS): {error}");
    let mut given = Given::new();
    // Another process's names would not fit our none.
    if sd_notify::listen_fds().map_err(fault)?.len() == 0 {
        return Ok(given);
    }
    let announced = sd_notify::listen_fds_with_names().map_err(fault)?;
    let names: Vec<String> = announced.map(|(_, name)| name).collect();
    // The crate that turns numbers into sockets looks at the same variables, and takes them out of the environment.
    let mut sockets = ListenFd::from_env();
    for (at, name) in names.into_iter().enumerate() {
        let socket = sockets
            .take_unix_listener(at)
            .map_err(|error| format!("the socket {name}: {error}: use ListenStream=/PATH"))?
            .ok_or_else(|| format!("the socket {name} was announced but not handed over"))?;
        if ![API, METRICS].contains(&name.as_str()) {
            return Err(format!(
                "a socket called {name} was handed over: set FileDescriptorName={API} or {METRICS}"
            ));
        }
        if given.insert(name.clone(), socket).is_some() {
            return Err(format!("two sockets called {name} were handed over"));
        }
    }
    Ok(given)
}

/// Sees that no core dump is written, and that one that is written all the same (a pipe takes any size, core(5)) holds no memory.
pub fn no_core_dumps() {
    if let Err(error) = rlimit::setrlimit(rlimit::Resource::CORE, 0, 0) {
        tracing::warn!(%error, "core dumps cannot be switched off");
    }
    if let Err(error) = std::fs::write("/proc/self/coredump_filter", "0") {
        tracing::warn!(%error, "memory cannot be kept out of core dumps");
    }
}

/// Tells the service manager that calls are served now.
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(&one_line(status))]);
}

/// Tells it why they are not yet.
pub fn waiting(reason: &str) {
    tell(&[NotifyState::Status(&one_line(reason))]);
}

/// Tells it that the server ends.
pub fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("running calls end")]);
}

/// Nobody to tell is fine.
fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager was not told");
    }
}

/// A status is one line of the message.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(STATUS_CHARS_MAX).collect()
}

/// Keeps the service manager's watchdog quiet, if it has one, while `beat` is no older than `beat_max`; without a bound, while this loop
/// turns. When the server's own looking has died, nothing is said any more, and the manager starts the server anew.
pub async fn watchdog(
    beat: watch::Receiver<Instant>,
    beat_max: Option<Duration>,
    stopping: watch::Receiver<bool>,
) {
    if let Some(interval) = sd_notify::watchdog_enabled() {
        let ping = || tell(&[NotifyState::Watchdog]);
        pings(interval, beat, beat_max, ping, stopping).await;
    }
}

/// Two pings in each interval (sd_watchdog_enabled(3)).
async fn pings(
    interval: Duration,
    beat: watch::Receiver<Instant>,
    beat_max: Option<Duration>,
    ping: impl Fn(),
    mut stopping: watch::Receiver<bool>,
) {
    let mut silent = false;
    loop {
        let age = beat.borrow().elapsed();
        let alive = beat_max.is_none_or(|max| age <= max);
        if alive {
            ping();
        } else if !silent {
            tracing::error!(
                age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
                "the server does not look after itself any more: the watchdog is not told that it lives"
            );
        }
        silent = !alive;
        tokio::select! {
            () = tokio::time::sleep(interval / 2) => {}
            // A dropped sender means that the program ends.
            _ = stopping.wait_for(|stop| *stop) => return,
        }
    }
}

/// A beat of now.
pub fn beat() -> watch::Sender<Instant> {
    watch::Sender::new(clock::now())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn the_watchdog_is_told_as_long_as_somebody_beats() {
        let beat = beat();
        let (stop, stopping) = watch::channel(false);
        let pinged = AtomicU32::new(0);
        let step = Duration::from_millis(5);
        let ping = || {
            pinged.fetch_add(1, Ordering::Relaxed);
        };
        let pinging = pings(2 * step, beat.subscribe(), Some(4 * step), ping, stopping);
        let story = async {
            // Beats with pauses that are allowed: pings come and come.
            for round in 1..=20 {
                beat.send_replace(clock::now());
                while pinged.load(Ordering::Relaxed) < round {
                    beat.send_replace(clock::now());
                    tokio::time::sleep(step).await;
                }
            }
            // No more beats: they cease, for good.
            tokio::time::sleep(8 * step).await;
            let last = pinged.load(Ordering::Relaxed);
            tokio::time::sleep(20 * step).await;
            assert_eq!(pinged.load(Ordering::Relaxed), last, "a dead server was reported alive");
            stop.send_replace(true);
        };
        tokio::join!(pinging, story);
    }

    #[test]
    fn a_status_is_one_line_with_an_end() {
        assert_eq!(one_line("not ready:\nREADY=1"), "not ready: READY=1");
        assert_eq!(one_line(&"x".repeat(1_000)).len(), STATUS_CHARS_MAX);
    }
}
