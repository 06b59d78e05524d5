//! Measures vctx through its public socket. For comparison, also measures the best performance that
//! this machine allows.

mod agent;
mod bench;
mod calls;
mod child;
mod client;
mod echo;
mod engine;
mod load;
mod machine;
mod meters;
mod options;
mod proxy;
mod report;
mod session;
mod slo;
mod store;
mod turns;
mod vectors;

use std::process::ExitCode;

use clap::Parser as _;

use options::{Command, CommandLine};

/// The reason why a measurement failed, as a text for the user.
type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Exit codes (sysexits) for a wrong command line and for a failed measurement.
const EXIT_USAGE: u8 = 64;
const EXIT_FAILED: u8 = 70;

fn main() -> ExitCode {
    let line = match CommandLine::try_parse() {
        Ok(line) => line,
        Err(fault) => {
            // If stderr is closed, the message cannot be printed. This program ignores that error.
            fault.print().ok();
            return if fault.use_stderr() { ExitCode::from(EXIT_USAGE) } else { ExitCode::SUCCESS };
        }
    };
    let outcome = match line.command {
        Command::Echo { socket } => echo::serve(&socket),
        Command::Relay { socket, upstream } => proxy::relay(&socket, &upstream),
        Command::Proxy(options) => proxy::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Run(options) => turns::run(&options),
        Command::Slo(options) => slo::run(&options),
        Command::Engine(options) => engine::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("vctx-loadtest: {fault}");
            ExitCode::from(EXIT_FAILED)
        }
    }
}
