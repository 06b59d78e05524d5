//! `vctx changes`: follows the changes of an agent's memory, one line for each.

use clap::Args;
use serde_json::Value;

use crate::exit::Failure;
use crate::output;
use crate::target::Target;
use crate::whose::Whose;

const EXAMPLES: &str = "\
Follows like `tail -f` until Ctrl-C (exit code 130), and continues after a restart of the server. No line has a text of the memory.

Examples:
  vctx changes ada                            each change from now on
  vctx changes ada --after 0 --no-wait        all changes, then end
  vctx changes ada --after 57 --json | jq .details.tool
  vctx changes ada --json | while read -r line; do ...; done

With --json, `at` of a line is the place of the change: --after with this value continues after it, and notices if the memory was
replaced, for example from a backup.";

/// Follow the changes of an agent's memory
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Changes {
    #[command(flatten)]
    whose: Whose,

    /// Change after which to begin: its number, or its `at`; 0 for all [default: the newest change]
    #[arg(long, value_name = "CHANGE")]
    after: Option<String>,

    /// End when there is no further change
    #[arg(long)]
    no_wait: bool,

    #[command(flatten)]
    pub target: Target,
}

/// Runs `vctx changes`.
pub async fn run(asked: Changes) -> Result<(), Failure> {
    let agent = asked.whose.agent()?;
    let (client, json) = (asked.target.client(), asked.target.json);
    let mut fault = None;
    let mut on_message = |message: &Value| {
        let shown = match (json, message["feed"] == "change") {
            (true, _) => output::open_line(&message.to_string()),
            (false, true) => output::open_line(&row(message)),
            (false, false) => Ok(true),
        };
        shown.unwrap_or_else(|failure| {
            fault = Some(failure);
            false
        })
    };
    let wait = !asked.no_wait;
    let reason = client.changes(&agent, asked.after.as_deref(), wait, &mut on_message).await?;
    if let Some(failure) = fault {
        return Err(failure);
    }
    if reason == "forgotten" {
        eprintln!("vctx: the agent was forgotten");
    }
    Ok(())
}

/// Returns the line of one change: its number, time and type, and those of its details that are one
/// value.
fn row(change: &Value) -> String {
    let details = change["details"].as_object().into_iter().flatten();
    let details: Vec<String> = details
        .filter_map(|(name, value)| match value {
            Value::String(text) => Some(format!("{name}={text}")),
            Value::Number(_) | Value::Bool(_) => Some(format!("{name}={value}")),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        })
        .collect();
    format!(
        "{} {} {} {}",
        output::field(change, "/n"),
        output::field(change, "/ts"),
        output::field(change, "/type"),
        output::cell(&details.join(" "), LINE_CHARS_MAX),
    )
}

/// Maximum number of characters of a change's details in a line.
const LINE_CHARS_MAX: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_change_is_one_line() {
        let change = json!({"feed": "change", "n": 7, "ts": "t", "type": "audit",
            "details": {"tool": "append_fifo", "version_after": 3, "flush": null, "actor": {"uid": 1}}});
        assert_eq!(row(&change), "7 t audit tool=append_fifo version_after=3");
    }
}
