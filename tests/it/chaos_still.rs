//! Tests processes that stand still, that have few file descriptors, and that die again and again:
//! nothing is lost or doubled, and the server says truthfully whether it is ready.

use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use crate::chance::{Chance, rounds, setting};
use crate::home::{Home, Process, TORN_TAIL, Tuning};
use crate::outside::needs_an_engine_of_its_own;
use crate::talk::{Agent, said};

/// Time for which a process stands still.
const STILL: Duration = Duration::from_secs(20);
/// Number of calls that are made while a process stands still.
const CALLS: u64 = 30;
/// Maximum time until a call is answered.
const CALL_MAX: Duration = Duration::from_secs(120);
/// Number of lives of the server, of which the first lasts until a message is taken.
const LIVES: u64 = 8;
/// Exit code of a command that asks to try again later.
const TRY_AGAIN: i32 = 75;
/// Pause before a failed call is repeated.
const PAUSE: Duration = Duration::from_millis(20);

fn signal(process: &Process, name: &str) {
    let sent = Command::new("kill").args([name, &process.id().to_string()]).status();
    assert!(sent.expect("kill runs").success(), "{name}");
}

/// Appends a message; repeats the call with the same key until it succeeds.
async fn append(home: &Home, number: u64) {
    let until = Instant::now() + CALL_MAX;
    loop {
        let ada = Agent::at(home.wire("vctx.sock"), "ada");
        let call = json!({"message": format!("{number}"), "role": "user"});
        let answer = ada.attempt("append_fifo", &call, &format!("said-{number}"), "*").await;
        if answer.is_ok_and(|answer| answer.status == 200) {
            return;
        }
        assert!(Instant::now() < until, "message {number} is not taken");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Checks that each of the messages is stored once, and that `vctx verify` passes.
async fn check(home: &Home, count: u64) {
    let ada = Agent::at(home.wire("vctx.sock"), "ada");
    let mut numbers: Vec<u64> = said(&ada.messages().await)
        .into_iter()
        .filter(|(role, _)| role == "user")
        .map(|(_, text)| text.parse().expect("a number"))
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..count).collect::<Vec<u64>>());
    home.assert_verified("vctx.sock", "ada");
}

async fn ready(home: &Home) -> Option<u16> {
    home.wire("vctx.sock").try_call("GET", "/readyz", &[], "").await.ok().map(|a| a.status)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_or_a_server_that_stands_still_for_a_while_loses_and_doubles_nothing() {
    if needs_an_engine_of_its_own("stops it for a while") {
        return;
    }
    let home = Arc::new(Home::new());
    let engine = home.engine().await;
    let usual = Tuning::default();
    let server = home.server("vctx.sock", "engine.sock", "engine-ro.sock", &usual).await;
    for text in ["failed", "database", "transaction"] {
        server.expect(text);
    }
    Agent::create(home.wire("vctx.sock"), "ada", 4_096, "Count.").await;
    let mut count = 0;
    for still in [&engine, &server] {
        signal(still, "-STOP");
        let mut calls = JoinSet::new();
        for number in count..count + CALLS {
            let home = Arc::clone(&home);
            calls.spawn(async move { append(&home, number).await });
        }
        count += CALLS;
        let begun = Instant::now();
        if still.id() == engine.id() {
            // The server itself answers; it must not say that it is ready.
            assert_ne!(ready(&home).await, Some(200), "the database does not answer");
        }
        tokio::time::sleep(STILL.saturating_sub(begun.elapsed())).await;
        signal(still, "-CONT");
        calls.join_all().await;
        assert_eq!(ready(&home).await, Some(200));
        check(&home, count).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn few_descriptors_keep_nobody_out_for_good() {
    for files in [64, 100] {
        let home = Arc::new(Home::new());
        let under = ["prlimit".to_owned(), format!("--nofile={files}:{files}")].into();
        let tuning = Tuning { under, ..Tuning::default() };
        let server = home.serve_with("vctx.sock", &tuning).await;
        for text in ["open files", "failed"] {
            server.expect(text);
        }
        Agent::create(home.wire("vctx.sock"), "ada", 4_096, "Count.").await;
        append(&home, 0).await;
        let idle: Vec<UnixStream> =
            (0..400).map_while(|_| UnixStream::connect(home.path("vctx.sock")).ok()).collect();
        assert!(idle.len() > files, "the test takes no descriptors");
        drop(idle);
        for number in 1..20 {
            append(&home, number).await;
        }
        assert!(server.ended().is_none(), "{files} files");
        assert_eq!(ready(&home).await, Some(200), "{files} files");
        until_verify_answers(&home).await;
        check(&home, 20).await;
    }
}

/// Waits until the server has closed enough connections of clients that are gone, so that
/// `vctx verify` gets an answer.
async fn until_verify_answers(home: &Home) {
    let socket = home.path("vctx.sock");
    let socket = socket.to_str().expect("a plain path");
    let until = Instant::now() + CALL_MAX;
    while home.run(&["verify", "--agent", "ada", "--socket", socket]).status.code()
        == Some(TRY_AGAIN)
    {
        assert!(Instant::now() < until, "verify is not answered");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Kills the server (with its engine) again and again while a client appends messages.
#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_kills_lose_and_double_nothing() {
    if needs_an_engine_of_its_own("kills it") {
        return;
    }
    let (kills, seed) = (rounds("CHAOS_KILLS", 500), setting("CHAOS_SEED", 7));
    println!("CHAOS_KILLS={kills} CHAOS_SEED={seed}");
    let home = Arc::new(Home::new());
    let mut server = home.serve().await;
    Agent::create(home.wire("vctx.sock"), "ada", 2_048, "Count.").await;
    let (stop, mut stopped) = tokio::sync::watch::channel(false);
    let taken = Arc::<AtomicU64>::default();
    let talking = {
        let (home, taken) = (Arc::clone(&home), Arc::clone(&taken));
        tokio::spawn(async move {
            let mut number = 0;
            while !*stopped.borrow_and_update() {
                append(&home, number).await;
                number += 1;
                taken.store(number, Ordering::Relaxed);
            }
            number
        })
    };
    let mut chance = Chance::new(seed);
    for kill in 0..kills {
        // On a busy machine, a server that lives only for some milliseconds takes no message.
        let (before, until) = (taken.load(Ordering::Relaxed), Instant::now() + CALL_MAX);
        while kill % LIVES == 0 && taken.load(Ordering::Relaxed) == before {
            assert!(Instant::now() < until, "no message is taken");
            tokio::time::sleep(PAUSE).await;
        }
        tokio::time::sleep(Duration::from_millis(chance.below(60))).await;
        server.kill();
        server = home.serve().await;
        for text in [TORN_TAIL, "failed"] {
            server.expect(text);
        }
    }
    stop.send_replace(true);
    let count = talking.await.expect("the client succeeds");
    println!("{count} messages");
    check(&home, count).await;
    assert_eq!(ready(&home).await, Some(200));
}
