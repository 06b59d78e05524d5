//! The `vctx scripted-model` command: reads the script, listens, and serves until a signal ends it.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::script::{Own, Script};
use super::server::{Model, router};
use vctx_base::socket::{bind, serve};
use vctx_cli::args;
use vctx_cli::exit::Failure;

/// Serve a deterministic chat model that follows a script
#[derive(Debug, Args)]
#[command(after_help = help())]
pub struct ScriptedModel {
    /// Unix socket to listen on
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,

    /// A script by name, or a file of JSON lines
    #[arg(long, value_name = "NAME|FILE", default_value = "echo")]
    script: String,

    /// Size of the model's context in tokens; larger requests are refused; 0 means no limit
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    window: u64,

    /// Number of tokens that the model counts for each thousand actual tokens
    #[arg(long, value_name = "PERMILLE", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    usage_permille: u64,

    /// Write each request to this file, one JSON line each
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

fn help() -> String {
    let rows = Own::ALL.iter().map(|(_, name, help)| format!("  {name:<12} {help}"));
    let rows: Vec<String> = rows.collect();
    format!(
        "Scripts:\n{}\n\nA step of a file: {{\"when\": \"text of the last message\", \"text\": \"Hello\", \"calls\": [{{\"name\": \"fetch_core\", \"arguments\": {{}}}}],\n\"status\": 500, \"body\": {{}}, \"retry_after_s\": 1, \"pause_ms\": 0, \"cut_after\": 3, \"times\": 1, \"repeat\": false}}",
        rows.join("\n")
    )
}

/// Runs `vctx scripted-model`: listens on the socket and serves requests.
pub async fn run(asked: ScriptedModel) -> Result<(), Failure> {
    let log = match &asked.log {
        Some(path) => {
            // Only the owner may read the file of recorded requests, because requests contain texts
            // of the memory.
            let file = File::options().create(true).append(true).mode(0o600).open(path);
            Some(Mutex::new(file.map_err(|e| Failure::writing(path.display(), &e))?))
        }
        None => None,
    };
    let model = Model {
        script: Script::by_name(&asked.script)?,
        window: asked.window,
        permille: asked.usage_permille,
        log,
        asked: AtomicU64::new(0),
    };
    let socket = args::absolute(asked.socket);
    let listening = bind(&socket).map_err(|e| Failure::writing(socket.display(), &e))?;
    let (stop, stopping) = watch::channel(false);
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut stream = signal(kind)
            .map_err(|e| Failure::internal(format!("cannot watch for signals: {e}")))?;
        let stop = stop.clone();
        tokio::spawn(async move {
            stream.recv().await;
            stop.send_replace(true);
        });
    }
    eprintln!("the scripted model `{}` listens on {}", asked.script, socket.display());
    let served = serve(listening, router(Arc::new(model)), stopping).await;
    served.map_err(|e| Failure::internal(format!("cannot serve: {e}")))
}
