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
use crate::meters::{ProcessorTime, Samples, process_micros};
use crate::options::BenchOptions;
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

/// A measured program of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// The program itself.
    Measured,
    /// The program with which it is compared.
    Against,
}

/// A measured call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BenchTarget {
    Echo,
    Log { sync: bool },
    Fjall,
    Vctx { tool: Tool, durable: bool, build: Build },
}

/// One row of the benchmark's report.
pub(crate) struct BenchCase {
    pub(crate) target: BenchTarget,
    pub(crate) clients: usize,
    pub(crate) measured: Measured,
    /// Processor time of the server's process, in microseconds.
    pub(crate) processor: f64,
    /// Processor time of the server's threads by name, in microseconds.
    pub(crate) threads: BTreeMap<String, f64>,
}

/// The processes and the store that the benchmark measures.
struct BenchProcesses {
    folder: PathBuf,
    echo: Process,
    /// Servers by build and durability.
    servers: Vec<(Build, bool, Process)>,
    store: BareStore,
}

/// Measures all cases and writes the report.
pub(crate) fn run(options: &BenchOptions) -> Result<(), Fault> {
    let common = &options.options.common;
    let session = Session::begin(common)?;
    let mut cases = cases(options.against.is_some());
    cases
        .retain(|case| options.only.as_ref().is_none_or(|only| report::title(case).contains(only)));
    if cases.is_empty() {
        return Err("--only: no row's name contains the text".into());
    }
    let processes = BenchProcesses::prepare(&session, options)?;
    let time = common.time;
    let requests =
        processes.measure(&mut cases, time / u32::try_from(ROUNDS)?).map_err(|fault| {
            let tails = processes.servers.iter().map(|(_, _, server)| server.tail());
            let tails = tails.collect::<Vec<String>>().join("\n");
            format!("{fault}\n--- ends of the servers' logs ---\n{tails}")
        })?;
    for (_, _, server) in processes.servers {
        server.stop()?;
    }
    processes.echo.stop()?;
    let text = report::markdown(session.head("Load bench"), time, ROUNDS, &cases, &requests);
    session.publish(&text, &text)
}

fn cases(is_compared: bool) -> Vec<BenchCase> {
    let mut list = Vec::new();
    let mut add = |target, clients| {
        let (measured, threads) = (Measured::new(clients), BTreeMap::new());
        list.push(BenchCase { target, clients, measured, processor: 0.0, threads });
    };
    add(BenchTarget::Log { sync: false }, 1);
    add(BenchTarget::Log { sync: true }, 1);
    add(BenchTarget::Fjall, 1);
    let builds = [Build::Measured, Build::Against];
    let builds = &builds[..if is_compared { 2 } else { 1 }];
    for clients in CLIENTS {
        add(BenchTarget::Echo, clients);
        for tool in [Tool::Append, Tool::StoreCore] {
            for durable in [true, false] {
                for build in builds {
                    add(BenchTarget::Vctx { tool, durable, build: *build }, clients);
                }
            }
        }
    }
    for durable in [true, false] {
        for build in builds {
            add(BenchTarget::Vctx { tool: Tool::Evict, durable, build: *build }, 1);
        }
    }
    list
}

impl BenchProcesses {
    fn prepare(session: &Session<'_>, options: &BenchOptions) -> Result<Self, Fault> {
        let mut programs =
            vec![(Build::Measured, program(options.options.vctx.as_deref(), "vctx")?)];
        programs.extend(options.against.clone().map(|other| (Build::Against, other)));
        let mut servers = Vec::new();
        for (build, program) in programs {
            for durable in [true, false] {
                let folder = session.subfolder(&format!("{build:?}-{durable}"))?;
                let settings = [("VCTX_STORE__DURABLE", if durable { "true" } else { "false" })];
                servers.push((build, durable, Process::server(&program, &folder, &settings)?));
            }
        }
        Ok(Self {
            folder: session.folder().to_owned(),
            echo: echo::start(&session.subfolder("echo")?)?,
            servers,
            store: BareStore::open(&session.folder().join("fjall"))?,
        })
    }

    fn server(&self, durable: bool, build: Build) -> &Process {
        let mut servers = self.servers.iter();
        let found = servers.find(|(other, syncs, _)| (*other, *syncs) == (build, durable));
        &found.expect("each build has two servers").2
    }

    fn measure(
        &self,
        cases: &mut [BenchCase],
        time: Duration,
    ) -> Result<Vec<(Tool, Requests)>, Fault> {
        Measured::new(1).run(WARM, self.operations(BenchTarget::Echo, 1, "warm")?)?;
        for (build, durable, _) in &self.servers {
            let target = BenchTarget::Vctx { tool: Tool::Append, durable: *durable, build: *build };
            Measured::new(1).run(WARM, self.operations(target, 1, "warm")?)?;
        }
        for round in 0..ROUNDS {
            for case in &mut *cases {
                eprintln!("round {} of {ROUNDS}: {}", round + 1, report::title(case));
                self.measure_one(case, round, time)?;
            }
        }
        let tools = [Tool::Append, Tool::StoreCore, Tool::Evict];
        tools.into_iter().map(|tool| Ok((tool, self.requests(tool)?))).collect()
    }

    fn measure_one(&self, case: &mut BenchCase, round: usize, time: Duration) -> Result<(), Fault> {
        let operations = self.operations(case.target, case.clients, &round.to_string())?;
        let id = match case.target {
            BenchTarget::Vctx { durable, build, .. } => self.server(durable, build).id(),
            BenchTarget::Echo => self.echo.id(),
            BenchTarget::Log { .. } | BenchTarget::Fjall => {
                return case.measured.run(time, operations);
            }
        };
        let before = (ProcessorTime::of(id)?, process_micros(id)?);
        case.measured.run(time, operations)?;
        case.processor += process_micros(id)? - before.1;
        for (name, micros) in ProcessorTime::of(id)?.by_thread(&before.0) {
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
                BenchTarget::Vctx { tool, durable, build } => {
                    let name = format!("{}-{clients}-{client}-{round}", tool.name());
                    Ok(Calls::new(&self.server(durable, build).socket, &name, tool)?.operation())
                }
            }
        };
        (0..clients).map(one).collect()
    }

    /// Returns the mean number of database requests that one call causes, from the counters of an
    /// idle server.
    fn requests(&self, tool: Tool) -> Result<Requests, Fault> {
        let socket = &self.server(true, Build::Measured).socket;
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
