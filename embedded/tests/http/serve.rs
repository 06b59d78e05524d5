//! Tests the engine's binary: its sockets, signals and exit codes.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn command(directory: &Path, data: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_arango-embedded"));
    command.arg("serve").arg("--socket").arg(directory.join("s"));
    command.arg("--data-dir").arg(directory.join(data));
    command.env("ARANGO_ROOT_PASSWORD", "pw").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A running server, killed if a test fails before it stops.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The server has usually ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(mut command: Command) -> (Running, String) {
    let mut child = command.spawn().expect("starts");
    let mut line = String::new();
    let out = child.stdout.take().expect("piped");
    BufReader::new(out).read_line(&mut line).expect("one line");
    (Running(child), line)
}

fn terminate(server: &mut Running) -> Option<i32> {
    let killed = Command::new("kill").arg(server.0.id().to_string()).status().expect("kill runs");
    assert!(killed.success());
    server.0.wait().expect("ends").code()
}

fn ends_with(mut command: Command) -> (Option<i32>, String) {
    let output = command.output().expect("runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Sends a request with the given credentials and returns the status line of the answer.
fn get(socket: &Path, credentials: &str) -> String {
    let mut stream = UnixStream::connect(socket).expect("connects");
    let request = format!(
        "GET /_api/database HTTP/1.1\r\nhost: x\r\nauthorization: Basic {credentials}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.lines().next().unwrap_or_default().to_owned()
}

/// `root:pw` in Base64, the right credentials.
const RIGHT: &str = "cm9vdDpwdw==";
/// `root:other` in Base64, the wrong credentials.
const WRONG: &str = "cm9vdDpvdGhlcg==";

#[test]
fn it_says_where_it_listens_serves_and_leaves_no_socket_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut serve = command(directory.path(), "data");
    serve.arg("--ro-socket").arg(directory.path().join("r"));
    let (mut server, line) = start(serve);
    assert!(line.contains("listens on") && line.contains("(read only)"), "{line}");
    let socket = directory.path().join("s");
    assert_eq!(get(&socket, RIGHT), "HTTP/1.1 200 OK");
    assert_eq!(get(&socket, WRONG), "HTTP/1.1 401 Unauthorized");
    assert_eq!(get(&directory.path().join("r"), RIGHT), "HTTP/1.1 200 OK");

    // A second server on the same socket is refused, and leaves no data directory.
    let (code, said) = ends_with(command(directory.path(), "other"));
    assert_eq!(code, Some(69), "{said}");
    assert!(!directory.path().join("other").exists(), "a refused start leaves nothing");

    assert_eq!(terminate(&mut server), Some(0));
    assert!(!socket.exists() && !directory.path().join("r").exists());

    // The password of the first start remains valid; a later start ignores the password in the
    // environment.
    let mut again = command(directory.path(), "data");
    again.env("ARANGO_ROOT_PASSWORD", "other");
    let (mut server, _) = start(again);
    assert_eq!(get(&socket, RIGHT), "HTTP/1.1 200 OK");
    assert_eq!(get(&socket, WRONG), "HTTP/1.1 401 Unauthorized");
    assert_eq!(terminate(&mut server), Some(0));
}

#[test]
fn a_dead_socket_is_replaced_and_anything_else_is_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("s");
    drop(UnixListener::bind(&socket).expect("binds"));
    assert!(socket.exists(), "a dead socket leaves its file");
    let (mut server, _) = start(command(directory.path(), "data"));
    assert_eq!(get(&socket, RIGHT), "HTTP/1.1 200 OK");
    assert_eq!(terminate(&mut server), Some(0));

    std::fs::write(&socket, "mine").expect("writes");
    let (code, said) = ends_with(command(directory.path(), "data"));
    assert_eq!(code, Some(78), "{said}");
    assert_eq!(std::fs::read_to_string(&socket).expect("still there"), "mine");
}

#[test]
fn a_socket_that_another_server_bound_there_since_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("s");
    let (mut first, _) = start(command(directory.path(), "one"));
    std::fs::remove_file(&socket).expect("removed");
    let (mut second, _) = start(command(directory.path(), "two"));
    assert_eq!(terminate(&mut first), Some(0));
    assert_eq!(get(&socket, RIGHT), "HTTP/1.1 200 OK");
    assert_eq!(terminate(&mut second), Some(0));
    assert!(!socket.exists());
}

#[test]
fn an_empty_password_of_root_is_warned_of_and_another_is_not() {
    let directory = tempfile::tempdir().expect("a directory");
    for (data, password, warned) in
        [("one", None, true), ("two", Some(""), true), ("three", Some("pw"), false)]
    {
        for start_number in 1..=2 {
            let mut serve = command(directory.path(), data);
            serve
                .env_remove("ARANGO_ROOT_PASSWORD")
                .envs(password.map(|p| ("ARANGO_ROOT_PASSWORD", p)));
            let (mut server, _) = start(serve);
            let mut said = server.0.stderr.take().expect("piped");
            assert_eq!(terminate(&mut server), Some(0));
            let mut text = String::new();
            said.read_to_string(&mut text).expect("UTF-8");
            let is_warned = text.contains("the user root has an empty password");
            assert_eq!(is_warned, warned, "{data}, start {start_number}: {text}");
        }
    }
}

#[test]
fn wrong_settings_are_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let empty = directory.path().join("empty");
    std::fs::write(&empty, "\n").expect("writes");
    let table: [(&[&str], i32, &str); 4] = [
        (&["--compat", "3.11.0"], 64, "3.12.10"),
        (&["--stream-idle-ms", "0"], 64, "--stream-idle-ms"),
        (&["--jwt-secret-file", "/nowhere/at/all"], 78, "/nowhere/at/all"),
        (&["--jwt-secret-file", empty.to_str().expect("UTF-8")], 78, "is empty"),
    ];
    for (arguments, code, word) in table {
        let mut serve = command(directory.path(), "data");
        serve.args(arguments);
        let (ended, said) = ends_with(serve);
        assert_eq!(ended, Some(code), "{arguments:?}: {said}");
        assert!(said.contains(word), "{arguments:?}: {said}");
    }
    let mut long = Command::new(env!("CARGO_BIN_EXE_arango-embedded"));
    long.args([
        "serve",
        "--data-dir",
        "/nowhere",
        "--socket",
        &format!("/tmp/{}", "x".repeat(110)),
    ]);
    let (ended, said) = ends_with(long);
    assert_eq!(ended, Some(78), "{said}");
}
