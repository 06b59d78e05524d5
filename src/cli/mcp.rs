//! `vctx mcp`: the memory for MCP clients, on stdin and stdout or on a Unix socket.

use std::path::{Path, PathBuf};

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::args;
use crate::config::variable_of;
use crate::exit::Failure;
use crate::output;
use vctx_base::socket::bind;
use vctx_base::telemetry::{self, LogFormat};
use vctx_client::paths;
use vctx_core::dialect::Dialect;
use vctx_core::limits::{IDLE_EXIT_S, MCP_WINDOW_TOKENS, WINDOW_TOKENS_MAX, WINDOW_TOKENS_MIN};
use vctx_core::policy::check_name;
use vctx_mcp::{Bridge, Settings, listen, serve};

const EXAMPLES: &str = "\
In the configuration of an MCP client (Claude Desktop, Claude Code, Cursor, VS Code, Zed, …):
  {\"mcpServers\": {\"memory\": {\"command\": \"vctx\", \"args\": [\"mcp\"]}}}
  {\"mcpServers\": {\"memory\": {\"command\": \"vctx\", \"args\": [\"mcp\", \"--agent\", \"ada\"]}}}

Many clients on one socket, each a conversation of its own:
  vctx mcp --listen $XDG_RUNTIME_DIR/vctx/mcp.sock

A running server is used as it is. When none listens on the socket, the first client starts one with its own database; all clients share
it, and it ends when it has been idle for a while. Its log is server.log in the data directory. With ARANGO_RW_UDS set, the server that is
started uses that database.

stdout carries the protocol only; logs go to stderr (VCTX_LOG__FILTER, default info).";

/// Give an MCP client this memory, on stdin and stdout
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Mcp {
    /// The agent whose memory it is; made by its first write
    #[arg(long, value_name = "NAME", default_value = "default")]
    agent: String,

    /// Serve many clients on this Unix socket instead of one on stdin and stdout
    #[arg(long, value_name = "SOCKET")]
    listen: Option<PathBuf>,

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
pub async fn run(mcp: Mcp) -> Result<(), Failure> {
    // The protocol's own library tells whole messages at its lower levels; what is said in conversations is not for logs.
    let filter = variable_of("VCTX_LOG__FILTER").unwrap_or_else(|| "info".into());
    let logs =
        telemetry::Settings { filter: format!("{filter},rmcp=error"), format: LogFormat::Text };
    telemetry::start_logs(&logs).map_err(Failure::usage)?;
    check_name("--agent", &mcp.agent).map_err(|error| Failure::usage(error.message))?;
    let settings = Settings {
        agent: mcp.agent,
        dialect: mcp.dialect,
        context_window: mcp.context_window,
        socket: mcp.socket.map_or_else(paths::default_socket, args::absolute),
        data_dir: mcp.data_dir.map(args::absolute),
        idle_exit_s: mcp.idle_exit_s,
    };
    match mcp.listen.map(args::absolute) {
        None => serve(Bridge::new(settings)).await.map_err(Failure::internal),
        Some(socket) => on_socket(&socket, settings).await,
    }
}

/// Serves clients on a socket until a signal comes.
async fn on_socket(socket: &Path, settings: Settings) -> Result<(), Failure> {
    let listening = bind(socket).map_err(|error| Failure::usage(format!("--listen: {error}")))?;
    let (stop, stopped) = watch::channel(false);
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut signals = signal(kind)
            .map_err(|error| Failure::internal(format!("cannot watch for signals: {error}")))?;
        let stop = stop.clone();
        tokio::spawn(async move {
            signals.recv().await;
            stop.send_replace(true);
        });
    }
    output::line(&format!("listening on {}", listening.path().display()))?;
    listen(listening, settings, stopped).await.map_err(Failure::internal)
}
