//! Tests a server under a service manager: inherited sockets, readiness and watchdog messages,
//! credentials that appear only in the processes that received them, and one listener for each
//! user.

use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::home::{Home, PASSWORD, PROGRAM, Process, Tuning, command, unconfigured};
use crate::needs::left_out;
use crate::outside::needs_an_engine_of_its_own;
use crate::talk::Agent;
use crate::wire::Wire;

/// Maximum time that a test waits for a message to the service manager, even on a busy machine.
const TOLD_MAX: Duration = Duration::from_secs(60);

/// A shell command that passes stdin and stdout to a program as the two sockets of
/// sd_listen_fds(3); `LISTEN_PID` is the program's own process id.
const HAND_OVER: &str = r#"exec 3<&0 4>&1 0</dev/null 1>&2; LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES="$NAMES" exec "$@""#;

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap_or_else(|e| panic!("{}: {e}", path.display())).permissions().mode()
        & 0o777
}

fn listener(path: &Path) -> UnixListener {
    let listener = UnixListener::bind(path).expect("a socket");
    fs::set_permissions(path, Permissions::from_mode(0o660)).expect("a mode");
    listener
}

/// Returns a duplicate of a socket for a child process to inherit.
fn handle(listener: &UnixListener) -> Stdio {
    Stdio::from(OwnedFd::from(listener.try_clone().expect("a second handle")))
}

/// Runs a command that inherits two sockets under the given names.
fn handing_over(names: &str, under: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", HAND_OVER, "sh"]).args(under).env("NAMES", names);
    unconfigured(&mut shell);
    shell
}

/// Waits until the process ends; returns its exit code and its output.
fn end(process: &Process) -> (Option<i32>, String) {
    let until = Instant::now() + TOLD_MAX;
    loop {
        if let Some(status) = process.ended() {
            return (status.code(), process.said());
        }
        assert!(Instant::now() < until, "it does not end:\n{}", process.said());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_that_are_handed_over_are_served_and_outlive_the_server() {
    if needs_an_engine_of_its_own("is killed with the server") {
        return;
    }
    let home = Home::new();
    let (api, metrics) = (listener(&home.path("a.sock")), listener(&home.path("m.sock")));
    let start = |name: &str| {
        let mut shell = handing_over("api:metrics", &[PROGRAM, "serve", "--data-dir"]);
        shell.arg(home.path("data"));
        Process::start_with(&home, name, shell, handle(&api), Some(handle(&metrics)))
    };
    let first = start("first");
    first.ready(&[], Some(&home.path("a.sock"))).await;
    let ada = Agent::create(home.wire("a.sock"), "ada", 8192, "Be kind.").await;
    ada.append("user", "Hello").await;
    let figures = home.wire("m.sock").get("/metrics").await;
    assert!(figures.text.contains("vctx_build_info"), "{}", figures.text);

    // While no server runs, callers wait on the inherited socket; the server that starts next
    // serves these callers.
    first.kill();
    let waiting = Wire::new(&home.path("a.sock"));
    let (answer, second) = tokio::join!(waiting.get("/v1/agents/ada"), async { start("second") });
    assert!([200, 503].contains(&answer.status), "{}", answer.text);
    second.ready(&[], Some(&home.path("a.sock"))).await;
    assert_eq!(home.wire("a.sock").get("/v1/agents/ada").await.ok()["queue"]["count"], 1);

    assert!(second.stop().await.success());
    for socket in ["a.sock", "m.sock"] {
        assert!(home.path(socket).exists(), "{socket} is not the server's to remove");
        assert_eq!(mode(&home.path(socket)), 0o660, "{socket}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_of_other_names_or_of_another_process_are_not_taken() {
    if needs_an_engine_of_its_own("ends before it asks a database") {
        return;
    }
    let home = Home::new();
    let (api, metrics) = (listener(&home.path("a.sock")), listener(&home.path("m.sock")));
    let told = home.path("told.sock");
    let told = told.to_str().expect("a plain path");
    for (at, (names, arguments, said)) in [
        ("api:vctx.socket", vec![], "FileDescriptorName=api or metrics"),
        ("api:api", vec![], "two sockets called api"),
        ("api", vec![], "LISTEN_FDNAMES"),
        ("api:metrics", vec!["--socket", told], "leave out --socket"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut shell = handing_over(names, &[PROGRAM, "serve", "--data-dir"]);
        shell.arg(home.path("data")).args(arguments);
        let name = format!("refused-{at}");
        let process =
            Process::start_with(&home, &name, shell, handle(&api), Some(handle(&metrics)));
        let (code, seen) = end(&process);
        assert_eq!(code, Some(78), "{names}: {seen}");
        assert!(seen.contains(said), "{names}: {seen}");
    }
    // `LISTEN_PID` names another process, so the server must not use the inherited sockets.
    let mut shell = handing_over("api:metrics", &["env", "LISTEN_PID=1", PROGRAM, "serve"]);
    shell.args(["--socket", told, "--data-dir"]).arg(home.path("data"));
    let own = Process::start_with(&home, "own", shell, handle(&api), Some(handle(&metrics)));
    own.ready(&[], Some(Path::new(told))).await;
    assert_eq!(mode(Path::new(told)), 0o660);
}

/// Reads messages to the service manager until one contains the given line; returns all messages
/// that were read.
fn told_until(manager: &UnixDatagram, line: &str) -> Vec<String> {
    let until = Instant::now() + TOLD_MAX;
    let mut told = Vec::new();
    let mut bytes = [0; 4096];
    while Instant::now() < until {
        let Ok(length) = manager.recv(&mut bytes) else { continue };
        let message = String::from_utf8_lossy(&bytes[..length]).into_owned();
        let found = message.lines().any(|l| l.starts_with(line));
        told.push(message);
        if found {
            return told;
        }
    }
    panic!("the service manager was never told {line}, but {told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_manager_is_told_why_it_waits_when_it_serves_that_it_lives_and_that_it_ends() {
    if needs_an_engine_of_its_own("waits for its engine") {
        return;
    }
    let home = Home::new();
    let manager = UnixDatagram::bind(home.path("notify.sock")).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_millis(100))).expect("a limit");
    let notify = home.path("notify.sock").display().to_string();
    let mut tuning = Tuning::variable("NOTIFY_SOCKET", &notify);
    tuning.environment.push(("WATCHDOG_USEC".into(), "200000".into()));
    tuning.environment.push(("VCTX_CONVEYANCE__PROBE_MS".into(), "500".into()));
    let server = home.server_begun("vctx.sock", "engine.sock", "engine-ro.sock", &tuning);
    let before = told_until(&manager, "STATUS=not ready: ");
    assert!(!before.concat().contains("READY=1") && !before.concat().contains("WATCHDOG"));
    let engine = home.engine().await;
    told_until(&manager, "READY=1");
    assert!(home.wire("vctx.sock").is_ready().await, "it said so");
    for _ in 0..5 {
        told_until(&manager, "WATCHDOG=1");
    }
    // The server sends watchdog messages even without its database, because a restart of the server
    // would not help.
    engine.kill();
    for _ in 0..5 {
        told_until(&manager, "WATCHDOG=1");
    }
    server.expect("");
    assert!(server.stop().await.success());
    told_until(&manager, "STOPPING=1");
}

#[tokio::test(flavor = "multi_thread")]
async fn modes_do_not_depend_on_the_umask() {
    if needs_an_engine_of_its_own("looks at its sockets") {
        return;
    }
    for umask in ["000", "077", "027"] {
        let home = Home::new();
        let under = ["sh", "-c", &format!("umask {umask}; exec \"$@\""), "sh"].map(str::to_owned);
        let tuning = Tuning { under: under.to_vec(), ..Tuning::default() };
        let _server = home.serve_with("run/vctx.sock", &tuning).await;
        for socket in
            ["run/vctx.sock", "run/metrics.sock", "data/arangod.sock", "data/arangod-ro.sock"]
        {
            assert_eq!(mode(&home.path(socket)), 0o660, "{socket} under {umask}");
        }
        for directory in ["run", "data", "data/engine"] {
            assert_eq!(mode(&home.path(directory)), 0o700, "{directory} under {umask}");
        }
        for secret in ["root", "vctx_ro", "vctx_rw"] {
            let secret = format!("data/{secret}.password");
            assert_eq!(mode(&home.path(&secret)), 0o600, "{secret} under {umask}");
        }
    }
}

/// The password in plain text, and the user name and the password in the Base64 form of RFC 7617.
/// Neither form may appear in any output, or in any process that did not receive the password.
const FORMS: [&str; 2] = [PASSWORD, "cm9vdDppdC1yb290"];

#[track_caller]
fn holds_none(place: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for form in FORMS {
        assert!(!text.contains(form), "{place} holds the password");
    }
}

/// Returns the command lines of all processes that this process may read.
fn process_list() -> Vec<u8> {
    let entries = fs::read_dir("/proc").expect("a process table").flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.flat_map(|line| [line, b"\n".to_vec()].concat()).collect()
}

/// Starts a server that reads its password from the service manager's credentials directory.
fn server_with(home: &Home, credential: &str) -> Process {
    let directory = home.path("credentials");
    fs::create_dir_all(&directory).expect("a directory");
    let file = directory.join("arango-password");
    fs::write(&file, format!("{credential}\n")).expect("a file");
    fs::set_permissions(&file, Permissions::from_mode(0o400)).expect("a mode");
    let mut server = command(&Tuning::default());
    server.args(["serve", "--socket"]).arg(home.path("vctx.sock"));
    server.env("ARANGO_RW_UDS", home.path("engine.sock"));
    server.env("ARANGO_RO_UDS", home.path("engine-ro.sock"));
    server.env("ARANGO_USER", "root").env("CREDENTIALS_DIRECTORY", &directory);
    server.env("VCTX_LOG__FILTER", "trace").env("VCTX_LOG__FORMAT", "json");
    Process::start(home, &format!("server-{credential}"), server)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_stands_nowhere_but_where_it_was_given() {
    if needs_an_engine_of_its_own("has a password of its own") {
        return;
    }
    let home = Home::new();
    let engine = home.engine().await;
    let server = server_with(&home, PASSWORD);
    server.ready(&[], Some(&home.path("vctx.sock"))).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    ada.append("user", "Hello").await;
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    let lost = home.wire("vctx.sock").get("/v1/agents/nobody").await;

    holds_none("the process list", &process_list());
    let environment = |id: u32| fs::read(format!("/proc/{id}/environ")).expect("own child");
    holds_none("the server's environment", &environment(server.id()));
    // The engine received the password in its environment. If the search did not find the password
    // there, it would prove nothing when it finds no password elsewhere.
    assert!(String::from_utf8_lossy(&environment(engine.id())).contains(PASSWORD));
    holds_none("an answer", lost.text.as_bytes());
    holds_none("the metrics", home.wire("metrics.sock").get("/metrics").await.text.as_bytes());
    for path in ["/readyz", "/v1/openapi.json", "/v1/agents/ada", "/v1/agents/ada/events"] {
        holds_none(path, home.wire("vctx.sock").get(path).await.text.as_bytes());
    }
    for (process, name) in [(&server, "the server"), (&engine, "the engine")] {
        let limits = fs::read_to_string(format!("/proc/{}/limits", process.id())).expect("limits");
        let core = limits.lines().find(|l| l.starts_with("Max core file size")).expect("a limit");
        let numbers: Vec<&str> = core.split_whitespace().skip(4).collect();
        assert_eq!(numbers, ["0", "0", "bytes"], "{name} would write a core dump");
        let filter = fs::read_to_string(format!("/proc/{}/coredump_filter", process.id()));
        assert_eq!(filter.expect("a filter").trim(), "00000000", "{name}");
    }
    assert!(server.stop().await.success());
    assert!(server.said().lines().count() > 20, "it said little at the filter trace");
    holds_none("the server's log", server.said().as_bytes());
    holds_none("the engine's log", engine.said().as_bytes());

    // A wrong password is refused without being printed.
    let wrong = server_with(&home, "it-wrong-one");
    let (code, said) = end(&wrong);
    assert_eq!(code, Some(77), "{said}");
    assert!(!said.contains("it-wrong-one"), "{said}");
    // A file that others may read is refused as a credential.
    let file = home.path("credentials/arango-password");
    fs::set_permissions(&file, Permissions::from_mode(0o444)).expect("a mode");
    let mut open = command(&Tuning::default());
    open.args(["serve", "--socket"]).arg(home.path("vctx.sock"));
    open.env("ARANGO_RW_UDS", home.path("engine.sock"));
    open.env("CREDENTIALS_DIRECTORY", home.path("credentials"));
    let refused = open.output().expect("the program runs");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(78), "{said}");
    assert!(said.contains("mode 444") && !said.contains("it-wrong-one"), "{said}");
}

/// Unused user ids, for the server and for two callers.
const SERVER: u32 = 65_500;
const CALLERS: [u32; 2] = [65_501, 65_502];

/// Returns the command prefix that runs a program as another user, without the groups and
/// privileges of the current user.
fn becoming(uid: u32) -> Vec<String> {
    let uid = uid.to_string();
    ["setpriv", "--reuid", &uid, "--regid", &uid, "--clear-groups", "--no-new-privs"]
        .map(str::to_owned)
        .to_vec()
}

/// Runs a command of the program as another user.
fn as_user(uid: u32, program: &Path, arguments: &[&str], socket: &Path) -> Output {
    let become_user = becoming(uid);
    let mut command = Command::new(&become_user[0]);
    command.args(&become_user[1..]).arg(program).args(arguments).arg("--socket").arg(socket);
    unconfigured(&mut command);
    command.current_dir("/").stdin(Stdio::null()).output().expect("setpriv runs")
}

fn owned(path: &Path, uid: u32, mode: u32) {
    chown(path, Some(uid), Some(uid)).expect("root may");
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("root may");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_two_users_reaches_its_own_listener_only() {
    if needs_an_engine_of_its_own("gives its sockets to another user") {
        return;
    }
    let root = fs::metadata("/proc/self").expect("a process").uid() == 0;
    if !root || Command::new("setpriv").arg("--version").output().is_err() {
        left_out("only root can become other users, with setpriv of util-linux");
        return;
    }
    let home = Home::new();
    // All users may enter the directory, like /run. The program is linked or copied into it,
    // because other users may be unable to enter its original directory.
    fs::set_permissions(home.path(""), Permissions::from_mode(0o711)).expect("own directory");
    let program = home.path("vctx");
    fs::hard_link(PROGRAM, &program)
        .or_else(|_| fs::copy(PROGRAM, &program).map(drop))
        .expect("a copy");
    for (name, uid, mode) in [("db", SERVER, 0o700), ("metrics", SERVER, 0o700), ("run", 0, 0o755)]
    {
        fs::create_dir(home.path(name)).expect("a directory");
        owned(&home.path(name), uid, mode);
    }
    let become_server = becoming(SERVER);
    let mut engine = Command::new(&become_server[0]);
    engine.args(&become_server[1..]).arg(&program).args(["engine", "--socket"]);
    engine.arg(home.path("db/rw.sock")).arg("--ro-socket").arg(home.path("db/ro.sock"));
    engine.arg("--data-dir").arg(home.path("db/data"));
    unconfigured(&mut engine);
    engine.env("ARANGO_ROOT_PASSWORD", PASSWORD);
    let engine = Process::start(&home, "engine", engine);
    engine.ready(&[home.path("db/rw.sock"), home.path("db/ro.sock")], None).await;

    let mut servers = Vec::new();
    for uid in CALLERS {
        let directory = home.path(&format!("run/{uid}"));
        fs::create_dir(&directory).expect("a directory");
        let api = listener(&directory.join("vctx.sock"));
        owned(&directory.join("vctx.sock"), uid, 0o660);
        owned(&directory, uid, 0o700);
        let metrics = listener(&home.path(&format!("metrics/{uid}.sock")));
        let under: Vec<&str> = become_server.iter().map(String::as_str).collect();
        let mut shell = handing_over("api:metrics", &under);
        shell.arg(&program).arg("serve").env("VCTX_SERVER__TENANT", format!("u{uid}"));
        shell.env("ARANGO_RW_UDS", home.path("db/rw.sock")).env("ARANGO_USER", "root");
        shell.env("ARANGO_RO_UDS", home.path("db/ro.sock")).env("ARANGO_PASSWORD", PASSWORD);
        shell.env("VCTX_SERVER__DATA_DIR", home.path("db/server"));
        let name = format!("server-{uid}");
        let process =
            Process::start_with(&home, &name, shell, handle(&api), Some(handle(&metrics)));
        process.ready(&[], Some(&directory.join("vctx.sock"))).await;
        servers.push(process);
    }
    let socket = |uid: u32| home.path(&format!("run/{uid}/vctx.sock"));
    for (uid, other) in [(CALLERS[0], CALLERS[1]), (CALLERS[1], CALLERS[0])] {
        let create = ["agent", "create", "ada", "--window", "8192"];
        let own = as_user(uid, &program, &create, &socket(uid));
        assert!(own.status.success(), "{}", String::from_utf8_lossy(&own.stderr));
        let text = format!(r#"{{"message": "I am {uid}", "role": "user"}}"#);
        let append = ["tool", "append_fifo", "--agent", "ada", "--rev", "*", "--args", &text];
        let own = as_user(uid, &program, &append, &socket(uid));
        assert!(own.status.success(), "{}", String::from_utf8_lossy(&own.stderr));
        let theirs = as_user(uid, &program, &["agent", "list"], &socket(other));
        let said = String::from_utf8_lossy(&theirs.stderr).into_owned();
        assert!(!theirs.status.success() && theirs.stdout.is_empty(), "{uid} reached {other}");
        assert!(said.contains("ermission denied"), "{said}");
        // Other users cannot reach messages through the server's internal sockets and files either.
        for inside in ["db/rw.sock", "db/ro.sock", &format!("metrics/{uid}.sock")] {
            let theirs = as_user(uid, &program, &["agent", "list"], &home.path(inside));
            assert!(!theirs.status.success(), "{uid} reached {inside}");
        }
    }
    // There are two agents with the same name, each with the messages of its own user.
    for uid in CALLERS {
        let told = as_user(uid, &program, &["messages", "--agent", "ada", "--json"], &socket(uid));
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        assert!(told.contains(&format!("I am {uid}")), "{told}");
        assert_eq!(told.matches("I am ").count(), 1, "{told}");
    }
    // The kernel reports the caller's user to the server. Only the operator may use these commands,
    // and the caller is another user.
    for action in ["status", "start"] {
        let asked = as_user(CALLERS[0], &program, &["reindex", action], &socket(CALLERS[0]));
        let said = String::from_utf8_lossy(&asked.stderr).into_owned();
        assert_eq!(asked.status.code(), Some(77), "{action}: {said}");
    }
}

/// Returns the commands that `vctx --help` lists.
fn commands(home: &Home) -> Vec<String> {
    let help = String::from_utf8(home.run(&["--help"]).stdout).expect("text");
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = listed.take_while(|line| !line.is_empty());
    names.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let home = Home::new();
    let commands = commands(&home);
    assert!(commands.len() > 20 && commands.contains(&"serve".to_owned()), "{commands:?}");
    for shell in ["bash", "zsh", "fish"] {
        let output = home.run(&["completions", shell]);
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success());
        for command in &commands {
            assert!(text.contains(command.as_str()), "{shell} does not complete {command}");
        }
    }
    let bash = home.run(&["completions", "bash"]).stdout;
    fs::write(home.path("vctx.bash"), bash).expect("a file");
    let sourced = Command::new("bash")
        .args(["-c", ". \"$0\" && complete -p vctx"])
        .arg(home.path("vctx.bash"))
        .output()
        .expect("bash runs");
    assert!(sourced.status.success(), "{}", String::from_utf8_lossy(&sourced.stderr));

    let directory = home.path("man");
    let written = home.run(&["man", "--dir", directory.to_str().expect("a plain path")]);
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let page = |name: &str| fs::read_to_string(directory.join(format!("{name}.1")));
    for command in &commands {
        let text = page(&format!("vctx-{command}")).unwrap_or_else(|e| panic!("{command}: {e}"));
        assert!(text.contains(".SH SYNOPSIS"), "{command}");
    }
    assert!(page("vctx-agent-create").expect("a page").contains("window"));
    assert!(page("vctx-engine").is_err(), "a hidden command has a page");
    let refused = home.run(&["man", "--dir", "/proc/nowhere"]);
    assert!([Some(73), Some(77)].contains(&refused.status.code()));
}
