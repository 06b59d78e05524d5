//! The bench: floors and calls in turns, in several rounds, so that what disturbs the machine disturbs all of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Fault;
use crate::arguments::Options;
use crate::child::Process;
use crate::disk::{Fjall, log};
use crate::load::{Measured, Operation};
use crate::machine;
use crate::meters::{Samples, thread_seconds};
use crate::report::{self, Trips};
use crate::tools::{Agent, Tool, append_body, echo};

/// Rounds over all measures.
const ROUNDS: usize = 3;
/// Numbers of clients.
const CLIENTS: [usize; 3] = [1, 8, 64];
/// Time for which each process is warmed before anything is recorded.
const WARM: Duration = Duration::from_millis(300);
/// Calls over which trips are counted.
const TRIP_CALLS: u32 = 10;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Echo,
    Log { sync: bool },
    Fjall,
    Vctx { tool: Tool, durable: bool },
}

/// One row of the report.
pub(crate) struct Case {
    pub(crate) what: What,
    pub(crate) clients: usize,
    pub(crate) measured: Measured,
    /// Processor time of the server's threads meanwhile, in seconds.
    pub(crate) threads: BTreeMap<String, f64>,
}

/// Everything that is loaded.
struct Stage {
    folder: PathBuf,
    echo: Process,
    durable: Process,
    fast: Process,
    fjall: Fjall,
}

/// Measures and reports.
pub(crate) fn run(options: &Options) -> Result<(), Fault> {
    let folder = match &options.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let load_before = machine::load_average();
    let stage = Stage::prepare(folder.path(), &program(options)?)?;
    let outcome = stage.measure(options.time / u32::try_from(ROUNDS)?);
    let (cases, trips) = match outcome {
        Ok(measured) => measured,
        Err(fault) => {
            return Err(format!("{fault}\n--- the server said last ---\n{}", stage.tails()).into());
        }
    };
    stage.stop()?;
    let origin = report::Origin {
        commit: options.commit.clone().unwrap_or_else(machine::commit),
        given: options.vctx.is_some(),
        disk: machine::file_system(folder.path()),
        load_before,
        time: options.time,
        rounds: ROUNDS,
    };
    let text = report::markdown(&origin, &cases, &trips);
    println!("{text}");
    if let Some(out) = &options.out {
        fs::write(out, &text).map_err(|e| format!("{}: {e}", out.display()))?;
    }
    Ok(())
}

/// The server's program: the one given, or the one beside this program.
pub(crate) fn program(options: &Options) -> Result<PathBuf, Fault> {
    let path = match &options.vctx {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("vctx"),
    };
    if path.is_file() {
        return Ok(path.canonicalize()?);
    }
    Err(format!("{} is not there: `cargo build`, or give --vctx PROGRAM", path.display()).into())
}

fn cases() -> Vec<Case> {
    let mut list = Vec::new();
    let mut add = |what, clients| {
        let (measured, threads) = (Measured::new(clients), BTreeMap::new());
        list.push(Case { what, clients, measured, threads });
    };
    add(What::Log { sync: false }, 1);
    add(What::Log { sync: true }, 1);
    add(What::Fjall, 1);
    for clients in CLIENTS {
        add(What::Echo, clients);
        for tool in [Tool::Append, Tool::StoreCore] {
            for durable in [true, false] {
                add(What::Vctx { tool, durable }, clients);
            }
        }
    }
    for durable in [true, false] {
        add(What::Vctx { tool: Tool::Evict, durable }, 1);
    }
    list
}

impl Stage {
    fn prepare(folder: &Path, program: &Path) -> Result<Self, Fault> {
        let echo_folder = made(folder, "echo")?;
        let socket = echo_folder.join("echo.sock");
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("echo").arg("--socket").arg(&socket);
        let echo = Process::start(command, &echo_folder, socket, |_| Ok(true))?;
        Ok(Self {
            folder: folder.to_owned(),
            echo,
            durable: serve(program, &made(folder, "durable")?, true)?,
            fast: serve(program, &made(folder, "fast")?, false)?,
            fjall: Fjall::open(folder)?,
        })
    }

    fn server(&self, durable: bool) -> &Process {
        if durable { &self.durable } else { &self.fast }
    }

    fn measure(&self, time: Duration) -> Result<(Vec<Case>, Vec<(Tool, Trips)>), Fault> {
        for what in [What::Echo].into_iter().chain([true, false].map(appending)) {
            Measured::new(1).run(WARM, self.operations(what, 1, "warm")?)?;
        }
        let mut cases = cases();
        for round in 0..ROUNDS {
            for case in &mut cases {
                eprintln!("round {} of {ROUNDS}: {}", round + 1, report::title(case));
                self.measure_one(case, round, time)?;
            }
        }
        let mut trips = Vec::new();
        for tool in [Tool::Append, Tool::StoreCore, Tool::Evict] {
            trips.push((tool, self.trips(tool)?));
        }
        Ok((cases, trips))
    }

    fn measure_one(&self, case: &mut Case, round: usize, time: Duration) -> Result<(), Fault> {
        let operations = self.operations(case.what, case.clients, &round.to_string())?;
        let What::Vctx { durable, .. } = case.what else {
            return case.measured.run(time, operations);
        };
        let id = self.server(durable).id();
        let before = thread_seconds(id)?;
        case.measured.run(time, operations)?;
        for (name, seconds) in thread_seconds(id)? {
            let spent = seconds - before.get(&name).copied().unwrap_or(0.0);
            *case.threads.entry(name).or_insert(0.0) += spent.max(0.0);
        }
        Ok(())
    }

    fn operations(&self, what: What, clients: usize, round: &str) -> Result<Vec<Operation>, Fault> {
        let one = |client: usize| -> Result<Operation, Fault> {
            match what {
                What::Echo => echo(&self.echo.socket, client),
                What::Log { sync } => {
                    log(&self.folder, &format!("log-{sync}-{round}"), append_body(client), sync)
                }
                What::Fjall => Ok(self.fjall.insert(append_body(client))),
                What::Vctx { tool, durable } => {
                    let name = format!("{}-{clients}-{client}-{round}", tool.name());
                    let agent = Agent::create(&self.server(durable).socket, &name, tool)?;
                    Ok(agent.operation(tool))
                }
            }
        };
        (0..clients).map(one).collect()
    }

    /// Database requests of single calls with nothing else going on, by the server's own count.
    fn trips(&self, tool: Tool) -> Result<Trips, Fault> {
        let socket = &self.durable.socket;
        let mut agent = Agent::create(socket, &format!("trips-{}", tool.name()), tool)?;
        let mut trips = Trips::default();
        // The first call of a new agent loads its core; the others find it in the cache.
        agent.prepare(tool)?;
        agent.make(tool)?;
        for _ in 0..TRIP_CALLS {
            agent.prepare(tool)?;
            let before = Samples::scrape(socket)?;
            agent.make(tool)?;
            let after = Samples::scrape(socket)?;
            let more = |name, label| after.sum(name, label) - before.sum(name, label);
            trips.reads += more("vctx_store_trips_total", "socket=\"ro\"");
            trips.writes += more("vctx_store_trips_total", "socket=\"rw\"");
            trips.requests += more("vctx_store_requests_total", "");
        }
        for sum in [&mut trips.reads, &mut trips.writes, &mut trips.requests] {
            *sum /= f64::from(TRIP_CALLS);
        }
        Ok(trips)
    }

    fn tails(&self) -> String {
        format!("{}\n{}", self.durable.tail(), self.fast.tail())
    }

    fn stop(self) -> Result<(), Fault> {
        self.durable.stop()?;
        self.fast.stop()?;
        self.echo.stop()
    }
}

fn appending(durable: bool) -> What {
    What::Vctx { tool: Tool::Append, durable }
}

fn made(folder: &Path, name: &str) -> Result<PathBuf, Fault> {
    let path = folder.join(name);
    fs::create_dir(&path)?;
    Ok(path)
}

fn serve(program: &Path, folder: &Path, durable: bool) -> Result<Process, Fault> {
    let socket = folder.join("vctx.sock");
    let mut command = Command::new(program);
    command.arg("serve").arg("--socket").arg(&socket).arg("--data-dir").arg(folder.join("data"));
    command.env("VCTX_STORE__DURABLE", durable.to_string());
    Process::start(command, folder, socket, |client| {
        Ok(client.call("GET", "/readyz", "", b"")?.status == 200)
    })
}
