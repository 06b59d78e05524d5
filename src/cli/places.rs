//! `vctx places` and `vctx move`: where agents can be, and taking one from one place to another.

use std::time::Duration;

use clap::Args;

use crate::exit::Failure;
use crate::output;
use crate::target::Target;

/// Show the databases that agents can be in, and whether they are reached
#[derive(Debug, Args)]
#[command(after_help = "\
Several databases behind one server: docs/how-to/several-databases.md.

Examples:
  vctx places
  vctx places --json")]
pub struct Places {
    #[command(flatten)]
    pub target: Target,
}

/// Time that a move may take; what is left then is gone on with by the server.
const MOVE_S_MAX: u64 = 3_600;

/// Move an agent to another database
#[derive(Debug, Args)]
#[command(after_help = "\
The agent answers all the time; what is written to it meanwhile waits until it is there. All of it is written to the other database and held
against its hash before anything goes here; the directory is told last, and then what it left behind is swept. A move that is cut off is
taken up by the server, and by the same command. Both hashes are of what `vctx export` writes. See docs/how-to/several-databases.md.

Examples:
  vctx move --agent ada --to east
  vctx move --agent ada --to home --json")]
pub struct Move {
    /// The agent
    #[arg(long)]
    agent: String,

    /// Name of the place, as `vctx places` shows it
    #[arg(long, value_name = "PLACE")]
    to: String,

    #[command(flatten)]
    pub target: Target,
}

/// Shows the places.
pub async fn show(asked: Places) -> Result<(), Failure> {
    let told = asked.target.client().places().await?;
    if asked.target.json {
        return output::value(&told);
    }
    let rows: Vec<Vec<String>> = told["places"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|place| {
            let yes = |name: &str| if place[name] == true { "yes" } else { "" }.to_owned();
            let text = |name: &str| place[name].as_str().unwrap_or_default().to_owned();
            vec![text("name"), text("state"), yes("home"), yes("takes_new"), text("reason")]
        })
        .collect();
    output::line(&output::table(&["place", "state", "home", "takes new", "why"], &[], &rows))
}

/// Moves an agent.
pub async fn run(asked: Move) -> Result<(), Failure> {
    let patience = Duration::from_secs(asked.target.deadline_s.max(MOVE_S_MAX));
    let told = asked.target.client_within(patience).move_agent(&asked.agent, &asked.to).await?;
    if asked.target.json {
        return output::value(&told);
    }
    let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
    if told["moved"] == false {
        return output::line(&format!("{} is in {} already", asked.agent, asked.to));
    }
    output::line(&format!(
        "{} moved from {} to {}: {} rows in {} ms, state {} on both sides",
        asked.agent,
        text("from"),
        text("to"),
        told["rows"],
        told["took_ms"],
        text("state")
    ))
}
