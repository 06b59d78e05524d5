//! Runs the proxy between servers and a database.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tokio::sync::watch;

use super::{Stop, cannot, cannot_bind, exit, io_loop, on_signal, on_stop};
use crate::config::Config;
use crate::secrets::password_of;
use vctx_base::{socket, systemd, telemetry};
use vctx_server::store::{Credentials, Endpoint};

/// Sockets and mode of a proxy. The proxy reads its passwords from environment variables.
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// Which requests the proxy forwards: only reads, or also the writes of a server.
    pub mode: vctx_proxy::Mode,
    /// Socket on which the proxy listens.
    pub listen: PathBuf,
    /// Socket of the database, as a path or a URL.
    pub upstream: String,
    /// Socket on which the proxy serves metrics, if any.
    pub metrics: Option<PathBuf>,
    /// Configuration file.
    pub config: Option<PathBuf>,
}

/// Runs a proxy in front of a database until a signal stops the proxy.
pub fn proxy(options: &ProxyOptions) -> ExitCode {
    exit(run_proxy(options))
}

fn run_proxy(options: &ProxyOptions) -> Result<(), Stop> {
    let config = Config::load(options.config.as_deref())?;
    telemetry::start_logs(&config.log).map_err(Stop::Configuration)?;
    systemd::no_core_dumps();
    systemd::raise_file_limit();
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
    let places = config.store.places.iter().map(|place| &place.database);
    let databases = std::iter::once(&config.store.database).chain(places).cloned().collect();
    let passing = vctx_proxy::ProxyHandle::new(mode, config.proxy, databases, upstream);
    let (stop, stopping) = watch::channel(false);
    io_loop()?.block_on(async move {
        let listening = socket::bind(&options.listen).map_err(cannot_bind("listen"))?;
        warn_of_readers(&options.listen);
        let metrics = options.metrics.as_deref().map(socket::bind).transpose();
        let metrics = metrics.map_err(cannot_bind("listen for metrics"))?;
        on_signal(stop)?;
        on_stop(stopping.clone());
        let metrics = metrics.map(|listening| {
            let router = telemetry::metrics_router(handle);
            tokio::spawn(socket::serve(listening, router, stopping.clone()))
        });
        let (at, to) = (options.listen.display(), behind.path().display());
        eprintln!("vctx proxy ({}) listens on {at} and forwards requests to {to}", mode.text());
        systemd::ready(&format!("passes on to {to}"));
        let served = socket::serve_within(listening, passing, stopping, vctx_proxy::bounds());
        served.await.map_err(cannot("serve the proxy's socket"))?;
        if let Some(metrics) = metrics {
            metrics.await.ok();
        }
        Ok(())
    })
}

/// Logs a warning if other users may read the directory of a socket.
fn warn_of_readers(socket: &Path) {
    let directory = socket.parent().unwrap_or(Path::new("/"));
    // A missing directory of a socket is created later, accessible only to the owner.
    let Ok(found) = fs::metadata(directory) else { return };
    let mode = found.mode() & 0o1777;
    if mode & 0o007 != 0 {
        tracing::warn!(
            directory = %directory.display(),
            mode = format!("{mode:o}"),
            "other users may read the directory of the socket: mode 0700, or 0750 for a group, keeps it private"
        );
    }
}
