//! Composition: configuration in, running server out; start order, drain order; the only file that may start `embedded`.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use arango_embedded::Engine;
use arango_embedded::http::{Auth, AuthSettings, Mode};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::{Config, Faults, Remote, WriteChoice, password_of, secret_or_new};
use vctx_base::clock::SystemClock;
use vctx_base::ids::{Ids as _, SystemIds};
use vctx_base::socket::{self, Listening};
use vctx_base::systemd;
use vctx_base::telemetry;
use vctx_client::paths;
use vctx_core::dialect::Dialect;
use vctx_core::limits::{PROBE_MS_MAX, START_MS_MAX};
use vctx_core::memory::Encoding;
use vctx_core::policy::Actor;
use vctx_server::agent_loop::{Processor, ProcessorSettings};
use vctx_server::databases::{Fleet, Moves, Place, Places};
use vctx_server::dispatch;
use vctx_server::executor::Executor;
use vctx_server::http::{self, Gate};
use vctx_server::jobs::{
    DeadChains, DeadRuns, Expiry, Forgettings, RecallVectors, Reindex, Runner, Ticks,
};
use vctx_server::models::chat::ChatModel;
use vctx_server::models::{Embedders, Gateway};
use vctx_server::pulse::{self, Guards};
use vctx_server::startup::{self, Finding, Profile};
use vctx_server::store::{self, Admin, Credentials, Endpoint, Fault, FaultKind, Ro, Rw, WriteMode};

/// What `vctx serve` was told; what is absent comes from the configuration.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// Socket to listen on.
    pub socket: Option<PathBuf>,
    /// Directory of the engine's data, its sockets and passwords.
    pub data_dir: Option<PathBuf>,
    /// Configuration file.
    pub config: Option<PathBuf>,
    /// Time without any connection after which the server ends; absent: it stays.
    pub idle_exit: Option<Duration>,
}

/// What `vctx setup` was told; the endpoint comes from the configuration.
#[derive(Clone, Debug, Default)]
pub struct SetupOptions {
    /// Answer in JSON.
    pub json: bool,
    /// Configuration file.
    pub config: Option<PathBuf>,
    /// Whether to make the least-privilege users.
    pub users: bool,
}

/// What `vctx engine` was told; the root password comes from `ARANGO_ROOT_PASSWORD`, or is made.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Socket for reading and writing.
    pub socket: PathBuf,
    /// Socket for reading only.
    pub ro_socket: Option<PathBuf>,
    /// Directory of the data.
    pub data_dir: PathBuf,
}

/// What `vctx proxy` was told; passwords come from the environment.
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// What passes.
    pub mode: vctx_proxy::Mode,
    /// Socket to listen on.
    pub listen: PathBuf,
    /// Socket of the database, in any spelling.
    pub upstream: String,
    /// Socket for metrics; absent: none.
    pub metrics: Option<PathBuf>,
    /// Configuration file.
    pub config: Option<PathBuf>,
}

/// Why a start failed, by exit code (sysexits).
enum Stop {
    /// 78: the configuration is wrong.
    Configuration(String),
    /// 69: something that is needed is not there.
    Unavailable(String),
    /// 73: a socket or file cannot be made.
    CannotCreate(String),
    /// 77: refused by a check.
    Refused(String),
}

impl From<Faults> for Stop {
    fn from(faults: Faults) -> Self {
        Self::Configuration(faults.to_string())
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        match fault.kind {
            FaultKind::Arango { status: 401 | 403, .. } => {
                Self::Refused(format!("the database refused the credentials: {fault}"))
            }
            _ => Self::Unavailable(format!("the database: {fault}")),
        }
    }
}

impl Stop {
    /// Its exit code and why.
    fn told(self) -> (u8, String) {
        match self {
            Self::Configuration(text) => (78, text),
            Self::Unavailable(text) => (69, text),
            Self::CannotCreate(text) => (73, text),
            Self::Refused(text) => (77, text),
        }
    }
}

fn ended(outcome: Result<(), Stop>) -> ExitCode {
    let (code, text) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(stop) => stop.told(),
    };
    eprintln!("vctx: {text}");
    ExitCode::from(code)
}

fn cannot<'a, E: std::fmt::Display>(what: &'a str) -> impl Fn(E) -> Stop + 'a {
    move |error| Stop::CannotCreate(format!("{what}: {error}"))
}

/// An IO loop: one thread, since two cost more than they give on a socket (`loadtest/results`).
fn io_loop() -> Result<Runtime, Stop> {
    Builder::new_current_thread().enable_all().build().map_err(cannot("start the IO loop"))
}

/// Runs the server until it is told to stop.
pub fn serve(options: &ServeOptions) -> ExitCode {
    ended(run_server(options))
}

fn run_server(options: &ServeOptions) -> Result<(), Stop> {
    // Before any thread is there: it changes the environment.
    let mut given = systemd::given().map_err(Stop::Configuration)?;
    let config = Config::load(options.config.as_deref())?;
    telemetry::start_logs(&config.log).map_err(Stop::Configuration)?;
    systemd::no_core_dumps();
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    let handle = telemetry::start_metrics().map_err(Stop::CannotCreate)?;
    let data_dir =
        chosen(options.data_dir.as_ref(), &config.server.data_dir, paths::default_data_dir);
    let api = handed_over(&mut given, systemd::API)?;
    if let (Some(told), Some(api)) = (&options.socket, &api)
        && told != api.path()
    {
        return Err(Stop::Configuration(format!(
            "the service manager handed over {}: leave out --socket",
            api.path().display()
        )));
    }
    let socket = match &api {
        Some(api) => api.path().to_owned(),
        None => chosen(options.socket.as_ref(), &config.server.socket, paths::default_socket),
    };
    let metrics = handed_over(&mut given, systemd::METRICS)?;
    let metrics_socket =
        chosen(None, &config.server.metrics_socket, || paths::metrics_socket(&socket));
    let (stop, stopping) = watch::channel(false);
    // The engine goes last: calls that are being drained still need it.
    let (engine_stop, engine_stopping) = watch::channel(false);
    let remote = config.served()?;
    let key = password_of("VCTX_EMBEDDER_KEY")?;
    let next_key = password_of("VCTX_EMBEDDER_NEXT_KEY")?;
    let embedders = config
        .embedder
        .open_all(key, next_key)
        .map_err(|e| Stop::Configuration(format!("embedder: {}", e.chain())))?;
    let chat = config.chat.open(password_of("VCTX_CHAT_KEY")?);
    let actor = own_actor()?;
    let engine = match remote {
        Some(_) => None,
        None => Some(start_engine(&data_dir, engine_stopping)?),
    };
    let runtime = io_loop()?;
    let outcome = runtime.block_on(async {
        let api = api.map_or_else(|| socket::bind(&socket), Ok).map_err(cannot("listen"))?;
        let metrics = metrics.map_or_else(|| socket::bind(&metrics_socket), Ok);
        let metrics = metrics.map_err(cannot("listen for metrics"))?;
        on_signal(stop.clone())?;
        on_stop(stopping.clone());
        if let Some(time) = options.idle_exit {
            on_idle(time, &api, stop.clone());
        }
        let gate = Gate::closed("starting: the database has not answered yet");
        let metrics = tokio::spawn(socket::serve(
            metrics,
            telemetry::metrics_router(handle),
            stopping.clone(),
        ));
        let serving = tokio::spawn(socket::serve(api, gate.router(), stopping.clone()));
        let (jobs_stopping, watching) = (stopping.clone(), stopping.clone());
        let models = Models { embedders, chat };
        let ready = get_ready(&config, &models, remote, &data_dir, &socket, &gate, stopping).await;
        match ready {
            Ok(Some(Ready { executor, processor, guards, fleet })) => {
                let mut jobs = begin_jobs(&executor, processor, &actor, jobs_stopping.clone());
                let mut further = JoinSet::new();
                if let Some((fleet, waiting)) = fleet {
                    for place in waiting {
                        let keep = Keep {
                            config: config.clone(),
                            models: models.clone(),
                            socket: socket.clone(),
                            data_dir: data_dir.clone(),
                            home: Arc::clone(&executor),
                            actor: actor.clone(),
                        };
                        further.spawn(keep_place(keep, place, jobs_stopping.clone()));
                    }
                    jobs.start(Moves::new(fleet));
                }
                let settings = config.conveyance.clone();
                let beat = systemd::beat();
                let dog = systemd::watchdog(
                    beat.subscribe(),
                    pulse::beat_max(&settings),
                    watching.clone(),
                );
                tokio::spawn(dog);
                let watched = pulse::watch(Arc::clone(&executor), guards, settings, beat, watching);
                let watched = tokio::spawn(watched);
                tell(&socket, engine.is_some(), &data_dir);
                systemd::ready(&format!("serves {}", socket.display()));
                serving.await.ok();
                further.join_all().await;
                jobs.ended().await;
                // It only looks; what it looks at may be gone already.
                watched.abort();
                executor.close_sessions().await;
            }
            Ok(None) => {}
            Err(refused) => {
                stop.send_replace(true);
                serving.await.ok();
                return Err(refused);
            }
        }
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

/// The socket of that name, if the service manager handed it over.
fn handed_over(given: &mut systemd::Given, name: &str) -> Result<Option<Listening>, Stop> {
    given.remove(name).map(socket::adopt).transpose().map_err(cannot("take over a socket"))
}

/// Tells the service manager when the end begins.
fn on_stop(mut stopping: watch::Receiver<bool>) {
    tokio::spawn(async move {
        // A dropped sender means that the program ends.
        if stopping.wait_for(|stop| *stop).await.is_ok() {
            systemd::stopping();
        }
    });
}

/// What a server does by itself in one place, begun.
fn begin_jobs(
    executor: &Arc<Executor>,
    processor: Arc<Processor>,
    actor: &Actor,
    stopping: watch::Receiver<bool>,
) -> Runner {
    // Without a model nobody runs.
    let runner = processor.model_name().is_some();
    let runner = runner.then_some(processor as Arc<dyn dispatch::Runner>);
    let mut jobs = Runner::new(stopping);
    jobs.start(DeadChains::new(Arc::clone(executor), actor.clone()));
    jobs.start(DeadRuns::new(Arc::clone(executor), actor.clone()));
    jobs.start(Forgettings::new(Arc::clone(executor), actor.clone()));
    if !executor.retains_for_ever() {
        jobs.start(Expiry::new(Arc::clone(executor), actor.clone()));
    }
    jobs.start(Ticks::new(Arc::clone(executor), actor.clone(), runner));
    jobs.start(Reindex::new(Arc::clone(executor), actor.clone()));
    if executor.embeds_recall() {
        jobs.start(RecallVectors::new(Arc::clone(executor), actor.clone()));
    }
    jobs
}

/// What a further place is kept with.
struct Keep {
    config: Config,
    models: Models,
    socket: PathBuf,
    data_dir: PathBuf,
    home: Arc<Executor>,
    actor: Actor,
}

/// Looks for a further place until it is ready, and then works there until the server stops. One that is away keeps nobody from the others.
async fn keep_place(keep: Keep, place: Arc<Place>, mut stopping: watch::Receiver<bool>) {
    let named = keep.config.store.places.iter().find(|settings| settings.name == place.name());
    let Some(settings) = named else { return };
    let mut told = String::new();
    let executor = loop {
        let attempt = async {
            let (config, remote) = keep.config.in_place(settings)?;
            let (executor, _) = connect_remote(&config, &remote, &keep.socket).await?;
            Ok::<_, Stop>(executor)
        };
        match attempt.await {
            Ok(executor) => break executor,
            Err(stop) => {
                let (_, why) = stop.told();
                if why != told {
                    tracing::warn!(place = place.name(), "a place is not ready: {why}");
                    place.because(why.clone());
                    told = why;
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(PLACE_PAUSE) => {}
            () = told_to_stop(&mut stopping) => return,
        }
    };
    let executor = executor.at_place(place.name(), Some(keep.home), true);
    let (executor, processor) = answering(&keep.config, &keep.models, executor, &keep.data_dir);
    let (tenant, dropin) = (keep.config.server.tenant.clone(), keep.config.dropin);
    let router = http::router(Arc::clone(&executor), Arc::clone(&processor), tenant, dropin);
    place.open(Arc::clone(&executor), router);
    tracing::info!(place = place.name(), "a place is ready");
    let jobs = begin_jobs(&executor, processor, &keep.actor, stopping.clone());
    let pause = Duration::from_millis(keep.config.conveyance.probe_ms.max(READY_MS_MIN));
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => executor.close_idle_sessions().await,
            () = told_to_stop(&mut stopping) => break,
        }
        if keep.config.conveyance.probe_ms == 0 {
            continue;
        }
        let limit = Duration::from_millis(PROBE_MS_MAX);
        place.heard(match tokio::time::timeout(limit, executor.ready()).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error.message),
            Err(_) => Some(format!("no answer within {PROBE_MS_MAX} ms")),
        });
    }
    jobs.ended().await;
    executor.close_sessions().await;
}

/// Waits until the server is told to stop; a dropped sender means that the program ends.
async fn told_to_stop(stopping: &mut watch::Receiver<bool>) {
    drop(stopping.wait_for(|stop| *stop).await);
}

/// Pause between two looks at a further place that is not ready.
const PLACE_PAUSE: Duration = Duration::from_secs(1);
/// Shortest pause between two looks for sessions that are over, in milliseconds.
const READY_MS_MIN: u64 = 1_000;

/// What answers.
#[derive(Clone)]
struct Models {
    embedders: Embedders,
    chat: Option<Arc<dyn ChatModel>>,
}

fn processor_settings(config: &Config) -> ProcessorSettings {
    ProcessorSettings {
        max_tokens: config.chat.max_tokens,
        max_tokens_field: config.chat.max_tokens_field.clone(),
        tools: config.chat.tools.clone(),
        // A name that is none was refused when the configuration was read.
        dialect: Dialect::named(&config.chat.dialect).unwrap_or_default(),
        strict: config.chat.strict,
    }
}

/// The server itself, as the rows of events name it when it acts by itself.
fn own_actor() -> Result<Actor, Stop> {
    let own = fs::metadata("/proc/self").map_err(cannot("ask for the server's own user id"))?;
    let pid = i32::try_from(std::process::id()).unwrap_or(0);
    Ok(Actor { uid: own.uid(), pid, label: Some("vctx serve".into()) })
}

fn chosen(told: Option<&PathBuf>, configured: &Path, default: impl FnOnce() -> PathBuf) -> PathBuf {
    match told {
        Some(path) => path.clone(),
        None if configured.as_os_str().is_empty() => default(),
        None => configured.to_owned(),
    }
}

fn on_signal(stop: watch::Sender<bool>) -> Result<(), Stop> {
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut stream = signal(kind).map_err(cannot("watch for signals"))?;
        let stop = stop.clone();
        tokio::spawn(async move {
            stream.recv().await;
            stop.send_replace(true);
        });
    }
    Ok(())
}

/// Stops a server that nobody uses, as a signal would.
fn on_idle(time: Duration, api: &Listening, stop: watch::Sender<bool>) {
    let open = api.open_connections();
    tokio::spawn(async move {
        socket::idle_for(time, open).await;
        tracing::info!(idle_s = time.as_secs(), "no connection is open any more: the server ends");
        stop.send_replace(true);
    });
}

/// Names of the engine's sockets in its data directory.
const ENGINE_SOCKET: &str = "arangod.sock";
const ENGINE_RO_SOCKET: &str = "arangod-ro.sock";

/// Environment variable with the password of the engine's user `root`, for its first start.
const ROOT_PASSWORD: &str = "ARANGO_ROOT_PASSWORD";
/// File in the data directory with that password, where one was made.
const ROOT_PASSWORD_FILE: &str = "root.password";

/// The engine's own files in the data directory, apart from sockets and passwords.
const ENGINE_DIRECTORY: &str = "engine";

type EngineThread = thread::JoinHandle<Result<(), Stop>>;

/// Writes the data of the embedded engine below a directory into new files; why not, in a sentence.
pub fn rewrite(
    data_dir: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<arango_embedded::Rewritten, String> {
    arango_embedded::rewrite(&data_dir.join(ENGINE_DIRECTORY), progress)
        .map_err(|error| error.message.clone())
}

/// Starts the engine on two sockets in its data directory, on a thread with an IO loop of its own.
fn start_engine(data_dir: &Path, stopping: watch::Receiver<bool>) -> Result<EngineThread, Stop> {
    make_private(data_dir)?;
    // The server needs it at each start, the engine at the first alone.
    let password = secret_or_new(&data_dir.join(ROOT_PASSWORD_FILE), || SystemIds.salt())?;
    let sockets = EngineOptions {
        socket: data_dir.join(ENGINE_SOCKET),
        ro_socket: Some(data_dir.join(ENGINE_RO_SOCKET)),
        data_dir: data_dir.to_owned(),
    };
    let prepared = prepare_engine(&sockets, || Ok(password))?;
    describe_engine(&sockets)?;
    let run = move || io_loop()?.block_on(run_engine(prepared, stopping));
    thread::Builder::new()
        .name("engine".into())
        .spawn(run)
        .map_err(cannot("start the engine's thread"))
}

/// Writes down what the engine runs with, in the form of an arangod.conf, for `guards/` and for people.
fn describe_engine(options: &EngineOptions) -> Result<(), Stop> {
    let mut text = String::from(
        "# What the embedded engine runs with, in arangod's form. Written at each start; changing it changes nothing.\nvector-index = true\n\n[server]\n",
    );
    for socket in [Some(&options.socket), options.ro_socket.as_ref()].into_iter().flatten() {
        text.push_str(&format!("endpoint = unix://{}\n", socket.display()));
    }
    text.push_str("authentication = true\nauthentication-unix-sockets = true\n");
    fs::write(options.data_dir.join("engine.conf"), text).map_err(cannot("write engine.conf"))
}

/// Makes a directory, and those above it that are missing, so that only their owner can enter them.
fn make_private(directory: &Path) -> Result<(), Stop> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(cannot("make the data directory"))
}

struct Prepared {
    engine: Arc<Engine>,
    auth: Auth,
    listeners: Vec<(Listening, Mode)>,
}

/// Opens the engine; `root_password` is asked for where `root` has to be made.
fn prepare_engine(
    options: &EngineOptions,
    root_password: impl FnOnce() -> Result<String, Stop>,
) -> Result<Prepared, Stop> {
    let settings = arango_embedded::Options { vector_index: true, ..Default::default() };
    let directory = options.data_dir.join(ENGINE_DIRECTORY);
    // A data directory that was there may be open to others; what is said in conversations is not.
    make_private(&directory)?;
    let engine = Engine::open(&directory, settings)
        .map_err(|e| Stop::CannotCreate(format!("open {}: {e}", directory.display())))?;
    let users = |e| Stop::CannotCreate(format!("load the engine's users: {e}"));
    let root_password = match Auth::has_users(&engine).map_err(users)? {
        true => String::new(),
        false => root_password()?,
    };
    let auth =
        Auth::open(&engine, AuthSettings { root_password, jwt_secret: None }).map_err(users)?;
    if auth.root_is_open() {
        tracing::warn!(
            "the database's user root has an empty password and may do everything: change it (PATCH /_api/user/root)"
        );
    }
    let mut listeners = Vec::new();
    for (path, mode) in
        [(Some(&options.socket), Mode::ReadWrite), (options.ro_socket.as_ref(), Mode::ReadOnly)]
    {
        if let Some(path) = path {
            listeners.push((socket::bind(path).map_err(cannot("listen for the engine"))?, mode));
        }
    }
    Ok(Prepared { engine, auth, listeners })
}

async fn run_engine(prepared: Prepared, stopping: watch::Receiver<bool>) -> Result<(), Stop> {
    let mut serving = Vec::new();
    for (listening, mode) in prepared.listeners {
        let listener = listening.handle().map_err(cannot("listen for the engine"))?;
        let (engine, auth, mut stopping) =
            (Arc::clone(&prepared.engine), prepared.auth.clone(), stopping.clone());
        serving.push(tokio::spawn(async move {
            let stopped = async move {
                // A dropped sender means that the program ends.
                let _ = stopping.wait_for(|s| *s).await;
            };
            let outcome = arango_embedded::http::serve(engine, listener, mode, auth, stopped).await;
            drop(listening);
            outcome
        }));
    }
    for task in serving {
        match task.await {
            Ok(outcome) => outcome.map_err(cannot("serve the engine's socket"))?,
            Err(error) => return Err(Stop::Unavailable(format!("the engine's socket: {error}"))),
        }
    }
    Ok(())
}

/// Runs the engine alone until it is told to stop.
pub fn engine(options: &EngineOptions) -> ExitCode {
    let run = || {
        let logs =
            telemetry::Settings { filter: "info".into(), format: telemetry::LogFormat::Text };
        telemetry::start_logs(&logs).map_err(Stop::Configuration)?;
        systemd::no_core_dumps();
        make_private(&options.data_dir)?;
        let given = password_of(ROOT_PASSWORD)?;
        if given.as_deref() == Some("") {
            return Err(Stop::Configuration(format!(
                "{ROOT_PASSWORD} is empty: name a password, or leave it out and one is made in {ROOT_PASSWORD_FILE} of the data directory"
            )));
        }
        let prepared = prepare_engine(options, || match given {
            Some(password) => Ok(password),
            None => {
                let file = options.data_dir.join(ROOT_PASSWORD_FILE);
                let password = secret_or_new(&file, || SystemIds.salt())?;
                eprintln!("the password of the database's user root is in {}", file.display());
                Ok(password)
            }
        })?;
        describe_engine(options)?;
        let (stop, stopping) = watch::channel(false);
        io_loop()?.block_on(async move {
            on_signal(stop)?;
            eprintln!("engine listens on {}", options.socket.display());
            on_stop(stopping.clone());
            systemd::ready("serves the database");
            run_engine(prepared, stopping).await
        })
    };
    ended(run())
}

/// Runs a proxy in front of a database until it is told to stop.
pub fn proxy(options: &ProxyOptions) -> ExitCode {
    ended(run_proxy(options))
}

fn run_proxy(options: &ProxyOptions) -> Result<(), Stop> {
    let config = Config::load(options.config.as_deref())?;
    telemetry::start_logs(&config.log).map_err(Stop::Configuration)?;
    systemd::no_core_dumps();
    let handle = telemetry::start_metrics().map_err(Stop::CannotCreate)?;
    let behind =
        Endpoint::parse(&options.upstream).map_err(|e| Stop::Configuration(e.to_string()))?;
    if behind.path() == options.listen {
        return Err(Stop::Configuration("--listen and --upstream are one socket".into()));
    }
    let who = Credentials {
        user: config.store.user.clone(),
        password: password_of("ARANGO_PASSWORD")?.unwrap_or_default(),
    };
    let definer = password_of("ARANGO_INDEX_PASSWORD")?
        .map(|password| Credentials { user: config.store.index_user.clone(), password });
    let upstream =
        vctx_proxy::Upstream::new(&behind, &who, definer.as_ref()).map_err(Stop::Configuration)?;
    let mode = options.mode;
    let passing = Arc::new(vctx_proxy::Proxy::new(mode, config.proxy, upstream));
    check_directory(&options.listen)?;
    let (stop, stopping) = watch::channel(false);
    io_loop()?.block_on(async move {
        let listening = socket::bind(&options.listen).map_err(cannot("listen"))?;
        let metrics = options.metrics.as_deref().map(socket::bind).transpose();
        let metrics = metrics.map_err(cannot("listen for metrics"))?;
        on_signal(stop)?;
        on_stop(stopping.clone());
        let metrics = metrics.map(|listening| {
            let router = telemetry::metrics_router(handle);
            tokio::spawn(socket::serve(listening, router, stopping.clone()))
        });
        let (at, to) = (options.listen.display(), behind.path().display());
        eprintln!("vctx proxy ({}) listens on {at} and passes on to {to}", mode.text());
        systemd::ready(&format!("passes on to {to}"));
        let served = socket::serve_within(
            listening,
            vctx_proxy::router(passing),
            stopping,
            vctx_proxy::bounds(),
        );
        served.await.map_err(cannot("serve the proxy's socket"))?;
        if let Some(metrics) = metrics {
            metrics.await.ok();
        }
        Ok(())
    })
}

/// A socket that others could replace by theirs would give them what was meant for the database.
fn check_directory(socket: &Path) -> Result<(), Stop> {
    let directory = socket.parent().unwrap_or(Path::new("/"));
    // One that is not there is made, for its owner alone.
    let Ok(found) = fs::metadata(directory) else { return Ok(()) };
    let mode = found.mode() & 0o1777;
    if mode & 0o022 != 0 && mode & 0o1000 == 0 {
        let text = format!(
            "{} has mode {mode:o}: others could put a socket of theirs in place of the proxy's; chmod 700 it (750 for a group)",
            directory.display()
        );
        return Err(Stop::Refused(text));
    }
    if mode & 0o007 != 0 {
        tracing::warn!(
            directory = %directory.display(),
            mode = format!("{mode:o}"),
            "others may look into the directory of the socket: 0700, or 0750 for a group, keeps it private"
        );
    }
    Ok(())
}

/// A server that answers.
struct Ready {
    executor: Arc<Executor>,
    processor: Arc<Processor>,
    guards: Guards,
    /// Where there are further places: all of them, and those that are not reached yet.
    fleet: Option<(Arc<Fleet>, Vec<Arc<Place>>)>,
}

/// What answers in one place.
fn answering(
    config: &Config,
    models: &Models,
    executor: Executor,
    data_dir: &Path,
) -> (Arc<Executor>, Arc<Processor>) {
    let executor = executor.with_embedders(models.embedders.clone());
    let executor = executor.with_spool(data_dir.to_owned());
    executor.warm(Encoding::default());
    let executor = Arc::new(executor);
    let settings = processor_settings(config);
    let processor = Processor::new(Arc::clone(&executor), models.chat.clone(), settings);
    (executor, Arc::new(processor))
}

/// Pause between two looks at a database that is not ready.
const READY_PAUSE: Duration = Duration::from_millis(200);

/// Looks at the database until it is ready, says why while it is not, and opens the gate. `None`: told to stop meanwhile.
/// A failed check ends the server: it does not serve what the guards would refuse.
async fn get_ready(
    config: &Config,
    models: &Models,
    remote: Option<Remote>,
    data_dir: &Path,
    socket: &Path,
    gate: &Gate,
    mut stopping: watch::Receiver<bool>,
) -> Result<Option<Ready>, Stop> {
    let embedded = remote.is_none();
    let begun = vctx_base::clock::now();
    loop {
        let attempt = match &remote {
            Some(remote) => connect_remote(config, remote, socket).await,
            None => connect_embedded(config, data_dir, socket).await,
        };
        let reason = match attempt {
            Ok((executor, guards)) => {
                let several = !config.store.places.is_empty();
                let executor = executor.at_place(&config.store.place, None, several);
                let (executor, processor) = answering(config, models, executor, data_dir);
                let tenant = config.server.tenant.clone();
                let (executor_too, processor_too) = (Arc::clone(&executor), Arc::clone(&processor));
                let router =
                    http::router(executor_too, processor_too, tenant.clone(), config.dropin);
                let fleet = several.then(|| {
                    let home = Place::waiting(&config.store.place, config.store.takes_new);
                    home.open(Arc::clone(&executor), router.clone());
                    let settings = config.store.places.iter();
                    let further: Vec<Arc<Place>> = settings
                        .map(|place| Arc::new(Place::waiting(&place.name, place.takes_new)))
                        .collect();
                    let places = Places::new(Arc::new(home), further.clone());
                    (Arc::new(Fleet::new(places, tenant)), further)
                });
                match &fleet {
                    Some((fleet, _)) => gate.open(fleet.router()),
                    None => gate.open(router),
                }
                return Ok(Some(Ready { executor, processor, guards, fleet }));
            }
            Err(Stop::Unavailable(reason)) => reason,
            Err(other) => return Err(other),
        };
        if embedded && begun.elapsed() > Duration::from_millis(START_MS_MAX) {
            return Err(Stop::Unavailable(reason));
        }
        systemd::waiting(&format!("not ready: {reason}"));
        gate.because(format!("not ready: {reason}"));
        tokio::select! {
            () = tokio::time::sleep(READY_PAUSE) => {}
            _ = stopping.wait_for(|s| *s) => return Ok(None),
        }
    }
}

async fn connect_embedded(
    config: &Config,
    data_dir: &Path,
    socket: &Path,
) -> Result<(Executor, Guards), Stop> {
    let endpoint = |name: &str| {
        Endpoint::parse(&data_dir.join(name).to_string_lossy())
            .map_err(|e| Stop::Configuration(e.to_string()))
    };
    let password =
        |name: &str| secret_or_new(&data_dir.join(format!("{name}.password")), || SystemIds.salt());
    let credentials = |name: &str| {
        Ok::<_, Stop>(Credentials { user: name.to_owned(), password: password(name)? })
    };
    let (rw, ro) = (endpoint(ENGINE_SOCKET)?, endpoint(ENGINE_RO_SOCKET)?);
    let root = credentials("root")?;
    let remote = Remote {
        ro,
        rw,
        ro_credentials: credentials("vctx_ro")?,
        rw_credentials: credentials("vctx_rw")?,
        index_credentials: None,
    };
    let passwords = |name: &str| password(name).unwrap_or_default();
    store::set_up(&remote.rw, &root, &config.store.database, &layout(config), Some(&passwords))
        .await?;
    let database = &config.store.database;
    let admin = async || Admin::connect(&remote.rw, &root, database).await;
    let (_, guards, findings) = checked(admin().await?, socket).await?;
    let admin = admin().await?;
    let executor = executor(config, remote, admin, WriteMode::SingleRequest).await?;
    pulse::take(&executor, &findings);
    Ok((executor, guards))
}

async fn connect_remote(
    config: &Config,
    remote: &Remote,
    socket: &Path,
) -> Result<(Executor, Guards), Stop> {
    let database = &config.store.database;
    let who = &remote.rw_credentials;
    let found = store::schema_version(&remote.rw, who, database).await?;
    if found != Some(store::SCHEMA) {
        store::set_up(&remote.rw, who, database, &layout(config), None).await.map_err(|fault| match fault.kind {
            FaultKind::Arango { num: 11, .. } => Stop::Unavailable(format!(
                "database {database} has no schema of version {} and user {} may not make one: run `vctx setup` as administrator",
                store::SCHEMA, who.user
            )),
            _ => Stop::from(fault),
        })?;
    }
    keep_ttl_index(&remote.administered(database).await?, who, config).await?;
    let admin = remote.administered(database).await?;
    let (profile, guards, findings) = checked(admin, socket).await?;
    let mode = match (config.store.write_mode, profile) {
        (WriteChoice::Stream, _) | (WriteChoice::Auto, Profile::Cluster) => WriteMode::Stream,
        (WriteChoice::SingleRequest | WriteChoice::Auto, _) => WriteMode::SingleRequest,
    };
    let admin = remote.administered(database).await?;
    let executor = executor(config, remote.clone(), admin, mode).await?;
    pulse::take(&executor, &findings);
    Ok((executor, guards))
}

/// What a setup makes beside what always is.
fn layout(config: &Config) -> store::Layout {
    store::Layout {
        recall: config.store.recall_sharding(),
        recall_ttl_s: config.retention.recall_ttl_s(),
        ttl_may_go: true,
    }
}

/// Sees that the ttl index of recall storage is as the policy of retention wants it; a user who may not change it is told who may.
async fn keep_ttl_index(db: &Admin, who: &Credentials, config: &Config) -> Result<(), Stop> {
    match store::keep_ttl_index(db, config.retention.recall_ttl_s()).await {
        Err(Fault { kind: FaultKind::Arango { num: 11, .. }, .. }) => {
            tracing::warn!(
                user = who.user,
                "the ttl index of recall_log is not as retention.recall_ttl_days says, and this user may not change it: run `vctx setup` as \
                 administrator"
            );
            Ok(())
        }
        other => other.map(drop).map_err(Stop::from),
    }
}

/// Runs the inside eye; a failed check refuses to serve.
async fn checked(db: Admin, socket: &Path) -> Result<(Profile, Guards, Vec<Finding>), Stop> {
    let recorded = store::version_or_none(&db).await?.is_some();
    let (profile, mut findings) = startup::check_database(&db, recorded).await?;
    findings.extend(startup::check_sockets(socket, profile));
    let failed: Vec<&Finding> = findings.iter().filter(|f| !f.passed).collect();
    if failed.is_empty() {
        for finding in &findings {
            tracing::info!(check = finding.check, "{}", finding.sentence);
        }
        let socket = socket.to_owned();
        let guards = Guards { admin: db, profile, vector_recorded: recorded, socket };
        return Ok((profile, guards, findings));
    }
    Err(Stop::Refused(
        failed
            .iter()
            .map(|f| format!("{}: {}", f.check, f.sentence))
            .collect::<Vec<_>>()
            .join("\n"),
    ))
}

/// `admin` may make the vector index; one that may not is told so when it tries.
async fn executor(
    config: &Config,
    remote: Remote,
    admin: Admin,
    mode: WriteMode,
) -> Result<Executor, Stop> {
    let settings = store::Settings {
        ro: remote.ro,
        rw: remote.rw,
        ro_credentials: remote.ro_credentials,
        rw_credentials: remote.rw_credentials,
        database: config.store.database.clone(),
        sync: config.store.durable,
    };
    let (ro, rw) = (Ro::connect(&settings).await?, Rw::connect(&settings).await?);
    let model = config.model.clone().map(Gateway::new);
    let executor = Executor::new(ro, rw, Arc::new(SystemClock), Arc::new(SystemIds), model, mode);
    Ok(executor
        .with_heartbeat(config.heartbeat)
        .with_sessions(config.conveyance.session_idle_ms)
        .with_recall(config.recall)
        .with_retention(config.retention)
        .with_taint(config.taint.mode)
        .with_archive(admin, config.archive))
}

/// Three next steps, ready to paste.
fn tell(socket: &Path, embedded: bool, data_dir: &Path) {
    let at = socket.display();
    eprintln!("vctx listens on {at}");
    if embedded {
        eprintln!("the embedded database and its passwords are in {}", data_dir.display());
    }
    eprintln!("next:");
    eprintln!("  vctx agent create ada --window 32768 --socket {at}");
    eprintln!(
        r#"  vctx tool append_fifo --agent ada --rev '*' --args '{{"message": "Hello", "role": "user"}}' --socket {at}"#
    );
    eprintln!("  vctx context --agent ada --socket {at}");
}

/// Applies the schema to the configured endpoint.
pub fn setup(options: &SetupOptions) -> ExitCode {
    ended(run_setup(options))
}

fn run_setup(options: &SetupOptions) -> Result<(), Stop> {
    let config = Config::load(options.config.as_deref())?;
    let Some(remote) = config.remote()? else {
        return Err(Stop::Configuration(
            "ARANGO_RW_UDS is not set: name the socket to set up (`vctx serve` sets the embedded database up by itself)".into(),
        ));
    };
    let mut passwords = std::collections::HashMap::new();
    if options.users {
        for (user, name) in store::USER_PASSWORDS {
            let Some(password) = password_of(name)? else {
                return Err(Stop::Configuration(format!(
                    "{name} (or {name}_FILE) is not set: it becomes the password of {user}"
                )));
            };
            passwords.insert(user.to_owned(), password);
        }
    }
    let given = |user: &str| passwords.get(user).cloned().unwrap_or_default();
    let users: Option<&(dyn Fn(&str) -> String + Sync)> =
        if options.users { Some(&given) } else { None };
    let reports = io_loop()?.block_on(store::set_up(
        &remote.rw,
        &remote.rw_credentials,
        &config.store.database,
        &store::Layout { ttl_may_go: options.config.is_some(), ..layout(&config) },
        users,
    ))?;
    print_setup(&reports, options.json);
    Ok(())
}

fn print_setup(reports: &[store::SetupReport], json: bool) {
    let made = reports.iter().filter(|r| r.made).count();
    if json {
        let rows: Vec<Value> =
            reports.iter().map(|r| json!({"what": r.what, "made": r.made})).collect();
        println!("{}", json!({"made": made, "steps": rows}));
        return;
    }
    for report in reports {
        println!("{:<8} {}", if report.made { "made" } else { "there" }, report.what);
    }
    println!("{made} made, {} were there", reports.len() - made);
}
