//! The directory and the processes of one test: starts the processes, waits until they are ready,
//! kills them by id, and checks their warnings at the end.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::database::Database;
use crate::outside::{Outside, outside};
use crate::proxy::{Proxy, shapes_file};
use crate::wire::Wire;

/// Maximum time until a process must be ready, even on a busy machine.
const READY_MAX: Duration = Duration::from_secs(60);
/// Pause between two polls.
const LOOK: Duration = Duration::from_millis(10);
/// Maximum length of a directory path in bytes; the length of a socket's path is limited, and the
/// path also contains the socket's name.
const DIRECTORY_BYTES_MAX: usize = 70;
/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_vctx");
/// The engine's warning about a journal write that a SIGKILL interrupted.
pub(crate) const TORN_TAIL: &str = "an unfinished write at the end of the journal was cut off";
/// Password of the database user `root` in every test.
pub(crate) const PASSWORD: &str = "it-root";

/// Name of the database on the test's own engine.
const DATABASE: &str = "vctx";

/// A directory with a short path, which is removed at the end. With an external database server,
/// the test also gets a separate database, which is dropped at the end.
pub(crate) struct Home {
    dir: Arc<TempDir>,
    database: String,
}

impl Drop for Home {
    fn drop(&mut self) {
        let Some(outside) = outside() else { return };
        if let Err(fault) = outside.drop_database(&self.database) {
            eprintln!("the database {} was left behind: {fault}", self.database);
        }
    }
}

/// All options of a server except its sockets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tuning {
    /// Environment variables of the server, in addition to those that the test always sets.
    pub(crate) environment: Vec<(String, String)>,
    /// Configuration file of the server.
    pub(crate) config: Option<PathBuf>,
    /// Command that wraps the program (`strace …`), if any.
    pub(crate) under: Vec<String>,
}

impl Tuning {
    /// Returns options with one additional environment variable.
    pub(crate) fn variable(name: &str, value: &str) -> Tuning {
        Tuning { environment: vec![(name.into(), value.into())], ..Tuning::default() }
    }
}

impl Home {
    pub(crate) fn new() -> Home {
        let stated = std::env::temp_dir();
        let short = stated.as_os_str().as_bytes().len() <= DIRECTORY_BYTES_MAX;
        let parent = if short { stated } else { PathBuf::from("/tmp") };
        let dir = tempfile::Builder::new().prefix("v.").tempdir_in(parent).expect("a directory");
        let database = outside().map_or_else(|| DATABASE.into(), |_| Outside::fresh_database());
        Home { dir: Arc::new(dir), database }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts a server with its engine in one process; only the paths are configured.
    pub(crate) async fn serve(&self) -> Process {
        self.serve_with("vctx.sock", &Tuning::default()).await
    }

    /// Like `serve`, but with the given socket name and options.
    pub(crate) async fn serve_with(&self, socket: &str, tuning: &Tuning) -> Process {
        let mut command = command(tuning);
        command.args(["serve", "--socket"]).arg(self.path(socket));
        command.arg("--data-dir").arg(self.path("data"));
        self.add_outside(&mut command);
        add_tuning(&mut command, tuning);
        let process = Process::start(self, "serve", command);
        process.ready(&[], Some(&self.path(socket))).await;
        process
    }

    /// Starts a witness of servers on `witness.sock`.
    pub(crate) async fn witness(&self) -> Process {
        let mut command = command(&Tuning::default());
        command.args(["witness", "--listen"]).arg(self.path("witness.sock"));
        command.arg("--data-dir").arg(self.path("witness"));
        let process = Process::start(self, "witness", command);
        process.ready(&[self.path("witness.sock")], None).await;
        process
    }

    /// Starts an engine alone, on `engine.sock` and `engine-ro.sock`.
    pub(crate) async fn engine(&self) -> Process {
        self.engine_with(&Tuning::default()).await
    }

    /// Like `engine`, but with the given options.
    pub(crate) async fn engine_with(&self, tuning: &Tuning) -> Process {
        if let Some(outside) = outside() {
            for (name, target) in
                [("engine.sock", &outside.writes), ("engine-ro.sock", &outside.reads)]
            {
                // If the link already exists, it was created before the engine was restarted.
                drop(fs::remove_file(self.path(name)));
                symlink(target, self.path(name)).expect("a link to the socket");
            }
            // Here the database is an external one. This process, which does nothing, is returned
            // instead of the engine's process. A test that kills the engine must call
            // `needs_an_engine_of_its_own` first.
            let mut nothing = Command::new("sleep");
            nothing.arg("86400");
            return Process::start(self, "engine", nothing);
        }
        let mut command = command(tuning);
        command.args(["engine", "--socket"]).arg(self.path("engine.sock"));
        command.arg("--ro-socket").arg(self.path("engine-ro.sock"));
        command.arg("--data-dir").arg(self.path("data"));
        command.env("ARANGO_ROOT_PASSWORD", PASSWORD);
        add_tuning(&mut command, tuning);
        let process = Process::start(self, "engine", command);
        process.ready(&[self.path("engine.sock"), self.path("engine-ro.sock")], None).await;
        process
    }

    /// Starts a vctx server, and waits until it is ready. Its database listens on the sockets `rw`
    /// and `ro` in this directory.
    pub(crate) async fn server(
        &self,
        socket: &str,
        rw: &str,
        ro: &str,
        tuning: &Tuning,
    ) -> Process {
        let process = self.server_begun(socket, rw, ro, tuning);
        process.ready(&[], Some(&self.path(socket))).await;
        process
    }

    /// Like `server`, but does not wait until the server is ready.
    pub(crate) fn server_begun(
        &self,
        socket: &str,
        rw: &str,
        ro: &str,
        tuning: &Tuning,
    ) -> Process {
        let watched = self.watched(socket, [rw, ro]);
        let [rw, ro] = match &watched {
            Some((names, _)) => names.each_ref().map(String::as_str),
            None => [rw, ro],
        };
        let mut command = command(tuning);
        command.args(["serve", "--socket"]).arg(self.path(socket));
        command.arg("--data-dir").arg(self.path("server"));
        command.env("ARANGO_RW_UDS", self.path(rw)).env("ARANGO_RO_UDS", self.path(ro));
        self.add_database(&mut command);
        // Each server has its own metrics socket, because two servers may share the data directory.
        let metrics = self.path(&socket.replace(".sock", "-metrics.sock"));
        command.env("VCTX_SERVER__METRICS_SOCKET", metrics);
        // The background probes of the storage tiers are switched off, because some tests count or
        // interrupt the requests to the database.
        command.env("VCTX_CONVEYANCE__PROBE_MS", "0");
        add_tuning(&mut command, tuning);
        let process = Process::start(self, socket.trim_end_matches(".sock"), command);
        if let Some((_, proxies)) = watched {
            process.inner.watched.lock().expect("a list").extend(proxies);
        }
        process
    }

    /// Starts proxies in front of both database sockets, if this run of the tests is to record all
    /// requests to the database.
    fn watched(&self, server: &str, sockets: [&str; 2]) -> Option<([String; 2], [Proxy; 2])> {
        shapes_file()?;
        // The proxies have their own runtime, because a test may block its runtime during a
        // command.
        static RUNTIME: OnceLock<Runtime> = OnceLock::new();
        let runtime = RUNTIME.get_or_init(|| Runtime::new().expect("a runtime"));
        let _entered = runtime.enter();
        let names = sockets.map(|socket| format!("w-{server}-{socket}"));
        let watch = |at: usize| {
            let path = self.path(&names[at]);
            // A killed server leaves its proxies' socket files, which are removed here.
            drop(fs::remove_file(&path));
            Proxy::start(&path, &self.path(sockets[at]))
        };
        let proxies = [watch(0), watch(1)];
        Some((names, proxies))
    }

    /// Adds the environment variables from which a server takes name, user and password of the
    /// database.
    pub(crate) fn add_database(&self, command: &mut Command) {
        let (user, password) = root();
        command.env("ARANGO_DB", &self.database);
        command.env("ARANGO_USER", user).env("ARANGO_PASSWORD", password);
    }

    /// Makes a vctx server use the external database server if there is one.
    pub(crate) fn add_outside(&self, command: &mut Command) {
        if let Some(outside) = outside() {
            command.env("ARANGO_RW_UDS", &outside.writes).env("ARANGO_RO_UDS", &outside.reads);
            self.add_database(command);
        }
    }

    /// Returns a client of the database on the engine that runs as a separate process, for the
    /// given user.
    pub(crate) fn database_as(&self, user: &str, password: &str) -> Database {
        Database::new(&self.path("engine.sock"), &self.database, user, password)
    }

    /// Returns a client of the database on the engine that runs as a separate process, for the
    /// administrator.
    pub(crate) fn database(&self) -> Database {
        let (user, password) = root();
        self.database_as(user, password)
    }

    /// Returns a client of the database whose engine runs inside the process of a server that
    /// `serve` started.
    pub(crate) fn database_inside(&self) -> Database {
        if let Some(outside) = outside() {
            return Database::new(
                &outside.writes,
                &self.database,
                &outside.user,
                &outside.password,
            );
        }
        let password = fs::read_to_string(self.path("data/root.password")).expect("a password");
        Database::new(&self.path("data/arangod.sock"), &self.database, "root", password.trim())
    }

    /// Returns a client of the server whose socket has this name in the test's directory.
    pub(crate) fn wire(&self, socket: &str) -> Wire {
        Wire::new(&self.path(socket))
    }

    /// Runs a command of the program to its end, and returns its output.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = command(&Tuning::default());
        command.args(arguments).stdin(Stdio::null());
        command.output().expect("the program runs")
    }

    /// Runs `vctx verify --json` for one agent; returns exit code and report.
    pub(crate) fn verify(&self, socket: &str, agent: &str) -> (i32, serde_json::Value) {
        let socket = self.path(socket);
        let socket = socket.to_str().expect("a plain path");
        let output = self.run(&["verify", "--agent", agent, "--json", "--socket", socket]);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let report = serde_json::from_str(&text).unwrap_or_else(|e| {
            panic!("verify said no JSON ({e}): {text}\n{}", String::from_utf8_lossy(&output.stderr))
        });
        (output.status.code().expect("an exit code"), report)
    }

    /// Fails the test unless `vctx verify` succeeds for the agent.
    pub(crate) fn assert_verified(&self, socket: &str, agent: &str) {
        let (code, report) = self.verify(socket, agent);
        assert_eq!(code, 0, "vctx verify refuses {agent}: {report:#}");
    }
}

/// Returns name and password of the database's administrator.
fn root() -> (&'static str, &'static str) {
    outside().map_or(("root", PASSWORD), |outside| (&outside.user, &outside.password))
}

/// Returns a command that runs the program without configuration variables in its environment.
pub(crate) fn command(tuning: &Tuning) -> Command {
    let mut command = match tuning.under.split_first() {
        None => Command::new(PROGRAM),
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(PROGRAM);
            command
        }
    };
    unconfigured(&mut command);
    command
}

/// Removes the program's configuration variables from the environment.
pub(crate) fn unconfigured(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let ours = [&b"ARANGO_"[..], b"VCTX_", b"LISTEN_", b"WATCHDOG_"];
        let told = [&b"NOTIFY_SOCKET"[..], b"CREDENTIALS_DIRECTORY"];
        let bytes = name.as_bytes();
        if ours.iter().any(|start| bytes.starts_with(start)) || told.contains(&bytes) {
            command.env_remove(name);
        }
    }
}

fn add_tuning(command: &mut Command, tuning: &Tuning) {
    if let Some(config) = &tuning.config {
        command.arg("--config").arg(config);
    }
    for (name, value) in &tuning.environment {
        command.env(name, value);
    }
}

/// A process of a test. Clones refer to the same process; dropping the last clone kills the process
/// by its id.
#[derive(Clone)]
pub(crate) struct Process {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    /// Keeps the directory, with the process's log, until the process is gone.
    _dir: Arc<TempDir>,
    log: PathBuf,
    child: Mutex<Child>,
    /// Texts that the test expects in WARN and ERROR lines of the log. A WARN or ERROR line without
    /// such a text fails the test.
    expected: Mutex<Vec<String>>,
    /// The proxies between the process and its database.
    watched: Mutex<Vec<Proxy>>,
}

impl Process {
    pub(crate) fn start(home: &Home, name: &str, command: Command) -> Process {
        Process::start_with(home, name, command, Stdio::null(), None)
    }

    /// Starts a process with the given stdin and stdout; its stderr goes to the log file.
    pub(crate) fn start_with(
        home: &Home,
        name: &str,
        mut command: Command,
        input: Stdio,
        output: Option<Stdio>,
    ) -> Process {
        let log = home.path(&format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log).expect("a log");
        let also = file.try_clone().expect("a second handle");
        command.stdin(input).stdout(output.unwrap_or_else(|| file.into())).stderr(also);
        let child = command.spawn();
        let child = Mutex::new(child.expect("the program starts"));
        let (expected, watched) = (Mutex::default(), Mutex::default());
        let (name, _dir) = (name.into(), home.dir.clone());
        Process { inner: Arc::new(Inner { name, _dir, log, child, expected, watched }) }
    }

    /// Waits until the sockets accept connections and the server is ready.
    pub(crate) async fn ready(&self, sockets: &[PathBuf], server: Option<&Path>) {
        let until = Instant::now() + READY_MAX;
        loop {
            let accepts = sockets.iter().all(|path| UnixStream::connect(path).is_ok());
            let ready = match server {
                Some(path) => Wire::new(path).is_ready().await,
                None => true,
            };
            if accepts && ready {
                return;
            }
            if let Some(status) = self.ended() {
                panic!("{} ended at its start: {status}\n{}", self.inner.name, self.tail());
            }
            assert!(Instant::now() < until, "{} is not ready:\n{}", self.inner.name, self.tail());
            tokio::time::sleep(LOOK).await;
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.inner.child.lock().expect("a child").id()
    }

    /// Returns the resident memory of the process, in KiB (proc_pid_status(5)).
    pub(crate) fn resident_kib(&self) -> u64 {
        resident_kib(self.id())
    }

    /// Returns the exit status, if the process has ended.
    pub(crate) fn ended(&self) -> Option<ExitStatus> {
        self.inner.child.lock().expect("a child").try_wait().expect("a child of ours")
    }

    /// Sends SIGKILL and waits for the end.
    pub(crate) fn kill(&self) {
        let mut child = self.inner.child.lock().expect("a child");
        // The process may have ended already.
        drop(child.kill());
        child.wait().expect("a child of ours");
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) async fn stop(&self) -> ExitStatus {
        let id = self.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill runs").success());
        self.end().await
    }

    /// Waits until the process has ended by itself.
    pub(crate) async fn end(&self) -> ExitStatus {
        let until = Instant::now() + READY_MAX;
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(Instant::now() < until, "{} does not stop:\n{}", self.inner.name, self.tail());
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Declares that WARN and ERROR lines with this text are expected.
    pub(crate) fn expect(&self, text: &str) {
        self.inner.expected.lock().expect("a list").push(text.into());
    }

    /// Returns the whole log of the process.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.inner.log).expect("its log")
    }

    fn tail(&self) -> String {
        let said = self.said();
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let child = self.child.get_mut().expect("a child");
        drop(child.kill());
        drop(child.wait());
        if std::thread::panicking() {
            let said = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = said.lines().collect();
            let tail = lines[lines.len().saturating_sub(30)..].join("\n");
            eprintln!("--- {} said last ---\n{tail}", self.name);
            return;
        }
        let expected = self.expected.get_mut().expect("a list");
        let said = fs::read_to_string(&self.log).expect("its log");
        let loud = |line: &&str| {
            [" WARN ", " ERROR ", "panicked"].iter().any(|mark| line.contains(mark))
                && !expected.iter().any(|text| line.contains(text.as_str()))
        };
        let unlisted: Vec<&str> = said.lines().filter(loud).take(5).collect();
        assert!(unlisted.is_empty(), "{} warned of what no test expects: {unlisted:#?}", self.name);
    }
}

/// Returns the resident memory of a process, in KiB (proc_pid_status(5)).
pub(crate) fn resident_kib(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|text| text.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}
