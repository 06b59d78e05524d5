//! What a proxy adds: the same reads and writes of the engine directly, through a relay that only copies bytes, and through `vctx proxy`, in turns.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::net::{UnixListener, UnixStream};

use crate::Fault;
use crate::arguments::Options;
use crate::bench::program;
use crate::child::Process;
use crate::client::Client;
use crate::load::{Measured, Operation};
use crate::machine;

/// Rounds over all measures.
const ROUNDS: u32 = 5;
/// Numbers of clients.
const CLIENTS: [usize; 2] = [1, 8];
/// Documents that are read.
const DOCUMENTS: usize = 1_000;
/// Root's password on the engine that is made for this, and how a request bears it.
const PASSWORD: &str = "bench";
const HEADERS: &str = "authorization: Basic cm9vdDpiZW5jaA==\r\n";
/// What the added p99 may be of the relay's.
const GOAL: f64 = 1.5;

/// Copies bytes between a socket and another one until the process is ended: the floor of standing between.
pub(crate) fn relay(socket: &Path, upstream: &Path) -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = UnixListener::bind(socket)?;
        loop {
            let (mut client, _) = listener.accept().await?;
            let mut behind = UnixStream::connect(upstream).await?;
            tokio::spawn(async move {
                // A client that goes away is the end of its connection, no more.
                tokio::io::copy_bidirectional(&mut client, &mut behind).await.ok();
            });
        }
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Read,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Direct,
    Relay,
    Proxy,
}

impl What {
    fn title(self) -> &'static str {
        match self {
            Self::Read => "a document by its key, `ro`",
            Self::Write => "an insert, `rw`",
        }
    }

    fn body(self, number: usize) -> Value {
        match self {
            Self::Read => {
                json!({"query": "FOR d IN bench FILTER d._key == @key RETURN d", "batchSize": 5_000,
                    "bindVars": {"key": (number % DOCUMENTS).to_string()}})
            }
            Self::Write => {
                json!({"query": "INSERT { text: @text, at: @at } INTO bench_writes", "batchSize": 5_000,
                    "bindVars": {"text": "x".repeat(200), "at": number}})
            }
        }
    }
}

impl Way {
    fn title(self) -> &'static str {
        match self {
            Self::Direct => "directly",
            Self::Relay => "relay of bytes (floor)",
            Self::Proxy => "vctx proxy",
        }
    }
}

/// One row of the report.
struct Case {
    what: What,
    way: Way,
    clients: usize,
    measured: Measured,
}

/// The engine and everything before it.
struct Stage {
    engine: Process,
    relay: Process,
    reads: Process,
    writes: Process,
}

/// Measures and reports.
pub(crate) fn run(options: &Options) -> Result<(), Fault> {
    let folder = match &options.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let load_before = machine::load_average();
    let stage = Stage::prepare(folder.path(), &program(options)?)?;
    let mut cases = cases();
    for round in 0..ROUNDS {
        eprintln!("round {} of {ROUNDS}", round + 1);
        for case in &mut cases {
            let operations = (0..case.clients).map(|_| stage.operation(case.what, case.way));
            let operations = operations.collect::<Result<Vec<_>, Fault>>()?;
            case.measured.run(options.time / ROUNDS, operations)?;
        }
    }
    for process in [stage.reads, stage.writes, stage.engine] {
        process.stop()?;
    }
    // It knows no signal but the one that ends it.
    drop(stage.relay);
    let text = report(options, &load_before, &machine::file_system(folder.path()), &cases);
    println!("{text}");
    if let Some(out) = &options.out {
        fs::write(out, &text).map_err(|e| format!("{}: {e}", out.display()))?;
    }
    Ok(())
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for clients in CLIENTS {
        for what in [What::Read, What::Write] {
            for way in [Way::Direct, Way::Relay, Way::Proxy] {
                cases.push(Case { what, way, clients, measured: Measured::new(clients) });
            }
        }
    }
    cases
}

impl Stage {
    fn prepare(folder: &Path, program: &Path) -> Result<Self, Fault> {
        let place = |name: &str| -> Result<(PathBuf, PathBuf), Fault> {
            let path = folder.join(name);
            fs::create_dir(&path)?;
            let socket = path.join("s.sock");
            Ok((path, socket))
        };
        let (at, behind) = place("engine")?;
        let mut command = Command::new(program);
        command.arg("engine").arg("--socket").arg(&behind).arg("--data-dir").arg(at.join("data"));
        command.env("ARANGO_ROOT_PASSWORD", PASSWORD);
        let engine = Process::start(command, &at, behind.clone(), |client| {
            Ok(client.call("GET", "/_api/version", HEADERS, b"")?.status == 200)
        })?;
        fill(&mut Client::connect(&behind)?)?;
        let (at, socket) = place("relay")?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("relay").arg("--socket").arg(&socket).arg("--upstream").arg(&behind);
        let relay = Process::start(command, &at, socket, |_| Ok(true))?;
        let proxy = |mode: &str| -> Result<Process, Fault> {
            let (at, socket) = place(mode)?;
            let mut command = Command::new(program);
            command.arg("proxy").arg("--mode").arg(mode).arg("--listen").arg(&socket);
            command.arg("--upstream").arg(&behind);
            command.env("ARANGO_USER", "root").env("ARANGO_PASSWORD", PASSWORD);
            Process::start(command, &at, socket, |client| {
                Ok(client.call("GET", "/_api/version", HEADERS, b"")?.status == 200)
            })
        };
        Ok(Self { engine, relay, reads: proxy("ro")?, writes: proxy("rw")? })
    }

    fn operation(&self, what: What, way: Way) -> Result<Operation, Fault> {
        let socket = match (way, what) {
            (Way::Direct, _) => &self.engine.socket,
            (Way::Relay, _) => &self.relay.socket,
            (Way::Proxy, What::Read) => &self.reads.socket,
            (Way::Proxy, What::Write) => &self.writes.socket,
        };
        let mut client = Client::connect(socket)?;
        let mut number = 0;
        Ok(Box::new(move || {
            number += 1;
            let body = what.body(number).to_string();
            let begun = Instant::now();
            let answer = client.call("POST", "/_api/cursor", HEADERS, body.as_bytes())?;
            let took = begun.elapsed();
            match answer.status {
                201 => Ok(took),
                status => {
                    let said = String::from_utf8_lossy(answer.body);
                    Err(format!("{} answered {status}: {said}", way.title()).into())
                }
            }
        }))
    }
}

/// Two collections, one of them with documents to read.
fn fill(client: &mut Client) -> Result<(), Fault> {
    for name in ["bench", "bench_writes"] {
        let body = json!({"name": name}).to_string();
        let answer = client.call("POST", "/_api/collection", HEADERS, body.as_bytes())?;
        if answer.status != 200 {
            return Err(format!("a collection: {}", answer.status).into());
        }
    }
    let query = format!(
        "FOR i IN 0..{} INSERT {{ _key: TO_STRING(i), text: @text }} INTO bench",
        DOCUMENTS - 1
    );
    let body = json!({"query": query, "bindVars": {"text": "x".repeat(200)}}).to_string();
    let answer = client.call("POST", "/_api/cursor", HEADERS, body.as_bytes())?;
    match answer.status {
        201 => Ok(()),
        status => Err(format!("documents: {status}").into()),
    }
}

fn report(options: &Options, load_before: &str, disk: &str, cases: &[Case]) -> String {
    let mut text = String::from("# What a proxy adds\n\n");
    let mut line = |row: String| {
        text.push_str(&row);
        text.push('\n');
    };
    line(format!("- Machine: {}; {}", machine::hardware(), machine::kernel()));
    let commit = options.commit.clone().unwrap_or_else(machine::commit);
    line(format!("- Data on {disk}; commit {commit}; scheduling: {}", machine::scheduling()));
    line(format!("- Load average: {load_before} before, {} after", machine::load_average()));
    if machine::busy(load_before) {
        line("- **The machine was busy before this began**".to_owned());
    }
    line(format!(
        "- {ROUNDS} rounds in turns, {:.1} s for each measure over all rounds; engine, relay and proxies are processes of their own with one IO thread",
        options.time.as_secs_f64()
    ));
    line(
        "\n| What | Way | Clients | p50 µs | p99 µs | calls |\n|---|---|---|---|---|---|"
            .to_owned(),
    );
    for case in cases {
        let (p50, p99) = (case.measured.micros(0.5), case.measured.micros(0.99));
        let (what, way) = (case.what.title(), case.way.title());
        let (clients, calls) = (case.clients, case.measured.calls());
        line(format!("| {what} | {way} | {clients} | {p50:.0} | {p99:.0} | {calls} |"));
    }
    line(format!(
        "\nAdded to the way without anything between; the goal is a p99 of at most {GOAL} times the relay's.\n\n\
         | What | Clients | Quantile | relay adds µs | proxy adds µs | ratio |\n|---|---|---|---|---|---|"
    ));
    for three in cases.chunks(3) {
        for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
            let [direct, relay, proxy] = [0, 1, 2].map(|at| three[at].measured.micros(quantile));
            let (floor, added) = (relay - direct, proxy - direct);
            let (what, clients) = (three[0].what.title(), three[0].clients);
            let ratio = added / floor;
            line(format!("| {what} | {clients} | {name} | {floor:.0} | {added:.0} | {ratio:.2} |"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_ways_of_each_case_stand_together() {
        let cases = cases();
        assert_eq!(cases.len(), CLIENTS.len() * 2 * 3);
        for three in cases.chunks(3) {
            let ways: Vec<Way> = three.iter().map(|case| case.way).collect();
            assert_eq!(ways, [Way::Direct, Way::Relay, Way::Proxy]);
            assert!(three.iter().all(|c| c.what == three[0].what && c.clients == three[0].clients));
        }
    }
}
