//! The guards from outside: a table of good and bad hosts with fake `ss`, `lsof` and `curl`, and sockets that are real.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;
use vctx::startup::sentences::{self as said, Sentence};

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
        for tool in ["awk", "ls"] {
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
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("guards").join(guard);
        let output = Command::new("/bin/sh")
            .arg(path)
            .args(arguments)
            .env_clear()
            .env("PATH", self.bin())
            .output();
        let output = output.expect("/bin/sh starts");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.code() {
            Some(0) => {
                assert!(
                    output.stdout.starts_with(b"ok: ") && errors.is_empty(),
                    "{guard} {arguments:?}: {errors}"
                );
                Ok(())
            }
            Some(1) => Err(errors.lines().next().unwrap_or_default().to_owned()),
            other => panic!("{guard} {arguments:?} ended with {other:?}: {errors}"),
        }
    }
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
    let mut engine = Command::new(&program).arg("60").spawn().expect("the copy starts");
    let socket = host.socket();
    host.fake("ss", &format!("{HEADER}LISTEN 0 128 0.0.0.0:2024 0.0.0.0:*\n"), 0);
    host.fake("lsof", &format!("vctx {} db 15u unix 0x0 0t0 99 {socket}\n", engine.id()), 0);
    let embedded = ["--profile", "embedded", "--socket", &socket];
    let beside_engine = host.run("uds.sh", &embedded);
    host.fake("lsof", &format!("vctx {} db 15u unix 0x0 0t0 99 {socket}\n", std::process::id()), 0);
    let beside_another = host.run("uds.sh", &embedded);
    engine.kill().expect("own child");
    engine.wait().expect("own child");
    check("the engine's process is open to us", beside_engine, GOOD);
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
    ] {
        check(&format!("{arguments:?}"), host.run("uds.sh", arguments), Err(said::ARGUMENTS));
    }
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
    check(
        "no profile",
        host.run("vector-flag.sh", &["--command", "arangod --vector-index"]),
        Err(said::ARGUMENTS),
    );
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
    check("no script", host.run("restore.sh", &["--profile", "single"]), Err(said::ARGUMENTS));
    check("no profile", host.run("restore.sh", &["--script", &good]), Err(said::ARGUMENTS));
    fs::remove_file(host.bin().join("awk")).expect("the link");
    check(
        "no awk",
        host.run("restore.sh", &["--profile", "single", "--script", &good]),
        Err(said::TOOL_MISSING),
    );
}

#[test]
fn guards_and_startup_say_the_same_sentences() {
    let mut in_guards = BTreeSet::new();
    for guard in ["uds.sh", "vector-flag.sh", "auth.sh", "restore.sh"] {
        let text =
            fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("guards").join(guard))
                .expect("a guard");
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
    for guard in ["uds.sh", "vector-flag.sh", "auth.sh", "restore.sh"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("guards").join(guard);
        let output = Command::new("/bin/sh")
            .arg(&path)
            .arg("--help")
            .env_clear()
            .env("PATH", host.bin())
            .output();
        let output = output.expect("/bin/sh starts");
        let help = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success() && help.starts_with("Protects: "), "{guard}: {help}");
        for word in [guard, "--profile", "single", "cluster", "embedded", "Exit 0"] {
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
            println!("skipped: {tool} is not installed");
            return;
        }
    }
    let home = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| home.path().join(name).to_string_lossy().into_owned();
    let mut serve = Command::new(env!("CARGO_BIN_EXE_vctx"));
    serve
        .args(["serve", "--socket", &at("r/v.sock"), "--data-dir", &at("d")])
        .env_remove("ARANGO_RW_UDS");
    let _server = Running(serve.stderr(std::process::Stdio::null()).spawn().expect("vctx starts"));
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
