//! The engine as a process: started, asked over its socket, its processor time, memory and disk looked at from outside.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Fault;
use crate::child::Process;
use crate::client::Client;

/// Basic credentials of `root` without a password, as a header line.
const ROOT: &str = "authorization: Basic cm9vdDo=\r\n";
/// Longest wait for a definition or a load: a vector index over a million rows is trained meanwhile.
const PATIENCE: Duration = Duration::from_secs(1800);
/// How long the engine must do next to nothing before it counts as quiet, and the longest wait for that.
const QUIET_LOOK: Duration = Duration::from_millis(500);
const QUIET_WAIT: Duration = Duration::from_secs(240);
/// Share of a processor below which it does next to nothing.
const QUIET_SHARE: f64 = 0.03;

/// A running engine.
pub(crate) struct Target {
    process: Process,
    folder: PathBuf,
    program: PathBuf,
}

impl Target {
    /// Starts the program on a folder; data of an earlier start is taken up.
    pub(crate) fn start(program: &Path, folder: &Path) -> Result<Self, Fault> {
        fs::create_dir_all(folder)?;
        let socket = folder.join("db.sock");
        let mut command = Command::new(program);
        command.arg("serve").arg("--socket").arg(&socket);
        command.arg("--data-dir").arg(folder.join("data")).arg("--vector-index");
        command.env("ARANGO_ROOT_PASSWORD", "");
        let process = Process::start(command, folder, socket, |client| {
            Ok(client.call("GET", "/_api/version", ROOT, b"")?.status == 200)
        })?;
        Ok(Self { process, folder: folder.to_owned(), program: program.to_owned() })
    }

    /// Kills it without warning and starts it again; how long it took to answer its first request.
    pub(crate) fn kill_and_start(self) -> Result<(Self, Duration), Fault> {
        let Self { process, folder, program } = self;
        drop(process);
        let begun = Instant::now();
        let again = Self::start(&program, &folder)?;
        Ok((again, begun.elapsed()))
    }

    /// Ends it.
    pub(crate) fn stop(self) -> Result<(), Fault> {
        self.process.stop()
    }

    /// The end of its log.
    pub(crate) fn tail(&self) -> String {
        self.process.tail()
    }

    /// A connection of its own.
    pub(crate) fn connect(&self) -> Result<Connection, Fault> {
        Ok(Connection { client: Client::connect_patient(&self.process.socket, PATIENCE)? })
    }

    /// Processor time of each thread so far, in nanoseconds.
    pub(crate) fn clock(&self) -> Result<Clock, Fault> {
        Clock::of(self.process.id())
    }

    /// Waits until background work is done.
    pub(crate) fn quiet(&self) -> Result<(), Fault> {
        let until = Instant::now() + QUIET_WAIT;
        let mut before = self.clock()?;
        while Instant::now() < until {
            sleep(QUIET_LOOK);
            let now = self.clock()?;
            if now.since(&before) < QUIET_LOOK.as_secs_f64() * 1e6 * QUIET_SHARE {
                return Ok(());
            }
            before = now;
        }
        eprintln!("the engine did not become quiet within {QUIET_WAIT:?}");
        Ok(())
    }

    /// Resident memory now and at its highest, in MiB.
    pub(crate) fn resident_mib(&self) -> Result<(f64, f64), Fault> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let of = |name: &str| -> Option<f64> {
            let line = status.lines().find(|line| line.starts_with(name))?;
            Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
        };
        of("VmRSS:").zip(of("VmHWM:")).ok_or_else(|| "no memory in /proc".into())
    }

    /// Of the resident memory, what is the process's own and no mapped file, in MiB.
    pub(crate) fn anonymous_mib(&self) -> Result<f64, Fault> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find(|line| line.starts_with("RssAnon:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        kibibytes.map(|k| k / 1024.0).ok_or_else(|| "no memory in /proc".into())
    }

    /// Bytes of its data on disk, by the blocks that the files take.
    pub(crate) fn disk_bytes(&self) -> Result<u64, Fault> {
        disk_bytes(&self.folder.join("data"))
    }
}

/// Bytes that all files below a folder take.
pub(crate) fn disk_bytes(folder: &Path) -> Result<u64, Fault> {
    use std::os::unix::fs::MetadataExt as _;
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A file may go between the list and the look.
        let Ok(metadata) = entry.metadata() else { continue };
        sum += match metadata.is_dir() {
            true => disk_bytes(&entry.path())?,
            false => metadata.blocks() * 512,
        };
    }
    Ok(sum)
}

/// Processor time of a process's threads at a moment.
pub(crate) struct Clock(HashMap<u64, u64>);

impl Clock {
    /// Reads it.
    pub(crate) fn of(id: u32) -> Result<Self, Fault> {
        let mut threads = HashMap::new();
        for entry in fs::read_dir(format!("/proc/{id}/task"))? {
            let path = entry?.path();
            let thread = path.file_name().and_then(|name| name.to_str()?.parse().ok());
            // A thread may end between the list and the look.
            let Ok(times) = fs::read_to_string(path.join("schedstat")) else { continue };
            let spent = times.split(' ').next().and_then(|first| first.parse().ok());
            let (thread, spent) = thread.zip(spent).ok_or("schedstat is not as in proc(5)")?;
            threads.insert(thread, spent);
        }
        Ok(Self(threads))
    }

    /// Microseconds since an earlier moment; threads that ended in between are not in it.
    pub(crate) fn since(&self, earlier: &Self) -> f64 {
        let one = |(thread, now): (&u64, &u64)| {
            now.saturating_sub(earlier.0.get(thread).copied().unwrap_or(0))
        };
        self.0.iter().map(one).sum::<u64>() as f64 / 1e3
    }
}

/// One connection.
pub(crate) struct Connection {
    client: Client,
}

impl Connection {
    /// A request whose answer must have one of these statuses.
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
        let said: String = String::from_utf8_lossy(answer.body).chars().take(500).collect();
        Err(format!("{method} {path} answered {}: {said}", answer.status).into())
    }

    /// Makes something by `POST`.
    pub(crate) fn make(&mut self, path: &str, body: &Value) -> Result<(), Fault> {
        self.call("POST", path, body.to_string().as_bytes(), &[200, 201, 202]).map(|_| ())
    }

    /// Inserts documents that stand as a JSON array.
    pub(crate) fn insert(&mut self, collection: &str, documents: &[u8]) -> Result<(), Fault> {
        let path = format!("/_api/document/{collection}?silent=true");
        let body = self.call("POST", &path, documents, &[201, 202])?;
        match body {
            b"[]" | b"{}" | b"" => Ok(()),
            said => Err(format!("an insert failed: {}", String::from_utf8_lossy(said)).into()),
        }
    }

    /// Runs a query; the whole answer.
    pub(crate) fn query(&mut self, query: &str, binds: &Value) -> Result<Value, Fault> {
        let body = cursor_body(query, binds);
        Ok(serde_json::from_slice(self.call("POST", "/_api/cursor", &body, &[201])?)?)
    }
}

/// The body of a query.
pub(crate) fn cursor_body(query: &str, binds: &Value) -> Vec<u8> {
    json!({"query": query, "bindVars": binds}).to_string().into_bytes()
}

/// One query that was timed.
pub(crate) struct Timed {
    /// Keys in the order of the answer.
    pub(crate) keys: Vec<u64>,
    /// Microseconds: seen from outside, of the engine's threads, and what the engine says of the run.
    pub(crate) wall: f64,
    pub(crate) cpu: f64,
    pub(crate) inside: f64,
}

/// Runs a query that returns keys (or arrays that begin with one) and takes its times.
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
