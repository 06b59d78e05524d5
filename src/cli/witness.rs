//! `vctx witness`: keeps the newest checkpoints of servers, and cosigns what continues them.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::app;
use crate::args;

const HELP: &str = "\
A server with the setting `server.witness` sends each checkpoint to this witness. The witness keeps the newest one of each server, and cosigns
only what continues it. If the whole data of a server is put back to an earlier state, the witness refuses, and the server reports this in its
log, in `/readyz` and in vctx_witness_refused_total. Run the witness as another user, or on another machine behind a forwarded socket: a
writer to the server's data must not be able to write to the witness's data.

The witness prints its public key, which is also in the file key.pub of its directory. `vctx verify --witness-key KEY` checks the cosignatures.

Examples:
  vctx witness --listen /run/vctx-witness/witness.sock --data-dir /var/lib/vctx-witness
  VCTX_SERVER__WITNESS=/run/vctx-witness/witness.sock vctx serve";

/// Keep the newest checkpoints of servers, and cosign only what continues them
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Witness {
    /// Socket to listen on
    #[arg(long, value_name = "PATH")]
    listen: PathBuf,

    /// Directory of the key and of the newest checkpoints
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,

    /// Configuration file, of which only the section `log` is used
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs `vctx witness`.
pub fn run(witness: Witness) -> ExitCode {
    let (listen, data_dir) = (args::absolute(witness.listen), args::absolute(witness.data_dir));
    app::witness(&listen, &data_dir, witness.config.as_deref())
}
