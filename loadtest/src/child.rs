//! The measured processes, each on a temporary socket.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Fault;
use crate::client::Client;

/// Longest wait for a process to answer after the start of the process, and to end after SIGTERM.
const READY_WAIT: Duration = Duration::from_secs(60);
const END_WAIT: Duration = Duration::from_secs(20);
/// Pause between two checks whether a process answers or has ended.
const PAUSE: Duration = Duration::from_millis(20);
/// Number of bytes of a process log that an error message shows.
const TAIL_BYTES: usize = 2_000;

/// A running process and the process's socket. Dropping a `Process` kills the running process.
pub(crate) struct Process {
    child: Child,
    /// The socket that the process listens on.
    pub(crate) socket: PathBuf,
    log: PathBuf,
}

impl Process {
    /// Starts a program with `folder` as its working directory, and waits until the check `ready`
    /// succeeds.
    /// The started program does not inherit environment variables of vctx and ArangoDB.
    pub(crate) fn start(
        mut command: Command,
        folder: &Path,
        socket: PathBuf,
        ready: impl Fn(&mut Client) -> Result<bool, Fault>,
    ) -> Result<Self, Fault> {
        let log = folder.join("log");
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("ARANGO") || text.starts_with("VCTX_") {
                // Keeps the environment variables that the caller set for this command.
                if !command.get_envs().any(|(set, _)| set == name) {
                    command.env_remove(&name);
                }
            }
        }
        let file = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command
            .spawn()
            .map_err(|e| format!("{}: {e}", command.get_program().to_string_lossy()))?;
        let mut process = Self { child, socket, log };
        process.wait_until(ready)?;
        Ok(process)
    }

    /// Starts a vctx server whose embedded engine stores its data in `folder`.
    pub(crate) fn server(
        program: &Path,
        folder: &Path,
        settings: &[(&str, &str)],
    ) -> Result<Self, Fault> {
        let socket = folder.join("vctx.sock");
        let mut command = Command::new(program);
        command.arg("serve").arg("--socket").arg(&socket);
        command.arg("--data-dir").arg(folder.join("data")).envs(settings.iter().copied());
        Self::start(command, folder, socket, answers("/readyz", ""))
    }

    fn wait_until(
        &mut self,
        ready: impl Fn(&mut Client) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        let until = Instant::now() + READY_WAIT;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("ended at its start: {status}\n{}", self.tail()).into());
            }
            if let Ok(mut client) = Client::connect(&self.socket)
                && ready(&mut client)?
            {
                return Ok(());
            }
            sleep(PAUSE);
        }
        Err(format!("not ready after {READY_WAIT:?}\n{}", self.tail()).into())
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the end of the process log.
    pub(crate) fn tail(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        let from = bytes.len().saturating_sub(TAIL_BYTES);
        String::from_utf8_lossy(&bytes[from..]).into_owned()
    }

    /// Sends SIGTERM and waits for the process to end. If the process does not end in time, kills
    /// the process and returns an error.
    pub(crate) fn stop(mut self) -> Result<(), Fault> {
        let signal = Command::new("kill").arg("-TERM").arg(self.id().to_string()).status()?;
        let until = Instant::now() + END_WAIT;
        while signal.success() && Instant::now() < until {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            sleep(PAUSE);
        }
        Err(format!("process {} did not end within {END_WAIT:?} of SIGTERM", self.id()).into())
    }
}

/// Returns a check for [`Process::start`]. The check succeeds if a GET request for the path returns
/// status 200.
pub(crate) fn answers(
    path: &'static str,
    headers: &'static str,
) -> impl Fn(&mut Client) -> Result<bool, Fault> {
    move |client| Ok(client.call("GET", path, headers, b"")?.status == 200)
}

impl Drop for Process {
    fn drop(&mut self) {
        // These two calls fail only if the process has already ended.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
