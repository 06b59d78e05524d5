//! `vctx agent`: creates, lists, changes and runs agents.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::agent_run;
use crate::agent_upgrade;
use crate::args;
use crate::exit::Failure;
use crate::forget;
use crate::output;
use crate::schedule;
use crate::state;
use crate::target::Target;
use vctx_client::{NewAgent, Write};

/// Default window of `vctx agent create`, in tokens; the schemas of the five chat tools take less
/// than a tenth of this window.
pub(crate) const AGENT_WINDOW_TOKENS: u64 = 32_768;

const EXAMPLES: &str = "\
Examples:
  vctx agent create ada --window 32768 --system 'You are a patient teacher.'
  vctx agent create bob --window 128000 --system @system.txt
  vctx agent list
  vctx agent patch ada --window 65536 --rev '*'
  vctx agent clone bob eve                  another agent that remembers what bob remembers
  vctx agent rename bob robert              bob still reaches the agent
  vctx agent delete bob                     asks for the name; scripts use --yes
  vctx agent upgrade --all                  agents of earlier program versions
  vctx agent run ada --message 'What do you know of me?'
  vctx agent schedule put ada water --every 86400000 --content 'Water the plants.'";

/// Create, list, change and run agents, and schedule events for them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Agent {
    #[command(subcommand)]
    action: AgentAction,
}

#[derive(Debug, Subcommand)]
enum AgentAction {
    /// Create an agent; repeating the command with the same values has no effect
    Create {
        /// Name of the agent: letters, digits, `_`, `.`, `-`, up to 128
        name: String,
        /// Tokens of the agent's window
        #[arg(long, value_name = "TOKENS", default_value_t = AGENT_WINDOW_TOKENS)]
        window: u64,
        /// System text, @FILE, or - for stdin
        #[arg(long, value_name = "TEXT")]
        system: Option<String>,
        /// Encoding that counts tokens: o200k_base or cl100k_base
        #[arg(long)]
        encoding: Option<String>,
        /// How the window renders texts: 2, or strict for chat templates that accept one system
        /// message and alternating roles
        #[arg(long)]
        form: Option<String>,
        /// Time zone of the times in the window, by its name in the IANA database [default: UTC]
        #[arg(long, value_name = "ZONE")]
        zone: Option<String>,
        /// Models that may receive the agent's texts: configured, or none for those on this machine
        /// only [default: configured]
        #[arg(long, value_name = "WHICH")]
        outbound: Option<String>,
        /// When prompts get a context that is built for their question: off, auto (if the window
        /// does not answer it) or always [default: as the server is configured]
        #[arg(long, value_name = "WHEN")]
        engineer: Option<String>,
        /// How many agents have had the name, with this one; only for the name of a forgotten agent
        #[arg(long, value_name = "NUMBER")]
        incarnation: Option<u64>,
        #[command(flatten)]
        target: Target,
    },
    /// Delete an agent: forget the whole agent
    Delete(forget::DeleteArguments),
    /// Make another agent with an agent's memory
    Clone {
        /// Name of the agent
        name: String,
        /// Name of the clone
        new: String,
        /// Idempotency key: the same command with the same key continues an interrupted command
        /// [default: a new key]
        #[arg(long)]
        key: Option<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Give an agent a new name; its earlier names still reach it
    Rename {
        /// A name of the agent
        name: String,
        /// The new name
        new: String,
        /// Revision that the change builds on [default: any revision]
        #[arg(long, value_name = "REV", default_value = "*")]
        rev: String,
        #[command(flatten)]
        target: Target,
    },
    /// Run the configured model from a message until the model yields
    Run(agent_run::RunArguments),
    /// List all agents
    List {
        #[command(flatten)]
        target: Target,
    },
    /// Events that an agent receives at set times
    Schedule(schedule::Schedule),
    /// Move agents of earlier program versions to the form of the window that new agents have
    Upgrade(agent_upgrade::UpgradeArguments),
    /// Change an agent's window, its form and zone, system text, encoding or limits of heartbeats
    Patch {
        name: String,
        /// Tokens of the agent's window
        #[arg(long, value_name = "TOKENS")]
        window: Option<u64>,
        /// System text, @FILE, or - for stdin
        #[arg(long, value_name = "TEXT")]
        system: Option<String>,
        /// Encoding that counts tokens: o200k_base or cl100k_base
        #[arg(long)]
        encoding: Option<String>,
        /// How the window renders texts: 2, or strict for chat templates that accept one system
        /// message and alternating roles
        #[arg(long)]
        form: Option<String>,
        /// Time zone of the times in the window, by its name in the IANA database
        #[arg(long, value_name = "ZONE")]
        zone: Option<String>,
        /// Models that may receive the agent's texts: configured, or none for those on this machine
        /// only
        #[arg(long, value_name = "WHICH")]
        outbound: Option<String>,
        /// When prompts get a context that is built for their question: off, auto or always
        #[arg(long, value_name = "WHEN")]
        engineer: Option<String>,
        /// Maximum number of tokens of prompts and answers per day; 0 removes the agent's own limit
        #[arg(long, value_name = "TOKENS")]
        tokens_per_day: Option<u64>,
        /// Limits of heartbeat chains, as JSON: '{"max_chain_depth": 5}'
        #[arg(long, value_name = "JSON")]
        heartbeat: Option<String>,
        /// Revision that the change builds on; '*' accepts any revision
        #[arg(long, value_name = "REV")]
        rev: Option<String>,
        #[command(flatten)]
        target: Target,
    },
}

impl Agent {
    /// Returns the server and output options of the action.
    pub fn target(&self) -> &Target {
        match &self.action {
            AgentAction::Schedule(schedule) => schedule.target(),
            AgentAction::Create { target, .. }
            | AgentAction::List { target }
            | AgentAction::Patch { target, .. }
            | AgentAction::Clone { target, .. }
            | AgentAction::Rename { target, .. } => target,
            AgentAction::Delete(asked) => &asked.target,
            AgentAction::Run(asked) => &asked.target,
            AgentAction::Upgrade(asked) => &asked.target,
        }
    }
}

/// Runs `vctx agent`.
pub async fn run(agent: Agent) -> Result<(), Failure> {
    match agent.action {
        AgentAction::Create {
            name,
            window,
            system,
            encoding,
            form,
            zone,
            outbound,
            engineer,
            incarnation,
            target,
        } => {
            let system = system.as_deref().map(args::text).transpose()?;
            let new = NewAgent {
                context_window: window,
                system,
                encoding,
                form,
                zone,
                outbound,
                engineer,
                incarnation,
            };
            let state = target.client().create_agent(&name, &new).await?;
            output::told(target.json, &state, state::picture)
        }
        AgentAction::Clone { name, new, key, target } => {
            let mut write = Write::new(None);
            if let Some(key) = key {
                write.key = key;
            }
            let cloned = target.client().clone_agent(&name, &new, &write).await;
            let state =
                cloned.map_err(|problem| Failure::repeatable(problem, "command", &write.key))?;
            output::told(target.json, &state, state::picture)
        }
        AgentAction::Rename { name, new, rev, target } => {
            let write = Write::new(Some(rev));
            let state = target.client().rename_agent(&name, &new, &write).await?;
            output::told(target.json, &state, state::picture)
        }
        AgentAction::Delete(asked) => forget::delete(asked).await,
        AgentAction::Run(asked) => agent_run::run(asked).await,
        AgentAction::List { target } => list(&target).await,
        AgentAction::Schedule(schedule) => schedule::run(schedule).await,
        AgentAction::Upgrade(asked) => agent_upgrade::run(asked).await,
        AgentAction::Patch {
            name,
            window,
            system,
            encoding,
            form,
            zone,
            outbound,
            engineer,
            tokens_per_day,
            heartbeat,
            rev,
            target,
        } => {
            let mut change = change(window, system.as_deref())?;
            let texts = [
                ("encoding", encoding),
                ("form", form),
                ("zone", zone),
                ("outbound", outbound),
                ("engineer", engineer),
            ];
            for (name, value) in texts {
                if let Some(value) = value {
                    change[name] = json!(value);
                }
            }
            if let Some(tokens) = tokens_per_day {
                change["tokens_per_day"] = tokens.into();
            }
            if let Some(limits) = heartbeat {
                change["heartbeat"] = args::json("--heartbeat", &limits)?;
            }
            check_change(&change)?;
            let state = target.client().patch_agent(&name, &change, &Write::new(rev)).await?;
            output::told(target.json, &state, state::picture)
        }
    }
}

fn change(window: Option<u64>, system: Option<&str>) -> Result<Value, Failure> {
    let mut change = json!({});
    if let Some(window) = window {
        change["context_window"] = json!(window);
    }
    if let Some(system) = system {
        change["system"] = json!(args::text(system)?);
    }
    Ok(change)
}

fn check_change(change: &Value) -> Result<(), Failure> {
    match change.as_object().is_some_and(|change| change.is_empty()) {
        true => Err(Failure::usage("nothing to change")
            .next("give --window, --system, --encoding, --form, --zone, --outbound, --engineer, --tokens-per-day or --heartbeat")),
        false => Ok(()),
    }
}

async fn list(target: &Target) -> Result<(), Failure> {
    let agents = target.client().agents().await?;
    if target.json {
        return output::value(&json!({"agents": agents}));
    }
    if agents.is_empty() {
        return output::line("no agents yet; make one with: vctx agent create NAME");
    }
    let columns = ["/agent", "/context_window", "/encoding", "/version", "/_rev"];
    let rows: Vec<Vec<String>> =
        agents.iter().map(|agent| output::fields(agent, columns)).collect();
    output::line(&output::table(
        &["agent", "window", "encoding", "version", "revision"],
        &[1, 3],
        &rows,
    ))
}
