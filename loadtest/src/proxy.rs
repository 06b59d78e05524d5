//! Measures the cost of a proxy: sends the same requests to the engine directly, through a relay
//! that only copies bytes, and through `vctx proxy`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::net::{UnixListener, UnixStream};

use crate::Fault;
use crate::child::{Process, answers};
use crate::client::Client;
use crate::load::{Measured, Operation};
use crate::options::Options;
use crate::session::{Session, program};

/// Number of rounds; each round makes every measurement once.
const ROUNDS: u32 = 5;
/// Numbers of parallel clients to measure with.
const CLIENTS: [usize; 2] = [1, 8];
/// Number of documents that the proxy benchmark reads.
const DOCUMENTS: usize = 1_000;
/// Password of the user `root` on the measured engine, and the header with `root` and this
/// password.
const PASSWORD: &str = "bench";
const HEADERS: &str = "authorization: Basic cm9vdDpiZW5jaA==\r\n";
/// Goal: maximum p99 latency that a proxy adds, as a multiple of the p99 latency that the relay
/// adds.
const GOAL: f64 = 1.5;

/// Copies bytes between two sockets until the process ends. The cost of this relay is the minimum
/// cost of any proxy.
pub(crate) fn relay(socket: &Path, upstream: &Path) -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = UnixListener::bind(socket)?;
        loop {
            let (mut client, _) = listener.accept().await?;
            let mut server = UnixStream::connect(upstream).await?;
            tokio::spawn(async move {
                // An error here means that one client has disconnected, which must not end the
                // other connections.
                tokio::io::copy_bidirectional(&mut client, &mut server).await.ok();
            });
        }
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueryKind {
    Read,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Direct,
    Relay,
    Proxy,
}

impl QueryKind {
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
            Self::Relay => "relay of bytes",
            Self::Proxy => "vctx proxy",
        }
    }
}

/// One row of the proxy benchmark's report.
struct ProxyCase {
    kind: QueryKind,
    way: Way,
    clients: usize,
    measured: Measured,
}

/// The engine, and the relay and proxy processes that forward requests to the engine.
struct ProxyProcesses {
    engine: Process,
    relay: Process,
    reads: Process,
    writes: Process,
}

/// Measures all cases and prints the report.
pub(crate) fn run(options: &Options) -> Result<(), Fault> {
    let session = Session::begin(&options.common)?;
    let processes = ProxyProcesses::prepare(&session, options)?;
    let mut cases = cases();
    for round in 0..ROUNDS {
        eprintln!("round {} of {ROUNDS}", round + 1);
        for case in &mut cases {
            let operations = (0..case.clients).map(|_| processes.operation(case.kind, case.way));
            let operations = operations.collect::<Result<Vec<_>, Fault>>()?;
            case.measured.run(options.common.time / ROUNDS, operations)?;
        }
    }
    for process in [processes.reads, processes.writes, processes.engine] {
        process.stop()?;
    }
    // The relay does not handle SIGTERM. Dropping the `Process` of the relay kills the relay with
    // SIGKILL.
    drop(processes.relay);
    let head = session.head("Latency that a proxy adds");
    let text = report(head, options.common.time.as_secs_f64(), &cases);
    session.publish(&text, &text)
}

fn cases() -> Vec<ProxyCase> {
    let mut cases = Vec::new();
    for clients in CLIENTS {
        for kind in [QueryKind::Read, QueryKind::Write] {
            for way in [Way::Direct, Way::Relay, Way::Proxy] {
                cases.push(ProxyCase { kind, way, clients, measured: Measured::new(clients) });
            }
        }
    }
    cases
}

impl ProxyProcesses {
    fn prepare(session: &Session<'_>, options: &Options) -> Result<Self, Fault> {
        let program = program(options.vctx.as_deref(), "vctx")?;
        let place = |name: &str| -> Result<(PathBuf, PathBuf), Fault> {
            let folder = session.subfolder(name)?;
            let socket = folder.join("s.sock");
            Ok((folder, socket))
        };
        let (folder, upstream) = place("engine")?;
        let mut command = Command::new(&program);
        command.arg("engine").arg("--socket").arg(&upstream);
        command.arg("--data-dir").arg(folder.join("data"));
        command.env("ARANGO_ROOT_PASSWORD", PASSWORD);
        let ready = || answers("/_api/version", HEADERS);
        let engine = Process::start(command, &folder, upstream.clone(), ready())?;
        fill(&mut Client::connect(&upstream)?)?;
        let (folder, socket) = place("relay")?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("relay").arg("--socket").arg(&socket).arg("--upstream").arg(&upstream);
        let relay = Process::start(command, &folder, socket, |_| Ok(true))?;
        let proxy = |mode: &str| -> Result<Process, Fault> {
            let (folder, socket) = place(mode)?;
            let mut command = Command::new(&program);
            command.arg("proxy").arg("--mode").arg(mode).arg("--listen").arg(&socket);
            command.arg("--upstream").arg(&upstream);
            command.env("ARANGO_USER", "root").env("ARANGO_PASSWORD", PASSWORD);
            // The requests of this measurement name no database, which means `_system`.
            command.env("ARANGO_DB", "_system");
            Process::start(command, &folder, socket, ready())
        };
        Ok(Self { engine, relay, reads: proxy("ro")?, writes: proxy("rw")? })
    }

    fn operation(&self, kind: QueryKind, way: Way) -> Result<Operation, Fault> {
        let socket = match (way, kind) {
            (Way::Direct, _) => &self.engine.socket,
            (Way::Relay, _) => &self.relay.socket,
            (Way::Proxy, QueryKind::Read) => &self.reads.socket,
            (Way::Proxy, QueryKind::Write) => &self.writes.socket,
        };
        let mut client = Client::connect(socket)?;
        let mut number = 0;
        Ok(Box::new(move || {
            number += 1;
            let body = kind.body(number).to_string();
            let begun = Instant::now();
            let answer = client.call("POST", "/_api/cursor", HEADERS, body.as_bytes())?;
            let took = begun.elapsed();
            match answer.status {
                201 => Ok(took),
                status => {
                    let body = String::from_utf8_lossy(answer.body);
                    Err(format!("{} answered {status}: {body}", way.title()).into())
                }
            }
        }))
    }
}

/// Creates two collections, and fills one of the collections with documents to read.
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

fn report(head: String, seconds: f64, cases: &[ProxyCase]) -> String {
    let mut text = head;
    let mut line = |row: String| {
        text.push_str(&row);
        text.push('\n');
    };
    line(format!(
        "- {ROUNDS} rounds in turns, {seconds:.1} s for each row over all rounds; engine, relay and \
         proxies are processes of their own with one I/O thread"
    ));
    line(
        "\n| What | Way | Clients | p50 µs | p99 µs | calls |\n|---|---|---|---|---|---|"
            .to_owned(),
    );
    for case in cases {
        let (p50, p99) = (case.measured.micros(0.5), case.measured.micros(0.99));
        let (kind, way) = (case.kind.title(), case.way.title());
        let (clients, calls) = (case.clients, case.measured.calls());
        line(format!("| {kind} | {way} | {clients} | {p50:.0} | {p99:.0} | {calls} |"));
    }
    line(format!(
        "\nCompared with direct requests. The goal is that the proxy adds at most {GOAL} times as much to p99 as \
         the relay.\n\n\
         | What | Clients | Quantile | relay adds µs | proxy adds µs | ratio |\n|---|---|---|---|---|---|"
    ));
    for three in cases.chunks(3) {
        for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
            let [direct, relay, proxy] = [0, 1, 2].map(|at| three[at].measured.micros(quantile));
            let (floor, added) = (relay - direct, proxy - direct);
            let (kind, clients) = (three[0].kind.title(), three[0].clients);
            let ratio = added / floor;
            line(format!("| {kind} | {clients} | {name} | {floor:.0} | {added:.0} | {ratio:.2} |"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_ways_of_each_case_are_neighbours() {
        let cases = cases();
        assert_eq!(cases.len(), CLIENTS.len() * 2 * 3);
        for three in cases.chunks(3) {
            let ways: Vec<Way> = three.iter().map(|case| case.way).collect();
            assert_eq!(ways, [Way::Direct, Way::Relay, Way::Proxy]);
            assert!(three.iter().all(|c| c.kind == three[0].kind && c.clients == three[0].clients));
        }
    }
}
