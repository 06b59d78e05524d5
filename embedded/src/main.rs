//! `arango-embedded`: starts the engine on one or two Unix sockets.

mod command;

fn main() -> std::process::ExitCode {
    command::main()
}
