//! Manages the databases of a server: waits for each database, opens the database to calls, and
//! starts its background jobs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::connect::{connect_embedded, connect_remote};
use super::serve::Server;
use super::{Stop, stopped};
use crate::config::Remote;
use vctx_base::systemd;
use vctx_core::dialect::Dialect;
use vctx_core::limits::{PROBE_MS_MAX, REMOTE_START_MS_MAX, START_MS_MAX};
use vctx_core::memory::Encoding;
use vctx_core::trust::Actor;
use vctx_server::agent_loop::{Processor, ProcessorSettings};
use vctx_server::checks::SelfChecks;
use vctx_server::databases::{Database, Databases, Fleet};
use vctx_server::executor::Executor;
use vctx_server::http::{self, Gate};
use vctx_server::jobs::{
    Expiry, Forgettings, RecallVectors, Reindex, Runner, Signing, SummaryRefines, Sweep, Ticks,
};

/// Pause between two attempts to reach the home database.
const READY_PAUSE: Duration = Duration::from_millis(200);
/// Pause between two attempts to reach a database other than the home database.
const DATABASE_PAUSE: Duration = Duration::from_secs(1);
/// Minimum pause between two searches for ended sessions, in milliseconds.
const SESSIONS_PAUSE_MS_MIN: u64 = 1_000;

/// A server whose home database is ready.
pub(super) struct Ready {
    pub(super) executor: Arc<Executor>,
    pub(super) processor: Arc<Processor>,
    pub(super) self_checks: SelfChecks,
    /// All databases of the server, and a list of all databases except the home database. The
    /// server has not reached the listed databases yet. `None` for a server with one database.
    pub(super) fleet: Option<(Arc<Fleet>, Vec<Arc<Database>>)>,
}

/// Tries to reach the home database until it is ready, and then opens the server to calls. The API
/// and the service manager report the reason of the last failed attempt. Returns `None` if the
/// server is stopped before the database is ready. Returns an error, which ends the server, if a
/// check of the database fails or if the time limit for reaching the database has passed.
pub(super) async fn wait_until_ready(
    server: &Server,
    remote: Option<Remote>,
    gate: &Gate,
    mut stopping: watch::Receiver<bool>,
) -> Result<Option<Ready>, Stop> {
    let begun = vctx_base::clock::now();
    let (config, socket) = (&server.config, &server.socket);
    let limit = if remote.is_some() { REMOTE_START_MS_MAX } else { START_MS_MAX };
    let mut last = String::new();
    loop {
        let attempt = match &remote {
            Some(remote) => connect_remote(config, remote, socket).await,
            None => connect_embedded(config, &server.data_dir, socket).await,
        };
        let reason = match attempt {
            Ok((executor, self_checks)) => match executor.read_names().await {
                Ok(()) => return Ok(Some(open(server, executor, self_checks, gate, &stopping))),
                Err(error) => error.chain(),
            },
            Err(Stop::Unavailable(reason)) => reason,
            Err(other) => return Err(other),
        };
        if begun.elapsed() > Duration::from_millis(limit) {
            return Err(Stop::Unavailable(reason));
        }
        if remote.is_some() && reason != last {
            tracing::warn!("not ready: {reason}");
            last.clone_from(&reason);
        }
        systemd::waiting(&format!("not ready: {reason}"));
        gate.because(format!("not ready: {reason}"));
        tokio::select! {
            () = tokio::time::sleep(READY_PAUSE) => {}
            () = stopped(&mut stopping) => return Ok(None),
        }
    }
}

fn open(
    server: &Server,
    executor: Executor,
    self_checks: SelfChecks,
    gate: &Gate,
    stopping: &watch::Receiver<bool>,
) -> Ready {
    let settings = &server.config.store;
    let several = !settings.places.is_empty();
    let executor = executor.at_place(&settings.place, None, several);
    let (executor, processor) = answering(server, executor);
    let router = http::router(
        Arc::clone(&executor),
        Arc::clone(&processor),
        server.tenant(),
        server.config.dropin,
        stopping.clone(),
    );
    if !several {
        gate.open(router);
        return Ready { executor, processor, self_checks, fleet: None };
    }
    let home = Database::waiting(&settings.place, settings.takes_new);
    home.open(Arc::clone(&executor), router);
    let further = settings.places.iter();
    let further: Vec<Arc<Database>> =
        further.map(|one| Arc::new(Database::waiting(&one.name, one.takes_new))).collect();
    let databases = Databases::new(Arc::new(home), further.clone());
    let fleet = Arc::new(Fleet::new(databases, server.tenant()));
    gate.open(fleet.router());
    Ready { executor, processor, self_checks, fleet: Some((fleet, further)) }
}

/// Returns the executor and the agent loop of one database.
fn answering(server: &Server, executor: Executor) -> (Arc<Executor>, Arc<Processor>) {
    let config = &server.config;
    let executor = executor.with_embedders(server.embedders.clone());
    let executor = executor.with_spool(server.data_dir.clone());
    let executor =
        executor.with_checkpoints(Arc::clone(&server.checkpoints), Arc::clone(&server.secret));
    let executor = executor.with_models(config.model_servers(), config.chat.tokens_per_day);
    executor.warm(Encoding::default());
    let executor = Arc::new(executor);
    let settings = ProcessorSettings {
        max_tokens: config.chat.max_tokens,
        max_tokens_field: config.chat.tokens_field().to_owned(),
        tools: config.chat.tools.clone(),
        // The configuration has already been checked for unknown dialect names.
        dialect: Dialect::by_name(&config.chat.dialect).unwrap_or_default(),
        strict: config.chat.strict,
        context: config.context,
    };
    let processor = Processor::new(Arc::clone(&executor), server.chat.clone(), settings);
    (executor, Arc::new(processor))
}

/// Starts the background jobs of a server for one database.
pub(super) fn begin_jobs(
    executor: &Arc<Executor>,
    processor: Arc<Processor>,
    actor: &Actor,
    stopping: watch::Receiver<bool>,
) -> Runner {
    // Without a configured chat model, jobs cannot start runs.
    let runner = processor.model_name().is_some().then_some(processor);
    let mut jobs = Runner::new(stopping);
    jobs.start(Sweep::new(Arc::clone(executor), actor.clone()));
    jobs.start(Signing::new(Arc::clone(executor)));
    jobs.start(Forgettings::new(Arc::clone(executor), actor.clone()));
    if !executor.retains_for_ever() {
        jobs.start(Expiry::new(Arc::clone(executor), actor.clone()));
    }
    jobs.start(Ticks::new(Arc::clone(executor), actor.clone(), runner));
    jobs.start(Reindex::new(Arc::clone(executor), actor.clone()));
    if executor.refines() {
        jobs.start(SummaryRefines::new(Arc::clone(executor), actor.clone()));
    }
    if executor.embeds_recall() {
        jobs.start(RecallVectors::new(Arc::clone(executor), actor.clone()));
    }
    jobs
}

/// Waits until a database other than the home database is ready. After that, runs the database's
/// background jobs until the server stops. An unavailable database does not delay the other
/// databases.
pub(super) async fn keep_database(
    server: Arc<Server>,
    home: Arc<Executor>,
    database: Arc<Database>,
    mut stopping: watch::Receiver<bool>,
) {
    let Some(executor) = reached(&server, &database, &mut stopping).await else { return };
    let executor = executor.at_place(database.name(), Some(home), true);
    let (executor, processor) = answering(&server, executor);
    let router = http::router(
        Arc::clone(&executor),
        Arc::clone(&processor),
        server.tenant(),
        server.config.dropin,
        stopping.clone(),
    );
    database.open(Arc::clone(&executor), router);
    tracing::info!(place = database.name(), "a database is ready");
    let jobs = begin_jobs(&executor, processor, &server.actor, stopping.clone());
    let probe_ms = server.config.conveyance.probe_ms;
    let pause = Duration::from_millis(probe_ms.max(SESSIONS_PAUSE_MS_MIN));
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => executor.scores().close_idle_sessions().await,
            () = stopped(&mut stopping) => break,
        }
        if probe_ms == 0 {
            continue;
        }
        let limit = Duration::from_millis(PROBE_MS_MAX);
        database.heard(match tokio::time::timeout(limit, executor.ready()).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error.message),
            Err(_) => Some(format!("no answer within {PROBE_MS_MAX} ms")),
        });
    }
    jobs.ended().await;
    executor.scores().close_sessions().await;
    sign_last(&executor).await;
}

/// Signs the last writes of a server that stops.
pub(super) async fn sign_last(executor: &Executor) {
    if let Err(error) = executor.sign_known().await {
        tracing::info!(error = error.chain(), "the last writes were not signed");
    }
}

/// Tries to reach a database other than the home database until it is ready; returns `None` if the
/// server stops before the database is ready.
async fn reached(
    server: &Server,
    database: &Database,
    stopping: &mut watch::Receiver<bool>,
) -> Option<Executor> {
    let mut settings = server.config.store.places.iter();
    let settings = settings.find(|settings| settings.name == database.name())?;
    let mut last = String::new();
    loop {
        let attempt = async {
            let (config, remote) = server.config.in_place(settings)?;
            connect_remote(&config, &remote, &server.socket).await
        };
        match attempt.await {
            Ok((executor, _)) => return Some(executor),
            Err(stop) => {
                let reason = stop.to_string();
                if reason != last {
                    tracing::warn!(place = database.name(), "a database is not ready: {reason}");
                    database.because(reason.clone());
                    last = reason;
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(DATABASE_PAUSE) => {}
            () = stopped(stopping) => return None,
        }
    }
}
