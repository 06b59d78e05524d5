//! The program `arango-embedded`: its command line, sockets and exit codes.

use std::env;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use arango_embedded::compat::{Release, Role};
use arango_embedded::http::{Auth, AuthSettings, Mode, serve};
use arango_embedded::{Engine, Options, rewrite, vector_cache_bytes};
use clap::{Args, Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// A batch of documents or a query result needs many small allocations, and often another thread
/// frees them. Mimalloc allocates and frees them faster than the system's allocator
/// (`loadtest/results/2026-11-22-engine.md`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exit codes from `sysexits.h`.
const EX_DATAERR: u8 = 65;
const EX_UNAVAILABLE: u8 = 69;
const EX_OSERR: u8 = 71;
const EX_CANTCREAT: u8 = 73;
const EX_IOERR: u8 = 74;
const EX_CONFIG: u8 = 78;

/// Maximum length of a socket's path on Linux in bytes, without the final zero (`sun_path`).
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Maximum number of threads for engine work, which is more than the lanes of two listeners can
/// use.
const BLOCKING_THREADS_MAX: usize = 1024;
/// Environment variable with the password that the first start gives to the user `root`.
const ROOT_PASSWORD: &str = "ARANGO_ROOT_PASSWORD";

/// An ArangoDB-compatible engine on Unix sockets.
#[derive(Parser)]
#[command(version, about, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  ARANGO_ROOT_PASSWORD=secret arango-embedded serve --socket /run/me/db.sock --data-dir ~/data
  curl --unix-socket /run/me/db.sock -u root:secret http://localhost/_api/version?details=true
  arango-embedded rewrite --data-dir ~/data        finish the erasure of removed data

Exit codes: 64 usage, 65 unreadable data, 69 socket in use, 71 and 74 system and I/O errors,
73 a socket or directory that cannot be created, 78 an invalid file or value.";

#[derive(Subcommand)]
enum Command {
    /// Serve ArangoDB's HTTP API until SIGTERM or SIGINT.
    Serve(Serve),
    /// Copy the live data into new files, so that no removed data is left on disk.
    Rewrite(Rewrite),
}

const REWRITE_HELP: &str = "The bytes of removed documents stay in journals, trees and segments until the engine writes these files again.
This may take a long time. This command finishes the erasure: it copies the live data into a new store, replaces the old store by the
new store, and removes the old files. It also removes the segments of views; the next start builds the segments again.

The engine must not run, and the disk needs as much free space as the live data takes. If the command is killed, the directory contains
either the old store or the new store; run the command again. The disk itself may keep the bytes of removed files: use `fstrim`, or
encrypt the disk.

Example:
  arango-embedded rewrite --data-dir ~/data";

#[derive(Args)]
#[command(after_help = REWRITE_HELP)]
struct Rewrite {
    /// Data directory; no running engine may use it
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,

    /// Print one JSON object instead of sentences
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Serve {
    /// Socket for reads and writes. The engine replaces a socket file that an ended process left,
    /// but does not start if a running process uses the socket
    #[arg(long, value_name = "FILE")]
    socket: PathBuf,

    /// Data directory, created if missing; only one engine may use it. The first start creates the
    /// user `root` with the password in ARANGO_ROOT_PASSWORD (empty if not set)
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,

    /// Second socket for the same data; it refuses all writes with 403 and errorNum 1004
    #[arg(long, value_name = "FILE")]
    ro_socket: Option<PathBuf>,

    /// File with the secret that signs server tokens (HS256); a caller with a server token has all
    /// rights
    #[arg(long, value_name = "FILE")]
    jwt_secret_file: Option<PathBuf>,

    /// Accept definitions of vector indexes; without this option they are refused with 400 and
    /// errorNum 10, as by arangod
    #[arg(long)]
    vector_index: bool,

    /// Release of ArangoDB to emulate, 3.12.4 to 3.12.10
    #[arg(long, value_name = "VERSION", default_value_t = Release::LATEST)]
    compat: Release,

    /// Deployment role to emulate: single or coordinator (a coordinator is also one process with
    /// one copy of the data)
    #[arg(long, value_name = "ROLE", default_value = "single")]
    role: Role,

    /// Simulate a fault when a request has the header x-arango-embedded-fault; for tests of clients
    #[arg(long)]
    faults: bool,

    /// Mebibytes of vectors that vector indexes cache in memory (by default an eighth of the
    /// machine's memory, at least 256)
    #[arg(long, value_name = "N", default_value_t = vector_cache_bytes() >> 20, value_parser = clap::value_parser!(u64).range(0..=1 << 20))]
    vector_cache_mb: u64,

    /// Milliseconds between two commits of views; a view contains a committed write only after the
    /// next commit of views
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    view_commit_ms: u64,

    /// Milliseconds after which an unused stream transaction is aborted
    #[arg(long, value_name = "N", default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(1..=120_000))]
    stream_idle_ms: u64,

    /// Milliseconds that an operation waits for another operation of the same stream transaction
    #[arg(long, value_name = "N", default_value_t = 8_000, value_parser = clap::value_parser!(u64).range(..=120_000))]
    stream_lock_wait_ms: u64,

    /// Answer the commit of an expired stream transaction with success although the transaction is
    /// aborted, as arangod sometimes does; for tests of clients
    #[arg(long)]
    late_commit_lies: bool,
}

/// An error that ends the program: an exit code and a message for the user.
struct Failure(u8, String);

/// Parses the command line and runs the command.
fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // If writing the error message fails, there is nowhere else to report it.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(64) } else { ExitCode::SUCCESS };
        }
    };
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(io::stderr)
        .init();
    let done = match cli.command {
        Command::Serve(settings) => run(&settings),
        Command::Rewrite(settings) => run_rewrite(&settings),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(code, sentence)) => {
            eprintln!("arango-embedded: {sentence}");
            ExitCode::from(code)
        }
    }
}

fn run(settings: &Serve) -> Result<(), Failure> {
    let jwt_secret = settings.jwt_secret_file.as_deref().map(read_secret).transpose()?;
    let options = Options {
        stream_idle_ms: settings.stream_idle_ms,
        stream_lock_wait_ms: settings.stream_lock_wait_ms,
        late_commit_lies: settings.late_commit_lies,
        vector_index: settings.vector_index,
        release: settings.compat,
        role: settings.role,
        faults: settings.faults,
        vector_cache_bytes: settings.vector_cache_mb << 20,
        view_commit_ms: settings.view_commit_ms,
        ..Options::default()
    };
    for path in [Some(&settings.socket), settings.ro_socket.as_ref()].into_iter().flatten() {
        clear_way(path)?;
    }
    let engine = Engine::open(&settings.data_dir, options).map_err(|error| {
        Failure(EX_DATAERR, format!("open {}: {}", settings.data_dir.display(), error.message))
    })?;
    let root_password = root_password()?;
    let auth = Auth::open(&engine, AuthSettings { root_password, jwt_secret })
        .map_err(|error| Failure(EX_DATAERR, format!("load the users: {}", error.message)))?;
    if auth.root_is_open() {
        eprintln!(
            "arango-embedded: warning: the user root has an empty password and may do everything: \
             set {ROOT_PASSWORD} before the first start, or change the password (PATCH /_api/user/root)"
        );
    }
    let mut sockets = vec![Socket::bind(&settings.socket, Mode::ReadWrite)?];
    if let Some(path) = &settings.ro_socket {
        sockets.push(Socket::bind(path, Mode::ReadOnly)?);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()
        .map_err(|error| Failure(EX_OSERR, format!("start the runtime: {error}")))?;
    runtime
        .block_on(serve_all(&engine, &auth, &sockets))
        .map_err(|error| Failure(EX_IOERR, format!("serve: {error}")))
}

/// Number of key-value pairs copied between two progress messages.
const PROGRESS_PAIRS: u64 = 1_000_000;

fn run_rewrite(settings: &Rewrite) -> Result<(), Failure> {
    let mut told = 0;
    let mut progress = |pairs: u64| {
        if pairs / PROGRESS_PAIRS > told {
            told = pairs / PROGRESS_PAIRS;
            eprintln!("{pairs} pairs copied");
        }
    };
    let done = rewrite(&settings.data_dir, &mut progress).map_err(|error| {
        Failure(EX_DATAERR, format!("rewrite {}: {}", settings.data_dir.display(), error.message))
    })?;
    let (before, after, pairs) = (done.before_bytes, done.after_bytes, done.pairs);
    if settings.json {
        println!(r#"{{"before_bytes":{before},"after_bytes":{after},"pairs":{pairs}}}"#);
    } else {
        println!("{before} bytes before, {after} bytes after: {pairs} live key-value pairs");
    }
    Ok(())
}

/// Returns the password that the first start gives to the user `root`; empty if the environment
/// variable is not set.
#[allow(clippy::disallowed_methods, reason = "a password does not belong on a command line")]
fn root_password() -> Result<String, Failure> {
    match env::var(ROOT_PASSWORD) {
        Ok(password) => Ok(password),
        Err(env::VarError::NotPresent) => Ok(String::new()),
        Err(env::VarError::NotUnicode(_)) => {
            Err(Failure(EX_CONFIG, format!("{ROOT_PASSWORD} is not UTF-8")))
        }
    }
}

fn read_secret(path: &Path) -> Result<Vec<u8>, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure(EX_CONFIG, format!("read {}: {error}", path.display())))?;
    let secret = text.trim();
    if secret.is_empty() {
        return Err(Failure(EX_CONFIG, format!("{} is empty", path.display())));
    }
    Ok(secret.as_bytes().to_vec())
}

/// A bound socket; dropping the value removes the socket's file.
struct Socket {
    path: PathBuf,
    listener: UnixListener,
    mode: Mode,
    /// Device and inode of the socket file when it was created.
    own: (u64, u64),
}

/// Returns the device and the inode of a file, which distinguish this file from a later file with
/// the same name.
fn identity(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

impl Drop for Socket {
    fn drop(&mut self) {
        // The open listener keeps the inode in use, so a file with this inode number is the
        // listener's own file.
        let there = fs::symlink_metadata(&self.path);
        if !there.is_ok_and(|file| identity(&file) == self.own) {
            return;
        }
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "socket file not removed");
        }
    }
}

impl Socket {
    /// Binds a socket whose file has the permissions 0777 minus the umask, as with arangod.
    fn bind(path: &Path, mode: Mode) -> Result<Self, Failure> {
        clear_way(path)?;
        let listener = UnixListener::bind(path)
            .map_err(|error| Failure(EX_CANTCREAT, format!("bind {}: {error}", path.display())))?;
        let own = fs::symlink_metadata(path)
            .map(|file| identity(&file))
            .map_err(|error| Failure(EX_IOERR, format!("look at {}: {error}", path.display())))?;
        Ok(Self { path: path.to_owned(), listener, mode, own })
    }
}

/// Removes the socket file of a server that no longer runs. Returns an error for the socket of a
/// running server, or for a file that is not a socket.
fn clear_way(path: &Path) -> Result<(), Failure> {
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        let text = format!("{} is longer than {SOCKET_PATH_BYTES_MAX} bytes", path.display());
        return Err(Failure(EX_CONFIG, text));
    }
    let kind = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(Failure(EX_IOERR, format!("look at {}: {error}", path.display())));
        }
        Ok(metadata) => metadata.file_type(),
    };
    if !kind.is_socket() {
        return Err(Failure(EX_CONFIG, format!("{} exists and is not a socket", path.display())));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(Failure(
            EX_UNAVAILABLE,
            format!("{}: a running server uses this socket", path.display()),
        )),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path)
            .map_err(|error| Failure(EX_CANTCREAT, format!("remove {}: {error}", path.display()))),
        Err(error) => Err(Failure(EX_IOERR, format!("try {}: {error}", path.display()))),
    }
}

/// Serves all sockets until SIGTERM or SIGINT, and then completes the running requests.
async fn serve_all(engine: &Arc<Engine>, auth: &Auth, sockets: &[Socket]) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (stop, stopping) = watch::channel(false);
    let mut servers = tokio::task::JoinSet::new();
    for socket in sockets {
        let mut stopping = stopping.clone();
        let shutdown = async move {
            // An error means that the sender was dropped; the server also stops in this case.
            let _ = stopping.changed().await;
        };
        servers.spawn(serve(
            Arc::clone(engine),
            socket.listener.try_clone()?,
            socket.mode,
            auth.clone(),
            shutdown,
        ));
    }
    announce(sockets)?;
    let mut ended = tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        Some(done) = servers.join_next() => done.map_err(io::Error::other).and_then(|served| served),
    };
    // A send error means that all servers have ended.
    let _ = stop.send(true);
    while let Some(done) = servers.join_next().await {
        ended = ended.and(done.map_err(io::Error::other).and_then(|served| served));
    }
    ended
}

/// Prints a line that names the sockets, now that the engine accepts requests. A program that
/// starts the engine can wait for this line.
fn announce(sockets: &[Socket]) -> io::Result<()> {
    let places: Vec<String> = sockets
        .iter()
        .map(|socket| match socket.mode {
            Mode::ReadWrite => socket.path.display().to_string(),
            Mode::ReadOnly => format!("{} (read only)", socket.path.display()),
        })
        .collect();
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "arango-embedded {} listens on {}",
        env!("CARGO_PKG_VERSION"),
        places.join(" and ")
    )?;
    out.flush()
}
