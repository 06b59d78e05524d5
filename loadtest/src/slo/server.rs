//! Calls of the public API as the scenarios make them, each with its status checked.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::Fault;
use crate::child::Process;
use crate::client::Client;

/// The server under load: one that was started here, or one that runs already.
pub(crate) struct Server {
    pub(crate) socket: PathBuf,
    own: Option<Process>,
}

impl Server {
    /// Uses a running server.
    pub(crate) fn running(socket: &Path) -> Self {
        Self { socket: socket.to_owned(), own: None }
    }

    /// Starts a server with an engine of its own in a folder.
    pub(crate) fn start(program: &Path, folder: &Path) -> Result<Self, Fault> {
        let socket = folder.join("vctx.sock");
        let mut command = Command::new(program);
        command
            .arg("serve")
            .arg("--socket")
            .arg(&socket)
            .arg("--data-dir")
            .arg(folder.join("data"));
        let own = Process::start(command, folder, socket.clone(), |client| {
            Ok(client.call("GET", "/readyz", "", b"")?.status == 200)
        })?;
        Ok(Self { socket, own: Some(own) })
    }

    /// A connection for one agent.
    pub(crate) fn agent(&self, name: &str) -> Result<Agent, Fault> {
        let client = Client::connect(&self.socket)?;
        Ok(Agent { client, name: name.to_owned(), calls: 0, run: run_id() })
    }

    /// The end of what the server wrote, when it is ours.
    pub(crate) fn tail(&self) -> String {
        self.own.as_ref().map(Process::tail).unwrap_or_default()
    }

    /// Resident memory in MiB, when it is ours.
    pub(crate) fn resident_mib(&self) -> Option<f64> {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.own.as_ref()?.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
    }

    /// Ends the server, when it is ours.
    pub(crate) fn stop(self) -> Result<(), Fault> {
        self.own.map_or(Ok(()), Process::stop)
    }
}

/// Keys of two runs against one server differ.
fn run_id() -> u128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| d.as_nanos())
}

/// One agent and a connection to it.
pub(crate) struct Agent {
    client: Client,
    name: String,
    calls: u64,
    run: u128,
}

impl Agent {
    /// Makes the agent, or finds it as it is to be.
    pub(crate) fn create(&mut self, window: u64) -> Result<(), Fault> {
        let path = format!("/v1/agents/{}", self.name);
        let body = json!({"context_window": window, "system": "You are under load."}).to_string();
        let answer = self.client.call("PUT", &path, "", body.as_bytes())?;
        match answer.status {
            200 | 201 => Ok(()),
            status => Err(refused(&path, status, answer.body)),
        }
    }

    /// A call that only reads: without key and revision.
    pub(crate) fn read(&mut self, tool: &str, arguments: &Value) -> Result<Value, Fault> {
        let path = format!("/v1/agents/{}/tools/{tool}", self.name);
        self.post(&path, "", arguments)
    }

    /// A writing call with a new key, on any revision or on a certain one.
    pub(crate) fn write(
        &mut self,
        tool: &str,
        arguments: &Value,
        rev: &str,
    ) -> Result<Value, Fault> {
        self.calls += 1;
        let path = format!("/v1/agents/{}/tools/{tool}", self.name);
        let headers = format!(
            "idempotency-key: {}-{:x}-{}\r\nif-match: {rev}\r\n",
            self.name, self.run, self.calls
        );
        self.post(&path, &headers, arguments)
    }

    fn post(&mut self, path: &str, headers: &str, arguments: &Value) -> Result<Value, Fault> {
        let answer = self.client.call("POST", path, headers, arguments.to_string().as_bytes())?;
        match answer.status {
            200 => Ok(serde_json::from_slice(answer.body)?),
            status => Err(refused(path, status, answer.body)),
        }
    }

    /// The agent's revision.
    pub(crate) fn revision(&mut self) -> Result<String, Fault> {
        let path = format!("/v1/agents/{}", self.name);
        let answer = self.client.call("GET", &path, "", b"")?;
        let state: Value = serde_json::from_slice(answer.body)?;
        let rev = state["_rev"].as_str().ok_or("a state without _rev")?;
        Ok(rev.to_owned())
    }
}

fn refused(path: &str, status: u16, body: &[u8]) -> Fault {
    format!("{path} answered {status}: {}", String::from_utf8_lossy(body)).into()
}
