//! A Unix-socket proxy between server and engine: records every exchange, counts bytes by phase,
//! and injects faults between two exchanges or inside an exchange.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use crate::chance::Chance;
use crate::shape::lines_of;

/// Maximum length of a message through the proxy, in bytes.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Time for which the fault `BlackHole` holds a request; the server times out earlier.
const BLACK_HOLE: Duration = Duration::from_secs(15);

/// A fault that the proxy injects between a request and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Delays the request and the answer.
    Delay,
    /// Closes the connection before the engine receives the request.
    CutBefore,
    /// Closes the connection after the engine has run the request.
    CutAfter,
    /// Sends only half of the answer after the engine has run the request.
    CutInside,
    /// Replaces the answer with bytes that are not HTTP, after the engine has run the request.
    Garbage,
    /// Drops the request, and keeps the connection open without an answer.
    BlackHole,
    /// Answers 503 without the engine, like a database that is starting or overloaded.
    Busy,
    /// Answers a query with the error 1200 of a write conflict, without the engine. Other requests
    /// pass.
    Conflict,
}

impl Fault {
    /// Returns status, error number and text of the answer, if the proxy creates the answer itself.
    fn refusal(self) -> Option<(&'static str, u16, &'static str)> {
        match self {
            Fault::Busy => Some(("503 Service Unavailable", 503, "service unavailable")),
            Fault::Conflict => Some(("409 Conflict", 1200, "write-write conflict")),
            _ => None,
        }
    }
}

/// The phase of a write between server and engine, as the proxy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// No write is in progress.
    Outside,
    /// A write that consists of one request is being sent to the engine.
    OneRequestSent,
    /// The engine has received the whole request, but the proxy has not forwarded the whole answer.
    OneRequestUnanswered,
    /// A stream transaction has begun, but the engine has not received the whole commit.
    BeginToCommit,
    /// The engine has received the whole commit, but the proxy has not forwarded the whole answer.
    CommitToReply,
    /// The commit is answered, and the server asks for the status of the transaction.
    StatusAsked,
}

/// One request and its answer.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names of the headers that affect the database; for credentials, also their scheme but no
    /// secret.
    pub(crate) headers: BTreeSet<String>,
    /// The transaction id in the header `x-arango-trx-id`.
    pub(crate) transaction: Option<String>,
    pub(crate) request: Value,
    pub(crate) status: Option<u16>,
    pub(crate) reply: Value,
}

impl Exchange {
    /// Whether the request runs a query.
    pub(crate) fn is_query(&self) -> bool {
        self.method == "POST" && self.path.ends_with("/_api/cursor")
    }

    /// Whether the job that signs the heads of ledgers sent the request. It does so at any time, if
    /// another server has written entries.
    fn is_signing(&self) -> bool {
        let query = self.request["query"].as_str().unwrap_or_default();
        query.starts_with("// Reads the entries of an agent's ledger after")
    }
}

type Action = Box<dyn FnOnce(Phase) + Send>;

struct Trigger {
    phase: Phase,
    bytes: u64,
    pause: Duration,
    action: Action,
}

/// Settings of random faults, which the seed makes reproducible.
struct Weather {
    faults: Vec<Fault>,
    one_in: u64,
    chance: Chance,
    left: u32,
}

#[derive(Default)]
struct State {
    record: Vec<Exchange>,
    bytes: BTreeMap<Phase, u64>,
    trigger: Option<Trigger>,
    weather: Option<Weather>,
    /// A text and a fault: the fault is injected into the next request whose method and path
    /// contain the text.
    next: Option<(String, Fault)>,
    /// A text: all requests whose bodies contain it get an answer that is not HTTP.
    spoiled: Option<String>,
    injected: BTreeMap<String, u64>,
    /// The shapes of all requests (requests without names and values), for the file that
    /// `VCTX_SHAPES` names.
    shapes: BTreeSet<String>,
}

/// Returns the file to which every proxy appends request shapes, if one is configured.
pub(crate) fn shapes_file() -> Option<PathBuf> {
    std::env::var_os("VCTX_SHAPES").map(PathBuf::from)
}

/// The proxy, which ends when this value is dropped.
pub(crate) struct Proxy {
    socket: PathBuf,
    state: Arc<Mutex<State>>,
    task: Mutex<Option<JoinHandle<()>>>,
    upstream: PathBuf,
}

impl Proxy {
    /// Starts a proxy that listens on `socket` and forwards all requests to `upstream`.
    pub(crate) fn start(socket: &Path, upstream: &Path) -> Proxy {
        let proxy = Proxy {
            socket: socket.to_owned(),
            state: Arc::default(),
            task: Mutex::default(),
            upstream: upstream.to_owned(),
        };
        proxy.listen();
        proxy
    }

    /// Begins to listen, or listens again after `refuse`.
    pub(crate) fn listen(&self) {
        let listener = UnixListener::bind(&self.socket).expect("the proxy listens");
        let (state, upstream) = (Arc::clone(&self.state), self.upstream.clone());
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (state, upstream) = (Arc::clone(&state), upstream.clone());
                connections.spawn(async move { connection(client, &upstream, &state).await });
            }
        });
        *self.task.lock().expect("a task") = Some(task);
    }

    /// Stops listening: removes the socket and closes every connection.
    pub(crate) fn refuse(&self) {
        if let Some(task) = self.task.lock().expect("a task").take() {
            task.abort();
        }
        std::fs::remove_file(&self.socket).expect("the proxy's socket");
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Clears the recorded exchanges and the counts of bytes.
    pub(crate) fn clear(&self) {
        let mut state = self.state();
        state.record.clear();
        state.bytes.clear();
    }

    /// Returns all exchanges since the last [`Proxy::clear`], in the order of the requests, without
    /// those of the job that signs the heads of ledgers.
    pub(crate) fn record(&self) -> Vec<Exchange> {
        self.state().record.iter().filter(|exchange| !exchange.is_signing()).cloned().collect()
    }

    /// Returns what [`Proxy::record`] returns and forgets it, with no request lost in between.
    pub(crate) fn take(&self) -> Vec<Exchange> {
        let taken = std::mem::take(&mut self.state().record);
        taken.into_iter().filter(|exchange| !exchange.is_signing()).collect()
    }

    /// Returns the number of bytes that passed in each phase.
    pub(crate) fn bytes(&self) -> BTreeMap<Phase, u64> {
        self.state().bytes.clone()
    }

    /// Sets an action that the proxy runs just before the given byte of a phase passes. This byte
    /// and all later bytes on the connection are lost. If the engine has just received a whole
    /// request, the proxy first waits for `pause`, so that the engine can work.
    pub(crate) fn at_byte(&self, phase: Phase, bytes: u64, pause: Duration, action: Action) {
        let mut state = self.state();
        state.bytes.clear();
        state.trigger = Some(Trigger { phase, bytes, pause, action });
    }

    /// Removes an action whose byte has not passed.
    pub(crate) fn disarm(&self) {
        self.state().trigger = None;
    }

    /// Injects faults from this call on: about one in `one_in` requests gets one of the faults, at
    /// most `most` requests in total.
    pub(crate) fn by_chance(&self, faults: &[Fault], one_in: u64, most: u32, seed: u64) {
        let (faults, chance) = (faults.to_vec(), Chance::new(seed));
        self.state().weather = Some(Weather { faults, one_in, chance, left: most });
    }

    /// Injects the fault into the next request whose method and path contain `path`.
    pub(crate) fn next(&self, path: &str, fault: Fault) {
        self.state().next = Some((path.into(), fault));
    }

    /// Spoils the answers to all requests from this call on whose bodies contain the text.
    pub(crate) fn spoil(&self, text: &str) {
        self.state().spoiled = Some(text.into());
    }

    /// Ends the faults; returns how many faults of each kind were injected.
    pub(crate) fn calm(&self) -> BTreeMap<String, u64> {
        let mut state = self.state();
        state.weather = None;
        state.next = None;
        state.spoiled = None;
        std::mem::take(&mut state.injected)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().expect("a task").take() {
            task.abort();
        }
        let shapes = std::mem::take(&mut self.state().shapes);
        if let (Some(path), false) = (shapes_file(), shapes.is_empty()) {
            let lines: String = shapes.into_iter().map(|line| line + "\n").collect();
            let file = std::fs::File::options().create(true).append(true).open(path);
            file.and_then(|mut file| file.write_all(lines.as_bytes())).expect("the file of shapes");
        }
    }
}

/// Forwards one connection, request by request. An error on either side closes both connections.
async fn connection(mut client: UnixStream, upstream: &Path, state: &Mutex<State>) {
    let Ok(mut engine) = UnixStream::connect(upstream).await else { return };
    let mut from_client = Vec::new();
    let mut from_engine = Vec::new();
    while let Ok(Some(request)) = message(&mut client, &mut from_client).await {
        let exchange = exchange_of(&request);
        let way = way_of(&exchange);
        let (at, fault) = {
            let mut state = state.lock().expect("no holder panics");
            let fault = match exchange.is_signing() {
                true => None,
                false => state.fault_for(&exchange),
            };
            if shapes_file().is_some() {
                state.shapes.extend(lines_of(&exchange));
            }
            state.record.push(exchange);
            (state.record.len() - 1, fault)
        };
        let spoiled = match fault {
            Some(Fault::CutBefore) => return,
            Some(Fault::BlackHole) => return tokio::time::sleep(BLACK_HOLE).await,
            Some(Fault::Delay) => {
                tokio::time::sleep(Duration::from_millis(40)).await;
                None
            }
            Some(fault) if fault.refusal().is_some() => {
                let (status, number, text) = fault.refusal().expect("a refusal");
                let body = json!({"error": true, "code": status[..3].parse::<u16>().expect("a status"), "errorNum": number,
                    "errorMessage": text}).to_string();
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                if client.write_all(format!("{head}{body}").as_bytes()).await.is_err() {
                    return;
                }
                continue;
            }
            other => other,
        };
        // The last byte completes the request and thereby begins the next phase, so it is sent
        // separately.
        let (most, last) = request.split_at(request.len() - 1);
        if pass(&mut engine, most, way.before, state).await.is_err()
            || pass(&mut engine, last, way.before, state).await.is_err()
        {
            return;
        }
        if arrived(way.after, state).await {
            return;
        }
        let Ok(Some(reply)) = message(&mut engine, &mut from_engine).await else { return };
        if let Some(exchange) = state.lock().expect("no holder panics").record.get_mut(at) {
            (exchange.status, exchange.reply) = reply_of(&reply);
        }
        let passed = match spoiled {
            None => pass(&mut client, &reply, way.after, state).await,
            Some(Fault::CutInside) => {
                let half = &reply[..reply.len() / 2];
                drop(client.write_all(half).await);
                return;
            }
            Some(Fault::Garbage) => {
                drop(client.write_all(b"\x00\x01no http at all\r\n\r\n").await);
                return;
            }
            Some(_) => return,
        };
        if passed.is_err() {
            return;
        }
    }
}

/// The phases of an exchange: before and after the engine has received the whole request.
struct Way {
    before: Phase,
    after: Phase,
}

fn way_of(exchange: &Exchange) -> Way {
    let both = |phase| Way { before: phase, after: phase };
    let in_transactions = exchange.path.contains("/_api/transaction");
    match exchange.method.as_str() {
        "POST" if exchange.path.ends_with("/_api/transaction/begin") => {
            Way { before: Phase::Outside, after: Phase::BeginToCommit }
        }
        "PUT" if in_transactions => {
            Way { before: Phase::BeginToCommit, after: Phase::CommitToReply }
        }
        "DELETE" if in_transactions => both(Phase::BeginToCommit),
        "GET" if in_transactions => both(Phase::StatusAsked),
        _ if exchange.transaction.is_some() => both(Phase::BeginToCommit),
        "POST" if exchange.is_query() => {
            Way { before: Phase::OneRequestSent, after: Phase::OneRequestUnanswered }
        }
        _ => both(Phase::Outside),
    }
}

/// Called when the engine has received a whole request and the next phase begins. Runs the action
/// that [`Proxy::at_byte`] set for byte 0 of this phase. Returns true if there was such an action.
async fn arrived(phase: Phase, state: &Mutex<State>) -> bool {
    let trigger = {
        let mut state = state.lock().expect("no holder panics");
        let seen = state.bytes.get(&phase).copied().unwrap_or(0);
        let due = state.trigger.as_ref().is_some_and(|t| t.phase == phase && t.bytes <= seen);
        if due { state.trigger.take() } else { None }
    };
    let Some(trigger) = trigger else { return false };
    tokio::time::sleep(trigger.pause).await;
    (trigger.action)(phase);
    true
}

/// Forwards bytes and counts them. Also fails if [`Proxy::at_byte`] set an action for one of these
/// bytes.
async fn pass(
    to: &mut UnixStream,
    bytes: &[u8],
    phase: Phase,
    state: &Mutex<State>,
) -> io::Result<()> {
    let (trigger, until) = {
        let mut state = state.lock().expect("no holder panics");
        let seen = state.bytes.entry(phase).or_default();
        let from = *seen;
        *seen += bytes.len() as u64;
        let until = *seen;
        let due = state.trigger.as_ref().is_some_and(|t| t.phase == phase && t.bytes < until);
        let trigger = if due { state.trigger.take() } else { None };
        let until = trigger.as_ref().map_or(bytes.len() as u64, |t| t.bytes.saturating_sub(from));
        (trigger, usize::try_from(until).expect("a message's length"))
    };
    to.write_all(&bytes[..until]).await?;
    match trigger {
        None => Ok(()),
        Some(trigger) => {
            (trigger.action)(phase);
            Err(io::Error::other("killed at this byte"))
        }
    }
}

impl State {
    fn fault_for(&mut self, exchange: &Exchange) -> Option<Fault> {
        let line = format!("{} {}", exchange.method, exchange.path);
        let spoiled = self.spoiled.as_ref();
        let fault = match &self.next {
            _ if spoiled.is_some_and(|text| exchange.request.to_string().contains(text)) => {
                Some(Fault::Garbage)
            }
            Some((path, fault)) if line.contains(path.as_str()) => {
                let fault = *fault;
                self.next = None;
                Some(fault)
            }
            _ => self.weather.as_mut().and_then(Weather::draw),
        };
        let fault = fault.filter(|fault| *fault != Fault::Conflict || exchange.is_query());
        if let Some(fault) = fault {
            *self.injected.entry(format!("{fault:?}")).or_default() += 1;
        }
        fault
    }
}

impl Weather {
    fn draw(&mut self) -> Option<Fault> {
        if self.left == 0 || self.chance.below(self.one_in) != 0 {
            return None;
        }
        self.left -= 1;
        Some(*self.chance.one_of(&self.faults))
    }
}

/// Reads the next whole HTTP message, whose length its head states; returns `None` at the end of
/// the stream.
pub(crate) async fn message(
    from: &mut UnixStream,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<Vec<u8>>> {
    loop {
        if let Some(length) = whole(buffer)? {
            let rest = buffer.split_off(length);
            return Ok(Some(std::mem::replace(buffer, rest)));
        }
        if from.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// Returns the length of the first message in the buffer, if the message is complete.
fn whole(buffer: &[u8]) -> io::Result<Option<usize>> {
    let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4) else {
        return Ok(None);
    };
    let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
    if head.contains("transfer-encoding:") {
        return Err(io::Error::other("the proxy knows stated lengths only"));
    }
    let body: usize = header(&head, "content-length").and_then(|v| v.parse().ok()).unwrap_or(0);
    if body > MESSAGE_BYTES_MAX {
        return Err(io::Error::other("a message longer than any test sends"));
    }
    Ok((buffer.len() >= end + body).then_some(end + body))
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let line = head.lines().find(|line| {
        line.split_once(':').is_some_and(|(found, _)| found.eq_ignore_ascii_case(name))
    })?;
    line.split_once(':').map(|(_, value)| value.trim())
}

fn parts(message: &[u8]) -> (String, Value) {
    let end = message.windows(4).position(|w| w == b"\r\n\r\n").map_or(message.len(), |at| at + 4);
    let head = String::from_utf8_lossy(&message[..end]).into_owned();
    (head, serde_json::from_slice(&message[end..]).unwrap_or(Value::Null))
}

/// Parses a request.
pub(crate) fn exchange_of(request: &[u8]) -> Exchange {
    let (head, body) = parts(request);
    let mut line = head.lines().next().unwrap_or_default().split(' ');
    let method = line.next().unwrap_or_default().to_owned();
    let path = line.next().unwrap_or_default().to_owned();
    let transaction = header(&head, "x-arango-trx-id").map(str::to_owned);
    let headers = headers_of(&head);
    Exchange { method, path, headers, transaction, request: body, status: None, reply: Value::Null }
}

/// Returns the names of the headers, except those of HTTP itself.
fn headers_of(head: &str) -> BTreeSet<String> {
    const PLAIN: &[&str] = &["host", "content-length", "connection", "user-agent"];
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let named = lines.map(|(name, value)| (name.to_ascii_lowercase(), value.trim()));
    named
        .filter(|(name, _)| !PLAIN.contains(&name.as_str()))
        .map(|(name, value)| match name.as_str() {
            "authorization" => {
                format!("{name}: {}", value.split(' ').next().unwrap_or_default())
            }
            "x-arango-trx-id" => name,
            _ => format!("{name}: {value}"),
        })
        .collect()
}

/// Parses the status and the body of an answer.
pub(crate) fn reply_of(reply: &[u8]) -> (Option<u16>, Value) {
    let (head, body) = parts(reply);
    (head.split(' ').nth(1).and_then(|status| status.parse().ok()), body)
}
