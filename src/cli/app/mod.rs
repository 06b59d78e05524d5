//! Starts servers, proxies and the database engine with the settings of the configuration, and sets
//! up databases.
//!
//! Only this module starts the embedded engine.

mod connect;
mod databases;
mod engine;
mod proxy;
mod serve;
mod setup;
mod witness;

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fmt, fs, io};

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::config::Faults;
use vctx_base::systemd;
use vctx_server::store::{Fault, FaultKind};

pub use engine::{ENGINE_LIMITS, EngineOptions, engine, rewrite};
pub use proxy::{ProxyOptions, proxy};
pub use serve::{ServeOptions, rotate, serve};
pub use setup::setup;
pub use witness::witness;

/// The reason why a start failed; each reason has its own exit code (sysexits).
enum Stop {
    /// Exit code 78: the configuration is wrong.
    Configuration(String),
    /// Exit code 69: the database or the engine does not answer.
    Unavailable(String),
    /// Exit code 73: a socket or file cannot be created.
    CannotCreate(String),
    /// Exit code 77: a check failed, so the server does not start.
    Refused(String),
}

impl Stop {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Configuration(_) => 78,
            Self::Unavailable(_) => 69,
            Self::CannotCreate(_) => 73,
            Self::Refused(_) => 77,
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Configuration(text)
        | Self::Unavailable(text)
        | Self::CannotCreate(text)
        | Self::Refused(text)) = self;
        f.write_str(text)
    }
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

fn exit(outcome: Result<(), Stop>) -> ExitCode {
    let Err(stop) = outcome else { return ExitCode::SUCCESS };
    eprintln!("vctx: {stop}");
    ExitCode::from(stop.exit_code())
}

fn cannot<'a, E: fmt::Display>(what: &'a str) -> impl Fn(E) -> Stop + 'a {
    move |error| Stop::CannotCreate(format!("{what}: {error}"))
}

/// Returns a function that converts the I/O error of a failed bind into the reason why the start
/// failed. `what` names the purpose of the socket.
fn cannot_bind(what: &str) -> impl Fn(io::Error) -> Stop + '_ {
    move |error| match error.kind() {
        io::ErrorKind::PermissionDenied => Stop::Refused(format!("{what}: {error}")),
        _ => cannot(what)(error),
    }
}

/// Creates an I/O loop with one thread, because with two threads the measured calls over a socket
/// were slower (`loadtest/results`).
fn io_loop() -> Result<Runtime, Stop> {
    Builder::new_current_thread().enable_all().build().map_err(cannot("start the IO loop"))
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

/// Notifies the service manager when the server begins to stop.
fn on_stop(mut stopping: watch::Receiver<bool>) {
    tokio::spawn(async move {
        // A dropped sender of the stop signal means that the program ends.
        if stopping.wait_for(|stop| *stop).await.is_ok() {
            systemd::stopping();
        }
    });
}

/// Waits until the server stops; a dropped sender of the stop signal means that the program ends.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    drop(stopping.wait_for(|stop| *stop).await);
}

fn chosen(
    given: Option<&PathBuf>,
    configured: &Path,
    default: impl FnOnce() -> PathBuf,
) -> PathBuf {
    match given {
        Some(path) => path.clone(),
        None if configured.as_os_str().is_empty() => default(),
        None => configured.to_owned(),
    }
}

/// Creates a directory and all missing parent directories; only the owner has access to them.
fn make_private(directory: &Path) -> Result<(), Stop> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| {
        let at = directory.display();
        Stop::CannotCreate(format!(
            "make the directory {at}: {error}; --data-dir names another one"
        ))
    })
}
