//! Processes that are measured: started on temporary sockets, waited for, stopped by their own id.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Fault;
use crate::client::Client;

/// Longest wait for a process to answer after its start, and to end after SIGTERM.
const READY_WAIT: Duration = Duration::from_secs(60);
const END_WAIT: Duration = Duration::from_secs(20);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of its log that are told when it ends too early.
const TAIL_BYTES: usize = 2_000;

/// A running process and its socket. Dropping it kills it.
pub(crate) struct Process {
    child: Child,
    /// Where it answers.
    pub(crate) socket: PathBuf,
    log: PathBuf,
}

impl Process {
    /// Starts a program in a folder of its own; the settings of this shell are kept from it.
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
                // What was set for this process by its caller stands.
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
            sleep(LOOK);
        }
        Err(format!("not ready after {READY_WAIT:?}\n{}", self.tail()).into())
    }

    /// Its id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The end of what it wrote.
    pub(crate) fn tail(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        let from = bytes.len().saturating_sub(TAIL_BYTES);
        String::from_utf8_lossy(&bytes[from..]).into_owned()
    }

    /// Asks it to end and waits for it; one that does not is killed, which is a fault.
    pub(crate) fn stop(mut self) -> Result<(), Fault> {
        let told = Command::new("kill").arg("-TERM").arg(self.id().to_string()).status()?;
        let until = Instant::now() + END_WAIT;
        while told.success() && Instant::now() < until {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            sleep(LOOK);
        }
        Err(format!("process {} did not end within {END_WAIT:?} of SIGTERM", self.id()).into())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
