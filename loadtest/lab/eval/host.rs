//! The server under test: a running server, or one started on a temporary directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::demo::{Role, Stage};
use vctx_base::ids::{Ids as _, SystemIds};
use vctx_cli::config::Config;
use vctx_cli::exit::Failure;
use vctx_client::{Client, Settings, paths};
use vctx_server::models::{Embedder, EmbedderKind};
use vctx_server::store::{Admin, Endpoint};

/// Maximum wait for one answer. The wait is long because one call can evict a whole conversation.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(120);

/// A server under test, and the name of this run, which is part of each agent's name.
pub(super) struct Host {
    socket: PathBuf,
    /// The started processes, if this run started the server.
    stage: Option<Stage>,
    /// The server's configuration, if known.
    config: Option<Box<Config>>,
    /// Part of every agent's name, so that runs on one server use different agents.
    run: String,
}

impl Host {
    /// Uses a running server for the benchmarks.
    pub(super) fn running(socket: PathBuf) -> Host {
        Host { socket, stage: None, config: None, run: run() }
    }

    /// Starts an engine and a server on a temporary directory.
    pub(super) async fn own(config: Option<&Path>) -> Result<Host, Failure> {
        let loaded = Config::load(config)
            .map_err(|faults| Failure::usage(format!("the configuration is wrong: {faults}")))?;
        let mut stage = Stage::prepare(None)?;
        stage.configure(config)?;
        let config = Some(Box::new(loaded));
        let mut host = Host { socket: stage.socket(), stage: None, config, run: run() };
        for role in [Role::Engine, Role::Server] {
            if let Err(failure) = stage.start(role).await {
                let failure = stage.explain(failure);
                stage.stop().await?;
                return Err(failure);
            }
        }
        host.stage = Some(stage);
        Ok(host)
    }

    /// Whether this run started the server.
    pub(super) fn is_own(&self) -> bool {
        self.stage.is_some()
    }

    /// Whether the server has an embedding model; `None` if unknown. No model is installed in the
    /// new data directory of an own server.
    pub(super) fn has_model(&self) -> Option<bool> {
        let named = [EmbedderKind::Endpoint, EmbedderKind::Local];
        self.config.as_ref().map(|config| named.contains(&config.embedder.kind))
    }

    /// The server's embedding model; `None` without a model, or if unknown.
    pub(super) fn embedder(&self) -> Result<Option<Arc<dyn Embedder>>, Failure> {
        let model = self.config.as_ref().filter(|_| self.has_model() == Some(true));
        let Some(config) = model else { return Ok(None) };
        let opened = config.embedder.open(None, config.taint.mode).map_err(|error| {
            Failure::internal(format!("the configured model cannot be opened: {error}"))
        })?;
        Ok(Some(Arc::clone(opened.configured())))
    }

    /// Returns a connection to the server's database with administrator rights; `None` if this run
    /// did not start the server.
    pub(super) async fn admin(&self) -> Result<Option<Admin>, Failure> {
        let (Some(stage), Some(config)) = (&self.stage, &self.config) else { return Ok(None) };
        let endpoint = Endpoint::parse(&stage.engine().to_string_lossy())
            .map_err(|fault| Failure::internal(fault.to_string()))?;
        let admin = Admin::connect(&endpoint, &stage.root(), &config.store.database).await;
        admin.map(Some).map_err(|fault| Failure::internal(fault.to_string()))
    }

    /// Returns the text of the server's metrics; `None` if the metrics cannot be read.
    pub(super) async fn metrics(&self) -> Option<String> {
        let settings = Settings::new(paths::metrics_socket(&self.socket));
        Client::new(settings).text("/metrics").await.ok()
    }

    /// Returns a client with a separate connection to the server.
    pub(super) fn client(&self) -> Client {
        Client::new(Settings {
            deadline: ANSWER_WAIT_MAX,
            answer_bytes_max: 256 << 20,
            ..Settings::new(&self.socket)
        })
    }

    /// Returns the agent name for `name`, with a prefix that identifies this run.
    pub(super) fn agent(&self, name: &str) -> String {
        let plain: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '_' })
            .take(64)
            .collect();
        format!("eval-{}-{plain}", self.run)
    }

    /// Stops the server if this run started it. If the run failed, appends the last log lines to
    /// the failure's message.
    pub(super) async fn stop<T>(mut self, ended: Result<T, Failure>) -> Result<T, Failure> {
        let Some(stage) = &mut self.stage else { return ended };
        let stopped = stage.stop().await;
        let ended = ended.map_err(|failure| stage.explain(failure))?;
        stopped.map(|()| ended)
    }
}

fn run() -> String {
    SystemIds.salt().chars().take(8).collect()
}
