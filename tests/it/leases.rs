//! Tests that a lease is not valid if it ends later than a lease can, because a clock was wrong
//! when the lease was taken, and that a schedule is not silent for such a time.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::database::Database;
use crate::home::{Home, Tuning};
use crate::talk::Agent;
use vctx::clock::{Clock as _, SystemClock};

/// Duration of a lease in these tests, in milliseconds.
const LEASE_MS: u64 = 10_000;
/// How far a wrong clock was ahead, in milliseconds.
const AHEAD_MS: u64 = 8 * 24 * 3_600 * 1_000;

/// Maximum time that a test waits for background work, even on a busy machine.
const LOOK_MAX: Duration = Duration::from_secs(60);
/// Pause between two polls.
const LOOK: Duration = Duration::from_millis(50);

/// When another server's lease ends, relative to now, and whether the lease is valid.
const ENDS: [(i64, bool); 3] = [(-1_000, false), (5_000, true), (AHEAD_MS as i64, false)];

fn query(name: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/aql");
    std::fs::read_to_string(format!("{path}/{name}.aql")).expect("a query")
}

/// Returns the rows of one of the server's queries.
async fn run(database: &Database, name: &str, binds: Value) -> Vec<Value> {
    database.rows(&query(name), binds).await
}

/// Stores a row under its key.
async fn put(database: &Database, collection: &str, row: &Value) {
    let text = "INSERT @row INTO @@c OPTIONS { overwriteMode: 'replace' } RETURN 1";
    database.row(text, json!({"row": row, "@c": collection})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ends_later_than_a_lease_can_is_not_valid() {
    let home = Home::new();
    let _engine = home.engine().await;
    let usual = Tuning::default();
    let server = home.server("vctx.sock", "engine.sock", "engine-ro.sock", &usual).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 65_536, "Be brief.").await;
    let tide = json!({"every_ms": 3_600_000, "content": "Go."});
    ada.wire.put(&format!("{}/schedules/tide", ada.path()), &tide).await.ok();
    // A running server would take over the leases of this test.
    assert!(server.stop().await.success());
    let database = home.database();
    for (ends, valid) in ENDS {
        let now_ms = SystemClock.unix_ms();
        let until_ms = now_ms.saturating_add_signed(ends);

        let row = json!({"_key": "ada", "agent_id": "ada", "tenant": "", "place": "home",
            "moving": {"from": "home", "to": "east", "phase": "copy", "by": "other", "until_ms": until_ms}});
        put(&database, "directory", &row).await;
        let due = run(&database, "directory_due", json!({"limit": 9, "lease_ms": LEASE_MS})).await;
        assert_eq!(due.is_empty(), valid, "a move {ends} ms: {due:?}");
        assert!(due.iter().all(|one| one["late_ms"].as_f64() >= Some(0.0)), "{due:?}");
        let binds = json!({"scope": "ada", "to": "east", "home": "home", "by": "we",
            "lease_ms": LEASE_MS, "sync": false});
        let begun = run(&database, "directory_begin", binds).await;
        assert_eq!(begun[0]["moving"].is_null(), valid, "a move {ends} ms: {begun:?}");

        let mark = json!({"_key": "import:bea", "agent_id": "bea", "by": "other",
            "until_ms": until_ms, "state": "s", "rows": 0});
        put(&database, "vctx_meta", &mark).await;
        let binds = json!({"scope": "bea", "mark_key": "import:bea", "tombstone": "t", "by": "we",
            "now_ms": now_ms, "until_ms": now_ms + LEASE_MS, "moving": false, "state": "s",
            "first_key": "bea:1", "sync": false});
        let begun = run(&database, "import_begin", binds).await;
        assert_eq!(begun[0]["taken"], !valid, "an import {ends} ms: {begun:?}");

        let row = json!({"_key": "ada", "claim": {"by": "other", "until_ms": until_ms}});
        put(&database, "recall_marks", &row).await;
        let claim = json!({"by": "we", "until_ms": now_ms + LEASE_MS});
        let binds = json!({"scope": "ada", "claim": claim, "now_ms": now_ms, "sync": false});
        let claimed = run(&database, "recall_mark_claim", binds).await;
        assert_eq!(claimed.is_empty(), valid, "vectors {ends} ms: {claimed:?}");

        let running = json!({"key": "run", "owner": "other", "until_ms": until_ms});
        let open = "FOR s IN schedules UPDATE s WITH { running: @running } IN schedules RETURN 1";
        database.row(open, json!({"running": running})).await;
        let due = run(&database, "schedule_due", json!({"limit": 9, "lease_ms": LEASE_MS})).await;
        assert_eq!(due[0]["cut"].as_array().map(Vec::is_empty), Some(valid), "a tick {ends} ms");
        let binds = json!({"scope": "ada", "name": "tide", "run": "run", "owner": "we",
            "lease_ms": LEASE_MS, "sync": false});
        let claimed = run(&database, "schedule_claim", binds).await;
        assert_eq!(claimed.is_empty(), valid, "a tick {ends} ms: {claimed:?}");

        let open = "UPDATE 'ada' WITH { run: { id: 'r', owner: 'o', cause_seq: 1, started_ms: 1, until_ms: @until_ms } } IN core_memory RETURN 1";
        database.row(open, json!({"until_ms": until_ms})).await;
        let binds = json!({"now_ms": now_ms, "latest_ms": now_ms + 3_600_000, "limit": 9});
        let expired = run(&database, "core_expired_runs", binds).await;
        assert_eq!(expired.is_empty(), valid, "a run {ends} ms: {expired:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeating_schedule_far_ahead_is_not_silent_until_then() {
    let home = Home::new();
    let _engine = home.engine().await;
    let usual = Tuning::default();
    let server = home.server("vctx.sock", "engine.sock", "engine-ro.sock", &usual).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 65_536, "Be brief.").await;
    let at = vctx::clock::iso8601(SystemClock.unix_ms() + AHEAD_MS);
    for (name, schedule) in [
        ("tide", json!({"every_ms": 60_000, "content": "Go."})),
        ("week", json!({"every_ms": AHEAD_MS, "content": "Go."})),
        ("once", json!({"at": at, "content": "Go."})),
    ] {
        ada.wire.put(&format!("{}/schedules/{name}", ada.path()), &schedule).await.ok();
    }
    assert!(server.stop().await.success());
    drop(server);
    let ahead = "FOR s IN schedules FILTER s.name == 'tide'
        UPDATE s WITH { due_ms: s.due_ms + @ms, look_ms: s.look_ms + @ms } IN schedules RETURN 1";
    let database = home.database();
    database.row(ahead, json!({"ms": AHEAD_MS})).await;
    let ticks = "RETURN MERGE(FOR s IN schedules RETURN { [s.name]: s.due_ms })";
    let listed = database.row(ticks, json!({})).await;

    let server = home.server("vctx.sock", "engine.sock", "engine-ro.sock", &usual).await;
    server.expect("schedules were far ahead");
    let until = Instant::now() + LOOK_MAX;
    let soon = loop {
        let now = database.row(ticks, json!({})).await;
        if now["tide"] != listed["tide"] {
            break now;
        }
        assert!(Instant::now() < until, "the schedule stays silent: {now}");
        tokio::time::sleep(LOOK).await;
    };
    assert!(soon["tide"].as_u64() <= Some(SystemClock.unix_ms() + 60_000), "{soon}");
    assert_eq!((&soon["week"], &soon["once"]), (&listed["week"], &listed["once"]));
}
