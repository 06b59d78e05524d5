//! Tests that an eviction is one stream transaction: all its writes have the same transaction id,
//! no reader sees a partial eviction, and no model is called inside the transaction.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::chance::setting;
use crate::count;
use crate::database::Database;
use crate::home::{Home, Process, Tuning};
use crate::model::{Model, SUMMARY};
use crate::proxy::{Exchange, Proxy};
use crate::talk::{Agent, key};

/// Maximum time until the scripted model receives a request.
const ASKED_MAX: Duration = Duration::from_secs(20);

/// The collections to which one call may write. The transaction of an eviction declares all of
/// them.
const DECLARED: [&str; 9] = [
    "cites",
    "core_memory",
    "core_versions",
    "derived_from",
    "idempotency",
    "memory_events",
    "messages",
    "pages",
    "recall_log",
];

/// An engine, a server, and a proxy on the read-write socket; the proxy records the requests.
pub(crate) struct Stage {
    pub(crate) home: Home,
    _engine: Process,
    pub(crate) server: Process,
    pub(crate) writes: Proxy,
    pub(crate) reads: Proxy,
}

impl Stage {
    pub(crate) async fn new(tuning: &Tuning) -> Stage {
        let home = Home::new();
        Stage::on(home, tuning).await
    }

    /// Starts engine, proxy and server in a directory that may contain data.
    pub(crate) async fn on(home: Home, tuning: &Tuning) -> Stage {
        let engine = home.engine().await;
        let writes = Proxy::start(&home.path("rw.sock"), &home.path("engine.sock"));
        let reads = Proxy::start(&home.path("ro.sock"), &home.path("engine-ro.sock"));
        let server = home.server("vctx.sock", "rw.sock", "ro.sock", tuning).await;
        Stage { home, _engine: engine, server, writes, reads }
    }

    pub(crate) async fn agent(&self, name: &str, window: u64) -> Agent {
        Agent::create(self.home.wire("vctx.sock"), name, window, "Be brief.").await
    }
}

/// Returns the names of the collections to which a query writes.
fn written(query: &str) -> BTreeSet<String> {
    let words: Vec<&str> = query.split_whitespace().collect();
    let into = words.windows(2).filter(|pair| pair[0] == "INTO");
    let within = words.windows(2).filter(|pair| pair[0] == "IN" && words.contains(&"UPDATE"));
    let names = into.chain(within).map(|pair| pair[1].trim_end_matches(')').to_owned());
    names.filter(|name| DECLARED.contains(&name.as_str())).collect()
}

/// Checks that the recorded requests of one evicting call form one transaction; returns the queries
/// inside it.
fn check_one_transaction(record: &[Exchange]) -> Vec<String> {
    let begin = &record[0];
    assert!(
        begin.method == "POST" && begin.path.ends_with("/_api/transaction/begin"),
        "{begin:#?}"
    );
    assert_eq!(begin.request["allowImplicit"], false, "{}", begin.request);
    assert_eq!(begin.request["waitForSync"], true, "{}", begin.request);
    let mut declared: Vec<&str> = begin.request["collections"]["write"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|name| name.as_str().expect("a name"))
        .collect();
    declared.sort_unstable();
    assert_eq!(declared, DECLARED);
    for other in ["read", "exclusive"] {
        let list = &begin.request["collections"][other];
        assert!(list.is_null() || list == &json!([]), "{other}: {list}");
    }
    let id = begin.reply["result"]["id"].as_str().expect("an id").to_owned();

    let mut texts = Vec::new();
    let inside = &record[1..record.len() - 2];
    for exchange in inside {
        assert!(exchange.is_query(), "{exchange:#?}");
        assert_eq!(
            exchange.transaction.as_deref(),
            Some(id.as_str()),
            "a write outside: {exchange:#?}"
        );
        texts.push(exchange.request["query"].as_str().expect("a query").to_owned());
    }
    let [commit, status] = &record[record.len() - 2..] else { panic!("no end: {record:#?}") };
    let path = format!("/_api/transaction/{id}");
    assert!(commit.method == "PUT" && commit.path.ends_with(&path), "{commit:#?}");
    assert_eq!(commit.reply["result"]["status"], "committed");
    assert!(status.method == "GET" && status.path.ends_with(&path), "{status:#?}");
    assert_eq!(status.reply["result"]["status"], "committed");
    texts
}

#[tokio::test(flavor = "multi_thread")]
async fn eviction_is_one_transaction() {
    let stage = Stage::new(&Tuning::default()).await;
    let ada = stage.agent("ada", 1024).await;
    let database = stage.home.database();
    let mut flushes = 0;
    for turn in 0..60 {
        stage.writes.clear();
        let before = database.counts().await;
        let body = if turn == 55 {
            ada.done("evict_fifo", &json!({"target_tokens": 100})).await
        } else {
            ada.append("user", format!("Turn {turn}: {}", count::words(30))).await
        };
        if body["flush"].is_null() {
            continue;
        }
        flushes += 1;
        let texts = check_one_transaction(&stage.writes.record());
        assert_eq!(texts.len(), 2, "edges, then everything else: {texts:#?}");
        let all: BTreeSet<String> = texts.iter().flat_map(|text| written(text)).collect();
        assert_eq!(all, DECLARED.map(str::to_owned).into());
        // The transaction contains all writes of the call: the edges, the core, the record of the
        // idempotency key, the events and the appended message.
        let after = database.counts().await;
        let grown = |name: &str| {
            after[name].as_u64().expect("a count") - before[name].as_u64().expect("a count")
        };
        assert_eq!(body["flush"]["evicted_count"], grown("recall"));
        assert_eq!(grown("idempotency"), 1);
        assert_eq!(grown("messages"), u64::from(turn != 55));
        assert_eq!(grown("versions"), 1, "the summary changed");
        assert!(grown("events") >= 3, "flush, summarize, audit");
    }
    assert!(flushes > 2, "{flushes} flushes");
}

/// Polls one agent with AQL until stopped, and checks that each read shows a consistent state.
async fn watch(database: Database, agent: &str, stop: Arc<AtomicBool>) -> (u64, BTreeSet<u64>) {
    let query = "FOR c IN core_memory FILTER c._key == @a
        LET seqs = (FOR m IN messages FILTER m.agent_id == @a SORT m.seq RETURN m.seq)
        LET last = FIRST(FOR m IN messages FILTER m.agent_id == @a SORT m.seq DESC LIMIT 1 RETURN m.chain)
        LET tokens = SUM(FOR m IN messages FILTER m.agent_id == @a AND m.seq >= c.queue.head_seq RETURN m.token_estimate)
        LET edges = (FOR e IN recall_log FILTER e._from == CONCAT('core_memory/', @a) SORT e.seq RETURN e.seq)
        LET audits = LENGTH(FOR e IN memory_events FILTER e.agent_id == @a AND e.type == 'audit' RETURN 1)
        LET records = LENGTH(FOR r IN idempotency FILTER r.agent_id == @a RETURN 1)
        RETURN { queue: c.queue, chain: c.chain, version: c.version, evicted: c.counters.evicted,
                 seqs, last, tokens, edges, audits, records }";
    let (mut looks, mut heads) = (0, BTreeSet::new());
    while !stop.load(Ordering::SeqCst) {
        let row = database.row(query, json!({"a": agent})).await;
        let (head, next) = (&row["queue"]["head_seq"], &row["queue"]["next_seq"]);
        let (head, next) = (head.as_u64().expect("a head"), next.as_u64().expect("a next"));
        let dense = |from: u64, to: u64| (from..to).map(Value::from).collect::<Vec<_>>();
        assert_eq!(row["seqs"], Value::from(dense(1, next)), "messages and core differ: {row}");
        assert_eq!(row["edges"], Value::from(dense(1, head)), "edges and head differ: {row}");
        assert_eq!(row["chain"]["length"], next - 1, "{row}");
        assert!(
            next == 1 || row["last"] == row["chain"]["head"],
            "chain and messages differ: {row}"
        );
        assert_eq!(row["tokens"].as_f64(), row["queue"]["tokens"].as_f64(), "{row}");
        assert_eq!(row["evicted"], head - 1, "{row}");
        assert_eq!(row["audits"], row["version"], "events and core differ: {row}");
        let records = row["records"].as_u64().expect("a count");
        assert_eq!(records + 1, row["version"].as_u64().expect("a version"), "{row}");
        looks += 1;
        heads.insert(head);
    }
    (looks, heads)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_independent_reader_never_sees_a_mixed_state() {
    let stage = Stage::new(&Tuning::default()).await;
    let ada = stage.agent("ada", 1024).await;
    let stop = Arc::new(AtomicBool::new(false));
    let watcher = tokio::spawn({
        let (database, stop) = (stage.home.database(), Arc::clone(&stop));
        async move { watch(database, "ada", stop).await }
    });
    for turn in 0..120 {
        ada.append("user", format!("Turn {turn}: {}", count::words(30))).await;
        assert!(!watcher.is_finished(), "the reader saw something");
    }
    stop.store(true, Ordering::SeqCst);
    let (looks, heads) = watcher.await.expect("the reader saw a whole state at every look");
    println!("{looks} looks, {} heads seen", heads.len());
    assert!(looks > 20 && heads.len() > 2, "{looks} looks, heads {heads:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_summariser_keeps_no_transaction_open_and_no_append_waiting() {
    let home = Home::new();
    let seconds = setting("VCTX_SLOW_MODEL_S", 8);
    let model = Model::start(&home.path("model.sock"), Duration::from_secs(seconds));
    let tuning = model.tuning(&home.path("vctx.toml"));
    let stage = Stage::on(home, &tuning).await;
    stage.server.expect("summary model failed; the local summary stands");
    let ada = stage.agent("ada", 16_384).await;
    for turn in 0..30 {
        ada.append("user", format!("Turn {turn}: {}", count::words(30))).await;
    }
    let evicting = tokio::spawn({
        let ada = ada.again();
        async move { ada.done("evict_fifo", &json!({"target_tokens": 400})).await }
    });
    let until = Instant::now() + ASKED_MAX;
    while model.asked() == 0 {
        assert!(Instant::now() < until && !evicting.is_finished(), "the model was never asked");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    // While the model works, no transaction is open, and fifty appends succeed.
    let database = stage.home.database();
    assert_eq!(database.open_transactions().await, Vec::<Value>::new());
    let begun = Instant::now();
    let appends: Vec<_> = (0..50)
        .map(|n| {
            let ada = ada.again();
            tokio::spawn(async move {
                let call = json!({"message": format!("meanwhile {n}"), "role": "user"});
                ada.tool("append_fifo", &call, &key(), "*").await.ok()
            })
        })
        .collect();
    let mut seqs = BTreeSet::new();
    for append in appends {
        let body = append.await.expect("an append");
        seqs.insert(body["receipt"]["seq"].as_u64().expect("a seq"));
    }
    let took = begun.elapsed();
    assert_eq!(seqs, (31..81).collect());
    assert_eq!(model.answered(), 0, "fifty appends took {took:?}, longer than the model");
    assert_eq!(database.open_transactions().await, Vec::<Value>::new());

    let evicted = evicting.await.expect("the eviction");
    assert_eq!(
        model.asked(),
        3,
        "what it says is far from what was said, so it is asked again, and no further"
    );
    assert_eq!(evicted["flush"]["first_seq"], 1);
    let state = ada.state().await;
    assert_ne!(state["summary"]["content"], SUMMARY, "far from what was said, so it is not used");
    assert_eq!(state["degraded"]["summary_model"]["reason"], "unlike");
    assert_eq!(ada.messages().await.len(), 80);
    stage.home.assert_verified("vctx.sock", "ada");
    println!("50 appends in {took:?} while the model thought for {seconds} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_flushes_never_waits_for_the_model() {
    let home = Home::new();
    let model = Model::start(&home.path("model.sock"), Duration::from_secs(20));
    let tuning = model.tuning(&home.path("vctx.toml"));
    let stage = Stage::on(home, &tuning).await;
    let ada = stage.agent("ada", 1024).await;
    for turn in 0..40 {
        ada.append("user", format!("Turn {turn}: {}", count::words(30))).await;
    }
    assert!(ada.state().await["counters"]["flushes"].as_u64().expect("a count") > 0);
    assert_eq!(model.answered(), 0);
}
