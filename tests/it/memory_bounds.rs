//! Tests that the memory of the server stays bounded while many callers ask for much at once, and
//! that another caller gets all answers meanwhile.

use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::database::Database;
use crate::home::{Home, Process, Tuning, resident_kib};
use crate::standin::proxy;
use crate::talk::{Agent, key};

/// Most memory that the server may use in addition to its idle memory, in KiB.
const GROWTH_KIB_MAX: u64 = 512 * 1024;
/// Pause between two looks at the memory.
const LOOK: Duration = Duration::from_millis(5);
/// Pause between two calls of the other caller.
const PAUSE: Duration = Duration::from_millis(20);
/// Time for which clients that read nothing keep their connections.
const HELD: Duration = Duration::from_secs(5);
/// Number of connections that read nothing.
const DEAF: usize = 1_024;
/// Number of exports at once.
const EXPORTS: usize = 64;
/// Number of parallel requests for the versions of the largest core.
const HISTORIES: usize = 8;
/// Number of parallel requests with the same query.
const QUERIES: usize = 4;

/// Reading queries that grow: each would take gigabytes without a limit.
const GROWING: [(&str, &str); 16] = [
    ("CONCAT doubled", "@doubled"),
    ("CONCAT_SEPARATOR doubled", "@separated"),
    ("REPEAT", "RETURN REPEAT('x', 4000000000)"),
    ("a list of REPEAT", "FOR i IN 1..1000 RETURN REPEAT(CONCAT('x', i), 10000000)"),
    ("a range", "RETURN 1..1000000000"),
    ("a sum over a range", "RETURN LENGTH(FOR i IN 1..100000000 RETURN i)"),
    ("rows", "FOR i IN 1..100000000 RETURN {i, text: REPEAT('y', 100)}"),
    ("SORT", "FOR i IN 1..100000000 SORT RAND() RETURN i"),
    ("COLLECT", "FOR i IN 1..100000000 COLLECT name = CONCAT('k', i) INTO members RETURN members"),
    (
        "COLLECT in one group",
        "FOR i IN 1..100000000 COLLECT one = true INTO members RETURN members",
    ),
    ("a cross join", "FOR a IN 1..30000 FOR b IN 1..30000 FOR c IN 1..30000 RETURN [a, b, c]"),
    ("PUSH", "RETURN FLATTEN(FOR i IN 1..10000 RETURN 1..10000)"),
    ("SPLIT", "RETURN SPLIT(REPEAT('a,', 8000000), ',')"),
    ("TOKENS", "FOR i IN 1..1000 RETURN TOKENS(REPEAT('word ', 1000000), 'text_en')"),
    ("JSON_STRINGIFY", "FOR i IN 1..1000 RETURN JSON_STRINGIFY(REPEAT('\"', 10000000))"),
    ("SUBSTITUTE", "RETURN SUBSTITUTE(REPEAT('a', 10000000), 'a', REPEAT('b', 10000000))"),
];

/// Returns a query that doubles a text thirty-five times.
fn doubled(function: &str) -> String {
    let mut text = "LET a0 = 'x'\n".to_owned();
    for n in 1..=35 {
        text += &format!("LET a{n} = {function}a{0}, a{0})\n", n - 1);
    }
    text + "RETURN LENGTH(a35)"
}

fn query_of(text: &str) -> String {
    match text {
        "@doubled" => doubled("CONCAT("),
        "@separated" => doubled("CONCAT_SEPARATOR('-', "),
        text => text.to_owned(),
    }
}

/// Returns options of a server that accepts cores as large as those of older versions.
fn large_cores() -> Tuning {
    Tuning::variable("VCTX_CORE__BLOCKS_BYTES_MAX", "33554432")
}

/// Looks at the memory of a process again and again, and keeps the largest value.
struct Watch {
    most_kib: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Watch {
    fn start(process: &Process) -> Watch {
        let (most_kib, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (id, most, end) = (process.id(), Arc::clone(&most_kib), Arc::clone(&stop));
        std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                most.fetch_max(resident_kib(id), Ordering::Relaxed);
                std::thread::sleep(LOOK);
            }
        });
        Watch { most_kib, stop }
    }

    /// Returns the largest value since the last call, in KiB.
    fn take_kib(&self) -> u64 {
        self.most_kib.swap(0, Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A caller who makes small calls on new connections until it is stopped.
struct Bystander {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<Vec<u128>>,
}

impl Bystander {
    fn start(home: &Home) -> Bystander {
        let stop = Arc::<AtomicBool>::default();
        let (end, wire) = (Arc::clone(&stop), home.wire("vctx.sock"));
        let task = tokio::spawn(async move {
            let mut took = Vec::new();
            while !end.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let ada = Agent::at(wire.again(), "ada");
                let text = json!({"message": "Still here?", "role": "user"});
                ada.tool("append_fifo", &text, &key(), "*").await.ok();
                ada.state().await;
                took.push(begun.elapsed().as_millis());
                tokio::time::sleep(PAUSE).await;
            }
            took
        });
        Bystander { stop, task }
    }

    /// Stops the caller, all of whose calls must have succeeded, and prints how long they took.
    async fn stop(self, during: &str) {
        self.stop.store(true, Ordering::Relaxed);
        let mut took = self.task.await.expect("every call of the other caller succeeds");
        took.sort_unstable();
        let at = |permille: usize| took[(took.len() - 1) * permille / 1_000];
        assert!(!took.is_empty(), "{during}");
        println!(
            "{during}: {} calls of another caller, p50 {} ms, p99 {} ms, longest {} ms",
            took.len(),
            at(500),
            at(990),
            at(1_000)
        );
    }
}

/// A server with two agents: a small one, and one with as much text as an agent may have.
struct Stage {
    home: Arc<Home>,
    server: Process,
    watch: Watch,
    idle_kib: u64,
    /// The parts during which the memory grew too much.
    faults: Vec<String>,
}

impl Stage {
    async fn new() -> Stage {
        let home = Arc::new(Home::new());
        let server = home.serve_with("vctx.sock", &large_cores()).await;
        Agent::create(home.wire("vctx.sock"), "ada", 65_536, "Be brief.")
            .await
            .append("user", "Hi")
            .await;
        let watch = Watch::start(&server);
        Stage { home, server, watch, idle_kib: 0, faults: Vec::new() }
    }

    /// Fills the large agent's core with blocks, and edits one so that there are twenty versions.
    async fn fill(&self) {
        let big = Agent::create(self.home.wire("vctx.sock"), "big", 4_000_000, "").await;
        let text = "information ".repeat(BLOCK_WORDS);
        for block in 0..BLOCKS {
            big.done("store_core", &json!({"block_id": format!("b{block}"), "content": text}))
                .await;
        }
        for edit in 0..20 {
            let note = json!({"block_id": "note", "content": format!("{edit}")});
            big.done("store_core", &note).await;
        }
    }

    /// Starts the server again, so that its memory is small and it knows nothing of its callers,
    /// and looks at its memory before the first call.
    async fn restart(&mut self) {
        assert!(self.server.stop().await.success(), "{}", self.server.said());
        self.server = self.home.serve_with("vctx.sock", &large_cores()).await;
        self.watch = Watch::start(&self.server);
        tokio::time::sleep(HELD / 10).await;
        self.idle_kib = self.watch.take_kib();
        println!("idle: {} MiB", self.idle_kib / 1_024);
    }

    /// Runs one part while another caller makes calls, and notes whether the memory grew too much.
    async fn during(&mut self, name: &str, part: impl Future<Output = ()>) {
        self.watch.take_kib();
        let other = Bystander::start(&self.home);
        part.await;
        other.stop(name).await;
        assert!(self.server.ended().is_none(), "{name}: the server ended");
        let most = self.watch.take_kib();
        println!("{name}: at most {} MiB", most / 1_024);
        if most > self.idle_kib + GROWTH_KIB_MAX {
            self.faults.push(format!("{name}: {} MiB", most / 1_024));
        }
    }
}

/// The versions of the large agent's core whose texts are longest.
const HISTORY: &str = "/v1/agents/big/history?from_version=11&limit=20";
/// Number of blocks of the large agent, and number of words in each.
const BLOCKS: usize = 9;
const BLOCK_WORDS: usize = 87_000;

/// Opens connections that ask for a large answer and read nothing of it.
async fn deaf(socket: PathBuf, path: &str) {
    let head = format!("GET {path} HTTP/1.1\r\nhost: v\r\n\r\n");
    let mut held = Vec::new();
    for _ in 0..DEAF {
        let (socket, head) = (socket.clone(), head.clone());
        let opened = tokio::task::spawn_blocking(move || {
            let mut stream = UnixStream::connect(socket)?;
            stream.write_all(head.as_bytes())?;
            Ok::<_, std::io::Error>(stream)
        });
        held.extend(opened.await.expect("a task"));
    }
    assert!(held.len() > DEAF / 2, "the test opens no connections");
    tokio::time::sleep(HELD).await;
}

/// Sends parallel requests, reads all answers; some must succeed, the others may be refused.
async fn at_once(home: &Home, count: usize, path: &str) {
    let mut asked = JoinSet::new();
    for _ in 0..count {
        let (wire, path) = (home.wire("vctx.sock"), path.to_owned());
        asked.spawn(async move { wire.try_call("GET", &path, &[], "").await });
    }
    let answers = asked.join_all().await;
    let mut good = 0;
    for answer in answers {
        let answer = answer.expect("an answer");
        assert!(matches!(answer.status, 200 | 503), "{path}: {} {}", answer.status, answer.code());
        good += usize::from(answer.status == 200);
    }
    println!("{good} of {count} answers of {path}");
    assert!(good > 0, "{path}: all are refused");
}

async fn queries(home: &Home, text: &str) {
    let mut asked = JoinSet::new();
    for _ in 0..QUERIES {
        // The proxy replaces the client's credentials by its own.
        let database = Database::new(&home.path("ro.sock"), "vctx", "any", "any");
        let body = json!({"query": query_of(text), "batchSize": 1_000_000_000});
        asked.spawn(async move { database.call("POST", "/_api/cursor", &body).await });
    }
    let told = asked.join_all().await.into_iter().map(|answer| {
        assert!(!matches!(answer.status, 401 | 403), "{text}: {}", answer.text);
        json!([answer.status, answer.body["errorNum"]])
    });
    println!("  {}", told.collect::<Value>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_server_grows_by_a_bounded_amount_whatever_its_callers_ask_for() {
    let mut stage = Stage::new().await;
    stage.fill().await;
    let socket = stage.home.path("vctx.sock");
    for path in ["/v1/agents/big", HISTORY] {
        stage.restart().await;
        let name = format!("{DEAF} connections that do not read {path}");
        stage.during(&name, deaf(socket.clone(), path)).await;
    }
    let home = Arc::clone(&stage.home);
    stage.restart().await;
    let exports = at_once(&home, EXPORTS, "/v1/agents/big/export");
    stage.during("exports", exports).await;
    stage.restart().await;
    let histories = at_once(&home, HISTORIES, HISTORY);
    stage.during("histories", histories).await;
    stage.restart().await;
    let password = fs::read_to_string(home.path("data/root.password")).expect("a password");
    let tuning = Tuning::variable("ARANGO_PASSWORD", password.trim());
    let _proxy = proxy(&home, "ro", "ro.sock", "data/arangod.sock", &tuning).await;
    for (name, text) in GROWING {
        stage.during(name, queries(&home, text)).await;
    }
    assert_eq!(stage.faults, Vec::<String>::new(), "idle: {} MiB", stage.idle_kib / 1_024);
    home.assert_verified("vctx.sock", "ada");
}
