//! Tests that prompts with contexts are put together byte by byte whatever happens to the memory
//! later: after a restart, newer documents, a move to another database, and an import.

use serde_json::{Value, json};

use super::{LOOK, WHY, World, listed, moved, other};
use crate::chance::{Chance, rounds_of};
use crate::forgotten::forgotten;
use crate::home::Home;
use crate::outside::needs_an_engine_of_its_own;
use crate::packs::timeless;
use crate::talk::{Agent, key};

/// Number of prompts of a full run.
const PROMPTS: u64 = 1_000;
/// Usually, the number of prompts is divided by this number.
const USUAL_PART: u64 = 20;
/// Number of statements and of documents on which the questions are.
const PEOPLE: usize = 40;
const BOATS: usize = 12;
/// Maximum number of polls until a view shows the newest writes.
const LOOKS_MAX: usize = 400;
/// Window of the agent in tokens; it fills several times.
const WINDOW: u64 = 2_048;

const TRADES: [&str; 8] =
    ["dentist", "carpenter", "pilot", "gardener", "baker", "surgeon", "tailor", "plumber"];
const TOWNS: [&str; 5] = ["Lisbon", "Bergen", "Ghent", "Cork", "Malaga"];

fn trade(at: usize) -> String {
    format!("{} {}", TOWNS[at % TOWNS.len()], TRADES[at % TRADES.len()])
}

/// Returns a document of the archive; each revision has other prices.
fn manual(boat: usize, revision: usize) -> String {
    let price = 10 * boat + revision;
    format!(
        "The boat Gull{boat} leaves at nine. A berth on Gull{boat} costs {price} crowns. \
         Dogs travel free. Its engine was repaired in revision {revision}."
    )
}

/// A prompt that was recorded.
struct Recorded {
    turn: u64,
    request: Value,
    /// Positions of the messages that its context shows.
    shown: Vec<u64>,
}

/// An agent whose prompts have contexts, on two servers over one database.
struct Packed {
    ada: Agent,
    /// The same agent on the other server.
    beside: Agent,
    prompts: Vec<Recorded>,
    /// Number of prompts with a context.
    packs: u64,
}

impl Packed {
    async fn begun(world: &World) -> Packed {
        let at = |socket: &str| world.here.wire(socket);
        let ada = Agent::create(at("vctx.sock"), "ada", WINDOW, "Be brief.").await;
        let said = |at: usize| format!("My {} is called Roe{at} and plays chess.", trade(at));
        ada.append_all(&(0..PEOPLE).map(said).collect::<Vec<String>>()).await;
        ada.done("evict_fifo", &json!({"target_tokens": 0, "summarize": false})).await;
        let beside = Agent::at(at("second.sock"), "ada");
        let packed = Packed { beside, ada, prompts: vec![], packs: 0 };
        packed.ingest(0).await;
        packed
    }

    /// Replaces all documents of the archive.
    async fn ingest(&self, revision: usize) {
        for boat in 0..BOATS {
            let document = manual(boat, revision);
            let body = json!({"doc_id": format!("gull-{boat}.md"), "document": document});
            self.ada.done("ingest_archival", &body).await;
        }
    }

    /// Builds a context on both servers; they must build the same one. For a moment after a write,
    /// a view does not show it, and the lists of what a context leaves out may differ.
    async fn built(&self, body: &Value) -> Value {
        for _ in 0..LOOKS_MAX {
            let (built, again) =
                (context(&self.ada, body).await, context(&self.beside, body).await);
            if built["pack"] == again["pack"] {
                return built;
            }
            tokio::time::sleep(LOOK).await;
        }
        panic!("two servers build different contexts for {body}")
    }

    /// Records a prompt whose context was built for a random question. Both servers build the same
    /// context.
    async fn ask(&mut self, number: u64, chance: &mut Chance) {
        let some = |chance: &mut Chance, bound: usize| {
            usize::try_from(chance.below(bound as u64)).expect("small")
        };
        let person = trade(some(chance, PEOPLE));
        let boat = some(chance, BOATS);
        let question = match chance.below(3) {
            0 => format!("What is my {person} called?"),
            1 => format!("What does a berth on Gull{boat} cost?"),
            _ => format!("What is my {person} called? And when does Gull{boat} leave?"),
        };
        self.ada.append("user", format!("{question} ({number})")).await;
        let mut body = json!({});
        match chance.below(4) {
            0 => {
                let given = format!("My {person} moved away. Gull{boat} was sold in {number}.");
                body["documents"] = json!([{"text": given}]);
            }
            1 => body["tokens_max"] = (40 + chance.below(400)).into(),
            _ => {}
        }
        let built = self.built(&body).await;
        // A window that is nearly full has no room for a context, until its flush.
        self.packs += u64::from(built["pack"].is_string());
        let run = format!("run-{number}");
        let path = format!("{}/prompts", self.ada.path());
        let asked = json!({"run": run, "model": "parrot-1", "pack": built["pack"]});
        let made = post(&self.ada, &path, &asked).await;
        let request: Value =
            serde_json::from_str(made["request"].as_str().expect("a text")).expect("JSON");
        assert_eq!(timeless(&request), timeless(&built), "{question}");
        let turn = made["turn"].as_u64().expect("a turn");
        let sections = built["sections"].as_array().expect("sections").iter();
        let items = sections.flat_map(|one| one["items"].as_array().expect("items"));
        let shown = items.filter_map(|item| item["origin"]["seq"].as_u64()).collect();
        self.prompts.push(Recorded { turn, request: made["request"].clone(), shown });
        let answer = json!({"run": run, "finish": "stop", "content": format!("I see, {number}."),
            "end_run": "yield"});
        post(&self.ada, &format!("{path}/{turn}/answer"), &answer).await;
    }
}

async fn post(agent: &Agent, path: &str, body: &Value) -> Value {
    agent.wire.call("POST", path, &[("idempotency-key", &key())], body.to_string()).await.ok()
}

async fn context(agent: &Agent, body: &Value) -> Value {
    let path = format!("{}/context", agent.path());
    agent.wire.call("POST", &path, &[], body.to_string()).await.ok()
}

async fn replay(agent: &Agent, turn: u64) -> Value {
    agent.wire.get(&format!("{}/prompts/{turn}", agent.path())).await.ok()
}

/// Checks that every prompt is put together again as it was sent.
async fn assert_exact(agent: &Agent, prompts: &[Recorded], after: &str) {
    for prompt in prompts {
        let told = replay(agent, prompt.turn).await;
        assert_eq!(told["request"], prompt.request, "prompt {} after {after}", prompt.turn);
        assert_eq!(told["exact"], true, "after {after}: {told:#}");
    }
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn prompts_with_contexts_replay_exactly_after_each_change_of_the_memory() {
    if needs_an_engine_of_its_own(WHY) {
        return;
    }
    let world = World::begun().await;
    let server = world.server("vctx.sock").await;
    let second = world.server("second.sock").await;
    let mut packed = Packed::begun(&world).await;
    let (mut chance, prompts) = (Chance::new(3), rounds_of("PACKED_PROMPTS", PROMPTS, USUAL_PART));
    for number in 1..=prompts {
        packed.ask(number, &mut chance).await;
        if number == prompts / 2 {
            packed.ingest(1).await;
        }
    }
    let state = packed.ada.state().await;
    assert!(state["counters"]["flushes"].as_u64() > Some(0), "{state:#}");
    assert!(packed.packs * 2 > prompts, "only {} of {prompts} have contexts", packed.packs);
    let Packed { ada, prompts, .. } = &packed;
    assert!(prompts.iter().any(|one| one.shown.len() > 1), "no context shows two messages");

    assert!(server.stop().await.success() && second.stop().await.success());
    let server = world.server("vctx.sock").await;
    assert_exact(ada, prompts, "a restart").await;

    packed.ingest(2).await;
    assert_exact(ada, prompts, "newer documents").await;

    let place = listed(&ada.wire).await["ada"].clone();
    assert_eq!(moved(&ada.wire, "ada", other(&place)).await["moved"], true);
    assert_exact(ada, prompts, "a move").await;
    world.here.assert_verified("vctx.sock", "ada");

    let elsewhere = Home::new();
    let _other = elsewhere.serve().await;
    let export = ada.wire.get(&format!("{}/export", ada.path())).await;
    let path = "/v1/agents/bea/import";
    let imported = elsewhere.wire("vctx.sock").call("POST", path, &[], export.text).await;
    assert_eq!(imported.status, 201, "{}", imported.text);
    let bea = Agent::at(elsewhere.wire("vctx.sock"), "bea");
    assert_exact(&bea, prompts, "an import").await;
    elsewhere.assert_verified("vctx.sock", "bea");

    // A replay names the message that is gone. The forget operation also removes the summaries, and
    // changes nothing of the other prompts.
    let mut shown = prompts.iter().flat_map(|one| &one.shown);
    let seq = *shown.find(|seq| **seq <= PEOPLE as u64).expect("a statement");
    forgotten(&bea, &json!({"seqs": [seq]})).await;
    let mut without = 0;
    for prompt in prompts {
        let told = replay(&bea, prompt.turn).await;
        let gone = told["gone"].as_array().expect("a list");
        let of_context = gone.iter().find(|one| one["section"] == "context");
        assert_eq!(of_context.is_some(), prompt.shown.contains(&seq), "{told:#}");
        if let Some(gone) = of_context {
            without += 1;
            assert_eq!((&gone["seq"], &told["exact"]), (&json!(seq), &json!(false)), "{told:#}");
            assert_eq!(told["differs"], json!([]), "{told:#}");
        } else if gone.is_empty() {
            assert_eq!(told["request"], prompt.request, "prompt {}", prompt.turn);
        }
    }
    assert!(without > 0);
    elsewhere.assert_verified("vctx.sock", "bea");
    drop(server);
}
