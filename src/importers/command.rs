//! The command: reads a file or directory, plans what goes where, writes it, tells what became of everything.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::plan::{Limits, Plan};
use super::read::Choice;
use super::{anthropic, letta, mcp_memory, mem0, own, tell, write};
use vctx_cli::exit::Failure;
use vctx_cli::portable;
use vctx_cli::target::Target;
use vctx_core::limits::{IMPORT_BLOCK_BYTES, MCP_WINDOW_TOKENS};

const EXAMPLES: &str = "\
Examples:
  vctx import ada.jsonl.gz                     a file of `vctx export`: the same agent again
  vctx import ada.jsonl --as bea               under another name
  vctx import --from letta sam.af --agent sam --dry-run
  vctx import --from anthropic-memory ./memories --agent ada
  vctx import --from mcp-memory memory.jsonl --agent ada --json
  vctx import --from mem0 export.json --agent ada --only user-7

The same import again changes nothing; one that was cut off is gone on with by the same command.";

/// Make an agent of a file of `vctx export`, or take over the memory of another system
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Import {
    /// What the file is [default: a file of `vctx export`, if it says so]
    #[arg(long, value_enum)]
    from: Option<Format>,

    /// The file, or the directory
    path: PathBuf,

    /// The agent; made if there is none. A file of `vctx export` has a name of its own
    #[arg(long, visible_alias = "as", value_name = "NAME")]
    agent: Option<String>,

    /// Tokens of the window of an agent that is made [default: what the file says, or 32768]
    #[arg(long, value_name = "TOKENS")]
    window: Option<u64>,

    /// Of several agents or users in one file, the one to take: its name or id
    #[arg(long, value_name = "NAME")]
    only: Option<String>,

    /// Import without an attribute or file that is not known; may be given again
    #[arg(long, value_name = "NAME")]
    leave: Vec<String>,

    /// Bytes of the longest text that becomes a block; a longer one goes to the archive
    #[arg(long, value_name = "BYTES", default_value_t = IMPORT_BLOCK_BYTES)]
    block_bytes_max: usize,

    /// Write over blocks and documents that stand there with another text
    #[arg(long)]
    replace: bool,

    /// Why blocks with tainted text (docs/explanation/threat-model.md) belong into the core, in one sentence; without it they are refused
    #[arg(long, value_name = "SENTENCE")]
    justification: Option<String>,

    /// Only tell what would go where
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    pub target: Target,
}

/// What can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A file of `vctx export`, packed or not
    Vctx,
    /// An agent file (.af) of Letta, or a JSON list of its archival passages
    Letta,
    /// A directory of files, as Anthropic's memory tool keeps under /memories
    AnthropicMemory,
    /// The JSONL file of MCP's reference memory server
    McpMemory,
    /// Memories of mem0, as JSON or JSONL
    Mem0,
}

impl Format {
    fn text(self) -> &'static str {
        match self {
            Self::Vctx => "vctx",
            Self::Letta => "letta",
            Self::AnthropicMemory => "anthropic-memory",
            Self::McpMemory => "mcp-memory",
            Self::Mem0 => "mem0",
        }
    }
}

/// Runs the command.
pub async fn run(asked: Import) -> Result<(), Failure> {
    let from = match asked.from {
        Some(from) => from,
        None if portable::is_export(&asked.path) => Format::Vctx,
        None => {
            return Err(Failure::usage("the file does not say what it is")
                .next("say it with --from; `vctx import --help` lists what can be read"));
        }
    };
    if from == Format::Vctx {
        return own::run(&asked.path, asked.agent.as_deref(), asked.dry_run, &asked.target).await;
    }
    let agent = asked.agent.as_deref().ok_or_else(|| {
        Failure::usage("no agent is named").next("say whose memory it is to be with --agent NAME")
    })?;
    let choice = Choice { only: asked.only, leave: asked.leave };
    let mut plan = Plan::new(Limits { block_bytes_max: asked.block_bytes_max });
    match from {
        // It was dealt with above.
        Format::Vctx => {}
        Format::Letta => letta::read(&asked.path, &choice, &mut plan)?,
        Format::AnthropicMemory => anthropic::read(&asked.path, &choice, &mut plan)?,
        Format::McpMemory => mcp_memory::read(&asked.path, &choice, &mut plan)?,
        Format::Mem0 => mem0::read(&asked.path, &choice, &mut plan)?,
    }
    let order = write::Order {
        agent,
        from: from.text(),
        window: asked.window.or(plan.window).unwrap_or(MCP_WINDOW_TOKENS),
        replace: asked.replace,
        justification: asked.justification.as_deref(),
        dry_run: asked.dry_run,
    };
    let outcome = write::apply(&asked.target.client(), &order, plan).await.map_err(go_on)?;
    tell::told(&order, &outcome, asked.target.json)
}

/// What was written stays written, so the next step is the same command.
fn go_on(failure: Failure) -> Failure {
    let again = "the same command again goes on where this one stopped";
    let next = match &failure.next {
        Some(next) => format!("{next}; then {again}"),
        None => again.to_owned(),
    };
    failure.next(next)
}
