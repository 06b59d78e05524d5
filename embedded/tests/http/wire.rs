//! A server in the test process, and a client that speaks plain HTTP/1.1 on its socket.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use arango_embedded::http::{Auth, AuthSettings, Mode, serve};
use arango_embedded::{Engine, Options};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde_json::Value;
use tokio::sync::oneshot;

pub(crate) const ROOT_PASSWORD: &str = "top";
pub(crate) const SECRET: &[u8] = b"a server secret";

/// A running engine with a read-write and a read-only socket.
pub(crate) struct Server {
    pub(crate) engine: Arc<Engine>,
    options: Options,
    directory: tempfile::TempDir,
    stops: Vec<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(Options { sync: false, ..Options::default() })
    }

    pub(crate) fn start_with(options: Options) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let engine = open(&directory, &options);
        let mut server =
            Self { engine, options, directory, stops: Vec::new(), threads: Vec::new() };
        server.listen();
        server
    }

    /// Stops the server and restarts it on the same data; open connections end.
    pub(crate) fn restart(&mut self) {
        self.stop();
        let place = Arc::downgrade(&self.engine);
        // The old engine must close its data directory before the new engine opens the same
        // directory.
        let nowhere = tempfile::tempdir().expect("a directory");
        self.engine = open(&nowhere, &self.options);
        assert!(place.upgrade().is_none(), "nobody holds the engine of before");
        self.engine = open(&self.directory, &self.options);
        self.listen();
    }

    fn listen(&mut self) {
        let settings =
            AuthSettings { root_password: ROOT_PASSWORD.into(), jwt_secret: Some(SECRET.to_vec()) };
        let auth = Auth::open(&self.engine, settings).expect("users");
        for (name, mode) in [("rw", Mode::ReadWrite), ("ro", Mode::ReadOnly)] {
            // Removes the socket file of an earlier server.
            let _ = std::fs::remove_file(self.path(name));
            let listener = UnixListener::bind(self.path(name)).expect("a socket");
            let (engine, auth) = (Arc::clone(&self.engine), auth.clone());
            let (stop, stopped) = oneshot::channel::<()>();
            self.stops.push(stop);
            self.threads.push(std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let shutdown = async {
                    let _ = stopped.await;
                };
                runtime
                    .expect("a runtime")
                    .block_on(serve(engine, listener, mode, auth, shutdown))
                    .expect("serves to its end");
            }));
        }
    }

    fn stop(&mut self) {
        self.stops.clear();
        for thread in self.threads.drain(..) {
            thread.join().expect("the server ends well");
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns a client of the user `root` on the read-write socket.
    pub(crate) fn root(&self) -> Client {
        self.client("rw").login("root", ROOT_PASSWORD)
    }

    /// Returns a client of the user `root` on the read-only socket.
    pub(crate) fn reader(&self) -> Client {
        self.client("ro").login("root", ROOT_PASSWORD)
    }

    /// Returns a client without credentials on the named socket.
    pub(crate) fn client(&self, socket: &str) -> Client {
        let stream = UnixStream::connect(self.path(socket)).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        Client { stream: BufReader::new(stream), headers: BTreeMap::new(), database: None }
    }
}

fn open(directory: &tempfile::TempDir, options: &Options) -> Arc<Engine> {
    Engine::open(&directory.path().join("data"), options.clone()).expect("an engine")
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A client with one keep-alive connection.
pub(crate) struct Client {
    stream: BufReader<UnixStream>,
    headers: BTreeMap<String, String>,
    database: Option<String>,
}

/// The server's answer to one request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    /// Returns status and error number, such as `409/1210`, or only the status if the answer is no
    /// error.
    pub(crate) fn verdict(&self) -> String {
        match serde_json::from_str::<Value>(&self.text) {
            Ok(body) if body["error"] == true => format!("{}/{}", self.status, body["errorNum"]),
            _ => self.status.to_string(),
        }
    }

    /// Returns the value at a JSON pointer into the body, or null.
    pub(crate) fn at(&self, pointer: &str) -> Value {
        self.json().pointer(pointer).cloned().unwrap_or(Value::Null)
    }

    pub(crate) fn text_at(&self, pointer: &str) -> String {
        self.at(pointer)
            .as_str()
            .unwrap_or_else(|| panic!("no text at {pointer}: {}", self.text))
            .to_owned()
    }
}

impl Client {
    pub(crate) fn login(self, user: &str, password: &str) -> Self {
        let credentials = STANDARD.encode(format!("{user}:{password}"));
        self.with("authorization", &format!("Basic {credentials}"))
    }

    /// Sends the credentials in Base64 without padding, as the client arangors does.
    pub(crate) fn login_unpadded(self, user: &str, password: &str) -> Self {
        let credentials = STANDARD_NO_PAD.encode(format!("{user}:{password}"));
        self.with("authorization", &format!("Basic {credentials}"))
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Removes the credentials and all other headers; the connection stays open.
    pub(crate) fn forget_headers(&mut self) {
        self.headers.clear();
    }

    /// Returns the raw connection.
    pub(crate) fn stream(&mut self) -> &mut BufReader<UnixStream> {
        &mut self.stream
    }

    /// Prepends `/_db/NAME` to every target.
    pub(crate) fn within(mut self, database: &str) -> Self {
        self.database = Some(database.to_owned());
        self
    }

    pub(crate) fn get(&mut self, target: &str) -> Answer {
        self.call("GET", target, "")
    }

    pub(crate) fn post(&mut self, target: &str, body: &str) -> Answer {
        self.call("POST", target, body)
    }

    pub(crate) fn put(&mut self, target: &str, body: &str) -> Answer {
        self.call("PUT", target, body)
    }

    pub(crate) fn delete(&mut self, target: &str) -> Answer {
        self.call("DELETE", target, "")
    }

    /// Runs a query, with a batch size that is large enough for all rows.
    pub(crate) fn query(&mut self, query: &str) -> Answer {
        let body = serde_json::json!({ "query": query, "batchSize": 10_000 });
        self.post("/_api/cursor", &body.to_string())
    }

    pub(crate) fn call(&mut self, method: &str, target: &str, body: &str) -> Answer {
        let database =
            self.database.as_ref().map(|name| format!("/_db/{name}")).unwrap_or_default();
        let mut head = format!("{method} {database}{target} HTTP/1.1\r\nhost: x\r\n");
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        self.send(&format!("{head}\r\n{body}"));
        self.receive(method == "HEAD")
    }

    pub(crate) fn send(&mut self, bytes: &str) {
        self.stream.get_mut().write_all(bytes.as_bytes()).expect("the server reads");
    }

    pub(crate) fn receive(&mut self, is_head: bool) -> Answer {
        let line = self.line();
        let status = line.split(' ').nth(1).and_then(|s| s.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status in {line:?}"));
        let mut headers = BTreeMap::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let length = headers.get("content-length").map_or(0, |n| n.parse().expect("a number"));
        let mut body = vec![0; if is_head || status == 304 { 0 } else { length }];
        self.stream.read_exact(&mut body).expect("a body");
        Answer { status, headers, text: String::from_utf8(body).expect("UTF-8") }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// Runs lines of `METHOD target [body] -> verdict`; `#` begins a comment.
    #[track_caller]
    pub(crate) fn script(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
            let (request, verdict) = line.rsplit_once(" -> ").expect("an arrow");
            let mut parts = request.trim().splitn(3, ' ');
            let method = parts.next().expect("a method");
            let target = parts.next().expect("a target");
            let answer = self.call(method, target, parts.next().unwrap_or_default().trim());
            assert_eq!(answer.verdict(), verdict.trim(), "{line}\n{}", answer.text);
        }
    }
}
