//! `vctx agent schedule`: what happens to an agent by itself, and when.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::args;
use crate::exit::Failure;
use crate::output;
use crate::target::Target;

const EXAMPLES: &str = "\
Examples:
  vctx agent schedule put ada water --every 86400000 --content 'Water the plants.'
  vctx agent schedule put ada launch --at 2027-01-01T09:00:00Z --content 'The launch is now.' --run
  vctx agent schedule list ada
  vctx agent schedule show ada water
  vctx agent schedule remove ada water";

/// What happens to an agent by itself, and when
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Schedule {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a schedule, or change the one of that name
    Put {
        agent: String,
        /// Its name: letters, digits, `_`, `.`, `-`, up to 128
        name: String,
        /// Fire again and again, so far apart
        #[arg(long, value_name = "MS", conflicts_with = "at", required_unless_present = "at")]
        every: Option<u64>,
        /// Fire once, then (UTC); at once if that is past
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
        /// What the event says; a text, @FILE, or - for stdin
        #[arg(long, value_name = "TEXT")]
        content: String,
        /// Let the agent run when it fires, where a model is configured
        #[arg(long)]
        run: bool,
        #[command(flatten)]
        target: Target,
    },
    /// List the schedules of an agent
    List {
        agent: String,
        #[command(flatten)]
        target: Target,
    },
    /// Show one schedule
    Show {
        agent: String,
        name: String,
        #[command(flatten)]
        target: Target,
    },
    /// Take a schedule away
    Remove {
        agent: String,
        name: String,
        #[command(flatten)]
        target: Target,
    },
}

impl Schedule {
    /// The server that is meant.
    pub fn target(&self) -> &Target {
        match &self.action {
            Action::Put { target, .. }
            | Action::List { target, .. }
            | Action::Show { target, .. }
            | Action::Remove { target, .. } => target,
        }
    }
}

/// Runs the command.
pub async fn run(schedule: Schedule) -> Result<(), Failure> {
    match schedule.action {
        Action::Put { agent, name, every, at, content, run, target } => {
            let body =
                json!({"every_ms": every, "at": at, "content": args::text(&content)?, "run": run});
            let given = target.client().put_schedule(&agent, &name, &body).await?;
            show(&target, &[given])
        }
        Action::List { agent, target } => {
            let all = target.client().schedules(&agent).await?;
            if target.json {
                return output::value(&json!({"schedules": all}));
            }
            match all.is_empty() {
                true => {
                    output::line("no schedules; make one with: vctx agent schedule put AGENT NAME")
                }
                false => output::line(&table(&all)),
            }
        }
        Action::Show { agent, name, target } => {
            show(&target, &[target.client().schedule(&agent, &name).await?])
        }
        Action::Remove { agent, name, target } => {
            let gone = target.client().remove_schedule(&agent, &name).await?;
            match target.json {
                true => output::value(&gone),
                false => output::line(&format!("{name} is gone")),
            }
        }
    }
}

fn show(target: &Target, one: &[Value]) -> Result<(), Failure> {
    match (target.json, one) {
        (true, [schedule]) => output::value(schedule),
        _ => output::line(&table(one)),
    }
}

fn table(all: &[Value]) -> String {
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|one| {
            let when = match one["every_ms"].as_u64() {
                Some(ms) => format!("every {ms} ms"),
                None => "once".to_owned(),
            };
            let run = if one["run"] == true { "runs" } else { "" };
            vec![
                output::field(one, "/name"),
                when,
                output::field(one, "/next"),
                output::field(one, "/fired"),
                output::field(one, "/missed"),
                run.into(),
                output::cell(&output::field(one, "/content"), output::CELL_CHARS_MAX),
            ]
        })
        .collect();
    output::table(&["schedule", "when", "next", "fired", "missed", "", "content"], &[3, 4], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_tells_when_it_fires_next_and_what_came_of_it() {
        let water = json!({"name": "water", "every_ms": 60_000, "next": "2027-01-01T00:00:00.000Z", "fired": 3, "missed": 1,
            "run": true, "content": "Water the\nplants."});
        let once = json!({"name": "launch", "every_ms": null, "next": null, "fired": 1, "missed": 0, "run": false, "content": "Go."});
        let text = table(&[water, once]);
        for part in [
            "water",
            "every 60000 ms",
            "2027-01-01T00:00:00.000Z",
            "runs",
            "Water the plants.",
            "once",
            "Go.",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }
}
