//! Loads vctx over its public socket, and measures the floors of the machine beside it in the same run.

mod arguments;
mod bench;
mod child;
mod client;
mod disk;
mod echo;
mod engine;
mod load;
mod machine;
mod meters;
mod proxy;
mod report;
mod slo;
mod tools;
mod turns;

use std::process::ExitCode;

use arguments::{Command, USAGE};

/// What goes wrong here is told to a person, who looks at the machine.
type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Exit codes of sysexits: a wrong command line, a load that could not be run.
const EXIT_USAGE: u8 = 64;
const EXIT_FAILED: u8 = 70;

fn main() -> ExitCode {
    let outcome = match arguments::parse(std::env::args().skip(1)) {
        Ok(Command::Help) => {
            println!("{USAGE}");
            Ok(())
        }
        Ok(Command::Echo { socket }) => echo::serve(&socket),
        Ok(Command::Relay { socket, upstream }) => proxy::relay(&socket, &upstream),
        Ok(Command::Proxy(options)) => proxy::run(&options),
        Ok(Command::Bench(options)) => bench::run(&options),
        Ok(Command::Run(options)) => turns::run(&options),
        Ok(Command::Slo(options)) => slo::run(&options),
        Ok(Command::Engine(options)) => engine::run(&options),
        Err(fault) => {
            eprintln!("vctx-loadtest: {fault}\n\n{USAGE}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("vctx-loadtest: {fault}");
            ExitCode::from(EXIT_FAILED)
        }
    }
}
