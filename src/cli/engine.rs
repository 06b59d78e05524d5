//! `vctx engine`: the database engine as a process of its own, as the demo and the crash tests run it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::app;
use crate::args;

/// Run the database engine alone; its first start makes the user root with the password in ARANGO_ROOT_PASSWORD, else with a
/// random one in root.password of the data directory
#[derive(Debug, Args)]
pub struct Engine {
    /// Socket for reading and writing
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,

    /// Socket for reading only
    #[arg(long, value_name = "PATH")]
    ro_socket: Option<PathBuf>,

    /// Directory of the data
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
}

/// Runs the command.
pub fn run(engine: Engine) -> ExitCode {
    app::engine(&app::EngineOptions {
        socket: args::absolute(engine.socket),
        ro_socket: engine.ro_socket.map(args::absolute),
        data_dir: args::absolute(engine.data_dir),
    })
}
