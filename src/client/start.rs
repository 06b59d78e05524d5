//! Finds the server that answers on the socket, or starts a server while holding a lock.
//!
//! A started server is independent of the client: it has its own process group, writes to a log,
//! and ends after a time without connections. Only the client that holds the lock starts a server.
//! Other clients wait, so that concurrent clients share one server.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};

use super::api::Client;
use super::connection::Settings;
use super::paths;
use super::problem::{Fault, Problem};
use super::serving::link_of;
use vctx_base::clock;
use vctx_core::limits::START_MS_MAX;

/// Maximum time that a client waits for a starting server, in milliseconds: the server's own limit
/// plus time to start the process.
const START_WAIT_MS_MAX: u64 = START_MS_MAX + 10_000;
/// Maximum number of server processes that one client starts for one call. Several starts may be
/// necessary, because a server cannot start while the engine of an earlier server still uses the
/// data.
const STARTS_MAX: u32 = 8;
/// First and maximum pause between the starts of two processes by one client, in milliseconds.
const STARTS_PAUSE_MS: (u64, u64) = (100, 2_000);
/// Pause between two readiness checks of a starting server, in milliseconds.
const START_LOOK_MS: u64 = 20;
/// Maximum time that a client waits for the answer to a readiness check, in milliseconds.
const START_ANSWER_MS_MAX: u64 = 5_000;
/// Size in bytes above which the server log is rotated at the next start; one older log is kept.
const SERVER_LOG_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Number of bytes at the end of a log that the client reads to find the last line.
const LOG_TAIL_BYTES: u64 = 2_048;

/// Maximum length of a log line in an error message, in characters.
const LOG_LINE_CHARS_MAX: usize = 300;

/// Exit codes (sysexits) of a server after which another start is useless: wrong usage, refusal by
/// a check, wrong configuration.
const LASTING: [i32; 3] = [64, 77, 78];

/// Settings for finding or starting a server.
#[derive(Clone, Debug)]
pub struct Start {
    /// Socket on which the server listens or will listen; `None` for the server of the data
    /// directory, wherever it listens.
    pub socket: Option<PathBuf>,
    /// Directory of the server's data; `None` uses the server's own configuration.
    pub data_dir: Option<PathBuf>,
    /// Seconds without a connection after which a started server ends.
    pub idle_exit_s: u64,
}

/// State of a server found on the socket.
enum SocketState {
    /// A server that is ready to answer calls.
    Ready,
    /// A server that is not ready yet, with the reason.
    Waiting(String),
    /// No server answers.
    Absent,
}

/// Outcome of an attempt to start a server process.
enum Started {
    /// The started server is ready.
    Serving,
    /// The started process was not needed, because another server answers on the socket.
    Another,
    /// The started process ended before the server was ready.
    Ended(ExitStatus),
    /// The time limit for the start has passed.
    Late,
}

impl Start {
    /// Waits until a ready server answers on the socket. Starts a server if no server answers. If
    /// no server is ready within the limits, fails with [`Fault::Unreachable`], the reason and the
    /// path of the log.
    pub async fn ensure(&self) -> Result<(), Problem> {
        let until = clock::now() + Duration::from_millis(START_WAIT_MS_MAX);
        let mut starts = 0;
        let mut reason = String::new();
        while clock::now() < until {
            match self.look().await? {
                SocketState::Ready => return Ok(()),
                SocketState::Waiting(why) => reason = why,
                SocketState::Absent => match self.lock()? {
                    None => reason = "another client is starting the server".into(),
                    Some(_lock) => match self.start(until).await? {
                        Started::Serving => return Ok(()),
                        Started::Another => {}
                        Started::Late => break,
                        Started::Ended(status) => {
                            starts += 1;
                            let lasting = status.code().is_some_and(|code| LASTING.contains(&code));
                            reason = format!("the server that was started ended with {status}");
                            if lasting || starts >= STARTS_MAX {
                                break;
                            }
                            tokio::time::sleep(pause(starts)).await;
                        }
                    },
                },
            }
            tokio::time::sleep(Duration::from_millis(START_LOOK_MS)).await;
        }
        Err(self.failed(&reason))
    }

    /// Returns the path at which a client reaches the server: the socket, or the link to it in the
    /// data directory.
    pub fn door(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| link_of(&self.directory()))
    }

    /// Returns the path of the log of servers that clients start.
    pub fn log(&self) -> PathBuf {
        paths::server_log(&self.directory())
    }

    fn directory(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(paths::default_data_dir)
    }

    async fn look(&self) -> Result<SocketState, Problem> {
        let client = Client::new(Settings {
            deadline: Duration::from_millis(START_ANSWER_MS_MAX),
            attempts_max: 1,
            ..Settings::new(self.door())
        });
        match client.ready().await {
            Ok(_) => Ok(SocketState::Ready),
            Err(problem) => match problem.fault {
                Fault::Unreachable => Ok(SocketState::Absent),
                Fault::Unanswered | Fault::Refused(503) => Ok(SocketState::Waiting(problem.detail)),
                Fault::Refused(_) | Fault::Garbled => Err(problem),
            },
        }
    }

    /// Takes the lock that a client must hold to start a server on this socket; returns `None` if
    /// another client holds the lock. The lock ends when the file handle is closed, so a killed
    /// client leaves no lock.
    fn lock(&self) -> Result<Option<File>, Problem> {
        let path = paths::start_lock(&self.door());
        let fault = |error: std::io::Error| {
            Problem::unreachable(format!(
                "cannot take the lock for starting a server, {}: {error}",
                path.display()
            ))
        };
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        private(directory.unwrap_or(Path::new("."))).map_err(fault)?;
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let file = file.map_err(fault)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(fault(error)),
        }
    }

    /// Starts a server process and waits until the server is ready. The caller must hold the lock.
    /// First checks again whether a server answers, because the previous holder of the lock may
    /// have started a server.
    async fn start(&self, until: Instant) -> Result<Started, Problem> {
        if !matches!(self.look().await?, SocketState::Absent) {
            return Ok(Started::Another);
        }
        let mut child = self.spawn().map_err(|error| {
            let log = self.log();
            Problem::unreachable(format!(
                "cannot start a server with its log in {}: {error}",
                log.display()
            ))
        })?;
        tracing::info!(pid = child.id(), socket = %self.door().display(), "a server was started");
        let started = loop {
            if matches!(self.look().await?, SocketState::Ready) {
                break Started::Serving;
            }
            match child.try_wait() {
                Ok(Some(status)) => break Started::Ended(status),
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "the started process cannot be checked"),
            }
            if clock::now() >= until {
                break Started::Late;
            }
            tokio::time::sleep(Duration::from_millis(START_LOOK_MS)).await;
        };
        // A task waits for the end of the server process, so that the ended process does not remain
        // a zombie while this client runs.
        tokio::spawn(async move { drop(child.wait().await) });
        Ok(started)
    }

    fn spawn(&self) -> std::io::Result<Child> {
        private(&self.directory())?;
        let log = opened_log(&self.log())?;
        let mut command = Command::new(paths::own_program()?);
        command.args(["serve", "--idle-exit-s"]).arg(self.idle_exit_s.to_string());
        if let Some(socket) = &self.socket {
            command.arg("--socket").arg(socket);
        }
        if let Some(directory) = &self.data_dir {
            command.arg("--data-dir").arg(directory);
        }
        // The server gets its own process group, because a signal to the client's process group
        // must not end a server that other clients use.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command.spawn()
    }

    fn failed(&self, reason: &str) -> Problem {
        let log = self.log();
        let said = last_line(&log)
            .map_or_else(String::new, |line| format!("; last line of its log: {line}"));
        let socket = self.door();
        let socket = socket.display();
        let reason = if reason.is_empty() { "the server did not answer in time" } else { reason };
        let mut problem =
            Problem::unreachable(format!("no server is ready on {socket}: {reason}{said}"));
        problem.next = Some(format!(
            "read {}, or run `vctx serve` to see what is wrong, then call again",
            log.display()
        ));
        problem
    }
}

/// Returns the pause before the next start, after the given number of processes have ended.
fn pause(starts: u32) -> Duration {
    let (first, longest) = STARTS_PAUSE_MS;
    Duration::from_millis(first.saturating_mul(1 << starts.min(16).saturating_sub(1)).min(longest))
}

/// Creates a directory that only the owner can enter, and all missing parent directories.
fn private(directory: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Opens the log for appending. A log above the size limit is renamed first, and replaces the
/// previous renamed log.
fn opened_log(path: &Path) -> std::io::Result<File> {
    if fs::metadata(path).is_ok_and(|found| found.len() > SERVER_LOG_BYTES_MAX) {
        fs::rename(path, path.with_extension("log.old"))?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// Returns the last line of a log, shortened, as an explanation of another error; `None` if the log
/// cannot be read.
fn last_line(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES))).ok()?;
    let mut tail = Vec::new();
    file.take(LOG_TAIL_BYTES).read_to_end(&mut tail).ok()?;
    let tail = String::from_utf8_lossy(&tail);
    let line = tail.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.chars().take(LOG_LINE_CHARS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(directory: &Path) -> Start {
        Start {
            socket: Some(directory.join("run/vctx.sock")),
            data_dir: Some(directory.join("data")),
            idle_exit_s: 1,
        }
    }

    #[test]
    fn one_of_two_has_the_lock_and_its_end_frees_it() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (start(directory.path()), start(directory.path()));
        let lock = one.lock().unwrap();
        assert!(lock.is_some());
        assert!(two.lock().unwrap().is_none());
        drop(lock);
        assert!(two.lock().unwrap().is_some());
    }

    #[test]
    fn a_log_that_is_too_long_is_set_aside_and_its_last_line_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("server.log");
        assert_eq!(last_line(&path), None);
        fs::write(&path, "one\ntwo\n\n").unwrap();
        drop(opened_log(&path).unwrap());
        assert_eq!(last_line(&path).as_deref(), Some("two"));
        File::options().write(true).open(&path).unwrap().set_len(SERVER_LOG_BYTES_MAX + 1).unwrap();
        drop(opened_log(&path).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
        assert!(directory.path().join("server.log.old").is_file());
    }

    #[test]
    fn the_pauses_double_up_to_the_longest() {
        let pauses: Vec<u128> = (1..=STARTS_MAX).map(|n| pause(n).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 2000, 2000, 2000]);
    }
}
