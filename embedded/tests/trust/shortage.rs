//! Tests a full disk and exhausted file descriptors, which process limits of the server simulate.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// `root:pw` in Base64.
const CREDENTIALS: &str = "cm9vdDpwdw==";

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The server has usually ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the server from a shell that first sets process limits.
fn start(home: &Path, limits: &str) -> Running {
    let script = format!("{limits} exec \"$0\" serve --socket \"$1/s\" --data-dir \"$1/data\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_arango-embedded")]).arg(home);
    command.env("ARANGO_ROOT_PASSWORD", "pw").stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("starts");
    let mut line = String::new();
    let out = child.stdout.take().expect("piped");
    BufReader::new(out).read_line(&mut line).expect("one line");
    assert!(line.contains("listens on"), "{line}");
    Running(child)
}

/// Sends a request on a new connection, and returns status and body; `None` without an answer.
fn ask(home: &Path, method: &str, target: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = UnixStream::connect(home.join("s")).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    let head = format!(
        "{method} {target} HTTP/1.1\r\nhost: x\r\nauthorization: Basic {CREDENTIALS}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer.split_once("\r\n\r\n")?.1.to_owned()))
}

fn told(answer: &(u16, String)) -> String {
    let num = answer.1.split("\"errorNum\":").nth(1).and_then(|rest| rest.split([',', '}']).next());
    format!("{}/{}", answer.0, num.unwrap_or("0"))
}

#[test]
fn a_full_disk_refuses_writes_until_a_restart_and_loses_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let home = home.path();
    // No file may grow beyond 64 MiB. This is the initial size of a journal, so a write after the
    // journal's end fails.
    let mut server = start(home, "trap '' XFSZ; ulimit -f 131072;");
    assert_eq!(ask(home, "POST", "/_api/collection", r#"{"name":"c"}"#).expect("an answer").0, 200);
    let pad = "x".repeat(5 << 20);
    let mut kept = Vec::new();
    let mut failed = None;
    for number in 0..40 {
        let body = format!(r#"{{"_key":"k{number}","pad":"{pad}"}}"#);
        let answer =
            ask(home, "POST", "/_api/document/c?waitForSync=true", &body).expect("an answer");
        if answer.0 != 201 {
            failed = Some(answer);
            break;
        }
        kept.push(format!("k{number}"));
    }
    let failed = failed.expect("the disk is full at some time");
    assert_eq!(told(&failed), "500/2", "{}", failed.1);
    assert!(failed.1.contains("whether the commit is durable is not known"), "{}", failed.1);
    // Reads still succeed. Every kind of write is refused with an error that says what to do.
    for (method, target, body) in [
        ("POST", "/_api/document/c", "{}"),
        ("POST", "/_api/collection", r#"{"name":"d"}"#),
        ("POST", "/_api/cursor", r#"{"query":"INSERT {} INTO c"}"#),
    ] {
        let answer = ask(home, method, target, body).expect("an answer");
        assert_eq!(told(&answer), "403/1004", "{method} {target}: {}", answer.1);
        assert!(answer.1.contains("restart"), "{}", answer.1);
    }
    let read = ask(home, "GET", &format!("/_api/document/c/{}", kept[0]), "").expect("an answer");
    assert_eq!(read.0, 200);
    server.0.kill().expect("killed");
    drop(server);
    let _server = start(home, "");
    for key in &kept {
        let answer = ask(home, "GET", &format!("/_api/document/c/{key}"), "").expect("an answer");
        assert_eq!((answer.0, answer.1.len() > 5 << 20), (200, true), "{key} is lost");
    }
    assert_eq!(ask(home, "POST", "/_api/document/c", "{}").expect("an answer").0, 202);
}

#[test]
fn used_up_descriptors_stop_new_connections_and_lose_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let home = home.path();
    let server = start(home, "ulimit -n 64;");
    assert_eq!(ask(home, "POST", "/_api/collection", r#"{"name":"c"}"#).expect("an answer").0, 200);
    assert_eq!(
        ask(home, "POST", "/_api/document/c?waitForSync=true", r#"{"_key":"before"}"#)
            .expect("an answer")
            .0,
        201
    );
    // The test opens more connections than the server has descriptors; the excess connections wait
    // in the socket's backlog.
    let open: Vec<_> = (0..80).map_while(|_| UnixStream::connect(home.join("s")).ok()).collect();
    assert!(open.len() >= 60, "{} connections", open.len());
    let mut first = &open[0];
    let body = r#"{"_key":"meanwhile"}"#;
    write!(
        first,
        "POST /_api/document/c?waitForSync=true HTTP/1.1\r\nhost: x\r\nauthorization: Basic {CREDENTIALS}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("the server reads");
    let mut line = String::new();
    BufReader::new(first).read_line(&mut line).expect("an answer");
    assert_eq!(line.split(' ').nth(1), Some("201"), "who is connected is served");
    drop(open);
    // When descriptors are free again, every client is served. A memtable flush that could not open
    // files has lost no data.
    let answer = ask(home, "GET", "/_api/collection/c/count", "").expect("an answer");
    assert!(answer.1.contains("\"count\":2"), "{}", answer.1);
    drop(server);
    let _server = start(home, "");
    let answer = ask(home, "GET", "/_api/collection/c/count", "").expect("an answer");
    assert!(answer.1.contains("\"count\":2"), "{}", answer.1);
}
