//! Tests a database that refuses writes: until writes succeed again, the server is not ready and
//! its core tier is reported as down.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::count;
use crate::home::{Home, TORN_TAIL, Tuning};
use crate::liar::{Liar, Told};
use crate::outside::needs_an_engine_of_its_own;
use crate::proxy::Exchange;
use crate::talk::{Agent, key};

/// Maximum number of polls, a tenth of a second apart, before a test fails.
const LOOKS_MAX: u32 = 300;
/// File size limit in bytes, which simulates a full disk: the engine's log stays below the limit,
/// but its journal exceeds it.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Maximum number of messages until the journal exceeds the limit; each message has more than 1
/// KiB.
const APPENDS_MAX: u32 = 200;

/// Settings of a server that probes its storage tiers often.
fn probing() -> Tuning {
    Tuning::variable("VCTX_CONVEYANCE__PROBE_MS", "500")
}

/// Waits until the metric of the core tier has the given value.
async fn wait_for_core(home: &Home, up: bool) {
    let line = format!(r#"vctx_tier_up{{tier="core"}} {}"#, u8::from(up));
    for _ in 0..LOOKS_MAX {
        let metrics = home.wire("vctx-metrics.sock").get("/metrics").await.text;
        if metrics.lines().any(|told| told == line) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the metrics never said {line}");
}

async fn append(ada: &Agent) -> crate::wire::Answer {
    append_with(ada, &key()).await
}

async fn append_with(ada: &Agent, key: &str) -> crate::wire::Answer {
    let message = json!({"role": "user", "message": count::words(200)});
    ada.tool("append_fifo", &message, key, "*").await
}

#[track_caller]
fn assert_not_ready(answer: crate::wire::Answer) {
    let told = answer.refused(503, "NOT_READY");
    let detail = told["detail"].as_str().expect("a detail");
    assert!(detail.contains("takes no writes"), "{detail}");
}

/// If `SIGXFSZ` is ignored, a write beyond `RLIMIT_FSIZE` fails like a write to a full disk
/// (setrlimit(2)).
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_engine_cannot_write_is_not_ready_until_it_can() {
    if needs_an_engine_of_its_own("limits the length of its files") {
        return;
    }
    let home = Home::new();
    let ignoring = ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"].map(str::to_owned).to_vec();
    let engine = home.engine_with(&Tuning { under: ignoring, ..Tuning::default() }).await;
    let server = home.server("vctx.sock", "engine.sock", "engine-ro.sock", &probing()).await;
    engine.expect("writing to the store failed");
    server.expect("call failed tool=\"append_fifo\"");
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 65_536, "Be brief.").await;
    append(&ada).await.ok();
    wait_for_core(&home, true).await;

    let id = i32::try_from(engine.id()).expect("a process id");
    let full = Some((FILE_BYTES_MAX, u64::MAX));
    rlimit::prlimit(id, rlimit::Resource::FSIZE, full, None).expect("a child of ours");
    let before = ada.messages().await.len();
    let mut appends = 0;
    let (first, failed) = loop {
        let key = key();
        let answer = append_with(&ada, &key).await;
        if answer.status != 200 {
            break (answer, key);
        }
        appends += 1;
        assert!(appends < APPENDS_MAX, "the engine still writes");
    };
    // The write may be durable in spite of the fault, so the answer must not say that it is not.
    assert!(first.headers.contains_key("retry-after"), "{}", first.text);
    let told = first.refused(503, "STORE_UNAVAILABLE");
    let detail = told["detail"].as_str().expect("a detail");
    assert!(detail.contains("unknown") && detail.contains("same key"), "{detail}");
    append(&ada).await.refused(503, "STORE_UNAVAILABLE");
    assert_not_ready(ada.wire.get("/readyz").await);
    wait_for_core(&home, false).await;
    let mode = home.database().call("GET", "/_admin/server/availability", &Value::Null).await;
    assert_eq!(mode.body["mode"], "readonly", "{}", mode.body);
    assert!(!ada.messages().await.is_empty(), "reading goes on");

    engine.kill();
    let engine = home.engine().await;
    // The restarted engine appends to the log of the first engine. The first engine has logged the
    // second of these texts.
    for text in [TORN_TAIL, "writing to the store failed"] {
        engine.expect(text);
    }
    wait_for_core(&home, true).await;
    assert_eq!(ada.wire.get("/readyz").await.ok()["status"], "ready");
    for _ in 0..2 {
        append_with(&ada, &failed).await.ok();
    }
    assert_eq!(
        ada.messages().await.len(),
        before + appends as usize + 1,
        "the write is there once"
    );
    append(&ada).await.ok();
    home.assert_verified("vctx.sock", "ada");
}

/// What the falsifying proxy does with the database's answers: whether writes are refused, and
/// which mode is reported.
const TRUE: u8 = 0;
const SAYS_READ_ONLY: u8 = 1;
const REFUSES_1004: u8 = 2;
const REFUSES_1104: u8 = 3;

fn refusal(status: u16, num: u16) -> Option<Told> {
    let text = "told";
    let body = json!({"error": true, "code": status, "errorNum": num, "errorMessage": text});
    Some(Told::new(status, body))
}

/// Whether a read-only database refuses the request, because it writes.
fn writes(exchange: &Exchange) -> bool {
    let text = exchange.request["query"].as_str().unwrap_or_default();
    let words = ["INSERT ", "UPDATE ", "UPSERT ", "REPLACE ", "REMOVE "];
    exchange.path.ends_with("/_api/transaction/begin")
        || exchange.is_query() && words.iter().any(|word| text.contains(word))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_a_read_only_database_is_not_ready_until_writes_are_taken() {
    let home = Home::new();
    let _engine = home.engine().await;
    let state = Arc::new(AtomicU8::new(TRUE));
    let seen = Arc::clone(&state);
    let _liar =
        Liar::instead(&home.path("l.sock"), &home.path("engine.sock"), move |exchange| match seen
            .load(Ordering::Relaxed)
        {
            SAYS_READ_ONLY if exchange.path.ends_with("/_admin/server/availability") => {
                let body = json!({"error": false, "code": 200, "mode": "readonly"});
                Some(Told::new(200, body))
            }
            REFUSES_1004 if writes(exchange) => refusal(403, 1004),
            REFUSES_1104 if writes(exchange) => refusal(500, 1104),
            _ => None,
        });
    let server = home.server("vctx.sock", "l.sock", "engine-ro.sock", &probing()).await;
    server.expect("call failed tool=\"append_fifo\"");
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 65_536, "Be brief.").await;
    wait_for_core(&home, true).await;

    // The server detects a read-only database by the mode that the database reports, without a
    // write.
    state.store(SAYS_READ_ONLY, Ordering::Relaxed);
    assert_not_ready(ada.wire.get("/readyz").await);
    wait_for_core(&home, false).await;
    state.store(TRUE, Ordering::Relaxed);
    ada.wire.get("/readyz").await.ok();
    wait_for_core(&home, true).await;

    // The server detects a read-only database by a refused write, and stays not ready until a write
    // succeeds.
    for refusing in [REFUSES_1004, REFUSES_1104] {
        state.store(refusing, Ordering::Relaxed);
        append(&ada).await.refused(503, "STORE_UNAVAILABLE");
        for _ in 0..2 {
            assert_not_ready(ada.wire.get("/readyz").await);
        }
        wait_for_core(&home, false).await;
        state.store(TRUE, Ordering::Relaxed);
        wait_for_core(&home, true).await;
        ada.wire.get("/readyz").await.ok();
        append(&ada).await.ok();
    }
    home.assert_verified("vctx.sock", "ada");
}
