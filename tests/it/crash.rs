//! Crashes: server, engine or both get SIGKILL at the n-th byte between them; after a restart and retries nothing is lost, doubled or half done.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::chance::{Chance, setting};
use crate::count;
use crate::home::{Home, Process, TORN_TAIL, Tuning};
use crate::proxy::{Phase, Proxy};
use crate::talk::{Agent, said};

/// Longest wait for one call, with a restart on the way.
const CALL_MAX: Duration = Duration::from_secs(60);
/// Pause before an unanswered call is sent again.
const PAUSE: Duration = Duration::from_millis(20);
/// Calls after which a round must have met its byte.
const CALLS_PER_ROUND_MAX: usize = 60;

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Server,
    Engine,
    Both,
}

/// One call as the client knows it.
struct Sent {
    key: String,
    tool: &'static str,
    arguments: Value,
    answer: Value,
}

/// The processes, and the phase in which they were last killed.
struct Stage {
    home: Home,
    engine: Process,
    server: Process,
    writes: Arc<Proxy>,
    hit: Arc<Mutex<Option<Phase>>>,
}

impl Stage {
    async fn new() -> Stage {
        let home = Home::new();
        let engine = home.engine().await;
        let writes = Arc::new(Proxy::start(&home.path("rw.sock"), &home.path("engine.sock")));
        let server = start_server(&home, false).await;
        Stage { home, engine, server, writes, hit: Arc::default() }
    }

    /// Arms the proxy: at this byte these processes die.
    fn arm(&self, victim: Victim, phase: Phase, byte: u64, pause: Duration) {
        let (engine, server) = (self.engine.clone(), self.server.clone());
        let hit = Arc::clone(&self.hit);
        let action = move |phase| {
            if victim != Victim::Engine {
                server.kill();
            }
            if victim != Victim::Server {
                engine.kill();
            }
            *hit.lock().expect("a phase") = Some(phase);
        };
        self.writes.at_byte(phase, byte, pause, Box::new(action));
    }

    /// Starts again whatever is dead.
    async fn revive(&mut self, stream: bool) {
        if self.engine.ended().is_some() {
            self.engine = self.home.engine().await;
            self.engine.expect(TORN_TAIL);
        }
        if self.server.ended().is_some() {
            self.server = start_server(&self.home, stream).await;
        }
    }
}

/// A server whose every write is a stream transaction, or only its evictions.
async fn start_server(home: &Home, stream: bool) -> Process {
    let mode = if stream { "stream" } else { "auto" };
    let tuning = Tuning::variable("VCTX_STORE__WRITE_MODE", mode);
    let server = home.server("vctx.sock", "rw.sock", "engine-ro.sock", &tuning).await;
    // What a dead engine makes of calls and reads.
    for text in ["call failed", "read failed", "a job failed"] {
        server.expect(text);
    }
    server
}

/// The calls of one round: every tool that writes, and an eviction of what the round appended.
fn calls(round: u64, at: usize) -> (&'static str, Value) {
    let text = format!("round {round} call {at}: {} 🦀", count::words(12));
    match at % 10 {
        0..4 | 5..7 => ("append_fifo", json!({"message": text, "role": "user"})),
        4 => ("store_core", json!({"block_id": "plan", "content": text})),
        7 => ("write_recall", json!({"entries": [{"content": text}, {"content": "and more"}]})),
        8 => ("evict_fifo", json!({"target_tokens": 200})),
        _ => (
            "append_fifo",
            json!({"message": {"content": text, "name": "Mate"}, "role": "assistant"}),
        ),
    }
}

/// The whole story: processes, the client's own log, and what was hit.
struct Story {
    stage: Stage,
    ada: Agent,
    log: Vec<Sent>,
    hits: BTreeMap<(Phase, Victim), u64>,
    retried: u64,
    replayed: u64,
}

impl Story {
    async fn begin() -> Story {
        let stage = Stage::new().await;
        let ada = Agent::create(stage.home.wire("vctx.sock"), "ada", 1024, "Be brief.").await;
        let (log, hits) = (Vec::new(), BTreeMap::new());
        Story { stage, ada, log, hits, retried: 0, replayed: 0 }
    }

    /// One call with one key until it is answered, restarting what died on the way.
    async fn call(&mut self, tool: &'static str, arguments: Value, stream: bool) {
        let key = format!("crash-{}", self.log.len());
        let until = Instant::now() + CALL_MAX;
        let mut sent = 0;
        let answer = loop {
            assert!(Instant::now() < until, "{tool} {key} is not answered within {CALL_MAX:?}");
            sent += 1;
            let attempt = self.ada.attempt(tool, &arguments, &key, "*");
            // A living server repeats by itself as soon as the engine is back; a dead one needs us.
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
                // Whoever died is revived above, once all victims are dead.
                Err(_) => {}
            }
            tokio::time::sleep(PAUSE).await;
        };
        self.retried += u64::from(sent > 1);
        self.replayed += u64::from(answer["replayed"] == true);
        self.log.push(Sent { key, tool, arguments, answer });
    }

    /// One round: calls until somebody was killed, then some more.
    async fn round(&mut self, round: u64, victim: Victim, stream: bool) {
        for at in 0..CALLS_PER_ROUND_MAX {
            let (tool, arguments) = calls(round, at);
            self.call(tool, arguments, stream).await;
            let hit = self.stage.hit.lock().expect("a phase").take();
            if let Some(phase) = hit {
                *self.hits.entry((phase, victim)).or_default() += 1;
                self.stage.revive(stream).await;
                let (tool, arguments) = calls(round, at + 1);
                self.call(tool, arguments, stream).await;
                return;
            }
        }
        panic!(
            "round {round}: that byte did not come in {CALLS_PER_ROUND_MAX} calls, only {:?}",
            self.stage.writes.bytes()
        );
    }

    /// The server's messages and the database's rows against the client's own log.
    async fn check(&mut self) {
        let messages = self.ada.messages().await;
        assert_eq!(said(&messages), self.expected());
        let seqs: Vec<u64> = messages.iter().map(|m| m["seq"].as_u64().expect("a seq")).collect();
        assert_eq!(seqs, (1..=messages.len() as u64).collect::<Vec<_>>());
        let state = self.ada.state().await;
        let plan = self.log.iter().rev().find(|sent| sent.tool == "store_core");
        if let Some(plan) = plan {
            assert_eq!(state["blocks"][0]["content"], plan.arguments["content"]);
        }
        let query =
            "LET audits = (FOR e IN memory_events FILTER e.agent_id == 'ada' AND e.type == 'audit'
              SORT e.details.version_after RETURN e.details.version_after)
            LET records = LENGTH(FOR r IN idempotency FILTER r.agent_id == 'ada' RETURN 1)
            RETURN { audits, records }";
        let row = self.stage.home.database().row(query, json!({})).await;
        let version = state["version"].as_u64().expect("a version");
        assert_eq!(row["audits"], json!((1..=version).collect::<Vec<_>>()), "a linear history");
        assert_eq!(row["records"], self.log.len(), "one record for each call");
        assert_eq!(version, 1 + self.log.len() as u64, "one write for each call");
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

    /// Every answer that was ever given is given again for its key, and nothing happens.
    async fn check_replays(&self) {
        for sent in &self.log {
            let mut again = self.ada.tool(sent.tool, &sent.arguments, &sent.key, "*").await.ok();
            assert_eq!(again["replayed"], true, "{}", sent.key);
            again["replayed"] = sent.answer["replayed"].clone();
            assert_eq!(again, sent.answer, "{}", sent.key);
        }
    }
}

/// Waits until a process of the stage is gone.
async fn somebody_dies(stage: &Stage) {
    while stage.hit.lock().expect("a phase").is_none() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // The engine's death is for the server to survive; only a restart helps it.
    while stage.engine.ended().is_none() && stage.server.ended().is_none() {
        tokio::time::sleep(Duration::from_millis(2)).await;
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

/// Where to kill: half between begin and commit, a quarter between commit and its reply, the rest anywhere else.
fn choose(chance: &mut Chance, bytes: &BTreeMap<Phase, u64>) -> (Phase, u64, Duration) {
    let phase = match chance.below(20) {
        0..9 => Phase::BeginToCommit,
        9..14 => Phase::CommitToReply,
        14 => Phase::StatusAsked,
        15..17 => Phase::OneRequestUnanswered,
        17..19 => Phase::OneRequestSent,
        _ => Phase::Outside,
    };
    let most = bytes.get(&phase).copied().unwrap_or(0);
    // Half of the kills that fall upon waiting fall into the engine's work, before the first byte of its answer.
    let waiting = matches!(phase, Phase::CommitToReply | Phase::OneRequestUnanswered);
    let byte = if waiting && chance.below(2) == 0 { 0 } else { chance.below(most) };
    (phase, byte, Duration::from_micros(chance.below(3_000)))
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_doubled_or_half_done_whoever_is_killed_when() {
    let rounds = setting("VCTX_CRASH_ROUNDS", 20);
    let mut chance = Chance::new(setting("VCTX_CRASH_SEED", 2026));
    let mut story = Story::begin().await;

    // A clean round in each way of writing tells how many bytes each phase has.
    let mut bytes = BTreeMap::new();
    for stream in [false, true] {
        story.stage.server.kill();
        story.stage.revive(stream).await;
        story.stage.writes.clear();
        for at in 0..10 {
            let (tool, arguments) = calls(0, at);
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
        let victim = [Victim::Server, Victim::Engine, Victim::Both][(round % 3) as usize];
        let (mut phase, mut byte, pause) = choose(&mut chance, &bytes[&stream]);
        if !bytes[&stream].contains_key(&phase) {
            // Where all is streamed, no write is one request.
            (phase, byte) =
                (Phase::BeginToCommit, chance.below(bytes[&stream][&Phase::BeginToCommit]));
        }
        println!("round {round}: {victim:?} at byte {byte} of {phase:?}, stream {stream}");
        story.stage.arm(victim, phase, byte, pause);
        story.round(round, victim, stream).await;
        story.check().await;
        story.stage.home.assert_verified("vctx.sock", "ada");
    }

    story.check_replays().await;
    story.check().await;
    println!("{story}");
    let (inside, replying) =
        (story.share(&[Phase::BeginToCommit]), story.share(&[Phase::CommitToReply]));
    println!(
        "  between begin and commit {:.0} %, between commit and reply {:.0} %",
        inside * 100.0,
        replying * 100.0
    );
    assert!(inside >= 0.3, "only {inside:.2} between begin and commit");
    assert!(replying >= 0.1, "only {replying:.2} between commit and reply");
    let open = story.stage.home.database().open_transactions().await;
    assert!(open.len() <= 1, "{open:?}");
}

/// Rounds change their way of writing in blocks of five.
fn streams(round: u64) -> bool {
    round / 5 % 2 == 1
}
