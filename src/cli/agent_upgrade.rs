//! `vctx agent upgrade`: moves agents of earlier program versions from form 1 of the window to the
//! form of new agents.

use clap::Args;
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};
use crate::output;
use crate::target::Target;
use vctx_client::{Client, Problem, Write};

/// Arguments of `vctx agent upgrade`.
#[derive(Debug, Args)]
pub struct UpgradeArguments {
    /// Names of the agents
    #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
    pub names: Vec<String>,

    /// All agents
    #[arg(long)]
    pub all: bool,

    /// How the window renders texts afterwards: 2, or strict for chat templates that accept one
    /// system message and alternating roles
    #[arg(long, default_value = "2", value_parser = ["2", "strict"])]
    pub form: String,

    #[command(flatten)]
    pub target: Target,
}

/// Runs `vctx agent upgrade`. A failed agent does not stop the others; a repeated command only
/// moves the agents that are left.
pub async fn run(asked: UpgradeArguments) -> Result<(), Failure> {
    let client = asked.target.client();
    let names = match asked.all {
        true => client.agents().await?.iter().map(|one| output::field(one, "/agent")).collect(),
        false => asked.names,
    };
    let (mut moved, mut left, mut failed) = (Vec::new(), 0, Vec::new());
    for (at, name) in names.iter().enumerate() {
        match upgraded(&client, name, &asked.form).await {
            Ok(true) => moved.push(name),
            Ok(false) => left += 1,
            Err(problem) => failed.push(fault_of(name, Failure::from(problem))),
        }
        if !asked.target.json {
            output::progress(&format!("{} of {} agents looked at", at + 1, names.len()))?;
        }
    }
    let answer = json!({"form": asked.form, "moved": moved, "unchanged": left, "failed": failed});
    match asked.target.json {
        true => output::value(&answer)?,
        false => output::line(&format!("\n{}", told(&answer)))?,
    }
    match failed.len() {
        0 => Ok(()),
        count => Err(Failure::new(
            Exit::TryAgain,
            "AGENTS_LEFT",
            format!("{count} of {} agents could not be moved", names.len()),
        )
        .next("do what stands at each agent, and repeat the command: it moves only what is left")),
    }
}

/// Moves an agent that has form 1; returns `false` for an agent that has another form already. The
/// change accepts any revision, as it overwrites no text.
async fn upgraded(client: &Client, name: &str, form: &str) -> Result<bool, Problem> {
    if client.state(name).await?["form"] != "1" {
        return Ok(false);
    }
    client.patch_agent(name, &json!({"form": form}), &Write::any()).await.map(|_| true)
}

fn fault_of(name: &str, failure: Failure) -> Value {
    let next = failure.next.unwrap_or_else(|| match failure.exit {
        Exit::TryAgain | Exit::Unavailable => "repeat the command".to_owned(),
        _ => format!("look at the agent: vctx state --agent {name}"),
    });
    json!({"agent": name, "code": failure.code, "error": failure.message, "next": next})
}

fn told(answer: &Value) -> String {
    let (moved, failed) = (output::list(answer, "/moved"), output::list(answer, "/failed"));
    let mut lines = vec![format!(
        "{} moved to form {}, {} had a newer form already, {} failed",
        moved.len(),
        output::field(answer, "/form"),
        output::number(answer, "/unchanged"),
        failed.len(),
    )];
    for one in failed {
        let text = |name: &str| output::printable(&output::field(one, name));
        lines.push(format!("{}: {}: {}", text("/agent"), text("/code"), text("/error")));
        lines.push(format!("  next: {}", text("/next")));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_agent_is_named_with_what_to_do() {
        let failure = Failure::new(Exit::TryAgain, "CONFLICT", "others wrote at each attempt");
        let failed = fault_of("ada", failure);
        let answer = json!({"form": "2", "moved": ["bea"], "unchanged": 3, "failed": [failed]});
        assert_eq!(
            told(&answer),
            "1 moved to form 2, 3 had a newer form already, 1 failed\n\
             ada: CONFLICT: others wrote at each attempt\n  next: repeat the command"
        );
    }
}
