//! `vctx mcp`: offers an agent's memory to MCP clients, on stdin and stdout or on a Unix socket.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::args;
use crate::exit::Failure;
use crate::mcp_install;
use crate::output;
use crate::secrets::variable_of;
use crate::whose::from_environment;
use vctx_base::socket::bind;
use vctx_base::telemetry::{self, LogFormat};
use vctx_core::dialect::Dialect;
use vctx_core::limits::{MCP_WINDOW_TOKENS, WINDOW_TOKENS_MAX, WINDOW_TOKENS_MIN};
use vctx_core::trust::check_name;
use vctx_mcp::{Bridge, Settings, listen, serve};

/// Default of `--idle-exit-s`: time without a connection, in seconds, after which a server that
/// this command started ends.
const IDLE_EXIT_S: u64 = 300;

const EXAMPLES: &str = "\
  vctx mcp install --client cursor      writes the configuration of a client, which is shown first

In the configuration of any other MCP client:
  {\"mcpServers\": {\"memory\": {\"command\": \"vctx\", \"args\": [\"mcp\"]}}}
  {\"mcpServers\": {\"memory\": {\"command\": \"vctx\", \"args\": [\"mcp\", \"--agent\", \"ada\"]}}}

Many clients on one socket, each with its own conversation:
  vctx mcp --listen $XDG_RUNTIME_DIR/vctx/mcp.sock

If a server serves the data directory, the command uses this server. If none does, the first client starts a server with an embedded
database. All clients share the started server, which ends after a time without connections. The server's log is server.log in the data
directory. If ARANGO_RW_UDS is set, the started server uses the database on that socket instead of the embedded database.

stdout contains only messages of the protocol; logs go to stderr (VCTX_LOG__FILTER, default info).";

/// Serve an agent's memory to an MCP client, on stdin and stdout
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Mcp {
    #[command(subcommand)]
    action: Option<McpAction>,

    /// Agent whose memory the client uses; the client's first write creates the agent
    /// [default: $VCTX_AGENT, else the agent `default`]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,

    /// Serve many clients on this Unix socket instead of one on stdin and stdout
    #[arg(long, value_name = "SOCKET")]
    listen: Option<PathBuf>,

    /// Dialect of the tools: vctx, memgpt, anthropic or ues
    #[arg(long, value_name = "DIALECT", default_value = "vctx", value_parser = args::dialect)]
    dialect: Dialect,

    /// Show all tools of the dialect, also those that few models need
    #[arg(long)]
    all_tools: bool,

    /// Tokens of the window of a new agent
    #[arg(long, value_name = "TOKENS", default_value_t = MCP_WINDOW_TOKENS, value_parser = clap::value_parser!(u64).range(WINDOW_TOKENS_MIN..=WINDOW_TOKENS_MAX))]
    context_window: u64,

    /// Socket of the server [default: that of the data directory's server]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Data directory of a server started by this command [default: $XDG_STATE_HOME/vctx]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Time without a connection after which a server started by this command ends
    #[arg(long, value_name = "SECONDS", default_value_t = IDLE_EXIT_S, value_parser = clap::value_parser!(u64).range(1..))]
    idle_exit_s: u64,
}

#[derive(Debug, Subcommand)]
enum McpAction {
    Install(mcp_install::Install),
}

impl Mcp {
    /// Whether errors are answered in JSON.
    pub fn json(&self) -> bool {
        matches!(&self.action, Some(McpAction::Install(asked)) if asked.json)
    }
}

/// Runs `vctx mcp`.
pub async fn run(mcp: Mcp) -> Result<(), Failure> {
    if let Some(McpAction::Install(asked)) = &mcp.action {
        return mcp_install::run(asked);
    }
    // The MCP library logs whole messages at debug level, but logs must not contain conversations.
    let filter = variable_of("VCTX_LOG__FILTER").unwrap_or_else(|| "info".into());
    let logs =
        telemetry::Settings { filter: format!("{filter},rmcp=error"), format: LogFormat::Text };
    telemetry::start_logs(&logs).map_err(Failure::usage)?;
    let agent = mcp.agent.or_else(from_environment).unwrap_or_else(|| "default".into());
    check_name("--agent", &agent).map_err(|error| Failure::usage(error.message))?;
    let settings = Settings {
        agent,
        dialect: mcp.dialect,
        all_tools: mcp.all_tools,
        context_window: mcp.context_window,
        socket: mcp.socket.map(args::absolute),
        data_dir: mcp.data_dir.map(args::absolute),
        idle_exit_s: mcp.idle_exit_s,
    };
    match mcp.listen.map(args::absolute) {
        None => Box::pin(serve(Bridge::new(settings))).await.map_err(Failure::internal),
        Some(socket) => on_socket(&socket, settings).await,
    }
}

/// Serves clients on a socket until a signal arrives.
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
