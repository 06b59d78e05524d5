//! Tests durability: the engine answers a durable call only after an fdatasync of the call's data.
//! The test also checks that it would detect an engine without syncs.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use arango_embedded::http::{Auth, AuthSettings, Mode};
use arango_embedded::{Engine, Options};

use crate::count;
use crate::home::{Home, PASSWORD, Process, Tuning};
use crate::needs::left_out;
use crate::outside::needs_an_engine_of_its_own;
use crate::strace::{self, Call};
use crate::talk::Agent;

/// Environment variable that makes a test process an engine; its value is the engine's directory.
const ENGINE: &str = "IT_ENGINE_DIRECTORY";
/// Environment variable that disables syncs in the engine process.
const UNSYNCED: &str = "IT_ENGINE_UNSYNCED";
/// The `strace` filter: the system calls to trace.
const CALLS: &str = "trace=read,recvfrom,recvmsg,write,writev,sendto,sendmsg,pwrite64,pwritev,fdatasync,fsync,sync_file_range,msync";
/// Number of messages that one run appends.
const APPENDS: usize = 25;

fn reads(call: &Call, start: &str) -> bool {
    ["read", "recvfrom", "recvmsg"].contains(&call.name.as_str())
        && call.arguments.contains(&format!("\"{start}"))
}

fn writes(call: &Call) -> bool {
    ["write", "writev", "pwrite64", "pwritev"].contains(&call.name.as_str())
}

fn replies(call: &Call) -> bool {
    ["write", "writev", "sendto", "sendmsg"].contains(&call.name.as_str())
        && call.arguments.contains("\"HTTP/1.1 20")
}

/// What a system call trace shows about all durable calls.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    /// Number of calls that were answered with success.
    answered: usize,
    /// Number of successful calls whose data were synced before the answer.
    covered: usize,
}

/// Returns the turn number in a text of this test (`Turn 7: …`).
fn turn_in(text: &str) -> Option<&str> {
    let (number, _) = text.split_once("Turn ")?.1.split_once(':')?;
    number.bytes().all(|b| b.is_ascii_digit()).then_some(number)
}

/// Counts the answered calls and the covered calls in a system call trace. Examines each request
/// that begins with `start` and contains a turn number, and looks for the success answer on the
/// same connection. A call is covered if every journal write of its turn is followed by a sync that
/// began after the write and ended before the answer. Writes to other files are ignored, because
/// tables and segments are rebuilt from the journal.
fn judge(calls: &[Call], start: &str, data: &Path) -> Verdict {
    let data = data.to_str().expect("a plain path");
    let journal: Vec<&Call> = calls
        .iter()
        .filter(|call| call.file.starts_with(data) && call.file.ends_with(".jnl"))
        .collect();
    let mut verdict = Verdict::default();
    for request in calls.iter().filter(|call| reads(call, start)) {
        let reply = calls
            .iter()
            .find(|call| call.begun > request.ended && call.file == request.file && replies(call));
        let Some(reply) = reply else { continue };
        let of_request = |call: &&Call| {
            call.file == request.file && (request.begun..reply.begun).contains(&call.begun)
        };
        let Some(turn) = calls.iter().filter(of_request).find_map(|c| turn_in(&c.arguments)) else {
            continue;
        };
        verdict.answered += 1;
        let marker = format!("Turn {turn}:");
        let within = |call: &&&Call| call.begun > request.ended && call.begun < reply.begun;
        let written: Vec<&&Call> = journal
            .iter()
            .filter(within)
            .filter(|call| writes(call) && call.arguments.contains(&marker))
            .collect();
        let synced = |write: &&&Call| {
            journal.iter().any(|sync| {
                ["fdatasync", "fsync"].contains(&sync.name.as_str())
                    && sync.file == write.file
                    && sync.begun > write.ended
                    && sync.ended < reply.begun
                    && sync.result == Some(0)
            })
        };
        if !written.is_empty() && written.iter().all(synced) {
            verdict.covered += 1;
        }
    }
    verdict
}

/// Appends messages one after another, so that each append needs its own sync. In a small window
/// some appends evict.
async fn append_some(home: &Home, window: u64) {
    let ada = Agent::create(home.wire("vctx.sock"), "ada", window, "").await;
    for turn in 0..APPENDS {
        ada.append("user", format!("Turn {turn}: {}", count::words(80))).await;
    }
    let flushes = ada.state().await["counters"]["flushes"].as_u64().expect("a count");
    assert_eq!(flushes > 1, window < 2_000, "{flushes} flushes");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_the_server_comes_after_the_sync() {
    if needs_an_engine_of_its_own("traces its system calls") {
        return;
    }
    if !strace::can_trace() {
        left_out("processes cannot be traced here");
        return;
    }
    let home = Home::new();
    let trace = home.path("trace");
    let tuning = Tuning { under: strace::under(CALLS, &trace), ..Tuning::default() };
    let server = home.serve_with("vctx.sock", &tuning).await;
    append_some(&home, 1024).await;
    server.kill();
    strace::finished(&trace, server.id()).await;
    let start = "POST /v1/agents/ada/tools/append_fifo ";
    let verdict = judge(&strace::read(&trace), start, &home.path("data"));
    assert_eq!(verdict, Verdict { answered: APPENDS, covered: APPENDS });
}

/// Starts a copy of this test process as an engine under strace, with or without syncs. Then runs
/// appends on this engine, and judges the trace.
async fn judged_engine(sync: bool) -> Verdict {
    let home = Home::new();
    let trace = home.path("trace");
    let mut line = strace::under(CALLS, &trace);
    let mut command = Command::new(line.remove(0));
    command.args(line).arg(std::env::current_exe().expect("this program"));
    command.args(["--exact", "durability::an_engine_syncs_unless_a_test_says_no", "--nocapture"]);
    command.env(ENGINE, home.path("."));
    if !sync {
        command.env(UNSYNCED, "1");
    }
    let engine = Process::start(&home, "engine", command);
    engine.ready(&[home.path("engine.sock"), home.path("engine-ro.sock")], None).await;
    let server =
        home.server("vctx.sock", "engine.sock", "engine-ro.sock", &Tuning::default()).await;
    append_some(&home, 8192).await;
    drop(server);
    engine.kill();
    strace::finished(&trace, engine.id()).await;
    judge(&strace::read(&trace), "POST /_db/vctx/_api/cursor ", &home.path("data"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_the_engine_comes_after_the_sync_and_a_missing_sync_shows() {
    if needs_an_engine_of_its_own("traces its system calls") {
        return;
    }
    if !strace::can_trace() {
        left_out("processes cannot be traced here");
        return;
    }
    let good = judged_engine(true).await;
    assert!(good.answered >= APPENDS, "{good:?}");
    assert!(good.covered >= APPENDS, "{good:?}");
    let bad = judged_engine(false).await;
    assert!(bad.answered >= APPENDS, "{bad:?}");
    assert_eq!(bad.covered, 0, "an engine without sync must be found out");
}

/// Runs the engine process of these tests if the environment variable is set. The engine runs in a
/// test process, because the product has no switch that disables syncs.
#[tokio::test]
async fn an_engine_syncs_unless_a_test_says_no() {
    assert!(Options::default().sync, "sync is what nobody has to ask for");
    let Some(directory) = std::env::var_os(ENGINE).map(PathBuf::from) else { return };
    let sync = std::env::var_os(UNSYNCED).is_none();
    let options = Options { vector_index: true, sync, ..Options::default() };
    let engine = Engine::open(&directory.join("data"), options).expect("an engine");
    let settings = AuthSettings { root_password: PASSWORD.into(), jwt_secret: None };
    let auth = Auth::open(&engine, settings).expect("its users");
    let listen = |name: &str| UnixListener::bind(directory.join(name)).expect("a socket");
    let serve = |name: &str, mode| {
        let (engine, auth) = (engine.clone(), auth.clone());
        tokio::spawn(arango_embedded::http::serve(
            engine,
            listen(name),
            mode,
            auth,
            std::future::pending(),
        ))
    };
    let reads = serve("engine-ro.sock", Mode::ReadOnly);
    let writes = serve("engine.sock", Mode::ReadWrite);
    // The engine runs until the process is killed.
    drop((writes.await, reads.await));
}
