//! `vctx man`: writes a manual page for each command, generated from the definitions of the command
//! line.

use std::fs;
use std::path::PathBuf;

use clap::Args;

use crate::run::tree;
use vctx_cli::exit::Failure;
use vctx_cli::output;

const EXAMPLES: &str = "\
Examples:
  vctx man --dir ./man
  man ./man/vctx-serve.1

The Debian package brings the pages along: man vctx, man vctx-serve.";

/// Write the manual pages
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Man {
    /// Directory to write to; created if it does not exist
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

/// Runs `vctx man`.
pub(crate) fn run(asked: &Man) -> Result<(), Failure> {
    let writing = |error: std::io::Error| Failure::writing(asked.dir.display(), &error);
    fs::create_dir_all(&asked.dir).map_err(writing)?;
    clap_mangen::generate_to(tree(), &asked.dir).map_err(writing)?;
    output::line(&format!("manual pages are in {}", asked.dir.display()))
}
