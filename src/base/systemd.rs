//! The interface to systemd or a compatible service manager: inherited sockets, notifications, and
//! the prevention of core dumps.

use std::collections::BTreeMap;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use listenfd::ListenFd;
use sd_notify::NotifyState;
use tokio::sync::watch;

use crate::clock;

/// Maximum length of a status text for the service manager, in characters.
const STATUS_CHARS_MAX: usize = 200;

/// Limit on open files that a server requests. It suffices for 1024 client connections, two
/// database connections for each of them, and the files of an embedded engine.
const FILES_MAX: u64 = 65_536;

/// Name of the API socket (`FileDescriptorName=`).
pub const API: &str = "api";
/// Name of the metrics socket (`FileDescriptorName=`).
pub const METRICS: &str = "metrics";

/// Sockets inherited from the service manager, by name.
pub type InheritedSockets = BTreeMap<String, UnixListener>;

/// Takes the sockets that `LISTEN_FDS` announces to this process (sd_listen_fds(3)); ignores
/// sockets announced to another process (`LISTEN_PID`). The caller must call this function before
/// any thread is started. The returned error is a sentence for the author of the systemd unit.
pub fn inherited_sockets() -> Result<InheritedSockets, String> {
    let fault = |error| format!("the sockets of the service manager (LISTEN_FDS): {error}");
    let mut sockets = InheritedSockets::new();
    // If `LISTEN_FDS` announces no socket to this process, the names in `LISTEN_FDNAMES` belong to
    // another process and are ignored.
    if sd_notify::listen_fds().map_err(fault)?.len() == 0 {
        return Ok(sockets);
    }
    let announced = sd_notify::listen_fds_with_names().map_err(fault)?;
    let names: Vec<String> = announced.map(|(_, name)| name).collect();
    // `ListenFd` reads the environment variables `LISTEN_…` once more, and then removes them.
    let mut descriptors = ListenFd::from_env();
    for (at, name) in names.into_iter().enumerate() {
        let socket = descriptors
            .take_unix_listener(at)
            .map_err(|error| format!("the socket {name}: {error}: use ListenStream=/PATH"))?
            .ok_or_else(|| format!("the socket {name} was announced but not handed over"))?;
        if ![API, METRICS].contains(&name.as_str()) {
            return Err(format!(
                "a socket called {name} was handed over: set FileDescriptorName={API} or {METRICS}"
            ));
        }
        if sockets.insert(name.clone(), socket).is_some() {
            return Err(format!("two sockets called {name} were handed over"));
        }
    }
    Ok(sockets)
}

/// Prevents core dumps to files. Also excludes the memory of this process from core dumps to a
/// pipe, because the size limit for core dumps to files does not apply to a pipe (core(5)).
pub fn no_core_dumps() {
    if let Err(error) = rlimit::setrlimit(rlimit::Resource::CORE, 0, 0) {
        tracing::warn!(%error, "core dumps cannot be switched off");
    }
    if let Err(error) = std::fs::write("/proc/self/coredump_filter", "0") {
        tracing::warn!(%error, "memory cannot be kept out of core dumps");
    }
}

/// Raises the limit on open files, as far as the service manager allows, to a number that suffices
/// for all connections and for the files of an embedded engine.
pub fn raise_file_limit() {
    if let Err(error) = rlimit::increase_nofile_limit(FILES_MAX) {
        tracing::warn!(%error, "the limit on open files cannot be raised");
    }
}

/// Reports to the service manager that the server is ready for calls.
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(&one_line(status))]);
}

/// Reports to the service manager the reason why the server does not answer calls yet.
pub fn waiting(reason: &str) {
    tell(&[NotifyState::Status(&one_line(reason))]);
}

/// Reports to the service manager that the server stops.
pub fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("running calls end")]);
}

/// Sends a notification to the service manager. Does nothing if the environment names no notify
/// socket.
fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager could not be notified");
    }
}

/// Returns a status text as one line, because each line of a notify message is a separate value.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(STATUS_CHARS_MAX).collect()
}

/// Sends watchdog pings to the service manager, if the manager requests them. `beat` contains the
/// time at which the self-check last reported that it runs. Pings are sent while this time is at
/// most `beat_max` ago; without `beat_max`, pings are always sent. If the self-check stops, the
/// pings stop, and the manager restarts the server.
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

/// Sends two watchdog pings in each interval (sd_watchdog_enabled(3)).
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
                "the server's self-check no longer runs: the service manager gets no more watchdog pings"
            );
        }
        silent = !alive;
        tokio::select! {
            () = tokio::time::sleep(interval / 2) => {}
            // A dropped sender of the stop signal means that the program ends.
            _ = stopping.wait_for(|stop| *stop) => return,
        }
    }
}

/// Creates a channel through which the self-check reports that it runs. The channel contains the
/// time of the last report; its first value is the current time.
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
            // While reports of the self-check arrive at allowed intervals, the watchdog pings
            // continue.
            for round in 1..=20 {
                beat.send_replace(clock::now());
                while pinged.load(Ordering::Relaxed) < round {
                    beat.send_replace(clock::now());
                    tokio::time::sleep(step).await;
                }
            }
            // When no further report arrives, the watchdog pings stop permanently.
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
