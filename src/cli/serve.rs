//! `vctx serve`: the server.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::app;
use crate::args;

const EXAMPLES: &str = "\
With nothing given the server makes its own database in the data directory and listens where all other commands look.

Examples:
  vctx serve
  vctx serve --data-dir ./memory --socket ./vctx.sock
  ARANGO_RO_UDS=/run/arangod/ro.sock ARANGO_RW_UDS=/run/arangod/rw.sock ARANGO_USER=vctx ARANGO_PASSWORD_FILE=./password vctx serve

Environment: ARANGO_RO_UDS, ARANGO_RW_UDS, ARANGO_USER, ARANGO_PASSWORD or ARANGO_PASSWORD_FILE, ARANGO_RO_USER, ARANGO_RO_PASSWORD,
ARANGO_DB (default vctx). When ARANGO_RW_UDS is set, no database is started. A password that is in neither variable is looked for in
$CREDENTIALS_DIRECTORY: arango-password, arango-ro-password.

Under a service manager (systemd): sockets called `api` and `metrics` (FileDescriptorName=) are taken over, Type=notify and WatchdogSec= are
answered; units are in deploy/systemd.";

/// Start the server
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Serve {
    /// Socket to listen on [default: $XDG_RUNTIME_DIR/vctx/vctx.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Directory of the data [default: $XDG_STATE_HOME/vctx]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// End when no connection has been open for this long [default: stay]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    idle_exit_s: Option<u64>,
}

/// Runs the command.
pub fn run(serve: Serve) -> ExitCode {
    app::serve(&app::ServeOptions {
        socket: serve.socket.map(args::absolute),
        data_dir: serve.data_dir.map(args::absolute),
        config: serve.config,
        idle_exit: serve.idle_exit_s.map(Duration::from_secs),
    })
}
