//! `vctx setup`: creates the database with its collections, indexes, graph, views and users at an
//! endpoint.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::app;

const EXAMPLES: &str = "\
The endpoint comes from the environment: ARANGO_RW_UDS, ARANGO_USER, ARANGO_PASSWORD or ARANGO_PASSWORD_FILE, ARANGO_DB.
A second run changes nothing, except that --users sets the passwords of the users again.

Example:
  ARANGO_RW_UDS=/run/arangod/rw.sock ARANGO_USER=root ARANGO_PASSWORD_FILE=./password vctx setup";

/// Prepare a database
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Setup {
    /// Answer in JSON
    #[arg(long)]
    json: bool,

    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Also create the users vctx_rw, vctx_ro and vctx_index, with the passwords of
    /// ARANGO_RW_PASSWORD, ARANGO_RO_PASSWORD and ARANGO_INDEX_PASSWORD (or …_FILE)
    #[arg(long)]
    users: bool,
}

/// Runs `vctx setup`.
pub fn run(setup: Setup) -> ExitCode {
    app::setup(setup.config.as_deref(), setup.users, setup.json)
}
