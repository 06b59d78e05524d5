//! Tests races: sixteen clients use one agent over two servers on one engine, and one server is
//! repeatedly killed and restarted. The agent's history must be linear, as if all calls had run one
//! after another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::chance::{Chance, rounds};
use crate::count;
use crate::home::{Home, Process, Tuning};
use crate::talk::{Agent, key};
use crate::wire::Answer;

/// Number of clients; half of them prefer one server, half the other.
const CLIENTS: u64 = 16;
/// Maximum time until one call has its final answer, including conflicts and kills.
const CALL_MAX: Duration = Duration::from_secs(90);
/// Name of the block in which all clients count; each client has its own line.
const BLOCK: &str = "counters";

/// Counts of stale revisions, of conflicts, of unanswered attempts and of kills.
#[derive(Default)]
struct Seen {
    stale: AtomicU64,
    conflicts: AtomicU64,
    unanswered: AtomicU64,
    kills: AtomicU64,
}

/// One client: its agent on both servers, and its log.
struct Client {
    number: u64,
    servers: [Agent; 2],
    /// The server that the client calls first; the client calls the other server only while the
    /// first server is dead.
    first: usize,
    chance: Chance,
    seen: Arc<Seen>,
    appended: Vec<String>,
    counted: u64,
    keys: u64,
}

impl Client {
    /// Repeats one call with the same key until it has a final answer. A status of 412 is final. If
    /// the server does not answer, the client sends the call to the other server.
    async fn call(&mut self, tool: &str, arguments: &Value, revision: &str) -> Answer {
        let key = key();
        let until = Instant::now() + CALL_MAX;
        let mut at = self.first;
        loop {
            assert!(Instant::now() < until, "client {}: {tool} is not answered", self.number);
            match self.servers[at].attempt(tool, arguments, &key, revision).await {
                Err(_) => {
                    self.seen.unanswered.fetch_add(1, Ordering::Relaxed);
                    at = 1 - at;
                }
                Ok(answer) if answer.status == 409 && answer.code() == "CONFLICT" => {
                    self.seen.conflicts.fetch_add(1, Ordering::Relaxed);
                }
                Ok(answer) if answer.status == 503 => {}
                Ok(answer) => {
                    self.keys += u64::from(answer.status == 200 && tool != "fetch_core");
                    return answer;
                }
            }
            tokio::time::sleep(Duration::from_millis(5 + self.chance.below(20))).await;
        }
    }

    /// Appends a message with the revision `*`, which must succeed.
    async fn append(&mut self, turn: u64) {
        let text = format!("client {} turn {turn} {}", self.number, count::words(10));
        let body = json!({"message": text, "role": "user"});
        self.call("append_fifo", &body, "*").await.ok();
        self.appended.push(text);
    }

    /// Increments the client's line of the shared block: reads the block, changes it, and writes it
    /// with the revision that it read.
    async fn count(&mut self) {
        let until = Instant::now() + CALL_MAX;
        loop {
            assert!(Instant::now() < until, "client {} never gets through", self.number);
            let read = self.call("fetch_core", &json!({"block_id": BLOCK}), "*").await.ok();
            let mut lines = counters(read["result"]["content"].as_str().expect("a text"));
            *lines.entry(self.number).or_default() += 1;
            let written: Vec<String> = lines.iter().map(|(who, n)| format!("{who}={n}")).collect();
            let body = json!({"block_id": BLOCK, "content": written.join("\n")});
            let revision = read["_rev"].as_str().expect("a revision").to_owned();
            let answer = self.call("store_core", &body, &revision).await;
            if answer.status == 200 {
                self.counted += 1;
                return;
            }
            let stale = answer.refused(412, "REVISION_STALE");
            assert!(stale["_rev"].is_string() && stale["changed"].is_array(), "{stale}");
            self.seen.stale.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(self.chance.below(10))).await;
        }
    }

    async fn run(mut self, turns: u64) -> Client {
        for turn in 0..turns {
            match self.chance.below(10) {
                0..6 => self.append(turn).await,
                6..9 => self.count().await,
                _ => {
                    self.call("evict_fifo", &json!({"target_tokens": 500}), "*").await.ok();
                }
            }
        }
        self
    }
}

fn counters(text: &str) -> BTreeMap<u64, u64> {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .map(|(who, n)| (who.parse().expect("a client"), n.parse().expect("a count")))
        .collect()
}

/// Kills and restarts a server until stopped; returns the server that runs at the end.
async fn torment(
    home: Arc<Home>,
    mut server: Process,
    seen: Arc<Seen>,
    stop: Arc<AtomicBool>,
) -> Process {
    let mut chance = Chance::new(99);
    while !stop.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(100 + chance.below(300))).await;
        server.kill();
        seen.kills.fetch_add(1, Ordering::Relaxed);
        server = home.server("b.sock", "engine.sock", "engine-ro.sock", &Tuning::default()).await;
    }
    server
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn sixteen_clients_on_two_servers_make_one_linear_history() {
    let home = Arc::new(Home::new());
    let _engine = home.engine().await;
    let _first = home.server("a.sock", "engine.sock", "engine-ro.sock", &Tuning::default()).await;
    let second = home.server("b.sock", "engine.sock", "engine-ro.sock", &Tuning::default()).await;
    let ada = Agent::create(home.wire("a.sock"), "ada", 4096, "Be brief.").await;
    ada.done("store_core", &json!({"block_id": BLOCK, "content": "0=0"})).await;

    let (seen, stop) = (Arc::<Seen>::default(), Arc::<AtomicBool>::default());
    let tormentor =
        tokio::spawn(torment(Arc::clone(&home), second, Arc::clone(&seen), Arc::clone(&stop)));
    let turns = rounds("VCTX_RACE_TURNS", 150);
    let begun = Instant::now();
    let clients: Vec<_> = (1..=CLIENTS)
        .map(|number| {
            let servers = ["a.sock", "b.sock"].map(|socket| Agent::at(home.wire(socket), "ada"));
            let first = usize::from(number % 2 == 0);
            let (chance, seen) = (Chance::new(number), Arc::clone(&seen));
            let client = Client {
                number,
                servers,
                first,
                chance,
                seen,
                appended: vec![],
                counted: 0,
                keys: 0,
            };
            tokio::spawn(client.run(turns))
        })
        .collect();
    let mut done = Vec::new();
    for client in clients {
        done.push(client.await.expect("a client met no spurious failure"));
    }
    let took = begun.elapsed();
    stop.store(true, Ordering::SeqCst);
    let _second = tormentor.await.expect("the second server");

    check_appends(&ada, &done).await;
    check_counters(&ada, &done).await;
    check_history(&home, &ada, &done).await;
    for socket in ["a.sock", "b.sock"] {
        home.assert_verified(socket, "ada");
    }
    let figure = |n: &AtomicU64| n.load(Ordering::Relaxed);
    println!(
        "{} calls in {took:?}: {} kills, {} unanswered, {} stale as told, {} conflicts given back",
        done.iter().map(|c| c.keys).sum::<u64>(),
        figure(&seen.kills),
        figure(&seen.unanswered),
        figure(&seen.stale),
        figure(&seen.conflicts)
    );
    assert!(figure(&seen.kills) > 1 && figure(&seen.stale) > 0, "nobody met anybody");
}

/// Checks that every message is stored once, and that the messages of each client are in order.
async fn check_appends(ada: &Agent, clients: &[Client]) {
    let messages = ada.messages().await;
    let all: Vec<&str> = messages.iter().map(|m| m["content"].as_str().expect("a text")).collect();
    for client in clients {
        let mine = format!("client {} ", client.number);
        let found: Vec<&&str> = all.iter().filter(|text| text.starts_with(&mine)).collect();
        assert_eq!(found, client.appended.iter().collect::<Vec<_>>(), "client {}", client.number);
    }
    assert_eq!(all.len(), clients.iter().map(|c| c.appended.len()).sum::<usize>());
}

/// Checks that no update is lost: each line of the block contains the number of its client's
/// updates.
async fn check_counters(ada: &Agent, clients: &[Client]) {
    let read = ada.done("fetch_core", &json!({"block_id": BLOCK})).await;
    let lines = counters(read["result"]["content"].as_str().expect("a text"));
    for client in clients {
        let found = lines.get(&client.number).copied().unwrap_or(0);
        assert_eq!(found, client.counted, "client {}", client.number);
    }
}

/// Checks that each version has one audit row, and that each row begins at the version at which the
/// previous one ended.
async fn check_history(home: &Home, ada: &Agent, clients: &[Client]) {
    let query = "FOR e IN memory_events FILTER e.agent_id == 'ada' AND e.type == 'audit'
        SORT e.details.version_after RETURN e.details";
    let rows = home.database().rows(query, json!({})).await;
    let version = ada.state().await["version"].as_u64().expect("a version");
    assert_eq!(rows.len() as u64, version);
    for (row, after) in rows.iter().zip(1..) {
        assert_eq!(
            (&row["version_after"], &row["version_before"]),
            (&json!(after), &json!(after - 1))
        );
    }
    for pair in rows.windows(2) {
        if pair[1]["tokens_before"].is_object() {
            assert_eq!(
                pair[1]["tokens_before"], pair[0]["tokens_after"],
                "versions that do not follow"
            );
        }
    }
    let hashes: BTreeSet<&str> = rows.iter().filter_map(|row| row["key_hash"].as_str()).collect();
    let calls: u64 = clients.iter().map(|client| client.keys).sum();
    assert_eq!(hashes.len() as u64, calls + 1, "one write for each key, and the block's first");
}
