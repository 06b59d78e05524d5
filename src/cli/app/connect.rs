//! Connects to the configured database, checks the database, and creates the executor that runs
//! calls on it.

use std::path::Path;
use std::sync::Arc;

use super::Stop;
use super::engine::{ENGINE_RO_SOCKET, ENGINE_SOCKET};
use crate::config::{Config, Remote, WriteChoice};
use crate::secrets::{password_of, secret_or_new};
use vctx_base::clock::SystemClock;
use vctx_base::ids::{Ids as _, SystemIds};
use vctx_core::limits::MODEL_MS_MAX;
use vctx_server::checks::{self, Finding, Profile, SelfChecks};
use vctx_server::executor::Executor;
use vctx_server::models::SUMMARISER_KEY;
use vctx_server::store::{self, Admin, Credentials, Endpoint, Fault, FaultKind, Ro, Rw, WriteMode};

/// Sets up the embedded database and connects to that database.
pub(super) async fn connect_embedded(
    config: &Config,
    data_dir: &Path,
    socket: &Path,
) -> Result<(Executor, SelfChecks), Stop> {
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
    store::set_up(&remote.rw, &root, &config.store.database, &config.layout(), Some(&passwords))
        .await?;
    let database = &config.store.database;
    let admin = async || Admin::connect(&remote.rw, &root, database).await;
    let (self_checks, findings) = checked(admin().await?, socket).await?;
    let admin = admin().await?;
    let executor = executor(config, remote, admin, WriteMode::SingleRequest).await?;
    checks::record(&executor, &findings);
    Ok((executor, self_checks))
}

/// Connects to a configured database, and creates the schema if the database has no schema.
pub(super) async fn connect_remote(
    config: &Config,
    remote: &Remote,
    socket: &Path,
) -> Result<(Executor, SelfChecks), Stop> {
    let database = &config.store.database;
    let who = &remote.rw_credentials;
    let found = store::schema_version(&remote.rw, who, database).await?;
    if found != Some(store::SCHEMA) {
        store::set_up(&remote.rw, who, database, &config.layout(), None).await.map_err(|fault| match fault.kind {
            FaultKind::Arango { num: 11, .. } => Stop::Unavailable(format!(
                "database {database} has no schema of version {} and user {} may not make one: run `vctx setup` as administrator",
                store::SCHEMA, who.user
            )),
            _ => Stop::from(fault),
        })?;
    }
    keep_ttl_index(&remote.administered(database).await?, who, config).await?;
    let admin = remote.administered(database).await?;
    let (self_checks, findings) = checked(admin, socket).await?;
    let mode = match (config.store.write_mode, self_checks.profile) {
        (WriteChoice::Stream, _) | (WriteChoice::Auto, Profile::Cluster) => WriteMode::Stream,
        (WriteChoice::SingleRequest | WriteChoice::Auto, _) => WriteMode::SingleRequest,
    };
    let admin = remote.administered(database).await?;
    let executor = executor(config, remote.clone(), admin, mode).await?;
    checks::record(&executor, &findings);
    Ok((executor, self_checks))
}

impl Config {
    /// Returns the settings that the configuration determines for the database schema.
    pub fn layout(&self) -> store::Layout {
        store::Layout {
            recall: self.store.recall_sharding(),
            recall_ttl_s: self.retention.recall_ttl_s(),
            ttl_may_go: true,
        }
    }
}

impl Remote {
    /// Returns the settings of a server's connections to one database.
    pub fn settings(self, config: &Config, sync: bool) -> store::Settings {
        store::Settings {
            ro: self.ro,
            rw: self.rw,
            ro_credentials: self.ro_credentials,
            rw_credentials: self.rw_credentials,
            database: config.store.database.clone(),
            sync,
        }
    }
}

/// Adapts the TTL index of recall storage to the configured retention. Logs a warning if the
/// database user has no right to change the index.
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

/// Checks the database and the sockets; a failed check prevents the start of the server.
async fn checked(db: Admin, socket: &Path) -> Result<(SelfChecks, Vec<Finding>), Stop> {
    let vector_recorded = store::version_or_none(&db).await?.is_some();
    let (profile, mut findings) = checks::check_database(&db, vector_recorded).await?;
    findings.extend(checks::check_sockets(socket, profile));
    let failed: Vec<String> =
        findings.iter().filter(|finding| !finding.passed).map(Finding::to_string).collect();
    if !failed.is_empty() {
        return Err(Stop::Refused(failed.join("\n")));
    }
    for finding in &findings {
        tracing::info!(check = finding.label(), "{}", finding.sentence);
    }
    let socket = socket.to_owned();
    Ok((SelfChecks { admin: db, profile, vector_recorded, socket }, findings))
}

/// Creates the executor. The connection `admin` creates the vector index, if the user of this
/// connection has the right to create indexes.
async fn executor(
    config: &Config,
    remote: Remote,
    admin: Admin,
    mode: WriteMode,
) -> Result<Executor, Stop> {
    let settings = remote.settings(config, config.store.durable);
    let (ro, rw) = (Ro::connect(&settings).await?, Rw::connect(&settings).await?);
    let model = config.summariser.open(password_of(SUMMARISER_KEY)?, SUMMARISER_KEY, MODEL_MS_MAX);
    let model = model.map_err(|fault| Stop::Configuration(format!("summariser.{fault}")))?;
    let executor = Executor::new(ro, rw, Arc::new(SystemClock), Arc::new(SystemIds), model, mode);
    Ok(executor
        .with_heartbeat(config.heartbeat)
        .with_agents_max(config.server.agents_max)
        .with_blocks_bytes_max(config.core.blocks_bytes_max)
        .with_sessions(config.conveyance.session_idle_ms)
        .with_recall(config.recall)
        .with_retention(config.retention)
        .with_taint(config.taint.mode)
        .with_summary(config.summary)
        .with_context(config.context)
        .with_roles(Arc::new(config.roles()?))
        .with_archive(admin, config.archive))
}
