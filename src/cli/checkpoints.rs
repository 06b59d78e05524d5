//! `vctx checkpoints`: changes the key with which a server signs the heads of ledgers.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::app;
use crate::args;
use crate::exit::Failure;
use crate::output;

const HELP: &str = "\
The server signs the heads of ledgers with a key in its data directory (docs/explanation/proof.md). `rotate` makes a new key. The former key
signs that the new one follows, so that `vctx verify --key` also accepts the former public key. The new key signs the newest heads again.
Stop the server first. If the command is killed, either key is in use afterwards: run the command again.
After a theft of the former key, use only the new public key: a thief can name another successor.

Examples:
  vctx checkpoints rotate                                     the server with the default socket
  vctx checkpoints rotate --config /etc/vctx/config.toml      the server with this configuration
  vctx checkpoints rotate --data-dir ./memory --socket ./vctx.sock";

/// Change the key with which a server signs the heads of ledgers
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Checkpoints {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a new key; the former key signs that the new one follows
    Rotate(Rotate),
}

#[derive(Debug, Args)]
struct Rotate {
    /// Socket of the server [default: that of the configuration]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Directory of the server's data [default: that of the configuration]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Configuration file of the server
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Answer in JSON, including errors
    #[arg(long)]
    json: bool,
}

impl Checkpoints {
    /// Returns whether the answer is JSON.
    pub fn json(&self) -> bool {
        let Action::Rotate(rotate) = &self.action;
        rotate.json
    }
}

/// Runs `vctx checkpoints`.
pub async fn run(asked: Checkpoints) -> Result<(), Failure> {
    let Action::Rotate(rotate) = asked.action;
    let (former, key) = app::rotate(&app::ServeOptions {
        socket: rotate.socket.map(args::absolute),
        data_dir: rotate.data_dir.map(args::absolute),
        config: rotate.config,
        idle_exit: None,
    })
    .map_err(Failure::data)?;
    let told = json!({"former": former, "key": key});
    output::told(rotate.json, &told, |_| {
        format!("former public key: {former}\npublic key:        {key}")
    })
}
