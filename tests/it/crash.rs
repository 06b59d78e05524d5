//! Tests crashes: the server, the engine or both get SIGKILL at the n-th byte of the traffic
//! between them. After restart and retries, no write is lost, doubled or partial.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::archival::circle;
use crate::chance::{Chance, rounds, setting};
use crate::count;
use crate::database::Database;
use crate::killer::{Stage, Victim, choose, somebody_dies};
use crate::outside::outside;
use crate::proxy::Phase;
use crate::talk::{Agent, said};
use crate::truths::{
    Logged, assert_archive, assert_chains, assert_log, assert_no_dead_chain, assert_vectors,
    assert_view,
};

/// Maximum time until one call is answered, including a restart.
const CALL_MAX: Duration = Duration::from_secs(60);
/// Pause before an unanswered call is repeated.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of calls of a round until the traffic reaches the byte at which a process is
/// killed.
const CALLS_PER_ROUND_MAX: usize = 80;
/// Length of the cycle of calls, which contains every writing tool.
const MIX: usize = 20;
/// Number of documents that are ingested repeatedly.
const DOCUMENTS: u64 = 3;
/// Maximum number of words that the test searches for at the end; these are the latest words.
const WORDS_MAX: usize = 60;
/// Number of rounds after which the test waits until the server has ended the heartbeat chains that
/// killed processes left.
const SWEEP_ROUNDS: u64 = 5;
/// Number of rounds of a full run.
const FULL_ROUNDS: u64 = 20;

/// One call in the client's log.
struct Sent {
    key: String,
    tool: &'static str,
    arguments: Value,
    answer: Value,
}

/// Returns a word that only the text of this call contains.
fn word(call: usize) -> String {
    format!("mark{call}x")
}

/// The state of a run: processes, the client's own log, and the phases in which a kill happened.
struct Story {
    stage: Stage,
    ada: Agent,
    log: Vec<Sent>,
    hits: BTreeMap<(Phase, Victim), u64>,
    retried: u64,
    replayed: u64,
    /// Whether at least one round ended with a vector index, which the test then compared with the
    /// documents.
    compared: bool,
}

impl Story {
    async fn begin() -> Story {
        let stage = Stage::new().await;
        let ada = Agent::create(stage.home.wire("vctx.sock"), "ada", 1024, "Be brief.").await;
        // The limits are so low that chains soon end by depth, or by duration while a process is
        // dead. No other limit refuses heartbeats.
        let limits = json!({"heartbeat": {"rps_limit": 64, "cooldown_ms": 0, "floor_tokens": 0, "max_chain_depth": 3,
            "max_chain_duration_ms": 400}});
        let headers = [("idempotency-key", "limits"), ("if-match", "*")];
        ada.wire.call("PATCH", &ada.path(), &headers, limits.to_string()).await.ok();
        let (log, hits) = (Vec::new(), BTreeMap::new());
        Story { stage, ada, log, hits, retried: 0, replayed: 0, compared: false }
    }

    /// Returns the next call of a round. The calls use every writing tool, page through searches,
    /// and evict.
    fn next(&self, round: u64, at: usize) -> (&'static str, Value) {
        let call = self.log.len();
        let text = format!("round {round} {}: {} 🦀", word(call), count::words(12));
        match at % MIX {
            0..4 | 5..7 | 14..16 => ("append_fifo", json!({"message": text, "role": "user"})),
            4 => ("store_core", json!({"block_id": "plan", "content": text})),
            7 => ("write_recall", json!({"entries": [{"content": text}, {"content": "and more"}]})),
            8 | 17 => ("evict_fifo", json!({"target_tokens": 200})),
            9 => (
                "append_fifo",
                json!({"message": {"content": text, "name": "Mate"}, "role": "assistant"}),
            ),
            10 => ("search_recall", json!({"query": "round", "limit": 2, "heartbeat": true})),
            11 | 12 => ("search_recall", self.next_page("search_recall")),
            13 | 16 => {
                let from = u32::try_from(call * 7 % 300).expect("an angle");
                let name = format!("d{}", (round + at as u64) % DOCUMENTS);
                ("ingest_archival", circle(&name, from, 28 + from % 5, "cosine"))
            }
            18 => (
                "search_archival",
                json!({"query_vector": [0.6, 0.8], "limit": 40, "heartbeat": true}),
            ),
            _ => (
                "record_heartbeat",
                json!({"state": if round.is_multiple_of(3) { "yield" } else { "continue" }}),
            ),
        }
    }

    /// Returns the arguments of the last search, with the token for its next page if there was one.
    fn next_page(&self, tool: &str) -> Value {
        let last = self.log.iter().rev().find(|sent| sent.tool == tool).expect("a search");
        let mut arguments = last.arguments.clone();
        arguments["page_token"] = last.answer["result"]["next_page_token"].clone();
        arguments
    }

    /// Repeats a call with the same key until it is answered; restarts dead processes meanwhile.
    async fn call(&mut self, tool: &'static str, arguments: Value, stream: bool) {
        let key = format!("crash-{}", self.log.len());
        let until = Instant::now() + CALL_MAX;
        let mut sent = 0;
        let answer = loop {
            assert!(Instant::now() < until, "{tool} {key} is not answered within {CALL_MAX:?}");
            sent += 1;
            let attempt = self.ada.attempt(tool, &arguments, &key, "*");
            // A running server retries by itself when the engine is available again; a dead server
            // must be restarted here.
            let answer = tokio::select! {
                answer = attempt => answer,
                () = somebody_dies(&self.stage) => {
                    self.stage.revive(stream).await;
                    continue;
                }
            };
            match answer {
                Ok(answer) if answer.status == 200 => break answer.body,
                Ok(answer) => assert_eq!(answer.status, 503, "{tool}: {}", answer.text),
                // The call got no answer, because a process died. In the next iteration of this
                // loop, the branch above restarts the dead processes.
                Err(_) => {}
            }
            tokio::time::sleep(PAUSE).await;
        };
        self.retried += u64::from(sent > 1);
        self.replayed += u64::from(answer["replayed"] == true);
        self.log.push(Sent { key, tool, arguments, answer });
    }

    /// Sends an ingest without late chunking, which is refused and must store no chunk.
    async fn refused(&self) {
        let mut naive = circle("naive", 0, 30, "cosine");
        naive["late_chunking"]["mode"] = "naive".into();
        let key = format!("naive-{}", self.log.len());
        let answer = self.ada.tool("ingest_archival", &naive, &key, "*").await;
        answer.refused(422, "LATE_CHUNKING_REQUIRED");
    }

    /// Runs one round: sends calls until a process is killed, and then sends a few more calls.
    async fn round(&mut self, round: u64, victim: Victim, stream: bool) {
        for at in 0..CALLS_PER_ROUND_MAX {
            let (tool, arguments) = self.next(round, at);
            self.call(tool, arguments, stream).await;
            let hit = self.stage.hit.lock().expect("a phase").take();
            if let Some(phase) = hit {
                *self.hits.entry((phase, victim)).or_default() += 1;
                self.stage.revive(stream).await;
                self.refused().await;
                let (tool, arguments) = self.next(round, at + 1);
                self.call(tool, arguments, stream).await;
                return;
            }
        }
        panic!(
            "round {round}: that byte did not come in {CALLS_PER_ROUND_MAX} calls, only {:?}",
            self.stage.writes.bytes()
        );
    }

    /// Compares the server's messages and the rows of the database with the client's log.
    async fn check(&mut self) {
        let messages = self.ada.messages().await;
        let seqs: Vec<u64> = messages.iter().map(|m| m["seq"].as_u64().expect("a seq")).collect();
        assert_eq!(seqs, (1..=messages.len() as u64).collect::<Vec<_>>());
        let of =
            |kind: &str| messages.iter().filter(|m| m["kind"] == kind).cloned().collect::<Vec<_>>();
        let (copies, spooled) = (of("copy"), of("spool"));
        let own: Vec<Value> = messages
            .iter()
            .filter(|m| m["kind"] != "copy" && m["kind"] != "spool")
            .cloned()
            .collect();
        assert_eq!(said(&own), self.expected());
        assert_eq!(copies.len(), self.told("copy_seq"), "a copy for each that was told of");
        assert!(copies.iter().all(|m| m["logged"] == false), "a copy was logged");
        let state = self.ada.state().await;
        let plan = self.log.iter().rev().find(|sent| sent.tool == "store_core");
        if let Some(plan) = plan {
            assert_eq!(state["blocks"][0]["content"], plan.arguments["content"]);
        }
        let database = self.stage.home.database();
        let logged = assert_log(&database, "ada").await;
        let written = of("recall").len();
        assert_eq!(logged, Logged { evicted: logged.evicted, written, spooled: spooled.len() });
        let entries = self.log.iter().filter(|sent| sent.tool == "write_recall").count() * 2;
        let spools = self.log.iter().filter_map(|sent| sent.answer["result"]["spooled"].as_array());
        assert_eq!((written, spooled.len()), (entries, spools.map(Vec::len).sum()));
        self.check_history(&database).await;
        assert_archive(&database).await;
        self.check_documents(&database).await;
        self.compared |= assert_vectors(&database, &json!([0.6, 0.8])).await;
        // The latest words must be in recall storage or still in the queue.
        let last: Vec<String> =
            (self.log.len().saturating_sub(3)..self.log.len()).map(word).collect();
        assert_view(&database, "ada", &last.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }

    /// Checks that the audit log has one row for each call and for each heartbeat chain that a
    /// server ended, and that the versions in these rows are consecutive.
    async fn check_history(&self, database: &Database) {
        let swept = assert_chains(database, "ada").await;
        let query =
            "LET audits = (FOR e IN memory_events FILTER e.agent_id == 'ada' AND e.type == 'audit'
              SORT e.details.version_after RETURN e.details.version_after)
            LET records = LENGTH(FOR r IN idempotency FILTER r.agent_id == 'ada' RETURN 1)
            LET swept = LENGTH(FOR e IN memory_events FILTER e.agent_id == 'ada' AND e.type == 'hb_end' AND e.details.closed_by == 'sweep' RETURN 1)
            RETURN { audits, records, swept, version: DOCUMENT('core_memory/ada').version }";
        let row = database.row(query, json!({})).await;
        let version = row["version"].as_u64().expect("a version");
        let (later, calls) = (row["swept"].as_u64().expect("a number"), self.log.len() as u64);
        assert!(later >= swept);
        assert_eq!(row["audits"], json!((1..=version).collect::<Vec<_>>()), "a linear history");
        // Two further versions come from the creation of the agent, which is a call without an
        // idempotency key, and from the change of the agent's limits.
        assert_eq!(row["records"], 1 + calls + later, "one record for each call");
        assert_eq!(version, 2 + calls + later, "one write for each call");
    }

    /// Checks that each document equals its last ingest.
    async fn check_documents(&self, database: &Database) {
        for number in 0..DOCUMENTS {
            let name = format!("d{number}");
            let last = self.log.iter().rev().find(|s| s.arguments["doc_id"] == name.as_str());
            let query =
                "FOR d IN archival_docs FILTER d.doc_id == @name SORT d.index RETURN d.text";
            let found = database.rows(query, json!({"name": name})).await;
            assert_eq!(
                json!(found),
                last.map_or(json!([]), |s| s.arguments["chunks"].clone()),
                "{name}"
            );
        }
    }

    /// Ingests every document again, so that there are enough chunks for a vector index; if the
    /// index is then built, compares it with the documents.
    async fn index(&mut self) {
        for number in 0..DOCUMENTS {
            let document = circle(&format!("d{number}"), 0, 30, "cosine");
            self.call("ingest_archival", document, false).await;
        }
        let until = Instant::now() + CALL_MAX;
        let database = self.stage.home.database();
        while !assert_vectors(&database, &json!([0.6, 0.8])).await {
            assert!(Instant::now() < until, "no vector index within {CALL_MAX:?}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Counts the distinct numbers that the field `name` has in the results of all recall searches.
    fn told(&self, name: &str) -> usize {
        let answers = self.log.iter().filter(|sent| sent.tool == "search_recall");
        let results =
            answers.flat_map(|sent| sent.answer["result"]["results"].as_array().expect("results"));
        results.filter_map(|r| r[name].as_u64()).collect::<BTreeSet<u64>>().len()
    }

    /// Checks that the view and a search find every word in its own message and in no other.
    async fn check_words(&self) {
        let words: Vec<String> = (0..self.log.len()).map(word).collect();
        let database = self.stage.home.database();
        assert_view(&database, "ada", &words.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let logged =
            "FOR e IN recall_log FILTER e._from == 'core_memory/ada' RETURN e.payload.content";
        let logged = json!(database.rows(logged, json!({})).await).to_string();
        for word in words.iter().rev().take(WORDS_MAX) {
            let asked = json!({"query": word, "rehydrate": false});
            let found = self.ada.done("search_recall", &asked).await["result"]["results"].clone();
            let there = usize::from(logged.contains(word.as_str()));
            // The result may also list neighbouring messages, after the message itself.
            let results = found.as_array().expect("results").iter().enumerate();
            let holds = |(_, r): &(usize, &Value)| {
                r["content"].as_str().is_some_and(|t| t.contains(word.as_str()))
            };
            let (queued, left): (Vec<_>, Vec<_>) =
                results.filter(holds).partition(|(_, result)| result["in_window"] == true);
            let places: Vec<usize> = left.iter().map(|(place, _)| *place).collect();
            assert_eq!(places, vec![0; there], "{word}: {found}");
            assert!(queued.len() <= 1 - there, "{word}: {found}");
        }
    }

    fn expected(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let mut all = Vec::new();
        for sent in &self.log {
            let arguments = &sent.arguments;
            match sent.tool {
                "append_fifo" => {
                    let message = &arguments["message"];
                    let content =
                        message.as_str().map_or_else(|| text(&message["content"]), str::to_owned);
                    all.push((text(&arguments["role"]), content));
                }
                "write_recall" => all.extend(
                    arguments["entries"]
                        .as_array()
                        .expect("entries")
                        .iter()
                        .map(|entry| ("assistant".into(), text(&entry["content"]))),
                ),
                _ => {}
            }
        }
        all
    }

    /// Repeats every call with its key, and checks that it returns the stored answer and has no
    /// second effect.
    async fn check_replays(&self) {
        for sent in &self.log {
            let mut again = self.ada.tool(sent.tool, &sent.arguments, &sent.key, "*").await.ok();
            assert_eq!(again["replayed"], true, "{}", sent.key);
            again["replayed"] = sent.answer["replayed"].clone();
            assert_eq!(again, sent.answer, "{}", sent.key);
        }
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: u64 = self.hits.values().sum();
        writeln!(
            f,
            "{all} kills, {} calls, {} sent again, {} of them replayed",
            self.log.len(),
            self.retried,
            self.replayed
        )?;
        for ((phase, victim), count) in &self.hits {
            writeln!(f, "  {:<22} {:<8} {count:>4}", format!("{phase:?}"), format!("{victim:?}"))?;
        }
        Ok(())
    }
}

impl Story {
    fn share(&self, phases: &[Phase]) -> f64 {
        let of = |wanted: &dyn Fn(&Phase) -> bool| -> u64 {
            self.hits.iter().filter(|((phase, _), _)| wanted(phase)).map(|(_, n)| *n).sum()
        };
        let (hit, all) = (of(&|phase| phases.contains(phase)), of(&|_| true));
        #[allow(clippy::cast_precision_loss, reason = "a few hundred kills")]
        let share = hit as f64 / all as f64;
        share
    }
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_doubled_or_half_done_whoever_is_killed_when() {
    let rounds = rounds("VCTX_CRASH_ROUNDS", FULL_ROUNDS);
    let mut chance = Chance::new(setting("VCTX_CRASH_SEED", 2026));
    let mut story = Story::begin().await;

    // A round without faults measures how many bytes each phase of a call transfers, in each write
    // mode.
    let mut bytes = BTreeMap::new();
    for stream in [false, true] {
        story.stage.server.kill();
        story.stage.revive(stream).await;
        story.stage.writes.clear();
        for at in 0..MIX {
            let (tool, arguments) = story.next(0, at);
            story.call(tool, arguments, stream).await;
        }
        bytes.insert(stream, story.stage.writes.bytes());
    }
    story.check().await;

    let mut running = true;
    for round in 1..=rounds {
        let stream = streams(round);
        if stream != running {
            running = stream;
            story.stage.server.kill();
            story.stage.revive(stream).await;
        }
        // The test must not kill a database server that it did not start.
        let turn = if outside().is_some() { 0 } else { round % 3 };
        let victim = [Victim::Server, Victim::Engine, Victim::Both][turn as usize];
        let (mut phase, mut byte, pause) = choose(&mut chance, &bytes[&stream]);
        if !bytes[&stream].contains_key(&phase) {
            // If every write is a stream transaction, the phase of single-request writes does not
            // occur, so another phase is used.
            (phase, byte) =
                (Phase::BeginToCommit, chance.below(bytes[&stream][&Phase::BeginToCommit]));
        }
        println!("round {round}: {victim:?} at byte {byte} of {phase:?}, stream {stream}");
        story.stage.arm(victim, phase, byte, pause);
        story.round(round, victim, stream).await;
        story.check().await;
        story.stage.home.assert_verified("vctx.sock", "ada");
        if round % SWEEP_ROUNDS == 0 {
            assert_no_dead_chain(&story.stage.home.database()).await;
        }
    }

    assert_no_dead_chain(&story.stage.home.database()).await;
    let compared = story.compared;
    story.index().await;
    story.check_replays().await;
    story.check().await;
    story.check_words().await;
    println!("{story}");
    let (inside, replying) =
        (story.share(&[Phase::BeginToCommit]), story.share(&[Phase::CommitToReply]));
    println!(
        "  between begin and commit {:.0} %, between commit and reply {:.0} %",
        inside * 100.0,
        replying * 100.0
    );
    let open = story.stage.home.database().open_transactions().await;
    // A restart of the engine ends the transactions of killed servers. On an engine that is not
    // restarted, they end when they reach the idle limit.
    let left_max = if outside().is_some() { rounds as usize } else { 1 };
    assert!(open.len() <= left_max, "{open:?}");
    // A fifth of the rounds is too few to check the distribution of the kills.
    if rounds < FULL_ROUNDS {
        return;
    }
    assert!(compared, "no round ended with a vector index");
    assert!(inside >= 0.3, "only {inside:.2} between begin and commit");
    assert!(replying >= 0.1, "only {replying:.2} between commit and reply");
}

/// Whether a round writes with stream transactions; this changes every five rounds.
fn streams(round: u64) -> bool {
    round / 5 % 2 == 1
}
