//! A client of `vctx mcp`, on stdin and stdout or on a socket. The client sends and receives JSON
//! lines. This file also finds and kills the servers that such clients start.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, Lines,
};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::home::{Home, Tuning, command};

/// Maximum time until a line arrives, including the start of a server on a busy machine.
const LINE_MAX: Duration = Duration::from_secs(90);
/// Maximum time until a process has started or ended.
const PROCESS_MAX: Duration = Duration::from_secs(60);
/// Pause between two polls.
const LOOK: Duration = Duration::from_millis(20);
/// Name of the socket that all clients and servers of a test directory use.
const SOCKET: &str = "vctx.sock";

/// One MCP client: its connection and, without a socket, its process.
pub(crate) struct Line {
    /// The process, unless the client uses a socket.
    child: Option<Child>,
    input: Box<dyn AsyncWrite + Send + Unpin>,
    output: Lines<BufReader<Box<dyn AsyncRead + Send + Unpin>>>,
    next: u64,
    /// Parameters that a client without `initialize` adds to each request.
    meta: Option<Value>,
}

impl Line {
    /// Starts a client with the given program, which finds its server itself.
    pub(crate) fn run(mut program: std::process::Command, arguments: &[&str]) -> Line {
        program.arg("mcp").args(arguments);
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = Command::from(program).kill_on_drop(true).spawn().expect("it starts");
        let (input, output) = (child.stdin.take(), child.stdout.take());
        Line::over(Some(child), input.expect("a pipe"), output.expect("a pipe"))
    }

    /// Starts a client and sends no message.
    pub(crate) fn start(home: &Home, arguments: &[&str], tuning: &Tuning) -> Line {
        let mut program = command(tuning);
        program.arg("mcp").arg("--socket").arg(home.path(SOCKET));
        program.arg("--data-dir").arg(home.path("data")).args(arguments);
        home.add_outside(&mut program);
        for (name, value) in &tuning.environment {
            program.env(name, value);
        }
        let log = File::options().create(true).append(true).open(home.path("mcp.log"));
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log.expect("a log"));
        let mut child = Command::from(program).kill_on_drop(true).spawn().expect("it starts");
        let (input, output) = (child.stdin.take(), child.stdout.take());
        Line::over(Some(child), input.expect("a pipe"), output.expect("a pipe"))
    }

    fn over(
        child: Option<Child>,
        input: impl AsyncWrite + Send + Unpin + 'static,
        output: impl AsyncRead + Send + Unpin + 'static,
    ) -> Line {
        let output: Box<dyn AsyncRead + Send + Unpin> = Box::new(output);
        let output = BufReader::new(output).lines();
        Line { child, input: Box::new(input), output, next: 1, meta: None }
    }

    /// Connects a client to a socket; it has sent no message yet.
    pub(crate) async fn connect(socket: &Path) -> Line {
        let (output, input) = UnixStream::connect(socket).await.expect("it listens").into_split();
        Line::over(None, input, output)
    }

    /// Starts a client and sends `initialize`.
    pub(crate) async fn initialized(home: &Home, arguments: &[&str]) -> Line {
        let mut line = Line::start(home, arguments, &Tuning::default());
        line.initialize("2025-11-25").await;
        line
    }

    pub(crate) async fn initialize(&mut self, version: &str) -> Value {
        let about = json!({"name": "it", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": about});
        let answer = self.ask("initialize", params).await["result"].clone();
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer
    }

    /// Sends `initialize` and returns the answer, which may be an error. The server may disconnect
    /// a client that it refuses before the client has sent anything.
    pub(crate) async fn try_initialize(&mut self, version: &str) -> Value {
        let about = json!({"name": "it", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": about});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        // A write to a closed connection is no error here, because the client may have been
        // refused.
        drop(self.input.write_all(format!("{message}\n").as_bytes()).await);
        self.next = 2;
        let line = timeout(LINE_MAX, self.output.next_line()).await.expect("a line in time");
        let line = line.ok().flatten().unwrap_or_default();
        serde_json::from_str(&line).unwrap_or_default()
    }

    /// From this call on, each request itself contains the protocol version and the client's name,
    /// like the requests of a client that does not use `initialize`.
    pub(crate) fn without_initialize(&mut self, version: &str) {
        self.meta = Some(json!({
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientInfo": {"name": "it", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }));
    }

    async fn send(&mut self, message: &Value) {
        let text = format!("{message}\n");
        self.input.write_all(text.as_bytes()).await.expect("the client reads");
        self.input.flush().await.expect("the client reads");
    }

    /// Returns the two halves of a connection, for a client that does not read while it sends.
    pub(crate) fn halves(
        self,
    ) -> (Lines<BufReader<Box<dyn AsyncRead + Send + Unpin>>>, Box<dyn AsyncWrite + Send + Unpin>)
    {
        (self.output, self.input)
    }

    /// Sends a part of a line.
    pub(crate) async fn send_piece(&mut self, bytes: &[u8]) {
        self.input.write_all(bytes).await.expect("the client reads");
        self.input.flush().await.expect("the client reads");
    }

    /// Sends a line that need not be a message of the protocol.
    pub(crate) async fn send_bytes(&mut self, line: &[u8]) {
        self.input.write_all(line).await.expect("the client reads");
        self.input.write_all(b"\n").await.expect("the client reads");
        self.input.flush().await.expect("the client reads");
    }

    /// Sends a request and returns its id.
    pub(crate) async fn begin(&mut self, method: &str, mut params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        if let Some(Value::Object(own)) = &self.meta {
            let mut meta = own.clone();
            if let Some(Value::Object(given)) = params.get("_meta") {
                meta.extend(given.clone());
            }
            params["_meta"] = Value::Object(meta);
        }
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(&message).await;
        id
    }

    /// Reads the next line, which must be a message of the protocol.
    pub(crate) async fn read(&mut self) -> Value {
        let line = self.next_line().await.expect("a client that has not ended");
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    /// Sends a request and returns its answer.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        let answer = self.read().await;
        assert_eq!(answer["id"], id, "{answer:#}");
        answer
    }

    /// Calls a tool and returns the result, success or error.
    pub(crate) async fn tool(&mut self, name: &str, arguments: Value) -> Value {
        self.tool_with(name, arguments, None).await
    }

    /// Calls a tool with an idempotency key that the client chooses.
    pub(crate) async fn tool_with(
        &mut self,
        name: &str,
        arguments: Value,
        key: Option<&str>,
    ) -> Value {
        let mut params = json!({"name": name, "arguments": arguments});
        if let Some(key) = key {
            params["_meta"] = json!({"vctx/idempotency-key": key});
        }
        let answer = self.ask("tools/call", params).await;
        assert!(answer["error"].is_null(), "{answer:#}");
        let result = answer["result"].clone();
        let text = result["content"][0]["text"].as_str().expect("a text");
        let told = &result["structuredContent"];
        // If the tool's answer is a text in this dialect, the content of the MCP result is this
        // text.
        let worded = [&told["result"]["text"], &told["text"]].into_iter().find_map(Value::as_str);
        match worded {
            Some(worded) => assert_eq!(text, worded, "{told:#}"),
            None => {
                let begin = told["error"].as_str().map(|code| format!("Error {code}: "));
                assert!(text.starts_with(&*begin.unwrap_or_default()), "{text}\n{told:#}");
                assert!(!text.is_empty() && text.len() < told.to_string().len(), "{text}");
            }
        }
        result
    }

    /// Checks that a tool call succeeded, and returns its structured content.
    #[track_caller]
    pub(crate) fn done(result: Value) -> Value {
        assert_eq!(result["isError"], false, "{result:#}");
        result["structuredContent"].clone()
    }

    /// Checks that a tool call was refused by a tool result with this error code, and returns the
    /// structured content.
    #[track_caller]
    pub(crate) fn refused(result: &Value, code: &str) -> Value {
        let told = result["structuredContent"].clone();
        assert_eq!(
            (&result["isError"], &told["error"]),
            (&json!(true), &json!(code)),
            "{result:#}"
        );
        assert!(told["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{result:#}");
        told
    }

    /// Waits until the other side has closed the connection without a message.
    pub(crate) async fn assert_disconnected(mut self) {
        assert_eq!(self.next_line().await, None);
    }

    /// Reads the next line, or `None` if the server has closed the connection.
    pub(crate) async fn next_line(&mut self) -> Option<String> {
        let line = timeout(LINE_MAX, self.output.next_line()).await.expect("a line in time");
        line.expect("a readable line")
    }

    /// Closes the client's input and waits for a successful exit; all remaining output must be
    /// protocol messages.
    pub(crate) async fn leave(self) {
        let Line { child, mut input, mut output, .. } = self;
        input.shutdown().await.expect("the client reads");
        drop(input);
        let rest = timeout(LINE_MAX, output.next_line()).await.expect("an end in time");
        assert_eq!(rest.expect("a readable end"), None, "something was said after the last answer");
        let Some(mut child) = child else { return };
        let status = timeout(LINE_MAX, child.wait()).await.expect("an end in time");
        assert!(status.expect("a child of ours").success());
    }
}

/// The servers that clients in a test directory have started. At the end, the servers that still
/// run are killed by process id.
pub(crate) struct Servers<'a> {
    home: &'a Home,
}

impl<'a> Servers<'a> {
    pub(crate) fn of(home: &'a Home) -> Servers<'a> {
        Servers { home }
    }

    /// Returns the ids of the processes that serve on the socket of this directory.
    pub(crate) fn ids(&self) -> Vec<u32> {
        let socket = self.home.path(SOCKET);
        let socket = socket.to_str().expect("a plain path");
        let entries = fs::read_dir("/proc").expect("a process table").flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter(|id: &u32| {
            // A process that has ended meanwhile has no command line.
            let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words.get(1) == Some(&b"serve".as_slice()) && words.contains(&socket.as_bytes())
        })
        .collect()
    }

    /// Returns the id of the only server; fails if there is not exactly one.
    #[track_caller]
    pub(crate) fn only(&self) -> u32 {
        let ids = self.ids();
        assert_eq!(ids.len(), 1, "servers: {ids:?}\n{}", self.said());
        ids[0]
    }

    /// Returns the log text of the servers.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.home.path("data/server.log")).unwrap_or_default()
    }

    /// Returns the number of servers that became ready.
    pub(crate) fn served(&self) -> usize {
        self.said().matches("vctx listens on").count()
    }

    /// Sends SIGKILL to one server.
    pub(crate) fn kill(&self, id: u32) {
        let killed = std::process::Command::new("kill").args(["-KILL", &id.to_string()]).status();
        assert!(killed.expect("kill runs").success());
    }

    /// Waits until no server is left.
    pub(crate) async fn gone(&self) {
        let until = Instant::now() + PROCESS_MAX;
        while !self.ids().is_empty() {
            assert!(Instant::now() < until, "a server stays:\n{}", self.said());
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Drop for Servers<'_> {
    fn drop(&mut self) {
        for id in self.ids() {
            // `kill` fails if the process has already ended, which is no error here.
            drop(std::process::Command::new("kill").args(["-KILL", &id.to_string()]).status());
        }
        if std::thread::panicking() {
            eprintln!("--- the started servers said ---\n{}", self.said());
            let log = fs::read_to_string(self.home.path("mcp.log")).unwrap_or_default();
            eprintln!("--- the clients said ---\n{log}");
        }
    }
}
