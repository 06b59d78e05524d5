//! `vctx serve`: starts the server.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::app;
use crate::args;

const EXAMPLES: &str = "\
Without options and configuration, the server creates an embedded database in the data directory, and listens on the default socket of all commands.

Examples:
  vctx serve
  vctx serve --data-dir ./memory --socket ./vctx.sock
  ARANGO_RO_UDS=/run/arangod/ro.sock ARANGO_RW_UDS=/run/arangod/rw.sock ARANGO_USER=vctx ARANGO_PASSWORD_FILE=./password vctx serve

Environment: ARANGO_RO_UDS, ARANGO_RW_UDS, ARANGO_USER, ARANGO_PASSWORD or ARANGO_PASSWORD_FILE, ARANGO_RO_USER, ARANGO_RO_PASSWORD,
ARANGO_DB (default vctx). If ARANGO_RW_UDS is set, the server does not start the embedded database. A password that is in neither of its
variables is read from $CREDENTIALS_DIRECTORY: arango-password, arango-ro-password.

Under a service manager (systemd), the server takes over sockets with the names `api` and `metrics` (FileDescriptorName=). It supports
Type=notify and WatchdogSec=. Example units are in deploy/systemd.";

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

    /// Time without a connection after which the server ends [default: never]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    idle_exit_s: Option<u64>,
}

/// Runs `vctx serve`.
pub fn run(serve: Serve) -> ExitCode {
    app::serve(&app::ServeOptions {
        socket: serve.socket.map(args::absolute),
        data_dir: serve.data_dir.map(args::absolute),
        config: serve.config,
        idle_exit: serve.idle_exit_s.map(Duration::from_secs),
    })
}
