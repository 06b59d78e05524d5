//! `vctx rewrite`: finishes on disk what was forgotten, where the embedded engine keeps the data.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::app;
use crate::args;
use crate::exit::Failure;
use crate::output;
use vctx_client::paths;

const HELP: &str = "\
What was forgotten or removed leaves its bytes in the files of the embedded engine until they are written again. This command writes all
that lives into new files and removes the old ones; views are built again at the next start. Stop the server first; it needs as much free
room as the live data takes. Killed at any moment it leaves the data as they were before or as they are after: run it again then.

On an ArangoDB of your own let its files be compacted instead: docs/how-to/forget.md.

Examples:
  vctx rewrite                              the data of the usual directory
  vctx rewrite --data-dir /var/lib/vctx-engine";

/// Write the embedded engine's data into new files, so that nothing of what was forgotten is left on disk
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Rewrite {
    /// Directory that `vctx serve` keeps its data in [default: $XDG_STATE_HOME/vctx]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Answer in JSON, errors too
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub async fn run(rewrite: Rewrite) -> Result<(), Failure> {
    let directory = args::absolute(rewrite.data_dir.unwrap_or_else(paths::default_data_dir));
    let mut progress = |pairs: u64| {
        // A line that cannot be shown is no reason to stop.
        drop(output::progress(&format!("{pairs} pairs copied")));
    };
    let done = app::rewrite(&directory, &mut progress).map_err(Failure::data)?;
    let told = json!({"before_bytes": done.before_bytes, "after_bytes": done.after_bytes, "pairs": done.pairs});
    match rewrite.json {
        true => output::value(&told),
        false => output::line(&format!(
            "{} bytes before, {} bytes after: {} pairs live",
            done.before_bytes, done.after_bytes, done.pairs
        )),
    }
}
