//! Runs the guards, the scripts in `guards/` that check the setup of a host. The tests use
//! simulated good and bad hosts, fake `ss`, `lsof` and `curl`, and real sockets.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;
use vctx::checks::sentences::{self as said, Sentence};

mod mutants;
#[path = "../it/needs.rs"]
mod needs;
mod options;
mod uds;

const HEADER: &str = "State Recv-Q Send-Q Local Address:Port Peer Address:PortProcess\n";
const SSHD: &str = "LISTEN 0 128 0.0.0.0:22 0.0.0.0:* users:((\"sshd\",pid=1,fd=3))\n";

/// A simulated host: a temporary directory with a real socket `arangod.sock` and its own PATH.
struct Host {
    root: TempDir,
    socket: PathBuf,
    _bound: UnixListener,
    _alone: MutexGuard<'static, ()>,
}

/// Ensures that only one host exists at a time. Otherwise a child process that another test starts
/// may inherit a file descriptor that is open for writing to a new fake tool, so that the tool
/// cannot be run (ETXTBSY, execve(2)).
static ALONE: Mutex<()> = Mutex::new(());

impl Host {
    fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let root = tempfile::tempdir().expect("a temporary directory");
        let socket = root.path().join("arangod.sock");
        let bound = UnixListener::bind(&socket).expect("a socket in a new directory");
        let host = Self { root, socket, _bound: bound, _alone: alone };
        fs::create_dir(host.bin()).expect("a new directory");
        for tool in ["awk", "ls", "stat"] {
            std::os::unix::fs::symlink(find(tool), host.bin().join(tool)).expect("a link");
        }
        host
    }

    fn bin(&self) -> PathBuf {
        self.root.path().join("bin")
    }

    /// Puts a fake tool on PATH that prints `output` and exits with `status`.
    fn fake(&self, tool: &str, output: &str, status: i32) {
        let text = self.root.path().join(format!("{tool}.out"));
        fs::write(&text, output).expect("a file");
        let script = format!(
            "#!/bin/sh\nwhile IFS= read -r line; do printf '%s\\n' \"$line\"; done <'{}'\nexit {status}\n",
            text.display()
        );
        let path = self.bin().join(tool);
        fs::write(&path, script).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("own file");
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.root.path().join(name);
        fs::write(&path, text.replace("SOCKET", &self.socket())).expect("a file");
        path.display().to_string()
    }

    fn socket(&self) -> String {
        self.socket.display().to_string()
    }

    /// Runs a guard. Returns `Ok` if the guard passes, and otherwise the first line of stderr.
    fn run(&self, guard: &str, arguments: &[&str]) -> Result<(), String> {
        self.run_as(&guards().join(guard), guard, arguments)
    }

    /// Runs a guard in one of two ways: by its absolute path in the working directory `/`, or by
    /// its file name in the guard's own directory.
    fn run_as(&self, called: &Path, guard: &str, arguments: &[&str]) -> Result<(), String> {
        let mut shell = Command::new("/bin/sh");
        shell.arg(called).args(arguments).env_clear().env("PATH", self.bin());
        // The caller's environment variables must not change the result.
        for name in SET {
            shell.env(name, "1");
        }
        let at = if called.is_absolute() { PathBuf::from("/") } else { guards() };
        let output = ended(shell.current_dir(at));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.code() {
            Some(0) => {
                assert!(
                    output.stdout.starts_with(b"ok: ") && errors.is_empty(),
                    "{guard} {arguments:?}: {errors}"
                );
                Ok(())
            }
            Some(1) => {
                let (sentence, seen) = errors.split_once('\n').unwrap_or_default();
                let shown = seen.strip_prefix("seen: ").is_some_and(|s| !s.trim().is_empty());
                // After its error, a failed guard prints a line that begins with `seen:`. This line
                // may be missing if the guard saw an empty configuration. It must be present if the
                // arguments are wrong or a tool is missing.
                let may_be_bare = seen.is_empty()
                    && ![said::ARGUMENTS, said::TOOL_MISSING].iter().any(|s| s.text == sentence);
                assert!(shown || may_be_bare, "{guard} {arguments:?} shows nothing: {errors}");
                Err(sentence.to_owned())
            }
            other => panic!("{guard} {arguments:?} ended with {other:?}: {errors}"),
        }
    }
}

/// Returns the directory of the guards under test: a changed copy, or the original guards.
fn guards() -> PathBuf {
    std::env::var_os(CHANGED)
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("guards"), PathBuf::from)
}

/// Names of the variables that the guards use; the tests also set them in the environment.
const SET: [&str; 11] = [
    "allow", "checked", "given", "group", "names", "needed", "options", "owner", "profile",
    "socket", "sockets",
];

/// Environment variable that names the directory of a changed copy of the guards, if one is under
/// test.
const CHANGED: &str = "VCTX_GUARDS_CHANGED";

/// Maximum number of polls, one every [`LOOK`], within which a guard must end; otherwise the test
/// fails.
const LOOKS_MAX: u32 = 2_000;
/// Pause between two polls of a running guard.
const LOOK: std::time::Duration = std::time::Duration::from_millis(5);

/// Runs a guard to its end.
fn ended(shell: &mut Command) -> Output {
    let mut child =
        shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("/bin/sh starts");
    for _ in 0..LOOKS_MAX {
        if child.try_wait().expect("own child").is_some() {
            return child.wait_with_output().expect("own child");
        }
        std::thread::sleep(LOOK);
    }
    child.kill().expect("own child");
    child.wait().expect("own child");
    panic!("{shell:?} does not end");
}

/// Returns the path of a tool on this machine.
fn find(tool: &str) -> PathBuf {
    let path = std::env::var_os("PATH").expect("a PATH");
    let found =
        std::env::split_paths(&path).map(|folder| folder.join(tool)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{tool} is needed by the guards"))
}

fn check(case: &str, came: Result<(), String>, expected: Result<(), Sentence>) {
    assert_eq!(came, expected.map_err(|sentence| sentence.text.to_owned()), "{case}");
}

const GOOD: Result<(), Sentence> = Ok(());

/// File names of all guards.
const GUARDS: &[&str] = &["uds.sh", "vector-flag.sh", "auth.sh", "restore.sh", "sockets.sh"];

#[test]
fn guards_and_checks_say_the_same_sentences() {
    let mut in_guards = BTreeSet::new();
    for guard in GUARDS {
        let text = fs::read_to_string(guards().join(guard)).expect("a guard");
        assert!(
            text.lines().count() <= 40 && text.starts_with("#!/bin/sh\n# Protects: "),
            "{guard}"
        );
        let spoken = text.split("fail '").skip(1).chain(text.split("usage='").skip(1));
        in_guards.extend(spoken.filter_map(|rest| rest.split('\'').next()).map(str::to_owned));
    }
    let in_checks: BTreeSet<String> =
        said::ALL.iter().map(|sentence| sentence.text.to_owned()).collect();
    assert_eq!(in_guards, in_checks);
    let names: BTreeSet<&str> = said::ALL.iter().map(|sentence| sentence.name).collect();
    assert_eq!(names.len(), said::ALL.len(), "a name given twice");
}

#[test]
fn each_guard_explains_itself() {
    let host = Host::new();
    host.fake("ss", HEADER, 0);
    host.fake("lsof", "", 0);
    for guard in GUARDS {
        let path = guards().join(guard);
        let mut shell = Command::new("/bin/sh");
        shell.arg(&path).arg("--help").env_clear().env("PATH", host.bin());
        let output = ended(&mut shell);
        let help = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success() && help.starts_with("Protects: "), "{guard}: {help}");
        let script = fs::read_to_string(&path).expect("a guard");
        // `--help` prints the comment at the head of the guard, except the first line of the file,
        // and prints no line of code.
        let head = script.lines().skip(1).take_while(|line| line.starts_with("# "));
        let head: Vec<&str> = head.map(|line| &line[2..]).collect();
        assert_eq!(help.lines().collect::<Vec<_>>(), head, "{guard}");
        let told: &[&str] = match *guard {
            "sockets.sh" => &["--socket", "--owner", "--group"],
            _ => &["--profile"],
        };
        for word in told.iter().chain(&[*guard, "single", "cluster", "embedded", "Exit 0"]) {
            assert!(help.contains(word), "{guard} does not explain {word}: {help}");
        }
    }
}

/// A child process that is killed when the test ends, whether passed or failed.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The child may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Maximum number of polls until a started server is ready: about half a minute.
const READY_LOOKS_MAX: u32 = 300;

#[test]
fn the_guards_are_green_on_what_vctx_serve_starts() {
    for tool in ["ss", "lsof", "curl"] {
        if Command::new(tool).arg("--version").output().is_err() {
            needs::left_out(&format!("{tool} is not installed"));
            return;
        }
    }
    let home = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| home.path().join(name).to_string_lossy().into_owned();
    let mut serve = Command::new(env!("CARGO_BIN_EXE_vctx"));
    serve
        .args(["serve", "--socket", &at("r/v.sock"), "--data-dir", &at("d")])
        .env_remove("ARANGO_RW_UDS");
    let _server = Running(serve.stderr(Stdio::null()).spawn().expect("vctx starts"));
    let ready = || {
        let answer = Command::new("curl")
            .args(["-sf", "--unix-socket", &at("r/v.sock"), "http://x/readyz"])
            .output();
        answer.is_ok_and(|a| a.status.success())
    };
    let mut looks = 0;
    while !ready() {
        looks += 1;
        assert!(looks < READY_LOOKS_MAX, "the server never became ready");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let (socket, ro, conf) = (at("d/arangod.sock"), at("d/arangod-ro.sock"), at("d/engine.conf"));
    let guards: [(&str, Vec<&str>); 3] = [
        ("uds.sh", vec!["--socket", &socket, "--socket", &ro, "--config", &conf]),
        ("vector-flag.sh", vec!["--config", &conf]),
        ("auth.sh", vec!["--socket", &socket, "--config", &conf]),
    ];
    for (guard, arguments) in guards {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("guards").join(guard);
        let run =
            Command::new("sh").arg(script).args(["--profile", "embedded"]).args(arguments).output();
        let run = run.expect("sh runs");
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success(), "{guard}: {said}");
    }
}

#[test]
fn what_is_packed_and_what_the_runbooks_do_passes_the_guards() {
    let host = Host::new();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let conf = here.join("deploy/arangod.conf").display().to_string();
    let single = ["--profile", "single", "--config", &conf];
    check("the flag", host.run("vector-flag.sh", &single), GOOD);
    let newest = [&single[..], &["--version", "3.12.10"]].concat();
    check("the flag by its name of now", host.run("vector-flag.sh", &newest), GOOD);
    check("authentication", host.run("auth.sh", &single), GOOD);
    let socket = "unix:///run/arangodb-vctx/arangod.sock";
    let text = fs::read_to_string(&conf).expect("a configuration");
    let endpoints = text.lines().filter_map(|line| line.strip_prefix("endpoint = "));
    assert_eq!(endpoints.collect::<Vec<_>>(), [socket]);

    let runbook = fs::read_to_string(here.join("deploy/runbooks/backup-restore.md"));
    let runbook = runbook.expect("a runbook");
    let blocks = runbook.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut seen = 0;
    for block in blocks.filter(|b| b.contains("arangodump ") || b.contains("arangorestore ")) {
        seen += 1;
        let script = host.file("script", block);
        let arguments = ["--profile", "single", "--script", &script];
        check(block, host.run("restore.sh", &arguments), GOOD);
        let bare: Vec<&str> = block.lines().filter(|l| !l.contains("vector-flag.sh")).collect();
        host.file("script", &bare.join("\n"));
        let without = host.run("restore.sh", &arguments);
        check(block, without, Err(said::RESTORE_WITHOUT_VECTOR));
    }
    assert_eq!(seen, 2, "one block dumps and one restores");
}

/// Copies all guards into a directory, and replaces the text of one of them.
fn changed(directory: &Path, guard: &str, text: &str) {
    for name in GUARDS.iter().chain(&["options.awk"]) {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("guards").join(name);
        fs::copy(from, directory.join(name)).expect("a copy");
    }
    fs::write(directory.join(guard), text).expect("a file");
}
