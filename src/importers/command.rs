//! The `vctx import` command: reads a file or directory, plans the import, writes the items, and
//! reports the result of each item.

use std::io;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::plan::{Limits, Plan};
use super::read::Choice;
use super::{anthropic, letta, mcp_memory, mem0, own, tell, write};
use vctx_cli::exit::Failure;
use vctx_cli::portable;
use vctx_cli::target::Target;
use vctx_core::limits::MCP_WINDOW_TOKENS;

/// Default maximum length of a text that an import stores as a block, in bytes; longer texts are
/// archived.
const IMPORT_BLOCK_BYTES: usize = 8 * 1024;

const EXAMPLES: &str = "\
Examples:
  vctx import ada.jsonl.gz                     a file of `vctx export`: the same agent again
  vctx import ada.jsonl --as bea               under another name
  vctx import --from letta sam.af --agent sam --dry-run
  vctx import --from anthropic-memory ./memories --agent ada
  vctx import --from mcp-memory memory.jsonl --agent ada --json
  vctx import --from mem0 export.json --agent ada --only user-7

The same import again changes nothing; the same command continues an import that was cut off.";

/// Create an agent from a file of `vctx export`, or import the memory of another system
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Import {
    /// Format of the input [default: `vctx export`, if the file declares that format]
    #[arg(long, value_enum)]
    from: Option<Format>,

    /// File or directory to import
    path: PathBuf,

    /// Agent to import into; created if it does not exist. A file of `vctx export` contains the
    /// agent's name
    #[arg(long, visible_alias = "as", value_name = "NAME")]
    agent: Option<String>,

    /// Size of a new agent's window in tokens [default: the value in the file, or 32768]
    #[arg(long, value_name = "TOKENS")]
    window: Option<u64>,

    /// Name or id of the agent or user to import, if the file contains several
    #[arg(long, value_name = "NAME")]
    only: Option<String>,

    /// Skip this attribute or file, which the import does not know; may be given more than once
    #[arg(long, value_name = "NAME")]
    leave: Vec<String>,

    /// Maximum length of a block in bytes; a longer text is archived
    #[arg(long, value_name = "BYTES", default_value_t = IMPORT_BLOCK_BYTES)]
    block_bytes_max: usize,

    /// Overwrite existing blocks and documents that have another text
    #[arg(long)]
    replace: bool,

    /// Reason in one sentence for blocks with tainted text (docs/explanation/threat-model.md);
    /// without a reason, these blocks are refused
    #[arg(long, value_name = "SENTENCE")]
    justification: Option<String>,

    /// Only show the planned import
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    pub target: Target,
}

/// Input formats of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A file of `vctx export`, compressed or not
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

/// Runs `vctx import`.
pub async fn run(asked: Import) -> Result<(), Failure> {
    if asked.path.as_os_str() != "-" && !asked.path.exists() {
        let missing = io::Error::from(io::ErrorKind::NotFound);
        return Err(Failure::reading(asked.path.display(), &missing));
    }
    let from = match asked.from {
        Some(from) => from,
        None if portable::is_export(&asked.path) => Format::Vctx,
        None => {
            return Err(Failure::usage("the file does not name its format")
                .next("name the format with --from; `vctx import --help` lists all formats"));
        }
    };
    if from == Format::Vctx {
        return own::run(&asked.path, asked.agent.as_deref(), asked.dry_run, &asked.target).await;
    }
    let agent = asked.agent.as_deref().ok_or_else(|| {
        Failure::usage("no agent is named").next("name the agent of this memory with --agent NAME")
    })?;
    let choice = Choice { only: asked.only, leave: asked.leave };
    let mut plan = Plan::new(Limits { block_bytes_max: asked.block_bytes_max });
    match from {
        // A file of `vctx export` has been handled earlier in this function.
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
    tell::print_outcome(&order, &outcome, asked.target.json)
}

/// Adds advice to a failure: the user may repeat the command. The repeated command continues the
/// import, because the items written so far are kept.
fn go_on(failure: Failure) -> Failure {
    let again = "the same command again continues the import";
    let next = match &failure.next {
        Some(next) => format!("{next}; then {again}"),
        None => again.to_owned(),
    };
    failure.next(next)
}
