//! Starts the parts of a server in order (engine, sockets, background jobs), and stops them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::databases::{Ready, begin_jobs, keep_database, sign_last, wait_until_ready};
use super::engine::start_engine;
use super::{Stop, cannot, cannot_bind, chosen, exit, io_loop, on_signal, on_stop};
use crate::config::{Config, Remote};
use crate::secrets::password_of;
use vctx_base::secret::secret_of;
use vctx_base::socket::{self, Listening};
use vctx_base::{systemd, telemetry};
use vctx_client::paths;
use vctx_client::serving::{Link, serving};
use vctx_core::ledger::Secret;
use vctx_core::memory::TokenCounter as _;
use vctx_core::text::Tiktoken;
use vctx_core::trust::Actor;
use vctx_server::checkpoints::Checkpoints;
use vctx_server::checks;
use vctx_server::databases::Moves;
use vctx_server::http::Gate;
use vctx_server::jobs::Witnessing;
use vctx_server::models::chat::{CHAT_KEY, ChatModel};
use vctx_server::models::{EMBEDDER_KEY, EMBEDDER_NEXT_KEY, Embedders, ModelServer};
use vctx_server::store::Endpoint;

/// Options of `vctx serve`. The configuration determines the options that the user does not give.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// Socket on which the server listens.
    pub socket: Option<PathBuf>,
    /// Directory of the engine's data, sockets and passwords.
    pub data_dir: Option<PathBuf>,
    /// Configuration file.
    pub config: Option<PathBuf>,
    /// Time without a connection after which the server ends; `None` means never.
    pub idle_exit: Option<Duration>,
}

/// The parts of a server that do not depend on a database.
pub(super) struct Server {
    pub(super) config: Config,
    pub(super) embedders: Embedders,
    pub(super) chat: Option<Arc<dyn ChatModel>>,
    pub(super) data_dir: PathBuf,
    pub(super) socket: PathBuf,
    /// Identity under which this server records events.
    pub(super) actor: Actor,
    /// The checkpoints that this server signs.
    pub(super) checkpoints: Arc<Checkpoints>,
    /// The secret of the database's servers.
    pub(super) secret: Arc<Secret>,
}

impl Server {
    pub(super) fn tenant(&self) -> String {
        self.config.server.tenant.clone()
    }
}

/// The API and metrics sockets that the server inherited from the service manager. If the metrics
/// socket is not inherited, the server binds it at `metrics_path`.
struct Sockets {
    api: Option<Listening>,
    metrics: Option<Listening>,
    metrics_path: PathBuf,
}

/// Runs the server until a signal stops the server.
pub fn serve(options: &ServeOptions) -> ExitCode {
    exit(run_server(options))
}

fn run_server(options: &ServeOptions) -> Result<(), Stop> {
    // This call removes variables from the environment. The removal is safe only before the first
    // thread starts.
    let mut handed_over = systemd::inherited_sockets().map_err(Stop::Configuration)?;
    let config = Config::load(options.config.as_deref())?;
    telemetry::start_logs(&config.log).map_err(Stop::Configuration)?;
    systemd::no_core_dumps();
    systemd::raise_file_limit();
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    for one in config.model_servers() {
        let ModelServer { section, server, model, receives, .. } = &one;
        tracing::info!(section, server, model, receives, "a model's server gets texts");
    }
    let metrics = telemetry::start_metrics().map_err(Stop::CannotCreate)?;
    // Loading the table of tokens takes a tenth of a start, and depends on nothing else.
    std::thread::spawn(|| Tiktoken::default().count("warm"));
    let (socket, sockets) = sockets(options, &config, &mut handed_over)?;
    let remote = config.served()?;
    let server = server(options, config, socket)?;
    // The engine stops last, because running calls still need the engine during shutdown.
    let (engine_stop, engine_stopping) = watch::channel(false);
    let engine = match remote {
        Some(_) => None,
        None => {
            let started = start_engine(&server.data_dir, engine_stopping);
            Some(started.map_err(|stop| in_use(stop, &server.data_dir))?)
        }
    };
    let (stop, stopping) = watch::channel(false);
    let outcome = io_loop()?.block_on(async {
        let server = Arc::new(server.signing()?);
        let api = sockets.api.map_or_else(|| socket::bind(&server.socket), Ok);
        let api = api.map_err(cannot_bind("listen"))?;
        let _link = link(&server.data_dir, &server.socket);
        let listening = sockets.metrics.map_or_else(|| socket::bind(&sockets.metrics_path), Ok);
        let listening = listening.map_err(cannot_bind("listen for metrics"))?;
        on_signal(stop.clone())?;
        on_stop(stopping.clone());
        if let Some(time) = options.idle_exit {
            on_idle(time, &api, stop.clone());
        }
        let router = telemetry::metrics_router(metrics);
        let metrics = tokio::spawn(socket::serve(listening, router, stopping.clone()));
        run(&server, remote, api, &stop, stopping).await?;
        metrics.await.ok();
        Ok(())
    });
    stop.send_replace(true);
    engine_stop.send_replace(true);
    if let Some(engine) = engine {
        engine.join().map_err(|_| Stop::Unavailable("the engine's thread panicked".into()))??;
    }
    outcome
}

/// Makes the link by which clients find this server. Without it, clients need the socket's path.
fn link(data_dir: &Path, socket: &Path) -> Option<Link> {
    let made = Link::new(data_dir, socket);
    made.inspect_err(|error| {
        let directory = data_dir.display();
        tracing::warn!(%error, %directory, "clients find this server by its socket's path only");
    })
    .ok()
}

/// Names the server that already serves the memory, if a start failed for this reason.
fn in_use(stop: Stop, data_dir: &Path) -> Stop {
    let Some(found) = serving(data_dir) else { return stop };
    Stop::CannotCreate(format!(
        "a server with the pid {} serves this memory at {}: use it (each command finds it), stop it with `vctx stop`, or name another --data-dir",
        found.pid,
        found.socket.display()
    ))
}

/// Serves the API. Until the database is ready, each answer is the reason why the database is not
/// ready.
async fn run(
    server: &Arc<Server>,
    remote: Option<Remote>,
    api: Listening,
    stop: &watch::Sender<bool>,
    stopping: watch::Receiver<bool>,
) -> Result<(), Stop> {
    let embedded = remote.is_none();
    let gate = Gate::closed("starting: the database has not answered yet");
    let serving = tokio::spawn(socket::serve(api, gate.clone(), stopping.clone()));
    let ready = match wait_until_ready(server, remote, &gate, stopping.clone()).await {
        Ok(Some(ready)) => ready,
        Ok(None) => return Ok(()),
        Err(refused) => {
            stop.send_replace(true);
            serving.await.ok();
            return Err(refused);
        }
    };
    let Ready { executor, processor, self_checks, fleet } = ready;
    let mut jobs = begin_jobs(&executor, processor, &server.actor, stopping.clone());
    if server.checkpoints.has_witness() {
        jobs.start(Witnessing::new(Arc::clone(&server.checkpoints)));
    }
    let mut further = JoinSet::new();
    if let Some((fleet, databases)) = fleet {
        for database in databases {
            let (server, home) = (Arc::clone(server), Arc::clone(&executor));
            further.spawn(keep_database(server, home, database, stopping.clone()));
        }
        jobs.start(Moves::new(fleet));
    }
    let probe_ms = server.config.conveyance.probe_ms;
    let beat = systemd::beat();
    let beat_max = checks::beat_max(probe_ms);
    tokio::spawn(systemd::watchdog(beat.subscribe(), beat_max, stopping.clone()));
    let watch = checks::watch(Arc::clone(&executor), self_checks, probe_ms, beat, stopping);
    let watch = tokio::spawn(watch);
    print_next_steps(&server.socket, embedded.then_some(&server.data_dir));
    systemd::ready(&format!("serves {}", server.socket.display()));
    serving.await.ok();
    further.join_all().await;
    jobs.ended().await;
    // Aborting the self-checks is safe, because they write nothing.
    watch.abort();
    executor.scores().close_sessions().await;
    sign_last(&executor).await;
    Ok(())
}

fn sockets(
    options: &ServeOptions,
    config: &Config,
    handed_over: &mut systemd::InheritedSockets,
) -> Result<(PathBuf, Sockets), Stop> {
    let mut adopted = |name: &str| {
        let listener = handed_over.remove(name).map(socket::adopt);
        listener.transpose().map_err(cannot("take over a socket"))
    };
    let (api, metrics) = (adopted(systemd::API)?, adopted(systemd::METRICS)?);
    if let (Some(named), Some(api)) = (&options.socket, &api)
        && named != api.path()
    {
        return Err(Stop::Configuration(format!(
            "the service manager opened the socket {}: leave out --socket",
            api.path().display()
        )));
    }
    let socket = match &api {
        Some(api) => api.path().to_owned(),
        None => chosen(options.socket.as_ref(), &config.server.socket, paths::default_socket),
    };
    let metrics_path =
        chosen(None, &config.server.metrics_socket, || paths::metrics_socket(&socket));
    Ok((socket, Sockets { api, metrics, metrics_path }))
}

fn server(options: &ServeOptions, config: Config, socket: PathBuf) -> Result<Unsigned, Stop> {
    let (key, next_key) = (password_of(EMBEDDER_KEY)?, password_of(EMBEDDER_NEXT_KEY)?);
    let chat = config.chat.open(password_of(CHAT_KEY)?);
    let chat = chat.map_err(|fault| Stop::Configuration(format!("chat.{fault}")))?;
    let own = fs::metadata("/proc/self").map_err(cannot("read the server's own user id"))?;
    let pid = i32::try_from(std::process::id()).unwrap_or(0);
    let actor = Actor { uid: own.uid(), pid, label: Some("vctx serve".into()) };
    let stated = options.data_dir.is_some() || !config.server.data_dir.as_os_str().is_empty();
    if !stated && !paths::is_data_dir_stated() {
        let text =
            "neither HOME nor XDG_STATE_HOME is set: name the data directory with --data-dir";
        return Err(Stop::Configuration(text.into()));
    }
    let data_dir =
        chosen(options.data_dir.as_ref(), &config.server.data_dir, paths::default_data_dir);
    let embedders = config.embedder.clone().with_installed(&data_dir).open_all(
        key,
        next_key,
        config.taint.mode,
    );
    let embedders =
        embedders.map_err(|e| Stop::Configuration(format!("embedder: {}", e.chain())))?;
    Ok(Unsigned { config, embedders, chat, data_dir, socket, actor })
}

/// A server whose checkpoints are not open yet.
struct Unsigned {
    config: Config,
    embedders: Embedders,
    chat: Option<Arc<dyn ChatModel>>,
    data_dir: PathBuf,
    socket: PathBuf,
    actor: Actor,
}

impl Unsigned {
    /// Opens the checkpoints.
    fn signing(self) -> Result<Server, Stop> {
        let directory = ledger_dir(&self.data_dir, &self.config.server.tenant, &self.socket);
        let checkpoints = Checkpoints::open(&directory)
            .map_err(|why| Stop::CannotCreate(format!("checkpoints: {why}")))?;
        let checkpoints = match &self.config.server.witness {
            socket if socket.as_os_str().is_empty() => checkpoints,
            socket => checkpoints.with_witness(
                Endpoint::parse(&socket.display().to_string())
                    .map_err(|fault| Stop::Configuration(format!("server.witness: {fault}")))?
                    .path()
                    .to_owned(),
            ),
        };
        let Self { config, embedders, chat, data_dir, socket, actor } = self;
        let path = match &config.server.ledger_secret {
            path if path.as_os_str().is_empty() => data_dir.join("ledger").join("secret"),
            path => path.clone(),
        };
        let secret =
            secret_of(&path).map_err(|why| Stop::CannotCreate(format!("ledger secret: {why}")))?;
        let (checkpoints, secret) = (Arc::new(checkpoints), Arc::new(secret));
        Ok(Server { config, embedders, chat, data_dir, socket, actor, checkpoints, secret })
    }
}

/// Returns the directory of a server's checkpoints. Servers that share a data directory have
/// different tenants or different names of their sockets, and each has its own checkpoints.
fn ledger_dir(data_dir: &Path, tenant: &str, socket: &Path) -> PathBuf {
    let socket = socket.file_stem().unwrap_or_else(|| "vctx".as_ref());
    let name = match tenant {
        "" => socket.to_owned(),
        tenant => OsString::from(format!("{tenant}.{}", socket.to_string_lossy())),
    };
    data_dir.join("ledger").join(name)
}

/// Changes the key of a server that does not run: the former key signs that the new one follows.
/// Returns the texts of both public keys. An error says what is wrong.
pub fn rotate(options: &ServeOptions) -> Result<(String, String), String> {
    let config = Config::load(options.config.as_deref()).map_err(|faults| faults.to_string())?;
    let settings = &config.server;
    let socket = chosen(options.socket.as_ref(), &settings.socket, paths::default_socket);
    let data_dir = chosen(options.data_dir.as_ref(), &settings.data_dir, paths::default_data_dir);
    let directory = ledger_dir(&data_dir, &settings.tenant, &socket);
    match directory.join("key").exists() {
        true => Checkpoints::rotate(&directory),
        false => Err(format!("{} has no key: name the server's directory", directory.display())),
    }
}

/// Stops the server after the given time without connections, as a signal would.
fn on_idle(time: Duration, api: &Listening, stop: watch::Sender<bool>) {
    let open = api.open_connections();
    tokio::spawn(async move {
        socket::idle_for(time, open).await;
        tracing::info!(idle_s = time.as_secs(), "no connection is open any more: the server ends");
        stop.send_replace(true);
    });
}

/// Prints three example commands, and the data directory of the embedded engine if there is one.
fn print_next_steps(socket: &Path, engine_dir: Option<&PathBuf>) {
    let at = socket.display();
    eprintln!("vctx listens on {at}");
    if let Some(directory) = engine_dir {
        eprintln!("the data and passwords of the embedded database are in {}", directory.display());
    }
    eprintln!("next:");
    eprintln!("  vctx agent create ada --window 32768 --socket {at}");
    eprintln!(
        r#"  vctx tool append_fifo --agent ada --rev '*' --args '{{"message": "Hello", "role": "user"}}' --socket {at}"#
    );
    eprintln!("  vctx context --agent ada --socket {at}");
}
