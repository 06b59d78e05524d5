//! The engine as a process that receives requests over a Unix socket.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Fault;
use crate::child::{Process, answers};
use crate::client::Client;
use crate::meters::{ProcessorTime, disk_bytes, memory_mib};

/// Basic credentials of `root` without a password, as a header line.
const ROOT: &str = "authorization: Basic cm9vdDo=\r\n";
/// Longest wait for an answer: training a vector index over a million rows takes long.
const ANSWER_WAIT: Duration = Duration::from_secs(1800);
/// Time without work after which the engine counts as idle, and the longest wait for an idle
/// engine.
const QUIET_TIME: Duration = Duration::from_millis(500);
const QUIET_WAIT: Duration = Duration::from_secs(240);
/// Processor share below which the engine counts as idle.
const QUIET_SHARE: f64 = 0.03;

/// A running engine.
pub(crate) struct Target {
    process: Process,
    folder: PathBuf,
    program: PathBuf,
}

impl Target {
    /// Starts the program on a folder, which may contain the data of an earlier start.
    pub(crate) fn start(program: &Path, folder: &Path) -> Result<Self, Fault> {
        fs::create_dir_all(folder)?;
        let socket = folder.join("db.sock");
        let mut command = Command::new(program);
        command.arg("serve").arg("--socket").arg(&socket);
        command.arg("--data-dir").arg(folder.join("data")).arg("--vector-index");
        command.env("ARANGO_ROOT_PASSWORD", "");
        let process = Process::start(command, folder, socket, answers("/_api/version", ROOT))?;
        Ok(Self { process, folder: folder.to_owned(), program: program.to_owned() })
    }

    /// Kills and restarts the engine; returns the time until the engine's first answer.
    pub(crate) fn kill_and_start(self) -> Result<(Self, Duration), Fault> {
        let Self { process, folder, program } = self;
        drop(process);
        let begun = Instant::now();
        let again = Self::start(&program, &folder)?;
        Ok((again, begun.elapsed()))
    }

    /// Stops the engine.
    pub(crate) fn stop(self) -> Result<(), Fault> {
        self.process.stop()
    }

    /// Returns the end of the engine's log.
    pub(crate) fn tail(&self) -> String {
        self.process.tail()
    }

    /// Opens a new connection to the engine.
    pub(crate) fn connect(&self) -> Result<Connection, Fault> {
        Ok(Connection { client: Client::connect_patient(&self.process.socket, ANSWER_WAIT)? })
    }

    /// Returns the processor time that the engine's threads have used so far.
    pub(crate) fn clock(&self) -> Result<ProcessorTime, Fault> {
        ProcessorTime::of(self.process.id())
    }

    /// Waits until the engine is idle. Gives up after `QUIET_WAIT` and prints a message.
    pub(crate) fn quiet(&self) -> Result<(), Fault> {
        let until = Instant::now() + QUIET_WAIT;
        let mut before = self.clock()?;
        while Instant::now() < until {
            sleep(QUIET_TIME);
            let now = self.clock()?;
            if now.since(&before) < QUIET_TIME.as_secs_f64() * 1e6 * QUIET_SHARE {
                return Ok(());
            }
            before = now;
        }
        eprintln!("the engine did not become quiet within {QUIET_WAIT:?}");
        Ok(())
    }

    /// Returns the main memory that the engine uses, in MiB: resident, peak resident, and resident
    /// without mapped files.
    pub(crate) fn memory_mib(&self) -> Result<(f64, f64, f64), Fault> {
        let of = |name| memory_mib(self.process.id(), name);
        Ok((of("VmRSS")?, of("VmHWM")?, of("RssAnon")?))
    }

    /// Returns the disk space that the files of the engine occupy: whole blocks, in bytes.
    pub(crate) fn disk_bytes(&self) -> Result<u64, Fault> {
        disk_bytes(&self.folder.join("data"))
    }
}

/// One connection.
pub(crate) struct Connection {
    client: Client,
}

impl Connection {
    /// Sends a request and returns the body of the answer. Returns an error if the answer's status
    /// is not one of `statuses`.
    pub(crate) fn call(
        &mut self,
        method: &str,
        path: &str,
        body: &[u8],
        statuses: &[u16],
    ) -> Result<&[u8], Fault> {
        let answer = self.client.call(method, path, ROOT, body)?;
        if statuses.contains(&answer.status) {
            return Ok(answer.body);
        }
        let text: String = String::from_utf8_lossy(answer.body).chars().take(500).collect();
        Err(format!("{method} {path} answered {}: {text}", answer.status).into())
    }

    /// Creates an object of the database by `POST`.
    pub(crate) fn make(&mut self, path: &str, body: &Value) -> Result<(), Fault> {
        self.call("POST", path, body.to_string().as_bytes(), &[200, 201, 202]).map(|_| ())
    }

    /// Inserts the documents of a JSON array into a collection.
    pub(crate) fn insert(&mut self, collection: &str, documents: &[u8]) -> Result<(), Fault> {
        let path = format!("/_api/document/{collection}?silent=true");
        let body = self.call("POST", &path, documents, &[201, 202])?;
        match body {
            b"[]" | b"{}" | b"" => Ok(()),
            other => Err(format!("an insert failed: {}", String::from_utf8_lossy(other)).into()),
        }
    }

    /// Runs a query and returns the whole answer.
    pub(crate) fn query(&mut self, query: &str, binds: &Value) -> Result<Value, Fault> {
        let body = cursor_body(query, binds);
        Ok(serde_json::from_slice(self.call("POST", "/_api/cursor", &body, &[201])?)?)
    }
}

/// Returns the request body of a query.
pub(crate) fn cursor_body(query: &str, binds: &Value) -> Vec<u8> {
    json!({"query": query, "bindVars": binds}).to_string().into_bytes()
}

/// Result keys and times of a query.
pub(crate) struct Timed {
    /// Keys of the result, in the order of the answer.
    pub(crate) keys: Vec<u64>,
    /// Microseconds: `wall` is the time that the client measured, `cpu` the processor time of the
    /// engine's threads, and `inside` the time that the engine's statistics report.
    pub(crate) wall: f64,
    pub(crate) cpu: f64,
    pub(crate) inside: f64,
}

/// Runs and times a query that returns keys, or arrays whose first element is a key.
pub(crate) fn timed(
    target: &Target,
    connection: &mut Connection,
    body: &[u8],
) -> Result<Timed, Fault> {
    let before = target.clock()?;
    let begun = Instant::now();
    let answer = connection.call("POST", "/_api/cursor", body, &[201])?;
    let wall = begun.elapsed().as_secs_f64() * 1e6;
    let answer: Value = serde_json::from_slice(answer)?;
    let cpu = target.clock()?.since(&before);
    let rows = answer["result"].as_array().ok_or("an answer without rows")?;
    let key = |row: &Value| -> Option<u64> {
        let key = if row.is_array() { &row[0] } else { row };
        key.as_str()?.parse().ok()
    };
    let keys = rows.iter().map(key).collect::<Option<Vec<u64>>>().ok_or("a row without key")?;
    let inside = answer["extra"]["stats"]["executionTime"].as_f64().unwrap_or(0.0) * 1e6;
    Ok(Timed { keys, wall, cpu, inside })
}
