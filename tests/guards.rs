//! The guards from outside: a table of good and bad hosts with fake `ss`, `lsof` and `curl`, and sockets that are real.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;
use vctx::startup::sentences::{self as said, Sentence};

#[path = "it/needs.rs"]
mod needs;

const HEADER: &str = "State Recv-Q Send-Q Local Address:Port Peer Address:PortProcess\n";
const SSHD: &str = "LISTEN 0 128 0.0.0.0:22 0.0.0.0:* users:((\"sshd\",pid=1,fd=3))\n";

/// A host: a socket that is really bound at `D/arangod.sock`, and a PATH of its own.
struct Host {
    root: TempDir,
    socket: PathBuf,
    _bound: UnixListener,
    _alone: MutexGuard<'static, ()>,
}

/// A fake tool that has just been written cannot be run while a child forked by another test still holds it open for writing
/// (ETXTBSY, execve(2)), so one host stands at a time.
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

    /// Puts a tool on PATH that prints `output` and ends with `status`.
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

    /// Runs a guard and says what came of it: nothing for green, else the first line on stderr.
    fn run(&self, guard: &str, arguments: &[&str]) -> Result<(), String> {
        self.run_as(&guards().join(guard), guard, arguments)
    }

    /// The same by a path, from anywhere, or by its bare name, from the directory that it lies in.
    fn run_as(&self, called: &Path, guard: &str, arguments: &[&str]) -> Result<(), String> {
        let mut shell = Command::new("/bin/sh");
        shell.arg(called).args(arguments).env_clear().env("PATH", self.bin());
        // What the caller's environment happens to hold changes nothing.
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
                // An empty configuration has nothing to show; what was not understood always has.
                let may_be_bare = seen.is_empty()
                    && ![said::ARGUMENTS, said::TOOL_MISSING].iter().any(|s| s.text == sentence);
                assert!(shown || may_be_bare, "{guard} {arguments:?} shows nothing: {errors}");
                Err(sentence.to_owned())
            }
            other => panic!("{guard} {arguments:?} ended with {other:?}: {errors}"),
        }
    }
}

/// Where the guards lie: a changed copy, or the real ones.
fn guards() -> PathBuf {
    std::env::var_os(CHANGED)
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("guards"), PathBuf::from)
}

/// Variables of the guards, set in their environment.
const SET: [&str; 11] = [
    "allow", "checked", "given", "group", "names", "needed", "options", "owner", "profile",
    "socket", "sockets",
];

/// Set where a changed copy of the guards is under test.
const CHANGED: &str = "VCTX_GUARDS_CHANGED";

/// Longest run of a guard, in looks of [`LOOK`]: one that never ends is not green.
const LOOKS_MAX: u32 = 2_000;
/// Pause between two looks at a guard that runs.
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

/// The tool as this machine has it.
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

/// Every guard.
const GUARDS: &[&str] = &["uds.sh", "vector-flag.sh", "auth.sh", "restore.sh", "sockets.sh"];

#[test]
fn uds_knows_good_hosts_from_bad_ones() {
    let arangod = "COMMAND PID USER FD TYPE DEVICE SIZE/OFF NODE NAME\narangod 4194301 db 15u unix 0x0 0t0 99 SOCKET type=STREAM (LISTEN)\n";
    let vctx = &arangod.replace("arangod 4", "vctx 4");
    let embedded = &arangod.replace("arangod 4", "arango-em 4");
    let stranger = &arangod.replace("arangod 4", "nginx 4");
    let elsewhere = &arangod.replace("SOCKET", "SOCKET.old");
    let config = "[server]\nendpoint = unix://SOCKET\n";
    let listen = |address: &str, owner: &str| {
        format!("{HEADER}{SSHD}LISTEN 0 128 {address} 0.0.0.0:* {owner}\n")
    };
    let owned =
        |address: &str, name: &str| listen(address, &format!("users:((\"{name}\",pid=7,fd=9))"));
    let quiet = format!("{HEADER}{SSHD}");
    let single = ["--profile", "single"].as_slice();
    let in_process = ["--profile", "embedded"].as_slice();
    let cluster = ["--profile", "cluster", "--allow", "10.0.0.1:8530"].as_slice();
    let two = "[server]\nendpoint = unix://SOCKET\nendpoint = tcp://10.0.0.1:8530\n";
    #[rustfmt::skip]
    let table: Vec<(&str, &[&str], String, &str, &str, Result<(), Sentence>)> = vec![
        ("embedded with a configuration of comments", in_process, quiet.clone(), vctx, "# nothing\n\n; nothing\n", GOOD),
        ("no listener at all", single, HEADER.to_owned(), arangod, config, GOOD),
        ("listeners of others", single, quiet.clone(), arangod, config, GOOD),
        ("vctx holds the socket", in_process, quiet.clone(), vctx, "", GOOD),
        ("arango-embedded holds the socket", in_process, quiet.clone(), embedded, "", GOOD),
        ("embedded with its endpoint configured", in_process, quiet.clone(), vctx, config, GOOD),
        ("dotted key, comment before it", single, quiet.clone(), arangod, "# endpoint = tcp://0.0.0.0:8529\nserver.endpoint=unix://SOCKET\n", GOOD),
        ("a start line", single, quiet.clone(), arangod, "arangod --server.endpoint unix://SOCKET --log.level info", GOOD),
        ("a start line with an equals sign", single, quiet.clone(), arangod, "arangod --server.endpoint='unix://SOCKET'", GOOD),
        ("cluster-internal listener that is allowed", cluster, owned("10.0.0.1:8530", "arangod"), arangod, two, GOOD),
        ("another cluster listener", cluster, owned("10.0.0.1:8531", "arangod"), arangod, two, Err(said::TCP_LISTENER)),
        ("a cluster without its local socket", cluster, quiet.clone(), stranger, two, Err(said::SOCKET_NOT_HELD)),
        ("a cluster whose socket is not configured", cluster, quiet.clone(), arangod, "[server]\nendpoint = tcp://10.0.0.1:8530\n", Err(said::ENDPOINT)),
        ("port 8529, owner hidden", single, listen("127.0.0.1:8529", ""), arangod, config, Err(said::TCP_LISTENER)),
        ("another port of arangod", single, owned("127.0.0.1:9999", "arangod"), arangod, config, Err(said::TCP_LISTENER)),
        ("a port of vctx", in_process, owned("127.0.0.1:9999", "vctx"), vctx, "", Err(said::TCP_LISTENER)),
        ("a port of arango-embedded", in_process, owned("[::1]:9999", "arango-embedded"), embedded, "", Err(said::TCP_LISTENER)),
        ("another port, owner hidden", single, listen("127.0.0.1:9999", ""), arangod, config, Err(said::OWNER_UNSEEN)),
        ("another port, owner hidden, embedded", in_process, listen("127.0.0.1:9999", ""), vctx, "", Err(said::OWNER_UNSEEN)),
        ("ss prints nothing", single, String::new(), arangod, config, Err(said::TOOL_SILENT)),
        ("lsof prints nothing", single, quiet.clone(), "", config, Err(said::TOOL_SILENT)),
        ("a stranger holds the socket", single, quiet.clone(), stranger, config, Err(said::SOCKET_NOT_HELD)),
        ("arangod in the embedded profile", in_process, quiet.clone(), arangod, "", Err(said::SOCKET_NOT_HELD)),
        ("the socket is held under another path", single, quiet.clone(), elsewhere, config, Err(said::SOCKET_NOT_HELD)),
        ("tcp beside unix", single, quiet.clone(), arangod, two, Err(said::ENDPOINT)),
        ("ssl alone", single, quiet.clone(), arangod, "[server]\nendpoint = ssl://0.0.0.0:8530\n", Err(said::ENDPOINT)),
        ("http", single, quiet.clone(), arangod, "[server]\nendpoint = unix://SOCKET\nendpoint = http://localhost:9000\n", Err(said::ENDPOINT)),
        ("tcp on the start line", single, quiet.clone(), arangod, "arangod --server.endpoint unix://SOCKET --server.endpoint tcp://[::]:9000", Err(said::ENDPOINT)),
        ("another socket", single, quiet.clone(), arangod, "[server]\nendpoint = unix:///elsewhere.sock\n", Err(said::ENDPOINT)),
        ("only a comment names the socket", single, quiet.clone(), arangod, "[server]\n; endpoint = unix://SOCKET\n", Err(said::ENDPOINT)),
        ("an included file may hide an endpoint", single, quiet.clone(), arangod, "[server]\nendpoint = unix://SOCKET\n@include tcp\n", Err(said::ENDPOINT)),
        ("an empty configuration", single, quiet.clone(), arangod, "\n", Err(said::ENDPOINT)),
    ];
    for (case, profile, listeners, holders, config, expected) in table {
        let host = Host::new();
        host.fake("ss", &listeners, 0);
        host.fake("lsof", &holders.replace("SOCKET", &host.socket()), 0);
        let mut arguments = profile.to_vec();
        let (socket, file) = (host.socket(), host.file("arangod.conf", config));
        let line = config.replace("SOCKET", &socket);
        arguments.extend(["--socket", &socket]);
        match config.split(' ').next() {
            Some("arangod") => arguments.extend(["--command", &line]),
            Some("") => {}
            _ => arguments.extend(["--config", &file]),
        }
        check(case, host.run("uds.sh", &arguments), expected);
    }
}

#[test]
fn a_listener_without_owner_is_passed_over_only_beside_an_engine_we_may_look_into() {
    let host = Host::new();
    let program = host.root.path().join("vctx");
    fs::copy(find("sleep"), &program).expect("a copy that runs under the engine's name");
    // Where a case fails it ends too: a changed copy is judged when nothing holds its output any more.
    let engine = Running(Command::new(&program).arg("60").spawn().expect("the copy starts"));
    let socket = host.socket();
    host.fake("ss", &format!("{HEADER}LISTEN 0 128 0.0.0.0:2024 0.0.0.0:*\n"), 0);
    host.fake("lsof", &format!("vctx {} db 15u unix 0x0 0t0 99 {socket}\n", engine.0.id()), 0);
    let embedded = ["--profile", "embedded", "--socket", &socket];
    let beside_engine = host.run("uds.sh", &embedded);
    host.fake("lsof", &format!("vctx {} db 15u unix 0x0 0t0 99 {socket}\n", std::process::id()), 0);
    let beside_another = host.run("uds.sh", &embedded);
    host.fake("lsof", &format!("vctx {} db 15u unix 0x0 0t0 99 {socket}\n", engine.0.id()), 0);
    fs::remove_file(host.bin().join("ls")).expect("the link");
    host.fake("ls", "", 1);
    let shut = host.run("uds.sh", &embedded);
    drop(engine);
    check("the engine's process is open to us", beside_engine, GOOD);
    check("we may not look into it", shut, Err(said::OWNER_UNSEEN));
    check("the process has another name", beside_another, Err(said::OWNER_UNSEEN));
}

#[test]
fn uds_fails_closed() {
    let host = Host::new();
    let socket = host.socket();
    let embedded = ["--profile", "embedded", "--socket", &socket];
    check("neither ss nor lsof", host.run("uds.sh", &embedded), Err(said::TOOL_MISSING));
    host.fake("ss", HEADER, 0);
    check("no lsof", host.run("uds.sh", &embedded), Err(said::TOOL_MISSING));
    host.fake("lsof", &format!("vctx 4194301 db 15u unix 0x0 0t0 99 {socket}\n"), 1);
    check("lsof with a warning", host.run("uds.sh", &embedded), GOOD);
    let gone = format!("{socket}.gone");
    check(
        "no such socket",
        host.run("uds.sh", &["--profile", "embedded", "--socket", &gone]),
        Err(said::SOCKET_NOT_HELD),
    );
    let plain = host.file("plain", "");
    check(
        "a plain file",
        host.run("uds.sh", &["--profile", "embedded", "--socket", &plain]),
        Err(said::SOCKET_NOT_HELD),
    );
    let unreadable = [&embedded[..], &["--config", &gone]].concat();
    check("no such configuration", host.run("uds.sh", &unreadable), Err(said::UNREADABLE));
    for arguments in [
        &["--profile", "none", "--socket", &socket][..],
        &["--socket", &socket],
        &["--profile", "single"],
        &["--socket"],
        &["x", "y"],
        &["--profile", "embedded", "--socket", &socket, "--colour", "red"],
    ] {
        check(&format!("{arguments:?}"), host.run("uds.sh", arguments), Err(said::ARGUMENTS));
    }
    let conf = host.file("own.conf", "[server]\nendpoint = unix://SOCKET\n");
    let with_conf = [&embedded[..], &["--config", &conf]].concat();
    check("called without a path", host.run_as(Path::new("uds.sh"), "uds.sh", &with_conf), GOOD);
    let allow = [&embedded[..], &["--allow", "127.0.0.1:8529"]].concat();
    check("--allow outside a cluster", host.run("uds.sh", &allow), Err(said::ARGUMENTS));
    host.fake("ss", HEADER, 2);
    check("ss fails", host.run("uds.sh", &embedded), Err(said::TOOL_SILENT));
    fs::remove_file(host.bin().join("awk")).expect("the link");
    check("no awk", host.run("uds.sh", &embedded), Err(said::TOOL_MISSING));
}

#[test]
fn the_vector_flag_is_found_in_every_form_and_missed_when_absent() {
    let host = Host::new();
    let off = Err(said::VECTOR_OFF);
    #[rustfmt::skip]
    let table: &[(&str, &str, &str, Result<(), Sentence>)] = &[
        ("a configuration", "vector-index = true\n[server]\nendpoint = unix:///a\n", "", GOOD),
        ("the older name", "experimental-vector-index=true\n", "", GOOD),
        ("the older name where it belongs", "experimental-vector-index = true\n", "3.12.5", GOOD),
        ("the newer name where it belongs", "vector-index = true\r\n", "3.12.10", GOOD),
        ("a start line", "arangod --server.endpoint unix:///a --vector-index true", "3.12.6", GOOD),
        ("a bare flag", "arango-embedded serve --vector-index --socket /a", "", GOOD),
        ("a flag with an equals sign", "arangod --experimental-vector-index=true", "3.12.4", GOOD),
        ("the older name too late", "experimental-vector-index = true\n", "3.12.6", off),
        ("the newer name too early", "vector-index = true\n", "3.12.5", off),
        ("no flag", "[server]\nendpoint = unix:///a\n", "", off),
        ("an empty file", "", "", off),
        ("switched off", "vector-index = false\n", "", off),
        ("switched off on the start line", "arangod --vector-index false", "", off),
        ("on and off", "vector-index = true\nexperimental-vector-index = false\n", "", off),
        ("in a comment", "# vector-index = true\n; vector-index = true\n", "", off),
        ("in another section", "[server]\nvector-index = true\n", "", off),
        ("no start line flag", "arangod --server.endpoint unix:///a", "", off),
        ("an engine too old", "vector-index = true\n", "3.12.3", Err(said::VERSION)),
        ("no version", "vector-index = true\n", "latest", Err(said::VERSION)),
    ];
    for profile in ["single", "cluster", "embedded"] {
        for &(case, text, version, expected) in table {
            let file = host.file("arangod.conf", text);
            let source =
                if text.starts_with("arango") { ["--command", text] } else { ["--config", &file] };
            let mut arguments = vec!["--profile", profile, source[0], source[1]];
            arguments.extend(
                (!version.is_empty()).then_some(["--version", version]).into_iter().flatten(),
            );
            check(case, host.run("vector-flag.sh", &arguments), expected);
        }
    }
    check(
        "no such file",
        host.run("vector-flag.sh", &["--profile", "single", "--config", "/nowhere"]),
        Err(said::UNREADABLE),
    );
    check(
        "nothing given",
        host.run("vector-flag.sh", &["--profile", "single"]),
        Err(said::ARGUMENTS),
    );
    let good = host.file("good.conf", "vector-index = true\n");
    for arguments in [
        &["--command", "arangod --vector-index"][..],
        &["--profile", "none", "--config", &good],
        &["--profile", "single", "--config"],
        &["--profile", "single", "--config", &good, "--colour", "red"],
    ] {
        let come = host.run("vector-flag.sh", arguments);
        check(&format!("{arguments:?}"), come, Err(said::ARGUMENTS));
    }
    let plain = ["--profile", "single", "--command", "vector-index=true"];
    check("a word that is no option", host.run("vector-flag.sh", &plain), off);
    let called = Path::new("vector-flag.sh");
    let by_name =
        host.run_as(called, "vector-flag.sh", &["--profile", "single", "--config", &good]);
    check("called without a path", by_name, GOOD);
    fs::remove_file(host.bin().join("awk")).expect("the link");
    check(
        "no awk",
        host.run("vector-flag.sh", &["--profile", "single", "--command", "x"]),
        Err(said::TOOL_MISSING),
    );
}

#[test]
fn authentication_has_to_be_switched_on_by_name_and_in_fact() {
    let host = Host::new();
    let off = Err(said::AUTHENTICATION_OFF);
    #[rustfmt::skip]
    let table: &[(&str, &str, Result<(), Sentence>)] = &[
        ("both in the section", "[server]\nauthentication = true\nauthentication-unix-sockets = true\n", GOOD),
        ("both dotted", "server.authentication=true\nserver.authentication-unix-sockets=true\n", GOOD),
        ("both on the start line", "arangod --server.authentication true --server.authentication-unix-sockets=true", GOOD),
        ("sockets left to the default", "[server]\nauthentication = true\n", off),
        ("sockets open", "[server]\nauthentication = true\nauthentication-unix-sockets = false\n", off),
        ("all open", "[server]\nauthentication = false\nauthentication-unix-sockets = true\n", off),
        ("opened again below", "[server]\nauthentication = true\nauthentication-unix-sockets = true\nauthentication = false\n", off),
        ("in comments", "[server]\n# authentication = true\n# authentication-unix-sockets = true\n", off),
        ("in another section", "[log]\nauthentication = true\nauthentication-unix-sockets = true\n", off),
        ("an included file", "[server]\nauthentication = true\nauthentication-unix-sockets = true\n@include open\n", off),
        ("an empty file", "", off),
    ];
    for profile in ["single", "cluster"] {
        for &(case, text, expected) in table {
            let file = host.file("arangod.conf", text);
            let source =
                if text.starts_with("arangod") { ["--command", text] } else { ["--config", &file] };
            check(
                case,
                host.run("auth.sh", &["--profile", profile, source[0], source[1]]),
                expected,
            );
        }
        check("nothing given", host.run("auth.sh", &["--profile", profile]), Err(said::ARGUMENTS));
    }
    let socket = host.socket();
    let asked = ["--profile", "embedded", "--socket", &socket];
    check("no curl", host.run("auth.sh", &asked), Err(said::TOOL_MISSING));
    let answers = [
        ("401", GOOD),
        ("200", Err(said::AUTHENTICATION_OPEN)),
        ("000", Err(said::SOCKET_SILENT)),
        ("503", Err(said::SOCKET_SILENT)),
        ("", Err(said::SOCKET_SILENT)),
    ];
    for (status, expected) in answers {
        host.fake("curl", &format!("{status}\n"), if status == "000" { 7 } else { 0 });
        check(&format!("the engine answers {status}"), host.run("auth.sh", &asked), expected);
    }
    let good = host
        .file("good.conf", "[server]\nauthentication = true\nauthentication-unix-sockets = true\n");
    for arguments in [
        &["--profile", "single", "--config"][..],
        &["--profile", "none", "--config", &good],
        &["--config", &good],
        &["--profile", "single", "--config", &good, "--colour", "red"],
    ] {
        check(&format!("{arguments:?}"), host.run("auth.sh", arguments), Err(said::ARGUMENTS));
    }
    let called = Path::new("auth.sh");
    let by_name = host.run_as(called, "auth.sh", &["--profile", "single", "--config", &good]);
    check("called without a path", by_name, GOOD);
    host.fake("curl", "200\n", 0);
    let both = ["--profile", "single", "--config", &good, "--socket", &socket];
    check("configured but open", host.run("auth.sh", &both), Err(said::AUTHENTICATION_OPEN));
    check(
        "embedded without a socket",
        host.run("auth.sh", &["--profile", "embedded", "--config", &good]),
        Err(said::ARGUMENTS),
    );
    check(
        "no such file",
        host.run("auth.sh", &["--profile", "single", "--config", "/nowhere"]),
        Err(said::UNREADABLE),
    );
    fs::remove_file(host.bin().join("awk")).expect("the link");
    check("no awk", host.run("auth.sh", &asked), Err(said::TOOL_MISSING));
}

#[test]
fn dumps_and_restores_need_the_flag() {
    let host = Host::new();
    let without = Err(said::RESTORE_WITHOUT_VECTOR);
    #[rustfmt::skip]
    let table: &[(&str, &str, &str, Result<(), Sentence>)] = &[
        ("on the line", "single", "#!/bin/sh\narangorestore --vector-index true --input-directory dump\n", GOOD),
        ("the older name", "single", "arangodump --experimental-vector-index=true --output-directory dump\n", GOOD),
        ("over several lines", "single", "arangorestore \\\n  --input-directory dump \\\n  --vector-index true\n", GOOD),
        ("on the engine's line", "single", "arangod --vector-index true --daemon &\narangorestore --input-directory dump\n", GOOD),
        ("the embedded engine", "embedded", "arango-embedded serve --vector-index --socket s &\narangorestore --server.endpoint unix://s\n", GOOD),
        ("a guard that ends the script", "single", "set -eu\nguards/vector-flag.sh --profile single --config c\narangorestore --input-directory d\n", GOOD),
        ("a guard and and", "cluster", "guards/vector-flag.sh --profile cluster --config c && arangodump --output-directory d\n", GOOD),
        ("a guard or exit", "single", "vector-flag.sh --profile single --config c || exit 1\narangorestore --input-directory d\n", GOOD),
        ("a unit", "single", "[Service]\nExecStartPre=/opt/guards/vector-flag.sh --profile single --config c\nExecStart=/usr/bin/arangodump --output-directory d\n", GOOD),
        ("without", "single", "arangorestore --input-directory dump\n", without),
        ("with a path", "single", "/usr/bin/arangodump --output-directory dump\n", without),
        ("a backup without", "cluster", "arangobackup create\n", without),
        ("one of two without", "single", "arangodump --vector-index true\narangorestore --input-directory d\n", without),
        ("in a comment", "single", "# --vector-index true\narangorestore --input-directory d # --vector-index true\n", without),
        ("switched off", "single", "arangorestore --vector-index false --input-directory d\n", without),
        ("an engine without", "single", "arangod --vector-index true &\narangod --daemon\narangorestore --input-directory d\n", without),
        ("an engine of the other profile", "single", "arango-embedded serve --vector-index &\narangorestore --input-directory d\n", without),
        ("a guard nobody heeds", "single", "guards/vector-flag.sh --profile single --config c\narangorestore --input-directory d\n", without),
        ("a unit that ignores it", "single", "ExecStartPre=-/opt/guards/vector-flag.sh --config c\nExecStart=/usr/bin/arangorestore\n", without),
        ("a guard that comes late", "single", "set -e\narangorestore --input-directory d\nguards/vector-flag.sh --config c\n", without),
        ("nothing to check", "single", "echo hello\n", without),
        ("an empty file", "single", "", without),
    ];
    for &(case, profile, text, expected) in table {
        let script = host.file("restore", text);
        check(case, host.run("restore.sh", &["--profile", profile, "--script", &script]), expected);
    }
    let good = host.file("good", "arangodump --vector-index true\n");
    let bad = host.file("bad", "arangodump\n");
    check(
        "one of two files",
        host.run("restore.sh", &["--profile", "single", "--script", &good, "--script", &bad]),
        without,
    );
    check(
        "no such file",
        host.run("restore.sh", &["--profile", "single", "--script", "/nowhere"]),
        Err(said::UNREADABLE),
    );
    let directory = host.root.path().display().to_string();
    let of_directory = host.run("restore.sh", &["--profile", "single", "--script", &directory]);
    check("a directory", of_directory, Err(said::UNREADABLE));
    for arguments in [
        &["--profile", "none", "--script", &good][..],
        &["--profile", "single", "--script"],
        &["--profile", "single", "--script", &good, "--colour", "red"],
    ] {
        check(&format!("{arguments:?}"), host.run("restore.sh", arguments), Err(said::ARGUMENTS));
    }
    check("no script", host.run("restore.sh", &["--profile", "single"]), Err(said::ARGUMENTS));
    check("no profile", host.run("restore.sh", &["--script", &good]), Err(said::ARGUMENTS));
    fs::remove_file(host.bin().join("awk")).expect("the link");
    check(
        "no awk",
        host.run("restore.sh", &["--profile", "single", "--script", &good]),
        Err(said::TOOL_MISSING),
    );
}

/// Name of this process's group, as `stat` says it.
fn own_group() -> String {
    let output = Command::new("id").arg("-gn").output().expect("id runs");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

#[test]
fn a_socket_lets_in_its_owner_and_a_group_only_where_it_is_named() {
    let host = Host::new();
    let directory = host.root.path().join("private");
    fs::create_dir(&directory).expect("a directory");
    let socket = directory.join("s.sock");
    let bound = UnixListener::bind(&socket).expect("a socket");
    let at = socket.display().to_string();
    let user = String::from_utf8(Command::new("id").arg("-un").output().expect("id runs").stdout);
    let (user, group) = (user.expect("text").trim().to_owned(), own_group());
    let (owner, named) = (["--owner", &user], ["--group", &group]);
    let both = [owner, named].concat();
    let open = Err(said::MODES);
    #[rustfmt::skip]
    let table: &[(&str, u32, u32, &[&str], Result<(), Sentence>)] = &[
        ("private", 0o700, 0o660, &[], GOOD),
        ("private, of its owner", 0o700, 0o600, &owner, GOOD),
        ("private although a group is named", 0o700, 0o660, &named, GOOD),
        ("private, of another owner", 0o700, 0o660, &["--owner", "nobody-here"], open),
        ("private, of another group", 0o700, 0o660, &["--group", "nobody-here"], open),
        ("a named group may enter", 0o750, 0o660, &both, GOOD),
        ("a named group may pass", 0o710, 0o770, &named, GOOD),
        ("a group that is not named", 0o750, 0o660, &owner, open),
        ("a group that is not named may read", 0o740, 0o660, &[], open),
        ("another group is named", 0o750, 0o660, &["--group", "nobody-here"], open),
        ("a named group may write", 0o770, 0o660, &both, open),
        ("a named group may only write", 0o720, 0o660, &both, open),
        ("a named group may write and pass", 0o730, 0o660, &both, open),
        ("a named group may read and write", 0o760, 0o660, &both, open),
        ("a named group may only read", 0o740, 0o660, &both, open),
        ("others may enter", 0o755, 0o660, &both, open),
        ("others may pass", 0o701, 0o660, &[], open),
        ("others may connect where they cannot come", 0o700, 0o666, &[], open),
        ("others may read it", 0o750, 0o664, &both, open),
        ("sticky and open", 0o1777, 0o660, &[], open),
        ("of its group for ever", 0o2750, 0o660, &named, GOOD),
    ];
    for &(case, outside, inside, arguments, expected) in table {
        fs::set_permissions(&socket, fs::Permissions::from_mode(inside)).expect("own file");
        fs::set_permissions(&directory, fs::Permissions::from_mode(outside)).expect("own file");
        let arguments = [&["--socket", &at][..], arguments].concat();
        check(case, host.run("sockets.sh", &arguments), expected);
    }
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).expect("own file");
    for arguments in [
        &["--owner", &user][..],
        &[],
        &["--socket"],
        &["x", "y"],
        &["--socket", &at, "--colour", "red"],
        &["--socket", "s"],
    ] {
        check(&format!("{arguments:?}"), host.run("sockets.sh", arguments), Err(said::ARGUMENTS));
    }
    let plain = host.file("private/plain", "");
    for none in [plain, format!("{at}.gone")] {
        let come = host.run("sockets.sh", &["--socket", &none]);
        check(&none, come, Err(said::SOCKET_NOT_HELD));
    }
    drop(bound);
    fs::remove_file(host.bin().join("stat")).expect("the link");
    for (output, status) in [("700 a a\n660 a a\n", 1), ("", 0)] {
        host.fake("stat", output, status);
        let come = host.run("sockets.sh", &["--socket", &at]);
        check("stat is silent or fails", come, Err(said::TOOL_SILENT));
    }
    for output in ["700 a a\n", "700 a a\n660 a a\n660 a a\n"] {
        host.fake("stat", output, 0);
        let come = host.run("sockets.sh", &["--socket", &at]);
        check("stat says too little or too much", come, open);
    }
    // A mode of fewer digits has no bits where the others would be.
    host.fake("stat", "0 a a\n60 a a\n", 0);
    check("few digits", host.run("sockets.sh", &["--socket", &at]), GOOD);
    host.fake("stat", "70 a a\n60 a a\n", 0);
    // Only the socket has to belong to the named group; a private directory may belong to any.
    let of_g = ["--socket", &at, "--group", "g"];
    for (output, expected) in
        [("750 a g\n660 a h\n", open), ("700 a h\n660 a g\n", GOOD), ("750 a g\n660 a g\n", GOOD)]
    {
        host.fake("stat", output, 0);
        check(output, host.run("sockets.sh", &of_g), expected);
    }
    host.fake("stat", "70 a a\n60 a a\n", 0);
    check("few digits, a group", host.run("sockets.sh", &["--socket", &at]), open);
    for tool in ["stat", "awk"] {
        fs::remove_file(host.bin().join(tool)).expect("the tool");
        let come = host.run("sockets.sh", &["--socket", &at]);
        check(tool, come, Err(said::TOOL_MISSING));
    }
}

#[test]
fn guards_and_startup_say_the_same_sentences() {
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
    let in_startup: BTreeSet<String> =
        said::ALL.iter().map(|sentence| sentence.text.to_owned()).collect();
    assert_eq!(in_guards, in_startup);
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
        // Every line of its head but the first, and no line of its code.
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

/// Kills a child by its id however the test ends.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Looks at a started server until it is ready; half a minute at most.
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

/// A guard with one change.
struct Mutant {
    guard: &'static str,
    line: usize,
    /// The line as it is, without its indentation.
    code: String,
    what: String,
    text: String,
}

/// What turns a condition around, in the shell and in awk: each place where the first stands is tried with the second.
const TURNS: &[(&str, &str)] = &[
    ("&&", "||"),
    ("||", "&&"),
    ("[ -n ", "[ -z "),
    ("[ -z ", "[ -n "),
    ("[ -f ", "[ ! -f "),
    ("[ -r ", "[ ! -r "),
    ("[ -S ", "[ ! -S "),
    (" -gt ", " -le "),
    ("\" = ", "\" != "),
    (" == ", " != "),
    (" != ", " == "),
    (" ~ ", " !~ "),
    (" !~ ", " ~ "),
    ("!index(", "index("),
    (" index(", " !index("),
    ("(index(", "(!index("),
    ("(!found", "(found"),
    ("exit bad", "exit !bad"),
    ("exit 1", "exit 0"),
    ("|| !", "|| "),
    ("&& !", "&& "),
    ("(!on", "(on"),
    ("= on &&", "= !on &&"),
    ("'/", "'!/"),
    ("  /^", "  !/^"),
    ("; /^", "; !/^"),
    (" > 1", " <= 1"),
    (" <= ", " > "),
    (" < ", " >= "),
    ("in held", "in none"),
    ("start {", "!start {"),
    ("*) fail", "nothing) fail"),
];

fn mutants(guard: &'static str, script: &str) -> Vec<Mutant> {
    let lines: Vec<&str> = script.lines().collect();
    let mut all = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim();
        if code.is_empty() || code.starts_with('#') {
            continue;
        }
        let mut add = |what: String, changed: Option<String>| {
            let mut text: Vec<&str> = lines.clone();
            match &changed {
                Some(changed) => text[at] = changed,
                None => drop(text.remove(at)),
            }
            let text = text.join("\n") + "\n";
            all.push(Mutant { guard, line: at + 1, code: code.to_owned(), what, text });
        };
        add("removed".into(), None);
        for (from, to) in TURNS {
            for (place, _) in line.match_indices(from) {
                let changed = format!("{}{to}{}", &line[..place], &line[place + from.len()..]);
                add(format!("`{from}` at {place} is `{to}`"), Some(changed));
            }
        }
        // Each branch of a `case` becomes one that nothing matches.
        if line.contains(";;") || line.contains("case ") {
            let starts = line.match_indices(" in ").map(|(at, _)| at + 4);
            let starts = starts.chain(line.match_indices(";; ").map(|(at, _)| at + 3));
            let first = line.len() - line.trim_start().len();
            let own = (!code.starts_with("case ") && !code.starts_with('[')).then_some(first);
            for start in starts.chain(own) {
                let Some(length) = line[start..].find(')') else { continue };
                let pattern = &line[start..start + length];
                if pattern.contains(['$', ';', '(']) || pattern.starts_with("esac") {
                    continue;
                }
                let rest = &line[start + length..];
                let changed = format!("{}nothing-of-this{rest}", &line[..start]);
                add(format!("the branch `{pattern})` is never taken"), Some(changed));
            }
        }
    }
    all
}

/// `(guard, part of the line, part of the change, why no case can tell)`.
const EQUIVALENT: &[(&str, &str, &str, &str)] = &[];

/// Which tests know a guard.
fn judges(guard: &str) -> &'static [&'static str] {
    match guard {
        "uds.sh" => &[
            "uds_knows_good_hosts_from_bad_ones",
            "uds_fails_closed",
            "a_listener_without_owner_is_passed_over_only_beside_an_engine_we_may_look_into",
            "each_guard_explains_itself",
        ],
        "vector-flag.sh" => &[
            "the_vector_flag_is_found_in_every_form_and_missed_when_absent",
            "each_guard_explains_itself",
        ],
        "auth.sh" => &[
            "authentication_has_to_be_switched_on_by_name_and_in_fact",
            "each_guard_explains_itself",
        ],
        "restore.sh" => &["dumps_and_restores_need_the_flag", "each_guard_explains_itself"],
        "sockets.sh" => &[
            "a_socket_lets_in_its_owner_and_a_group_only_where_it_is_named",
            "each_guard_explains_itself",
        ],
        _ => &[
            "the_vector_flag_is_found_in_every_form_and_missed_when_absent",
            "uds_knows_good_hosts_from_bad_ones",
            "authentication_has_to_be_switched_on_by_name_and_in_fact",
        ],
    }
}

/// Whether the tests of a guard pass on the guards in a directory.
fn passes(guard: &str, directory: &Path) -> bool {
    let mut inner = Command::new(std::env::current_exe().expect("this program"));
    inner.arg("--exact").args(judges(guard)).env(CHANGED, directory);
    inner.output().expect("this program runs").status.success()
}

/// A copy of all guards in which one has another text.
fn changed(directory: &Path, guard: &str, text: &str) {
    for name in GUARDS.iter().chain(&["options.awk"]) {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("guards").join(name);
        fs::copy(from, directory.join(name)).expect("a copy");
    }
    fs::write(directory.join(guard), text).expect("a file");
}

#[test]
fn without_any_line_or_with_any_condition_turned_a_guard_fails_a_case() {
    if std::env::var_os(CHANGED).is_some() {
        return;
    }
    let mut all = Vec::new();
    for guard in GUARDS.iter().chain(&["options.awk"]) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("guards").join(guard);
        let script = fs::read_to_string(path).expect("a guard");
        let directory = tempfile::tempdir().expect("a directory");
        changed(directory.path(), guard, &script);
        assert!(passes(guard, directory.path()), "{guard}: its tests fail on an unchanged copy");
        all.extend(mutants(guard, &script));
    }
    assert!(all.len() > 300, "{} changes are few", all.len());
    // Each fifth of them every day, all of them with `VCTX_ROUNDS=full`.
    let whole = std::env::var_os("VCTX_ROUNDS").is_some_and(|rounds| rounds == "full");
    let chosen = all.iter().step_by(if whole { 1 } else { 5 });
    let (left, unnoticed) = (Mutex::new(chosen), Mutex::new(Vec::new()));
    let work = || {
        while let Some(mutant) = { left.lock().expect("a list").next() } {
            let directory = tempfile::tempdir().expect("a directory");
            changed(directory.path(), mutant.guard, &mutant.text);
            if passes(mutant.guard, directory.path()) {
                unnoticed.lock().expect("a list").push(mutant);
            }
        }
    };
    // They wait for children most of the time.
    let threads = 16 * std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let unnoticed = unnoticed.into_inner().expect("a list");
    let matches = |m: &Mutant, e: &(&str, &str, &str, &str)| {
        m.guard == e.0 && m.code.contains(e.1) && m.what.contains(e.2)
    };
    let mut unexplained: Vec<String> = unnoticed
        .iter()
        .filter(|m| !EQUIVALENT.iter().any(|e| matches(m, e)))
        .map(|m| format!("{}:{} {}\n    {}", m.guard, m.line, m.what, m.code))
        .collect();
    unexplained.sort();
    let told = unexplained.len();
    assert!(unexplained.is_empty(), "{told} of {} changes:\n{}", all.len(), unexplained.join("\n"));
    for e in EQUIVALENT.iter().filter(|_| whole) {
        assert!(
            unnoticed.iter().any(|m| matches(m, e)),
            "explained, but noticed or not there: {e:?}"
        );
    }
}
