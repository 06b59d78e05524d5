//! `vctx agent schedule`: creates, lists and deletes the schedules of an agent.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::args;
use crate::exit::Failure;
use crate::output;
use crate::target::Target;
use crate::whose::Whose;

const EXAMPLES: &str = "\
Examples:
  vctx agent schedule put ada water --every 86400000 --content 'Water the plants.'
  vctx agent schedule put ada launch --at 2027-01-01T09:00:00Z --content 'The launch is now.' --run
  vctx agent schedule list ada
  vctx agent schedule show ada water
  vctx agent schedule remove ada water";

/// Events that an agent receives at set times
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Schedule {
    #[command(subcommand)]
    action: ScheduleAction,
}

#[derive(Debug, Subcommand)]
enum ScheduleAction {
    /// Create a schedule, or change the schedule with this name
    #[command(allow_missing_positional = true)]
    Put {
        #[command(flatten)]
        whose: Whose,
        /// Name of the schedule: letters, digits, `_`, `.`, `-`, up to 128
        name: String,
        /// Milliseconds between two events, for a repeated event
        #[arg(long, value_name = "MS", conflicts_with = "at", required_unless_present = "at")]
        every: Option<u64>,
        /// Time of a single event (UTC); with a past time, the schedule fires immediately
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
        /// Text of the event: a text, @FILE, or - for stdin
        #[arg(long, value_name = "TEXT")]
        content: String,
        /// Run the agent when the schedule fires, if a model is configured
        #[arg(long)]
        run: bool,
        #[command(flatten)]
        target: Target,
    },
    /// List the schedules of an agent
    List {
        #[command(flatten)]
        whose: Whose,
        #[command(flatten)]
        target: Target,
    },
    /// Show one schedule
    Show(Item),
    /// Remove a schedule
    Remove(Item),
}

// `Item` has no doc comment, because a doc comment would replace the help texts of the actions.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
struct Item {
    #[command(flatten)]
    whose: Whose,
    name: String,
    #[command(flatten)]
    target: Target,
}

impl Schedule {
    /// Returns the server and output options of the action.
    pub fn target(&self) -> &Target {
        match &self.action {
            ScheduleAction::Put { target, .. } | ScheduleAction::List { target, .. } => target,
            ScheduleAction::Show(item) | ScheduleAction::Remove(item) => &item.target,
        }
    }
}

/// Runs `vctx agent schedule`.
pub async fn run(schedule: Schedule) -> Result<(), Failure> {
    match schedule.action {
        ScheduleAction::Put { whose, name, every, at, content, run, target } => {
            let agent = whose.agent()?;
            let body =
                json!({"every_ms": every, "at": at, "content": args::text(&content)?, "run": run});
            let given = target.client().put_schedule(&agent, &name, &body).await?;
            show(&target, &[given])
        }
        ScheduleAction::List { whose, target } => {
            let agent = whose.agent()?;
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
        ScheduleAction::Show(Item { whose, name, target }) => {
            let agent = whose.agent()?;
            show(&target, &[target.client().schedule(&agent, &name).await?])
        }
        ScheduleAction::Remove(Item { whose, name, target }) => {
            let agent = whose.agent()?;
            let gone = target.client().remove_schedule(&agent, &name).await?;
            output::told(target.json, &gone, |_| format!("{name} is gone"))
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
