//! Tests that honest traces raise no false alarm: after random calls, crashes, expiry, forgetting,
//! exports and imports, every agent agrees with its ledger and with the signed checkpoints.

use serde_json::{Value, json};

use crate::chance::{Chance, rounds_of, setting};
use crate::home::{Home, Process, Tuning};
use crate::talk::{Agent, key};

/// Number of traces in all rounds.
const TRACES: u64 = 1_000;
/// Usually, the number of traces is divided by this number.
const USUAL_PART: u64 = 40;
/// Number of calls of a trace.
const CALLS: u64 = 14;
/// One of this many calls is interrupted by a kill of server and engine.
const KILLED: u64 = 70;
/// Longest time from a call to the kill, in microseconds.
const KILL_US: u64 = 12_000;
/// Maximum age of recall storage in days: about eight seconds, so that many traces expire.
const DAYS: &str = "0.0001";

/// The words of all texts.
const WORDS: [&str; 8] = ["tide", "berth", "lamp", "rope", "gull", "pier", "salt", "chart"];

/// A server that is killed now and then.
struct World {
    home: Home,
    server: Process,
    /// Another server, which imports agents.
    other: (Home, Process),
    chance: Chance,
    kills: u64,
}

async fn started(home: &Home) -> Process {
    let tuning = Tuning::variable("VCTX_RETENTION__RECALL_TTL_DAYS", DAYS);
    home.serve_with("vctx.sock", &tuning).await
}

impl World {
    /// Calls a tool. If the server is killed meanwhile, starts it and repeats the call.
    async fn call(&mut self, agent: &Agent, tool: &str, arguments: &Value) -> Value {
        let key = key();
        let killer = (self.chance.below(KILLED) == 0).then(|| {
            let (victim, pause) = (self.server.clone(), self.chance.below(KILL_US));
            tokio::spawn(async move {
                tokio::time::sleep(std::time::Duration::from_micros(pause)).await;
                victim.kill();
            })
        });
        let attempt = agent.again().attempt(tool, arguments, &key, "*").await;
        if let Some(killer) = killer {
            killer.await.expect("the killer ends");
            self.kills += 1;
            self.server.kill();
            self.server = started(&self.home).await;
            return body(agent.again().tool(tool, arguments, &key, "*").await.text);
        }
        body(attempt.expect("an answer").text)
    }

    async fn send(&self, agent: &Agent, method: &str, path: &str, body: &Value) -> Value {
        let headers = [("idempotency-key", key()), ("if-match", "*".to_owned())];
        let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
        let path = format!("{}{path}", agent.path());
        let answer = agent.again().wire.call(method, &path, &headers, body.to_string()).await;
        assert!(answer.status < 500, "{method} {path}: {}", answer.text);
        self::body(answer.text)
    }

    /// Runs one random step of a trace.
    async fn step(&mut self, agent: &Agent, at: u64) {
        let words: Vec<&str> =
            (0..self.chance.below(60) + 3).map(|_| *self.chance.one_of(&WORDS)).collect();
        let words = words.join(" ");
        let text = format!("{words} {at}");
        let document = format!("d{}", self.chance.below(3));
        match self.chance.below(18) {
            0..=3 => {
                let role = *self.chance.one_of(&["user", "assistant"]);
                let message = json!({"message": text, "role": role});
                self.call(agent, "append_fifo", &message).await;
            }
            4 => {
                let block = json!({"block_id": document, "content": text});
                self.call(agent, "store_core", &block).await;
            }
            5 => drop(self.call(agent, "evict_fifo", &json!({"target_tokens": 0})).await),
            6 => {
                let entries = json!({"entries": [{"content": text}, {"content": words}]});
                self.call(agent, "write_recall", &entries).await;
            }
            7 | 8 => {
                let chunks: Vec<String> =
                    (0..self.chance.below(4) + 1).map(|n| format!("{n} {text}")).collect();
                let ingest = json!({"doc_id": document, "chunks": chunks});
                self.call(agent, "ingest_archival", &ingest).await;
            }
            9 => {
                let delete = json!({"doc_id": document, "delete": true});
                self.call(agent, "ingest_archival", &delete).await;
            }
            10 => {
                let query =
                    json!({"query": words, "limit": 2, "rehydrate": self.chance.below(2) == 0});
                self.call(agent, "search_recall", &query).await;
            }
            11 => {
                let query = json!({"query_text": words, "limit": 2});
                self.call(agent, "search_archival", &query).await;
            }
            12 => drop(self.call(agent, "record_heartbeat", &json!({"state": "yield"})).await),
            13 => {
                let due = json!({"at": "2999-01-01", "content": text});
                self.send(agent, "PUT", &format!("/schedules/{document}"), &due).await;
            }
            14 => {
                let patch =
                    json!({"system": text, "context_window": 4_096 + self.chance.below(9) * 512});
                self.send(agent, "PATCH", "", &patch).await;
            }
            15 => {
                let asked = json!({"run": format!("r{at}"), "model": "parrot", "end_run": true});
                let asked = self.send(agent, "POST", "/prompts", &asked).await;
                if let Some(turn) = asked["turn"].as_u64() {
                    let told = json!({"run": format!("r{at}"), "finish": "stop", "content": text,
                        "end_run": "yield"});
                    self.send(agent, "POST", &format!("/prompts/{turn}/answer"), &told).await;
                }
            }
            16 => {
                let forget = json!({"seqs": [self.chance.below(6) + 1]});
                self.send(agent, "POST", "/forget", &forget).await;
            }
            _ => {
                let forget = json!({"match": text, "blocks": true});
                self.send(agent, "POST", "/forget", &forget).await;
            }
        }
    }

    /// Exports an agent and imports it under another name.
    async fn copied(&self, agent: &Agent) -> Agent {
        let wire = self.home.wire("vctx.sock");
        let file = wire.get(&format!("{}/export", agent.path())).await.text;
        let copy = Agent::at(self.other.0.wire("vctx.sock"), &format!("{}-copy", agent.name));
        let path = format!("{}/import", copy.path());
        let made = copy.again().wire.call("POST", &path, &[], file).await;
        assert_eq!(made.status, 201, "{}", made.text);
        copy
    }

    async fn agrees(&self, agent: &Agent) {
        let told = agent.again().wire.get(&format!("{}/ledger", agent.path())).await.ok();
        let differences = &told["differences"];
        assert_eq!(differences, &json!([]), "{} after {} kills", agent.name, self.kills);
        assert!(told["entries"].as_u64() > Some(0), "{told}");
    }
}

fn body(text: String) -> Value {
    serde_json::from_str(&text).unwrap_or_default()
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn random_traces_agree_with_their_ledgers() {
    let home = Home::new();
    let server = started(&home).await;
    let chance = Chance::new(setting("HONEST_SEED", 11));
    let elsewhere = Home::new();
    let other = started(&elsewhere).await;
    let mut world = World { home, server, other: (elsewhere, other), chance, kills: 0 };
    let traces = rounds_of("HONEST_TRACES", TRACES, USUAL_PART);
    for trace in 0..traces {
        let wire = world.home.wire("vctx.sock");
        let agent = Agent::create(wire, &format!("a{trace}"), 4_096, "Be brief.").await;
        for at in 0..CALLS {
            world.step(&agent, at).await;
        }
        world.agrees(&agent).await;
        if world.chance.below(4) == 0 {
            let copy = world.copied(&agent).await;
            world.agrees(&copy).await;
            world.step(&copy, CALLS).await;
            world.agrees(&copy).await;
        }
    }
    // By now, the texts of the first traces have expired.
    let mut agents = 0;
    for home in [&world.home, &world.other.0] {
        let socket = home.path("vctx.sock").display().to_string();
        let output = home.run(&["verify", "--json", "--socket", &socket]);
        let told = body(String::from_utf8_lossy(&output.stdout).into_owned());
        let all = told["agents"].as_array().expect("agents");
        let wrong: Vec<&Value> = all.iter().filter(|one| one["ok"] != true).collect();
        assert!(wrong.is_empty() && told["missing"] == json!([]), "{wrong:#?} {}", told["missing"]);
        agents += all.len();
    }
    println!("{traces} traces, {agents} agents, {} kills", world.kills);
}
