//! The server under test: started by this program, or already running.

use std::path::{Path, PathBuf};

use crate::Fault;
use crate::agent::Agent;
use crate::child::Process;
use crate::meters::memory_mib;

/// A server, with its process if this program started it.
pub(crate) struct Server {
    pub(crate) socket: PathBuf,
    own: Option<Process>,
}

impl Server {
    /// Uses a running server for the service level test.
    pub(crate) fn running(socket: &Path) -> Self {
        Self { socket: socket.to_owned(), own: None }
    }

    /// Starts a server whose embedded engine stores its data in a folder.
    pub(crate) fn start(program: &Path, folder: &Path) -> Result<Self, Fault> {
        let own = Process::server(program, folder, &[])?;
        Ok(Self { socket: own.socket.clone(), own: Some(own) })
    }

    /// Returns a connection to the server for one agent.
    pub(crate) fn agent(&self, name: &str) -> Result<Agent, Fault> {
        Agent::connect(&self.socket, name)
    }

    /// Returns the end of the log of a server started by this program.
    pub(crate) fn tail(&self) -> String {
        self.own.as_ref().map(Process::tail).unwrap_or_default()
    }

    /// Returns the resident memory in MiB of a server started by this program.
    pub(crate) fn resident_mib(&self) -> Option<f64> {
        memory_mib(self.own.as_ref()?.id(), "VmRSS").ok()
    }

    /// Stops a server started by this program.
    pub(crate) fn stop(self) -> Result<(), Fault> {
        self.own.map_or(Ok(()), Process::stop)
    }
}
