//! The agent that a command is about: its first argument, the option `--agent`, or `VCTX_AGENT`.

use clap::Args;

use crate::exit::Failure;
use crate::secrets::variable_of;

/// Variable of the environment with the agent of all commands that name none.
const VARIABLE: &str = "VCTX_AGENT";

/// The agent that a command is about.
#[derive(Debug, Clone, Default, Args)]
pub struct Whose {
    /// The agent; it may also be given with --agent [default: $VCTX_AGENT]
    #[arg(id = "whose", value_name = "AGENT")]
    first: Option<String>,

    #[arg(long = "agent", value_name = "AGENT", conflicts_with = "whose", hide = true)]
    agent: Option<String>,
}

impl Whose {
    /// Returns an agent that a command names in another way.
    pub fn named(agent: &str) -> Self {
        Self { first: Some(agent.into()), agent: None }
    }

    /// Returns the agent that the command line names, if it names one.
    pub fn stated(&self) -> Option<&str> {
        self.first.as_deref().or(self.agent.as_deref())
    }

    /// Returns the agent of the command line or of `VCTX_AGENT`.
    pub fn agent(&self) -> Result<String, Failure> {
        let stated = self.stated().map(str::to_owned).or_else(from_environment);
        stated.ok_or_else(|| {
            Failure::usage(format!("which agent? name it first, or set {VARIABLE}"))
                .next("vctx agent list")
        })
    }
}

/// Returns the agent that `VCTX_AGENT` names.
pub fn from_environment() -> Option<String> {
    variable_of(VARIABLE).filter(|name| !name.is_empty())
}
