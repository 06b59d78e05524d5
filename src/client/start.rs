//! A server that is there when it is needed: the one that answers on the socket, or one that is started, once, under a lock.
//!
//! The process that is started belongs to nobody: it has a process group of its own, writes to a log, and ends by itself when it is
//! idle. Whoever holds the lock starts; whoever does not waits for the outcome, so two clients that come together share one server.

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
use vctx_base::clock;
use vctx_core::limits::{
    SERVER_LOG_BYTES_MAX, START_ANSWER_MS_MAX, START_LOOK_MS, START_WAIT_MS_MAX, STARTS_MAX,
    STARTS_PAUSE_MS,
};

/// Bytes at the end of the log in which its last line is looked for.
const LOG_TAIL_BYTES: u64 = 2_048;

/// Characters of that line that an error repeats.
const LOG_LINE_CHARS_MAX: usize = 300;

/// Exit codes (sysexits) that a second try does not change: usage, refused by a check, configuration.
const LASTING: [i32; 3] = [64, 77, 78];

/// How to come to a server.
#[derive(Clone, Debug)]
pub struct Start {
    /// Where it listens, or shall listen.
    pub socket: PathBuf,
    /// Directory of its data; absent: as the server's own configuration has it.
    pub data_dir: Option<PathBuf>,
    /// Seconds without a connection after which a started server ends.
    pub idle_exit_s: u64,
}

/// What is found on the socket.
enum Seen {
    /// A server that serves.
    Ready,
    /// A server that does not serve yet, and why.
    Waiting(String),
    /// Nothing that answers.
    Nobody,
}

/// What became of one process.
enum Started {
    /// It serves.
    Serving,
    /// None was needed: another server has come to the socket.
    Another,
    /// It ended before that.
    Ended(ExitStatus),
    /// The time is up.
    Late,
}

impl Start {
    /// Comes back when a server serves on the socket: the one that was there, or a new one. Fails with [`Fault::Unreachable`],
    /// the reason and the log's path when none does within the limits.
    pub async fn ensure(&self) -> Result<(), Problem> {
        let until = clock::now() + Duration::from_millis(START_WAIT_MS_MAX);
        let mut starts = 0;
        let mut reason = String::new();
        while clock::now() < until {
            match self.look().await? {
                Seen::Ready => return Ok(()),
                Seen::Waiting(why) => reason = why,
                Seen::Nobody => match self.lock()? {
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

    /// Log of the servers that are started here.
    pub fn log(&self) -> PathBuf {
        paths::server_log(&self.directory())
    }

    fn directory(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(paths::default_data_dir)
    }

    async fn look(&self) -> Result<Seen, Problem> {
        let client = Client::new(Settings {
            deadline: Duration::from_millis(START_ANSWER_MS_MAX),
            attempts_max: 1,
            ..Settings::new(&self.socket)
        });
        match client.ready().await {
            Ok(_) => Ok(Seen::Ready),
            Err(problem) => match problem.fault {
                Fault::Unreachable => Ok(Seen::Nobody),
                Fault::Unanswered | Fault::Refused(503) => Ok(Seen::Waiting(problem.detail)),
                Fault::Refused(_) | Fault::Garbled => Err(problem),
            },
        }
    }

    /// The right to start a server on this socket; none while somebody else has it. It ends with the file handle, so a client that
    /// is killed leaves nothing behind.
    fn lock(&self) -> Result<Option<File>, Problem> {
        let path = paths::start_lock(&self.socket);
        let fault = |error: std::io::Error| {
            Problem::unreachable(format!(
                "no lock to start a server with, {}: {error}",
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

    /// Starts a process and waits until a server serves. The caller has the lock; whoever had it before may have been successful.
    async fn start(&self, until: Instant) -> Result<Started, Problem> {
        if !matches!(self.look().await?, Seen::Nobody) {
            return Ok(Started::Another);
        }
        let mut child = self.spawn().map_err(|error| {
            let log = self.log();
            Problem::unreachable(format!(
                "cannot start a server with its log in {}: {error}",
                log.display()
            ))
        })?;
        tracing::info!(pid = child.id(), socket = %self.socket.display(), "a server was started");
        let started = loop {
            if matches!(self.look().await?, Seen::Ready) {
                break Started::Serving;
            }
            match child.try_wait() {
                Ok(Some(status)) => break Started::Ended(status),
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "the started server cannot be asked after"),
            }
            if clock::now() >= until {
                break Started::Late;
            }
            tokio::time::sleep(Duration::from_millis(START_LOOK_MS)).await;
        };
        // Its end is awaited so that it leaves no zombie as long as this client lives.
        tokio::spawn(async move { drop(child.wait().await) });
        Ok(started)
    }

    fn spawn(&self) -> std::io::Result<Child> {
        private(&self.directory())?;
        let log = opened_log(&self.log())?;
        let mut command = Command::new(paths::own_program()?);
        command.args(["serve", "--idle-exit-s"]).arg(self.idle_exit_s.to_string());
        command.arg("--socket").arg(&self.socket);
        if let Some(directory) = &self.data_dir {
            command.arg("--data-dir").arg(directory);
        }
        // A group of its own: what ends this client's group does not end the server of others.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command.spawn()
    }

    fn failed(&self, reason: &str) -> Problem {
        let log = self.log();
        let said =
            last_line(&log).map_or_else(String::new, |line| format!("; its last words: {line}"));
        let socket = self.socket.display();
        let reason = if reason.is_empty() { "it did not answer in time" } else { reason };
        let mut problem =
            Problem::unreachable(format!("no server serves on {socket}: {reason}{said}"));
        problem.next = Some(format!(
            "read {}, or run `vctx serve --socket {socket}` to see what is wrong, then call again",
            log.display()
        ));
        problem
    }
}

/// The pause after so many processes that ended.
fn pause(starts: u32) -> Duration {
    let (first, longest) = STARTS_PAUSE_MS;
    Duration::from_millis(first.saturating_mul(1 << starts.min(16).saturating_sub(1)).min(longest))
}

/// Makes a directory that only its owner can enter, and those above it that are missing.
fn private(directory: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// The log to append to; one that has grown too long is set aside first, in the place of the one before.
fn opened_log(path: &Path) -> std::io::Result<File> {
    if fs::metadata(path).is_ok_and(|found| found.len() > SERVER_LOG_BYTES_MAX) {
        fs::rename(path, path.with_extension("log.old"))?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// The last line of a log, shortened; none when it cannot be read, since it only explains another error.
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
            socket: directory.join("run/vctx.sock"),
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
