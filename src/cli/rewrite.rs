//! `vctx rewrite`: removes forgotten data from the embedded engine's files.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::app;
use crate::args;
use crate::exit::Failure;
use crate::output;
use vctx_client::paths;

const HELP: &str = "\
Forgotten and removed data leaves bytes in the files of the embedded engine until the files are rewritten. This command copies all live data
into new files and removes the old files; the engine builds its views again at the next start. Stop the server first. The command needs as
much free disk space as the live data takes. If the command is killed, either the old files or the new files remain: run the command again.

If you run ArangoDB instead of the embedded engine, compact ArangoDB's files instead: docs/how-to/forget.md.

Examples:
  vctx rewrite                              the data in the default directory
  vctx rewrite --data-dir /var/lib/vctx-engine";

/// Write the embedded engine's data into new files, so that no forgotten data is left on disk
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Rewrite {
    /// Data directory of `vctx serve` [default: $XDG_STATE_HOME/vctx]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Answer in JSON, including errors
    #[arg(long)]
    pub json: bool,
}

/// Runs `vctx rewrite`.
pub async fn run(rewrite: Rewrite) -> Result<(), Failure> {
    let directory = args::absolute(rewrite.data_dir.unwrap_or_else(paths::default_data_dir));
    let mut progress = |pairs: u64| {
        // An error while printing the progress must not stop the rewrite.
        drop(output::progress(&format!("{pairs} pairs copied")));
    };
    let done = app::rewrite(&directory, &mut progress).map_err(Failure::data)?;
    let told = json!({"before_bytes": done.before_bytes, "after_bytes": done.after_bytes, "pairs": done.pairs});
    output::told(rewrite.json, &told, |_| {
        format!(
            "{} bytes before, {} bytes after: {} live key-value pairs",
            done.before_bytes, done.after_bytes, done.pairs
        )
    })
}
