//! Starts the embedded engine, either on a thread of a server, or alone in the process of `vctx
//! engine`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use arango_embedded::Engine;
use arango_embedded::http::{Auth, AuthSettings, Mode};
use tokio::sync::watch;

use super::{Stop, cannot, cannot_bind, exit, io_loop, make_private, on_signal, on_stop, stopped};
use crate::limits::FileBounds;
use crate::secrets::{password_of, secret_or_new};
use vctx_base::ids::{Ids as _, SystemIds};
use vctx_base::socket::{self, Listening};
use vctx_base::{systemd, telemetry};
use vctx_core::limits::ENGINE_QUERIES_BYTES_MAX;

/// Sockets and data directory of an embedded engine. The password of the user `root` is the value
/// of `ARANGO_ROOT_PASSWORD`, or a random text if this variable is not set.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The engine's socket for reads and writes.
    pub socket: PathBuf,
    /// The engine's socket for reads only.
    pub ro_socket: Option<PathBuf>,
    /// Directory of the engine's data.
    pub data_dir: PathBuf,
}

/// Names of the engine's sockets in the data directory.
pub(super) const ENGINE_SOCKET: &str = "arangod.sock";
pub(super) const ENGINE_RO_SOCKET: &str = "arangod-ro.sock";

/// Environment variable with the password that the engine's user `root` gets at the first start.
const ROOT_PASSWORD: &str = "ARANGO_ROOT_PASSWORD";
/// File in the data directory that contains the random password of `root`.
const ROOT_PASSWORD_FILE: &str = "root.password";

/// The limits of the engine by file, for the table of limits.
pub const ENGINE_LIMITS: [FileBounds; 2] = [
    ("embedded/src/limits.rs", arango_embedded::limits::ALL),
    ("embedded/src/http/limits.rs", arango_embedded::http::LIMITS),
];

/// Subdirectory of the data directory for the engine's files. Sockets and passwords are in the data
/// directory itself.
const ENGINE_DIRECTORY: &str = "engine";

/// Pause between two looks whether the disk takes writes again, and between two attempts to open
/// the engine again, in milliseconds.
const REOPEN_LOOK_MS: u64 = 500;
/// Length of one piece of the file that is written to see whether the disk has room, in bytes, and
/// number of pieces.
const REOPEN_PIECE_BYTES: usize = 1024 * 1024;
const REOPEN_PIECES: usize = 16;
/// Number of looks whether all requests of the old engine have ended.
const REOPEN_TRIES: u32 = 60;

pub(super) type EngineThread = thread::JoinHandle<Result<(), Stop>>;

/// Rewrites the engine's data in a data directory into new files. An error is one sentence for the
/// user.
pub fn rewrite(
    data_dir: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<arango_embedded::Rewritten, String> {
    arango_embedded::rewrite(&data_dir.join(ENGINE_DIRECTORY), progress)
        .map_err(|error| error.message.clone())
}

/// Starts the engine on two sockets in the data directory, on a separate thread with its own I/O
/// loop.
pub(super) fn start_engine(
    data_dir: &Path,
    stopping: watch::Receiver<bool>,
) -> Result<EngineThread, Stop> {
    make_private(data_dir)?;
    // The password of `root` is kept in a file, because the server needs it at each start. The
    // engine needs it only at the first start.
    let password = secret_or_new(&data_dir.join(ROOT_PASSWORD_FILE), || SystemIds.salt())?;
    let sockets = EngineOptions {
        socket: data_dir.join(ENGINE_SOCKET),
        ro_socket: Some(data_dir.join(ENGINE_RO_SOCKET)),
        data_dir: data_dir.to_owned(),
    };
    let prepared = prepare_engine(&sockets, || Ok(password))?;
    describe_engine(&sockets)?;
    let data_dir = data_dir.to_owned();
    let run = move || io_loop()?.block_on(run_engine(&data_dir, prepared, stopping));
    thread::Builder::new()
        .name("engine".into())
        .spawn(run)
        .map_err(cannot("start the engine's thread"))
}

/// Writes the settings of the engine in the format of `arangod.conf`, for administrators and for
/// the scripts in `guards/`.
fn describe_engine(options: &EngineOptions) -> Result<(), Stop> {
    let mut text = String::from(
        "# Settings of the embedded engine, in arangod's form. Each start writes this file; a change of it has no effect.\nvector-index = true\n\n[server]\n",
    );
    for socket in [Some(&options.socket), options.ro_socket.as_ref()].into_iter().flatten() {
        text.push_str(&format!("endpoint = unix://{}\n", socket.display()));
    }
    text.push_str("authentication = true\nauthentication-unix-sockets = true\n");
    fs::write(options.data_dir.join("engine.conf"), text).map_err(cannot("write engine.conf"))
}

struct Prepared {
    open: Open,
    listeners: Vec<(Listening, Mode)>,
}

/// An open engine with its users.
struct Open {
    engine: Arc<Engine>,
    auth: Auth,
}

/// Opens the engine's data; calls `root_password` if the user `root` does not exist.
fn prepare_engine(
    options: &EngineOptions,
    root_password: impl FnOnce() -> Result<String, Stop>,
) -> Result<Prepared, Stop> {
    let directory = options.data_dir.join(ENGINE_DIRECTORY);
    // An existing data directory may be readable by other users. Therefore the engine's
    // subdirectory is made private, so that other users cannot read conversations.
    make_private(&directory)?;
    let open = open_engine(&directory, root_password)?;
    if open.auth.root_is_open() {
        tracing::warn!(
            "the database user root has all rights and an empty password: change the password (PATCH /_api/user/root)"
        );
    }
    let mut listeners = Vec::new();
    for (path, mode) in
        [(Some(&options.socket), Mode::ReadWrite), (options.ro_socket.as_ref(), Mode::ReadOnly)]
    {
        if let Some(path) = path {
            listeners
                .push((socket::bind(path).map_err(cannot_bind("listen for the engine"))?, mode));
        }
    }
    Ok(Prepared { open, listeners })
}

fn open_engine(
    directory: &Path,
    root_password: impl FnOnce() -> Result<String, Stop>,
) -> Result<Open, Stop> {
    let settings = arango_embedded::Options {
        vector_index: true,
        queries_bytes_max: ENGINE_QUERIES_BYTES_MAX,
        ..Default::default()
    };
    let engine = Engine::open(directory, settings)
        .map_err(|e| Stop::CannotCreate(format!("open {}: {e}", directory.display())))?;
    let users = |e| Stop::CannotCreate(format!("load the engine's users: {e}"));
    let root_password = match Auth::has_users(&engine).map_err(users)? {
        true => String::new(),
        false => root_password()?,
    };
    let auth = users_of(&engine, root_password)?;
    Ok(Open { engine, auth })
}

fn users_of(engine: &Arc<Engine>, root_password: String) -> Result<Auth, Stop> {
    Auth::open(engine, AuthSettings { root_password, jwt_secret: None })
        .map_err(|e| Stop::CannotCreate(format!("load the engine's users: {e}")))
}

/// Serves an engine until the stop signal. After a failed write an engine refuses all writes, for
/// example because the disk was full. As soon as the disk takes writes again, the engine is closed
/// and opened again, which checks its files. Requests wait for it in the meantime.
async fn run_engine(
    data_dir: &Path,
    prepared: Prepared,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), Stop> {
    let directory = data_dir.join(ENGINE_DIRECTORY);
    let Prepared { mut open, listeners } = prepared;
    loop {
        let (close, closing) = watch::channel(false);
        let serving = serve_engine(&open, &listeners, &closing)?;
        tokio::select! {
            () = stopped(&mut stopping) => {}
            () = disk_is_well(&open.engine, &directory) => {
                tracing::warn!("the disk takes writes again: the engine is opened again");
            }
        }
        close.send_replace(true);
        for task in serving {
            match task.await {
                Ok(outcome) => outcome.map_err(cannot("serve the engine's socket"))?,
                Err(error) => {
                    return Err(Stop::Unavailable(format!("the engine's socket: {error}")));
                }
            }
        }
        if *stopping.borrow() {
            return Ok(());
        }
        open = opened_again(open, &directory, &mut stopping).await?;
    }
}

type Serving = tokio::task::JoinHandle<std::io::Result<()>>;

fn serve_engine(
    open: &Open,
    listeners: &[(Listening, Mode)],
    closing: &watch::Receiver<bool>,
) -> Result<Vec<Serving>, Stop> {
    let serve = |(listening, mode): &(Listening, Mode)| {
        let listener = listening.handle().map_err(cannot("listen for the engine"))?;
        let (engine, auth, mode) = (Arc::clone(&open.engine), open.auth.clone(), *mode);
        let mut closing = closing.clone();
        let closed = async move { stopped(&mut closing).await };
        Ok(tokio::spawn(arango_embedded::http::serve(engine, listener, mode, auth, closed)))
    };
    listeners.iter().map(serve).collect()
}

/// Waits until the engine refuses writes although the disk takes them.
async fn disk_is_well(engine: &Engine, directory: &Path) {
    loop {
        tokio::time::sleep(Duration::from_millis(REOPEN_LOOK_MS)).await;
        if !engine.takes_writes() && takes_bytes(directory).is_ok() {
            return;
        }
    }
}

/// Writes a temporary file to the disk, to see whether there is room and whether writes succeed.
fn takes_bytes(directory: &Path) -> std::io::Result<()> {
    let mut file = tempfile::tempfile_in(directory)?;
    let piece = vec![1; REOPEN_PIECE_BYTES];
    for _ in 0..REOPEN_PIECES {
        file.write_all(&piece)?;
    }
    file.sync_all()
}

/// Closes an engine that is not served any more, and opens it again. If the engine cannot be opened
/// yet, tries again until the stop signal. Requests that still run keep the old engine open.
async fn opened_again(
    open: Open,
    directory: &Path,
    stopping: &mut watch::Receiver<bool>,
) -> Result<Open, Stop> {
    let Open { mut engine, auth } = open;
    // The users keep the engine open, too.
    drop(auth);
    for _ in 0..REOPEN_TRIES {
        match Arc::try_unwrap(engine) {
            Ok(closed) => {
                drop(closed);
                return opened_at_last(directory, stopping).await;
            }
            Err(shared) => engine = shared,
        }
        tokio::time::sleep(Duration::from_millis(REOPEN_LOOK_MS)).await;
    }
    tracing::warn!("requests keep the engine open: it continues without writes");
    let auth = users_of(&engine, String::new())?;
    Ok(Open { engine, auth })
}

async fn opened_at_last(
    directory: &Path,
    stopping: &mut watch::Receiver<bool>,
) -> Result<Open, Stop> {
    loop {
        match open_engine(directory, || Ok(String::new())) {
            Ok(open) => return Ok(open),
            Err(stop) => tracing::error!(%stop, "the engine cannot be opened again yet"),
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(REOPEN_LOOK_MS)) => {}
            () = stopped(stopping) => {
                return Err(Stop::Unavailable("stopped while the engine was closed".into()));
            }
        }
    }
}

/// Runs the engine alone until a signal stops it.
pub fn engine(options: &EngineOptions) -> ExitCode {
    exit(run_alone(options))
}

fn run_alone(options: &EngineOptions) -> Result<(), Stop> {
    let logs = telemetry::Settings { filter: "info".into(), format: telemetry::LogFormat::Text };
    telemetry::start_logs(&logs).map_err(Stop::Configuration)?;
    systemd::no_core_dumps();
    systemd::raise_file_limit();
    make_private(&options.data_dir)?;
    let given = password_of(ROOT_PASSWORD)?;
    if given.as_deref() == Some("") {
        return Err(Stop::Configuration(format!(
            "{ROOT_PASSWORD} is empty: set it to a password, or unset it; without it, a random password is written to {ROOT_PASSWORD_FILE} in the data directory"
        )));
    }
    let prepared = prepare_engine(options, || {
        if let Some(password) = given {
            return Ok(password);
        }
        let file = options.data_dir.join(ROOT_PASSWORD_FILE);
        let password = secret_or_new(&file, || SystemIds.salt())?;
        eprintln!("the password of the database's user root is in {}", file.display());
        Ok(password)
    })?;
    describe_engine(options)?;
    let (stop, stopping) = watch::channel(false);
    io_loop()?.block_on(async move {
        on_signal(stop)?;
        eprintln!("engine listens on {}", options.socket.display());
        on_stop(stopping.clone());
        systemd::ready("serves the database");
        run_engine(&options.data_dir, prepared, stopping).await
    })
}
