//! One agent of a server, with a separate connection to the server. Each function that makes a call
//! also checks the HTTP status of the answer.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::Fault;
use crate::client::Client;

/// An agent and the client's connection to the server.
pub(crate) struct Agent {
    client: Client,
    name: String,
    /// Number of writing calls that the agent made so far.
    pub(crate) calls: usize,
    /// Part of every idempotency key, which makes the keys of two runs against one server
    /// different.
    run: u128,
}

impl Agent {
    /// Connects a client of the agent to a server.
    pub(crate) fn connect(socket: &Path, name: &str) -> Result<Self, Fault> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let run = since.map_or(0, |since| since.as_nanos());
        Ok(Self { client: Client::connect(socket)?, name: name.to_owned(), calls: 0, run })
    }

    /// Creates the agent with a window of the given number of tokens, unless the agent exists.
    pub(crate) fn create(&mut self, window: u64) -> Result<(), Fault> {
        let body = json!({"context_window": window, "system": "You are a bench."}).to_string();
        self.send("PUT", "", "", body.as_bytes()).map(|_| ())
    }

    /// Calls a tool. If a revision is given (`*` accepts any revision), the call is a write with a
    /// new idempotency key.
    pub(crate) fn call(
        &mut self,
        tool: &str,
        body: &[u8],
        revision: Option<&str>,
    ) -> Result<(Duration, &[u8]), Fault> {
        let headers = match revision {
            None => String::new(),
            Some(revision) => {
                self.calls += 1;
                let (name, run, number) = (&self.name, self.run, self.calls);
                format!("idempotency-key: {name}-{run:x}-{number}\r\nif-match: {revision}\r\n")
            }
        };
        self.send("POST", &format!("/tools/{tool}"), &headers, body)
    }

    /// Calls a tool that does not write.
    pub(crate) fn read(&mut self, tool: &str, arguments: &Value) -> Result<Value, Fault> {
        let (_, answer) = self.call(tool, arguments.to_string().as_bytes(), None)?;
        Ok(serde_json::from_slice(answer)?)
    }

    /// Calls a tool that writes to the agent's memory.
    pub(crate) fn write(
        &mut self,
        tool: &str,
        arguments: &Value,
        revision: &str,
    ) -> Result<Value, Fault> {
        let (_, answer) = self.call(tool, arguments.to_string().as_bytes(), Some(revision))?;
        Ok(serde_json::from_slice(answer)?)
    }

    /// Reads the revision of the agent's memory from the server.
    pub(crate) fn revision(&mut self) -> Result<String, Fault> {
        let (_, state) = self.send("GET", "", "", b"")?;
        let state: Value = serde_json::from_slice(state)?;
        Ok(state["_rev"].as_str().ok_or("a state without _rev")?.to_owned())
    }

    fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> Result<(Duration, &[u8]), Fault> {
        let path = format!("/v1/agents/{}{path}", self.name);
        let begun = Instant::now();
        let answer = self.client.call(method, &path, headers, body)?;
        let took = begun.elapsed();
        match answer.status {
            200 | 201 => Ok((took, answer.body)),
            status => {
                let body = String::from_utf8_lossy(answer.body);
                Err(format!("{path} answered {status}: {body}").into())
            }
        }
    }
}
