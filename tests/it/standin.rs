//! Starts `vctx proxy` as a process, and a fake database that records every byte that it receives.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::home::{Home, Process, Tuning, command};

/// Maximum time until bytes arrive on a raw socket.
const RAW_MAX: Duration = Duration::from_secs(30);

/// The fake database's reaction to a complete request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Answers `{}` after a pause.
    Answers(Duration),
    /// Closes the connection without an answer.
    HangsUp,
}

/// A fake database, which records requests and has no data.
pub(crate) struct StandIn {
    seen: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl StandIn {
    pub(crate) fn start(socket: &Path, manner: Manner) -> StandIn {
        let listener = UnixListener::bind(socket).expect("the stand-in listens");
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let noted = Arc::clone(&noted);
                connections.spawn(async move { connection(client, &noted, manner).await });
            }
        });
        StandIn { seen, task }
    }

    /// Returns the received requests with heads and bodies, in order of arrival.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("no holder panics").clone()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn connection(mut client: UnixStream, seen: &Mutex<Vec<String>>, manner: Manner) {
    let mut bytes = Vec::new();
    loop {
        while let Some(length) = whole(&bytes) {
            let request: Vec<u8> = bytes.drain(..length).collect();
            let text = String::from_utf8_lossy(&request).into_owned();
            seen.lock().expect("no holder panics").push(text);
            let Manner::Answers(pause) = manner else { return };
            tokio::time::sleep(pause).await;
            let answer = "HTTP/1.1 200 OK\r\nserver: ArangoDB\r\nset-cookie: a=b\r\nx-own: 1\r\n\
                          content-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
            if client.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
        match client.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => {
                // Incomplete requests are recorded too.
                if !bytes.is_empty() {
                    let rest = String::from_utf8_lossy(&bytes).into_owned();
                    seen.lock().expect("no holder panics").push(rest);
                }
                return;
            }
            Ok(_) => {}
        }
    }
}

/// Returns the length of the first request, if the request is complete.
fn whole(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.map_or(0, |text| text.trim().parse().expect("a length"));
    (bytes.len() >= end + length).then_some(end + length)
}

/// Starts a proxy between two sockets of a directory and waits until it listens; its metrics are on
/// `NAME-metrics.sock`.
pub(crate) async fn proxy(
    home: &Home,
    mode: &str,
    listen: &str,
    upstream: &str,
    tuning: &Tuning,
) -> Process {
    let process = proxy_begun(home, mode, listen, upstream, tuning);
    process.ready(&[home.path(listen), home.path(&metrics_of(listen))], None).await;
    process
}

/// Starts a proxy between two sockets without waiting until it listens.
pub(crate) fn proxy_begun(
    home: &Home,
    mode: &str,
    listen: &str,
    upstream: &str,
    tuning: &Tuning,
) -> Process {
    // The directory gets the same mode as a service's runtime directory.
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(home.path(""), private).expect("a directory of ours");
    let mut command = command(tuning);
    command.args(["proxy", "--mode", mode, "--listen"]).arg(home.path(listen));
    command.arg("--upstream").arg(home.path(upstream));
    command.arg("--metrics").arg(home.path(&metrics_of(listen)));
    home.add_database(&mut command);
    for (name, value) in &tuning.environment {
        command.env(name, value);
    }
    Process::start(
        home,
        &format!("proxy-{}", listen.trim_end_matches(".sock").replace('/', "-")),
        command,
    )
}

/// Returns the name of a proxy's metrics socket.
pub(crate) fn metrics_of(listen: &str) -> String {
    listen.replace(".sock", "-metrics.sock")
}

/// Returns the sum of a proxy's metric over all series whose labels contain the text.
pub(crate) async fn metric(home: &Home, listen: &str, name: &str, label: &str) -> f64 {
    let answer = home.wire(&metrics_of(listen)).get("/metrics").await;
    let series = answer.text.lines().filter(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
            && line.contains(label)
    });
    let value = |line: &str| line.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok());
    series.map(|line| value(line).expect("a number")).sum()
}

/// Sends raw bytes and reads until the other side closes the connection.
pub(crate) async fn raw(socket: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).await.expect("a connection");
    // The proxy may close the connection of a refused request before all bytes are sent, so the
    // write may fail.
    drop(stream.write_all(bytes).await);
    let mut answer = Vec::new();
    let read = timeout(RAW_MAX, stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "still open: {}", String::from_utf8_lossy(bytes));
    String::from_utf8_lossy(&answer).into_owned()
}
