//! Tests machine faults: processes die and hang, connections break, the disk is full, file
//! descriptors run out, the clock jumps. Every acknowledged message is kept once and in order, and
//! the servers recover by themselves.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::chance::{Chance, rounds, setting};
use crate::count;
use crate::home::{Home, Process, TORN_TAIL, Tuning};
use crate::needs::left_out;
use crate::outside::needs_an_engine_of_its_own;
use crate::setup::setup;
use crate::standin::proxy;
use crate::talk::{Agent, said};
use vctx::clock::{Clock as _, SystemClock, iso8601};

/// Maximum time until a call is answered despite a fault.
const CALL_MAX: Duration = Duration::from_secs(180);
/// Pause before a failed call is repeated.
const PAUSE: Duration = Duration::from_millis(10);
/// Names of the agents that write concurrently.
const AGENTS: [&str; 4] = ["ada", "bob", "cyd", "eve"];

/// Appends a message; repeats the call with the same key at alternating servers until it succeeds.
async fn append(agents: &[Agent], number: u64) {
    let call = json!({"message": format!("{number}"), "role": "user"});
    let key = format!("said-{number}");
    let until = Instant::now() + CALL_MAX;
    for attempt in number.. {
        let agent = &agents[attempt as usize % agents.len()];
        match agent.attempt("append_fifo", &call, &key, "*").await {
            Ok(answer) if answer.status == 200 => return,
            Ok(answer) => {
                let passing = answer.status >= 500 || answer.code() == "CONFLICT";
                assert!(passing, "{}", answer.text);
            }
            Err(_) => {}
        }
        assert!(Instant::now() < until, "{key} of {} is not taken", agent.name);
        tokio::time::sleep(PAUSE).await;
    }
}

/// Appends messages until `stop` is set; returns the agent's name and the number of messages.
async fn speaking(agents: Vec<Agent>, stop: Arc<AtomicBool>) -> (String, u64) {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        append(&agents, number).await;
        number += 1;
    }
    append(&agents, number).await;
    (agents[0].name.clone(), number + 1)
}

/// Checks that exactly the appended messages are stored, in order, and that `vctx verify` passes.
async fn check(home: &Home, socket: &str, name: &str, count: u64) {
    let agent = Agent::at(home.wire(socket), name);
    let texts: Vec<String> = said(&agent.messages().await)
        .into_iter()
        .filter(|(role, _)| role == "user")
        .map(|(_, text)| text)
        .collect();
    let wanted: Vec<String> = (0..count).map(|n| n.to_string()).collect();
    assert_eq!(texts, wanted, "{name}");
    home.assert_verified(socket, name);
}

fn signal(process: &Process, name: &str) {
    let sent = Command::new("kill").args([name, &process.id().to_string()]).status();
    assert!(sent.expect("kill runs").success(), "{name}");
}

/// The processes of a run: the engine, two proxies, and two servers.
struct Stage {
    home: Home,
    engine: Process,
    proxies: [Process; 2],
    servers: [Process; 2],
}

const SOCKETS: [&str; 2] = ["a.sock", "b.sock"];

impl Stage {
    async fn new() -> Stage {
        let home = Home::new();
        let engine = home.engine().await;
        let made = setup(&home, &home.path("engine.sock").display().to_string());
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let reads = Stage::proxied(&home, "ro", "ro.sock").await;
        let writes = Stage::proxied(&home, "rw", "rw.sock").await;
        let one = Stage::server(&home, SOCKETS[0]).await;
        let two = Stage::server(&home, SOCKETS[1]).await;
        Stage { home, engine, proxies: [reads, writes], servers: [one, two] }
    }

    async fn server(home: &Home, socket: &str) -> Process {
        let server = home.server(socket, "rw.sock", "ro.sock", &Tuning::default()).await;
        server.expect("failed");
        server
    }

    async fn proxy(&self, at: usize) -> Process {
        let (mode, listen) = [("ro", "ro.sock"), ("rw", "rw.sock")][at];
        Stage::proxied(&self.home, mode, listen).await
    }

    async fn proxied(home: &Home, mode: &str, listen: &str) -> Process {
        let proxy = proxy(home, mode, listen, "engine.sock", &Tuning::default()).await;
        proxy.expect("the database does not answer");
        proxy
    }

    /// Causes one random fault, ends the fault after a while, and returns its name.
    async fn blow(&mut self, chance: &mut Chance) -> &'static str {
        let rest = Duration::from_millis(chance.below(150));
        match chance.below(8) {
            0 | 1 => {
                self.engine.kill();
                tokio::time::sleep(rest).await;
                // Both engines append to the same log.
                self.engine.expect(TORN_TAIL);
                self.engine = self.home.engine().await;
                self.engine.expect(TORN_TAIL);
                "the engine was killed"
            }
            2 | 3 => {
                let at = chance.below(2) as usize;
                self.servers[at].kill();
                tokio::time::sleep(rest).await;
                self.servers[at] = Stage::server(&self.home, SOCKETS[at]).await;
                "a server was killed"
            }
            4 => {
                let at = chance.below(2) as usize;
                self.proxies[at].kill();
                tokio::time::sleep(rest).await;
                self.proxies[at] = self.proxy(at).await;
                "a proxy was killed"
            }
            5 => {
                // A server that SIGSTOP suspends keeps its connections, its open transactions, and
                // the calls that it has begun.
                let at = chance.below(2) as usize;
                for name in ["-STOP", "-CONT"] {
                    signal(&self.servers[at], name);
                    tokio::time::sleep(rest * 4).await;
                }
                "a server stood still"
            }
            6 => {
                for name in ["-STOP", "-CONT"] {
                    signal(&self.engine, name);
                    tokio::time::sleep(rest * 4).await;
                }
                "the engine stood still"
            }
            _ => {
                self.engine.kill();
                for at in 0..2 {
                    self.proxies[at].kill();
                    self.servers[at].kill();
                }
                // Both engines append to the same log.
                self.engine.expect(TORN_TAIL);
                self.engine = self.home.engine().await;
                self.engine.expect(TORN_TAIL);
                for at in 0..2 {
                    self.proxies[at] = self.proxy(at).await;
                }
                for (at, socket) in SOCKETS.iter().enumerate() {
                    self.servers[at] = Stage::server(&self.home, socket).await;
                }
                "everything was killed"
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_dies_or_stands_still_under_load_nothing_is_lost_or_doubled() {
    if needs_an_engine_of_its_own("kills it") {
        return;
    }
    let (rounds, seed) = (rounds("CHAOS_ROUNDS", 10), setting("CHAOS_SEED", 5));
    println!("CHAOS_ROUNDS={rounds} CHAOS_SEED={seed}");
    let mut stage = Stage::new().await;
    for name in AGENTS {
        // The small window is flushed often, so that faults also interrupt evictions.
        Agent::create(stage.home.wire(SOCKETS[0]), name, 2_048, "Count.").await;
    }
    let stop = Arc::<AtomicBool>::default();
    let mut talks = JoinSet::new();
    for name in AGENTS {
        let agents = SOCKETS.map(|socket| Agent::at(stage.home.wire(socket), name)).into();
        talks.spawn(speaking(agents, Arc::clone(&stop)));
    }
    let mut chance = Chance::new(seed);
    for round in 0..rounds {
        tokio::time::sleep(Duration::from_millis(chance.below(200))).await;
        let what = stage.blow(&mut chance).await;
        println!("round {round}: {what}");
    }
    stop.store(true, Ordering::Relaxed);
    let mut all = 0;
    for (name, count) in talks.join_all().await {
        check(&stage.home, SOCKETS[0], &name, count).await;
        all += count;
    }
    let database = stage.home.database();
    let rows = database.rows(
        "FOR m IN messages FILTER m.role == 'user' COLLECT WITH COUNT INTO n RETURN n",
        json!({}),
    );
    assert_eq!(rows.await, [json!(all)]);
    println!("{all} messages, none lost, none doubled");
}

/// Starts a process that keeps a small private file system mounted while it runs; returns `None`
/// without permission for mounts.
fn small_disk(home: &Home, name: &str, megabytes: u64) -> Option<Process> {
    std::fs::create_dir_all(home.path(name)).expect("a directory");
    let permitted = Command::new("unshare").args(["-m", "true"]).stderr(Stdio::null()).status();
    if !permitted.is_ok_and(|status| status.success()) {
        return None;
    }
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=$1m none \"$2\" && touch \"$3\" && exec sleep 86400";
    command.args(["-m", "sh", "-c", script, "sh", &megabytes.to_string()]);
    command.arg(home.path(name)).arg(home.path("mounted"));
    Some(Process::start(home, "disk", command))
}

/// Runs a command in the mount namespace of the private file system.
fn there(disk: &Process, command: &[&str]) -> String {
    let entered =
        Command::new("nsenter").args(["-m", "-t", &disk.id().to_string()]).args(command).output();
    let output = entered.expect("nsenter runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

async fn appears(path: PathBuf) {
    let until = Instant::now() + CALL_MAX;
    while !path.exists() {
        assert!(Instant::now() < until, "{} does not appear", path.display());
        tokio::time::sleep(PAUSE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_loses_nothing_and_is_over_when_there_is_room() {
    if needs_an_engine_of_its_own("fills its disk") {
        return;
    }
    let home = Home::new();
    let Some(disk) = small_disk(&home, "data", 96) else {
        left_out("`unshare -m` is not permitted here");
        return;
    };
    appears(home.path("mounted")).await;
    let under = ["nsenter", "-m", "-t", &disk.id().to_string()].map(str::to_owned);
    let tuning = Tuning { under: under.into(), ..Tuning::default() };
    let server = home.serve_with("vctx.sock", &tuning).await;
    // Both servers append to the same log, so the test declares the lines of both as expected.
    for text in ["failed", TORN_TAIL, "the engine is opened again", "cannot be opened again yet"] {
        server.expect(text);
    }
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4_096, "Count.").await;
    let mut number = 0;
    for _ in 0..20 {
        append(std::slice::from_ref(&ada), number).await;
        number += 1;
    }
    // An additional file occupies all free space of the disk.
    let ballast = home.path("data/ballast").display().to_string();
    there(&disk, &["sh", "-c", &format!("cat /dev/zero > '{ballast}' 2>/dev/null; true")]);
    let entry = count::words(2_000);
    let mut refused = None;
    for attempt in 0..400 {
        let body = json!({"entries": [{"content": format!("{attempt} {entry}")}]});
        let answer = ada.tool("write_recall", &body, &format!("fill-{attempt}"), "*").await;
        if answer.status != 200 {
            assert!(answer.status >= 500, "{}", answer.text);
            refused = Some(answer.body);
            break;
        }
    }
    let refused = refused.expect("a full disk is noticed");
    println!("refused with {}: {}", refused["error"], refused["detail"]);
    // The server says at once that it takes no writes. Acknowledged messages can still be read.
    ada.wire.get("/readyz").await.refused(503, "NOT_READY");
    assert_eq!(said(&ada.messages().await).iter().filter(|(role, _)| role == "user").count(), 20);
    let first = server.id();
    there(&disk, &["rm", &ballast]);
    // When there is room again, the engine opens its files again; the server is not restarted.
    for _ in 0..20 {
        append(std::slice::from_ref(&ada), number).await;
        number += 1;
    }
    assert_eq!(ada.wire.get("/readyz").await.ok()["status"], "ready");
    assert_eq!((server.id(), server.ended()), (first, None));
    assert!(server.said().contains("the engine is opened again"));
    check(&home, "vctx.sock", "ada", number).await;
    server.kill();
    let again = home.serve_with("vctx.sock", &tuning).await;
    for text in ["failed", TORN_TAIL, "opened again"] {
        again.expect(text);
    }
    check(&home, "vctx.sock", "ada", number).await;
}

/// Sends an import of `bytes` bytes that begins with `first`, until the server answers; returns the
/// answer.
fn pour(socket: PathBuf, first: &str, bytes: usize) -> String {
    let mut stream = UnixStream::connect(socket).expect("a socket");
    let head = format!(
        "POST /v1/agents/bea/import HTTP/1.1\r\nhost: v\r\ncontent-length: {bytes}\r\n\r\n{first}\n"
    );
    let piece = vec![b'x'; 64 * 1024];
    let pieces = std::iter::repeat_n(&piece[..], bytes / piece.len());
    // The server closes its end when it refuses the file.
    for piece in std::iter::once(head.as_bytes()).chain(pieces) {
        if stream.write_all(piece).is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    // Bytes that the server has not read are lost when it closes; its answer comes before.
    drop(stream.read_to_end(&mut answer));
    String::from_utf8(answer).expect("UTF-8")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_leaves_room_on_the_disk_and_a_file_that_is_no_export_takes_none() {
    if needs_an_engine_of_its_own("fills its disk") {
        return;
    }
    let home = Home::new();
    let Some(disk) = small_disk(&home, "data", 128) else {
        left_out("`unshare -m` is not permitted here");
        return;
    };
    appears(home.path("mounted")).await;
    let under = ["nsenter", "-m", "-t", &disk.id().to_string()].map(str::to_owned);
    let tuning = Tuning { under: under.into(), ..Tuning::default() };
    let server = home.serve_with("vctx.sock", &tuning).await;
    server.expect("failed");
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4_096, "Count.").await;
    append(std::slice::from_ref(&ada), 0).await;
    let export = ada.wire.get("/v1/agents/ada/export").await.text;
    let header = export.lines().next().expect("a header").to_owned();
    for (first, status, code) in [
        ("no export".to_owned(), "400", "INVALID_ARGUMENT"),
        ("x".repeat(1024 * 1024), "400", "INVALID_ARGUMENT"),
        (header, "507", "DISK_FULL"),
    ] {
        let socket = home.path("vctx.sock");
        let sending = tokio::task::spawn_blocking(move || pour(socket, &first, 256 * 1024 * 1024));
        let answer = sending.await.expect("a task");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(answer.contains(code), "{answer}");
    }
    append(std::slice::from_ref(&ada), 1).await;
    check(&home, "vctx.sock", "ada", 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_take_all_descriptors_keep_nobody_out_for_good() {
    let home = Home::new();
    let tuning = Tuning {
        under: ["prlimit", "--nofile=128:128"].map(str::to_owned).into(),
        ..Tuning::default()
    };
    let server = home.serve_with("vctx.sock", &tuning).await;
    server.expect("open files");
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4_096, "Count.").await;
    append(std::slice::from_ref(&ada), 0).await;
    let mut idle = Vec::new();
    for _ in 0..400 {
        match UnixStream::connect(home.path("vctx.sock")) {
            Ok(stream) => idle.push(stream),
            Err(_) => break,
        }
    }
    println!("{} connections that say nothing", idle.len());
    assert!(idle.len() >= 200, "the test takes no descriptors");
    // Clients that are already connected get answers. A call that needs a new file descriptor may
    // be refused, without any effect.
    let call = json!({"message": "1", "role": "user"});
    let answer = ada.attempt("append_fifo", &call, "said-1", "*").await;
    println!(
        "meanwhile: {:?}",
        answer.as_ref().map(|answer| answer.status).map_err(|lost| &lost.0)
    );
    drop(idle);
    let fresh = Agent::at(home.wire("vctx.sock"), "ada");
    for number in 1..20 {
        append(std::slice::from_ref(&fresh), number).await;
    }
    check(&home, "vctx.sock", "ada", 20).await;
    assert!(server.ended().is_none());
    assert!(server.said().contains("open files"), "it never ran out of descriptors");
}

/// Returns the path of the library that falsifies the clock (libfaketime), if it is installed.
fn faketime() -> Option<PathBuf> {
    ["x86_64-linux-gnu", "aarch64-linux-gnu", ""]
        .iter()
        .map(|part| PathBuf::from("/usr/lib").join(part).join("faketime/libfaketime.so.1"))
        .find(|path| path.exists())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_steps_changes_no_time_and_no_order_and_loses_nothing() {
    let Some(library) = faketime() else {
        left_out("libfaketime is not installed here");
        return;
    };
    let home = Home::new();
    let step = home.path("step");
    std::fs::write(&step, "+0").expect("a file");
    let mut tuning = Tuning::variable("LD_PRELOAD", library.to_str().expect("a plain path"));
    for (name, value) in [
        ("FAKETIME_TIMESTAMP_FILE", step.to_str().expect("a plain path")),
        ("FAKETIME_NO_CACHE", "1"),
        ("DONT_FAKE_MONOTONIC", "1"),
    ] {
        tuning.environment.push((name.into(), value.into()));
    }
    let server = home.serve_with("vctx.sock", &tuning).await;
    server.expect("the system clock jumped");
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 2_048, "Count.").await;
    let schedule = format!("{}/schedules/bell", ada.path());
    let hourly = json!({"content": "Ring.", "every_ms": 3_600_000});
    assert_eq!(ada.wire.put(&schedule, &hourly).await.status, 201);
    let before = SystemClock.unix_ms();
    let mut number = 0;
    for offset in ["+0", "-3600", "+86400", "-86400", "+8d", "-8d", "+40d", "+0"] {
        std::fs::write(&step, offset).expect("a file");
        for _ in 0..12 {
            append(std::slice::from_ref(&ada), number).await;
            number += 1;
        }
        // After a jump of the clock, an earlier idempotency key is still known.
        let call = json!({"message": format!("{}", number - 1), "role": "user"});
        let key = format!("said-{}", number - 1);
        let again = ada.tool("append_fifo", &call, &key, "*").await.ok();
        assert_eq!(again["replayed"], true, "{offset}: {again}");
        let found = ada.done("search_recall", &json!({"query": "3", "rehydrate": false})).await;
        assert!(found["result"]["results"].is_array(), "{found}");
    }
    let times: Vec<Value> =
        ada.messages().await.into_iter().map(|mut message| message["created_at"].take()).collect();
    let texts: Vec<&str> = times.iter().map(|time| time.as_str().expect("a time")).collect();
    assert!(texts.windows(2).all(|pair| pair[0] < pair[1]), "{texts:?}");
    assert!(server.said().contains("the system clock jumped"), "the clock did not step");
    let (first, last) = (iso8601(before), iso8601(SystemClock.unix_ms()));
    assert!(texts.iter().all(|text| (first.as_str()..=&last).contains(text)), "{texts:?}");
    let bell = ada.wire.get(&schedule).await.ok();
    assert_eq!((&bell["fired"], &bell["missed"]), (&json!(0), &json!(0)), "{bell}");
    check(&home, "vctx.sock", "ada", number).await;
}
