//! `vctx places` and `vctx move`: lists the databases, and moves an agent to another database.

use std::time::Duration;

use clap::Args;

use crate::exit::Failure;
use crate::output;
use crate::target::Target;
use crate::whose::Whose;

/// Show the databases that can store agents, and whether each is reachable
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

/// Maximum time in seconds that the command waits for the end of a move. After that, the command
/// ends and the server continues the move.
const MOVE_S_MAX: u64 = 3_600;

/// Move an agent to another database
#[derive(Debug, Args)]
#[command(after_help = "\
Reads of the agent are answered during the move; writes wait for its end. All rows are copied and
their hashes compared before the agent is removed from the old database. The server or the same
command continues an interrupted move. See docs/how-to/several-databases.md.

Examples:
  vctx move --agent ada --to east
  vctx move --agent ada --to home --json")]
pub struct Move {
    #[command(flatten)]
    whose: Whose,

    /// Name of the database, as `vctx places` shows it
    #[arg(long, value_name = "PLACE")]
    to: String,

    #[command(flatten)]
    pub target: Target,
}

/// Runs `vctx places`.
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

/// Runs `vctx move`.
pub async fn run(asked: Move) -> Result<(), Failure> {
    let agent = asked.whose.agent()?;
    let patience = Duration::from_secs(asked.target.deadline_s.max(MOVE_S_MAX));
    let told = asked.target.client_within(patience).move_agent(&agent, &asked.to).await?;
    if asked.target.json {
        return output::value(&told);
    }
    let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
    if told["moved"] == false {
        return output::line(&format!("{agent} is in {} already", asked.to));
    }
    output::line(&format!(
        "{agent} moved from {} to {}: {} rows in {} ms, digest of the rows in both databases: {}",
        text("from"),
        text("to"),
        told["rows"],
        told["took_ms"],
        text("state")
    ))
}
