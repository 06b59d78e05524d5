//! The benchmark: measures vctx, an HTTP echo and the disk alternately, in several rounds, so that
//! a disturbance affects every measure alike.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::Fault;
use crate::calls::{Calls, Tool, append_body};
use crate::child::Process;
use crate::echo;
use crate::load::{Measured, Operation};
use crate::meters::{ProcessorTime, Samples};
use crate::options::Options;
use crate::report::{self, Requests};
use crate::session::{Session, program};
use crate::store::{BareStore, log};

/// Number of rounds over all measures.
const ROUNDS: usize = 3;
/// Numbers of parallel clients to measure with.
const CLIENTS: [usize; 3] = [1, 8, 64];
/// Warm-up time of each process before measurements are recorded.
const WARM: Duration = Duration::from_millis(300);
/// Number of calls over which database requests are counted.
const COUNTED_CALLS: u32 = 10;

/// A measured call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BenchTarget {
    Echo,
    Log { sync: bool },
    Fjall,
    Vctx { tool: Tool, durable: bool },
}

/// One row of the benchmark's report.
pub(crate) struct BenchCase {
    pub(crate) target: BenchTarget,
    pub(crate) clients: usize,
    pub(crate) measured: Measured,
    /// Processor time of the server's threads by name, in microseconds.
    pub(crate) threads: BTreeMap<String, f64>,
}

/// The processes and the store that the benchmark measures.
struct BenchProcesses {
    folder: PathBuf,
    echo: Process,
    durable: Process,
    fast: Process,
    store: BareStore,
}

/// Measures all cases and writes the report.
pub(crate) fn run(options: &Options) -> Result<(), Fault> {
    let session = Session::begin(&options.common)?;
    let processes = BenchProcesses::prepare(&session, options)?;
    let time = options.common.time;
    let (cases, requests) = processes.measure(time / u32::try_from(ROUNDS)?).map_err(|fault| {
        let (durable, fast) = (processes.durable.tail(), processes.fast.tail());
        format!("{fault}\n--- ends of the servers' logs ---\n{durable}\n{fast}")
    })?;
    for process in [processes.durable, processes.fast, processes.echo] {
        process.stop()?;
    }
    let text = report::markdown(session.head("Load bench"), time, ROUNDS, &cases, &requests);
    session.publish(&text, &text)
}

fn cases() -> Vec<BenchCase> {
    let mut list = Vec::new();
    let mut add = |target, clients| {
        let (measured, threads) = (Measured::new(clients), BTreeMap::new());
        list.push(BenchCase { target, clients, measured, threads });
    };
    add(BenchTarget::Log { sync: false }, 1);
    add(BenchTarget::Log { sync: true }, 1);
    add(BenchTarget::Fjall, 1);
    for clients in CLIENTS {
        add(BenchTarget::Echo, clients);
        for tool in [Tool::Append, Tool::StoreCore] {
            for durable in [true, false] {
                add(BenchTarget::Vctx { tool, durable }, clients);
            }
        }
    }
    for durable in [true, false] {
        add(BenchTarget::Vctx { tool: Tool::Evict, durable }, 1);
    }
    list
}

impl BenchProcesses {
    fn prepare(session: &Session<'_>, options: &Options) -> Result<Self, Fault> {
        let program = program(options.vctx.as_deref(), "vctx")?;
        let server = |name, durable| {
            let settings = [("VCTX_STORE__DURABLE", durable)];
            Process::server(&program, &session.subfolder(name)?, &settings)
        };
        Ok(Self {
            folder: session.folder().to_owned(),
            echo: echo::start(&session.subfolder("echo")?)?,
            durable: server("durable", "true")?,
            fast: server("fast", "false")?,
            store: BareStore::open(&session.folder().join("fjall"))?,
        })
    }

    fn server(&self, durable: bool) -> &Process {
        if durable { &self.durable } else { &self.fast }
    }

    fn measure(&self, time: Duration) -> Result<(Vec<BenchCase>, Vec<(Tool, Requests)>), Fault> {
        for target in [BenchTarget::Echo].into_iter().chain([true, false].map(appending)) {
            Measured::new(1).run(WARM, self.operations(target, 1, "warm")?)?;
        }
        let mut cases = cases();
        for round in 0..ROUNDS {
            for case in &mut cases {
                eprintln!("round {} of {ROUNDS}: {}", round + 1, report::title(case));
                self.measure_one(case, round, time)?;
            }
        }
        let tools = [Tool::Append, Tool::StoreCore, Tool::Evict];
        let requests = tools.into_iter().map(|tool| Ok((tool, self.requests(tool)?)));
        let requests = requests.collect::<Result<_, Fault>>()?;
        Ok((cases, requests))
    }

    fn measure_one(&self, case: &mut BenchCase, round: usize, time: Duration) -> Result<(), Fault> {
        let operations = self.operations(case.target, case.clients, &round.to_string())?;
        let BenchTarget::Vctx { durable, .. } = case.target else {
            return case.measured.run(time, operations);
        };
        let id = self.server(durable).id();
        let before = ProcessorTime::of(id)?;
        case.measured.run(time, operations)?;
        for (name, micros) in ProcessorTime::of(id)?.by_thread(&before) {
            *case.threads.entry(name.to_owned()).or_insert(0.0) += micros;
        }
        Ok(())
    }

    fn operations(
        &self,
        target: BenchTarget,
        clients: usize,
        round: &str,
    ) -> Result<Vec<Operation>, Fault> {
        let one = |client: usize| -> Result<Operation, Fault> {
            match target {
                BenchTarget::Echo => echo::calls(&self.echo.socket, append_body(client)),
                BenchTarget::Log { sync } => {
                    let path = self.folder.join(format!("log-{sync}-{round}"));
                    log(&path, append_body(client), sync)
                }
                BenchTarget::Fjall => Ok(self.store.inserts(vec![append_body(client)])),
                BenchTarget::Vctx { tool, durable } => {
                    let name = format!("{}-{clients}-{client}-{round}", tool.name());
                    Ok(Calls::new(&self.server(durable).socket, &name, tool)?.operation())
                }
            }
        };
        (0..clients).map(one).collect()
    }

    /// Returns the mean number of database requests that one call causes, from the counters of an
    /// idle server.
    fn requests(&self, tool: Tool) -> Result<Requests, Fault> {
        let socket = &self.durable.socket;
        let mut calls = Calls::new(socket, &format!("requests-{}", tool.name()), tool)?;
        let mut sums = Requests::default();
        // The first call of a new agent loads the agent's core into the cache. Later calls of the
        // agent find the core in the cache.
        calls.prepare()?;
        calls.make()?;
        for _ in 0..COUNTED_CALLS {
            calls.prepare()?;
            let before = Samples::scrape(socket)?;
            calls.make()?;
            let after = Samples::scrape(socket)?;
            let more = |name, label| after.sum(name, label) - before.sum(name, label);
            sums.reads += more("vctx_store_trips_total", "socket=\"ro\"");
            sums.writes += more("vctx_store_trips_total", "socket=\"rw\"");
            sums.all += more("vctx_store_requests_total", "");
        }
        for sum in [&mut sums.reads, &mut sums.writes, &mut sums.all] {
            *sum /= f64::from(COUNTED_CALLS);
        }
        Ok(sums)
    }
}

fn appending(durable: bool) -> BenchTarget {
    BenchTarget::Vctx { tool: Tool::Append, durable }
}
