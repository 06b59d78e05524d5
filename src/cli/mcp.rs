//! `vctx mcp`: the memory for MCP clients, on stdin and stdout.

use std::path::PathBuf;

use clap::Args;

use crate::cli::args;
use crate::cli::exit::Failure;
use crate::client::paths;
use crate::config::variable_of;
use crate::dialect::Dialect;
use crate::limits::{IDLE_EXIT_S, MCP_WINDOW_TOKENS, WINDOW_TOKENS_MAX, WINDOW_TOKENS_MIN};
use crate::mcp::{Bridge, Settings, serve};
use crate::policy::check_name;
use crate::telemetry::{self, LogFormat};

const EXAMPLES: &str = "\
In the configuration of an MCP client (Claude Desktop, Claude Code, Cursor, VS Code, Zed, …):
  {\"mcpServers\": {\"memory\": {\"command\": \"vctx\", \"args\": [\"mcp\"]}}}
  {\"mcpServers\": {\"memory\": {\"command\": \"vctx\", \"args\": [\"mcp\", \"--agent\", \"ada\"]}}}

A running server is used as it is. When none listens on the socket, the first client starts one with its own database; all clients share
it, and it ends when it has been idle for a while. Its log is server.log in the data directory. With ARANGO_RW_UDS set, the server that is
started uses that database.

stdout carries the protocol only; logs go to stderr (VCTX_LOG__FILTER, default info).";

/// Give an MCP client this memory, on stdin and stdout
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Mcp {
    /// The agent whose memory it is; made by its first write
    #[arg(long, value_name = "NAME", default_value = "default")]
    agent: String,

    /// Names under which a model speaks of it: vctx, memgpt or anthropic
    #[arg(long, value_name = "DIALECT", default_value = "vctx", value_parser = args::dialect)]
    dialect: Dialect,

    /// Tokens of the agent's window, if it has to be made
    #[arg(long, value_name = "TOKENS", default_value_t = MCP_WINDOW_TOKENS, value_parser = clap::value_parser!(u64).range(WINDOW_TOKENS_MIN..=WINDOW_TOKENS_MAX))]
    context_window: u64,

    /// Socket of the server [default: $XDG_RUNTIME_DIR/vctx/vctx.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Directory of the data, if a server has to be started [default: $XDG_STATE_HOME/vctx]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// A server that was started ends when no connection has been open for this long
    #[arg(long, value_name = "SECONDS", default_value_t = IDLE_EXIT_S, value_parser = clap::value_parser!(u64).range(1..))]
    idle_exit_s: u64,
}

/// Runs the command.
pub(crate) async fn run(mcp: Mcp) -> Result<(), Failure> {
    // The protocol's own library tells whole messages at its lower levels; what is said in conversations is not for logs.
    let filter = variable_of("VCTX_LOG__FILTER").unwrap_or_else(|| "info".into());
    let logs =
        telemetry::Settings { filter: format!("{filter},rmcp=error"), format: LogFormat::Text };
    telemetry::start_logs(&logs).map_err(Failure::usage)?;
    check_name("--agent", &mcp.agent).map_err(|error| Failure::usage(error.message))?;
    let bridge = Bridge::new(Settings {
        agent: mcp.agent,
        dialect: mcp.dialect,
        context_window: mcp.context_window,
        socket: mcp.socket.map_or_else(paths::default_socket, args::absolute),
        data_dir: mcp.data_dir.map(args::absolute),
        idle_exit_s: mcp.idle_exit_s,
    });
    serve(bridge).await.map_err(Failure::internal)
}
