//! `vctx engine`: runs the database engine as a separate process, which the demo and the crash
//! tests use.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::app;
use crate::args;

/// Run the database engine alone; its first start creates the user root with the password in
/// ARANGO_ROOT_PASSWORD, or with a random password in root.password of the data directory
#[derive(Debug, Args)]
pub struct Engine {
    /// Socket for reads and writes
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,

    /// Socket for reads only
    #[arg(long, value_name = "PATH")]
    ro_socket: Option<PathBuf>,

    /// Directory of the data
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
}

/// Runs `vctx engine`.
pub fn run(engine: Engine) -> ExitCode {
    app::engine(&app::EngineOptions {
        socket: args::absolute(engine.socket),
        ro_socket: engine.ro_socket.map(args::absolute),
        data_dir: args::absolute(engine.data_dir),
    })
}
