//! Tests a reindex of an archive that serves searches at the same time: searches find all documents
//! throughout, no search compares old with new vectors, and a killed server continues the reindex
//! after its restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::archival::eager;
use crate::chance::{Chance, setting};
use crate::database::Database;
use crate::home::{Home, Process, TORN_TAIL, Tuning};
use crate::outside::outside;
#[cfg(feature = "full-tests")]
use crate::planted::assert_listed;
use crate::talk::{Agent, key};
use crate::truths::assert_archive;
use crate::vectors::Model;
use crate::wire::Wire;

/// Dimensions of the vectors before and after the reindex.
#[cfg(feature = "full-tests")]
const BEFORE: u64 = 384;
const AFTER: u64 = 64;
/// Maximum number of polls during a reindex, and the pause between two polls. The old vectors are
/// removed 40 seconds after searches began to use the new ones, so the polls are rare.
const LOOKS_MAX: usize = 600;
const LOOK: Duration = Duration::from_millis(200);
/// Pause between two searches during a reindex.
const SEARCH_PAUSE: Duration = Duration::from_millis(50);

/// The words that distinguish the chunks of a document.
const TREES: [&str; 6] = ["alder", "birch", "cedar", "dogwood", "elm", "fir"];

/// Settings of a server whose reindex changes to the lexical embedder with another dimension.
pub(crate) fn to_lexical() -> Tuning {
    let mut tuning = eager();
    tuning.environment.push(("VCTX_EMBEDDER__NEXT__DIMENSION".into(), AFTER.to_string()));
    tuning
}

/// Settings of a server whose reindex changes to a model on a socket.
fn to_model(home: &Home, dimension: u64) -> Tuning {
    let mut tuning = eager();
    let socket = home.path("model.sock").display().to_string();
    for (name, value) in [
        ("KIND", "endpoint"),
        ("SOCKET", &socket),
        ("MODEL", "letters"),
        ("VERSION", "1"),
        ("DIMENSION", &dimension.to_string()),
        ("TIMEOUT_MS", "60000"),
    ] {
        tuning.environment.push((format!("VCTX_EMBEDDER__NEXT__{name}"), value.to_owned()));
    }
    tuning
}

async fn server(home: &Home, socket: &str, tuning: &Tuning) -> Process {
    home.server(socket, "engine.sock", "engine-ro.sock", tuning).await
}

/// Returns ingest arguments for a document of some chunks; every third document is a text that the
/// server splits.
fn document(name: &str, number: u64, round: u64) -> Value {
    let sentence = |n: u64| {
        let tree = TREES[usize::try_from(n).expect("few") % TREES.len()];
        format!("The {tree} pier of quay {number} was mended in round {round}. ")
    };
    match number % 3 {
        0 => {
            let text: String = (0..30).map(sentence).collect();
            json!({"doc_id": name, "document": text, "splitter": {"tokens_max": 40}})
        }
        _ => json!({"doc_id": name, "chunks": (0..6).map(sentence).collect::<Vec<String>>()}),
    }
}

async fn fill(agent: &Agent, documents: u64) {
    for number in 0..documents {
        agent.done("ingest_archival", &document(&format!("d{number}"), number, 0)).await;
    }
}

async fn status(wire: &Wire) -> Value {
    wire.get("/v1/reindex").await.ok()
}

pub(crate) async fn ask(wire: &Wire, action: &str) -> crate::wire::Answer {
    wire.call("POST", "/v1/reindex", &[], json!({"action": action}).to_string()).await
}

/// Waits until searches use the vectors of the setting with the given number.
pub(crate) async fn switched(wire: &Wire, number: u64) -> Value {
    until(wire, |told| told["serving"]["number"] == number).await
}

pub(crate) async fn until(wire: &Wire, is: impl Fn(&Value) -> bool) -> Value {
    let mut told = Value::Null;
    for _ in 0..LOOKS_MAX {
        told = status(wire).await;
        if is(&told) {
            return told;
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("it does not come about: {told:#}")
}

/// A task that searches continuously, and fails unless each search finds all documents.
struct Searcher {
    ends: Arc<AtomicBool>,
    found: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Searcher {
    fn start(agent: Agent) -> Searcher {
        let (ends, found) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (stopped, counted) = (Arc::clone(&ends), Arc::clone(&found));
        let task = tokio::spawn(async move {
            while !stopped.load(Ordering::SeqCst) {
                if search(&agent).await {
                    counted.fetch_add(1, Ordering::SeqCst);
                }
                tokio::time::sleep(SEARCH_PAUSE).await;
            }
        });
        Searcher { ends, found, task }
    }

    async fn end(self) -> u64 {
        self.ends.store(true, Ordering::SeqCst);
        self.task.await.expect("no search found less");
        self.found.load(Ordering::SeqCst)
    }
}

/// Searches by vector and by a word; returns false if the server does not answer.
async fn search(agent: &Agent) -> bool {
    for (arguments, wanted) in [
        (json!({"query_text": "a pier of birch", "mode": "vector", "limit": 20}), 20),
        (
            json!({"query_text": "The cedar pier", "mode": "vector", "limit": 40, "filter": {"doc_id": "d1"}}),
            6,
        ),
        (json!({"query_text": "cedar", "mode": "text", "filter": {"doc_id": "d1"}}), 1),
    ] {
        let Ok(answer) = agent.attempt("search_archival", &arguments, &key(), "*").await else {
            return false;
        };
        if answer.status == 503 {
            return false;
        }
        let body = answer.ok();
        let result = &body["result"];
        assert_eq!(result["k_actual"], wanted, "{body}");
        assert!(result["degraded"].is_null(), "{body}");
        // The searched sentence is the nearest one of its document, with old and with new vectors.
        if wanted == 6 {
            let text = result["results"][0]["text"].as_str().expect("a text");
            assert!(text.starts_with("The cedar pier"), "{body}");
        }
    }
    true
}

/// Returns the number of vectors for each attribute name and dimension, the number of chunks, and
/// the models and dimensions that chunks and manifests record.
async fn kinds(database: &Database) -> Value {
    let query = "
        LET attributes = (FOR d IN archival_docs FOR a IN ATTRIBUTES(d) FILTER LEFT(a, 9) == 'embedding' AND IS_ARRAY(d[a])
            COLLECT name = a, length = LENGTH(d[a]) WITH COUNT INTO n SORT name RETURN { name, length, n })
        RETURN { attributes, chunks: LENGTH(archival_docs),
            told: (FOR d IN archival_docs COLLECT model = d.model_id, dimension = d.dimension SORT model RETURN [model, dimension]),
            manifests: (FOR m IN archival_manifests COLLECT model = m.model_id, dimension = m.dimension SORT model RETURN [model, dimension]) }";
    database.row(query, json!({})).await
}

/// Checks that a document has in the given attribute exactly the vectors that an ingest would
/// compute now.
async fn assert_made_as_by_ingest(home: &Home, agent: &Agent, number: u64, attribute: &str) {
    let again = document("again", number, 0);
    agent.done("ingest_archival", &again).await;
    let vectors = format!(
        "FOR d IN archival_docs FILTER d.doc_id == @doc AND d.agent_id == 'ada' SORT d.index RETURN d.{attribute}"
    );
    let of = async |doc: &str| home.database().rows(&vectors, json!({"doc": doc})).await;
    let (was, is) = (of(&format!("d{number}")).await, of("again").await);
    assert_eq!(was.len(), is.len());
    assert!(!was.is_empty() && was.iter().all(Value::is_array));
    assert_eq!(was, is, "document {number}");
    agent.done("ingest_archival", &json!({"doc_id": "again", "delete": true})).await;
}

#[cfg(feature = "full-tests")]
#[tokio::test(flavor = "multi_thread")]
async fn an_archive_changes_to_another_length_while_it_is_searched_and_written() {
    let home = Home::new();
    let _engine = home.engine().await;
    let _server = server(&home, "vctx.sock", &to_lexical()).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 8192, "").await;
    fill(&ada, 24).await;
    fill(&bob, 3).await;
    let wire = home.wire("vctx.sock");
    let told = status(&wire).await;
    assert_eq!((&told["state"], &told["serving"]["dimension"]), (&json!("none"), &json!(BEFORE)));
    let searcher = Searcher::start(ada.again());
    // The command begins the reindex; a second request to begin one has no effect.
    let socket = home.path("vctx.sock").display().to_string();
    let output = home.run(&["reindex", "start", "--json", "--socket", &socket]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let began: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(began["next"]["dimension"], AFTER);
    let again = ask(&wire, "start").await.ok();
    assert_eq!(again["next"]["number"], began["next"]["number"]);
    // During the reindex, documents are added, deleted and replaced.
    for round in 1..12 {
        ada.done("ingest_archival", &document(&format!("new{}", round % 4), round, round)).await;
        bob.done("ingest_archival", &document("d1", round, round)).await;
        if round % 3 == 0 {
            let gone = json!({"doc_id": format!("new{}", round % 4), "delete": true});
            ada.done("ingest_archival", &gone).await;
        }
    }
    let told = switched(&wire, 2).await;
    assert_eq!(told["serving"]["dimension"], AFTER);
    assert_archive(&home.database()).await;
    assert_listed(&home.database()).await;
    let kinds = kinds(&home.database()).await;
    let next = kinds["attributes"].as_array().unwrap().iter().find(|k| k["name"] == "embedding_2");
    assert_eq!(next.expect("vectors")["n"], kinds["chunks"], "{kinds}");
    for number in [0, 1, 2] {
        assert_made_as_by_ingest(&home, &ada, number, "embedding_2").await;
    }
    // The old vectors are removed completely.
    until(&wire, |told| told["state"] == "none").await;
    let kinds = self::kinds(&home.database()).await;
    let chunks = &kinds["chunks"];
    assert_eq!(
        kinds["attributes"],
        json!([{"name": "embedding_2", "length": AFTER, "n": chunks}]),
        "{kinds}"
    );
    for of in ["told", "manifests"] {
        assert_eq!(kinds[of].as_array().unwrap().len(), 1, "{kinds}");
        assert_eq!(kinds[of][0][1], AFTER, "{kinds}");
    }
    let path = "/_api/index?collection=archival_docs";
    let indexes = home.database().call("GET", path, &Value::Null).await.ok();
    let over: Vec<&Value> = indexes["indexes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|index| index["type"] == "vector")
        .map(|index| &index["fields"][0])
        .collect();
    assert_eq!(over, ["embedding_2"]);
    assert!(searcher.end().await > 20);
    // A second reindex is refused, because the archive already has the vectors of the configured
    // next embedder.
    let told = ask(&wire, "start").await.refused(400, "INVALID_ARGUMENT");
    assert!(told["detail"].as_str().unwrap().contains("already"), "{told}");
    home.assert_verified("vctx.sock", "ada");
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn who_is_killed_goes_on_and_nothing_is_found_less() {
    let home = Home::new();
    let mut engine = home.engine().await;
    let _model =
        Model::of_length(&home.path("model.sock"), Duration::from_millis(1), AFTER as usize);
    let tuning = to_model(&home, AFTER);
    let mut chance = Chance::new(setting("REINDEX_SEED", 11));
    let mut server = server(&home, "vctx.sock", &tuning).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    fill(&ada, 40).await;
    ask(&home.wire("vctx.sock"), "start").await.ok();
    let mut served = 1;
    for round in 0..8 {
        for process in [&engine, &server] {
            for text in ["call failed", "request failed", "a job failed", "database", "read failed"]
            {
                process.expect(text);
            }
        }
        let ada = ada.again();
        let victim = server.clone();
        let pause = Duration::from_micros(chance.below(900_000));
        let killer = tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            victim.kill();
        });
        let key = key();
        let written = document("written", 1 + round * 3, round);
        let attempt = ada.attempt("ingest_archival", &written, &key, "*");
        drop(tokio::time::timeout(Duration::from_secs(5), attempt).await);
        let again = ada.again();
        while search(&again).await {}
        killer.await.expect("the killer ends");
        // The test must not kill a database server that it did not start.
        if round % 3 == 2 && outside().is_none() {
            engine.kill();
            engine = home.engine().await;
            engine.expect(TORN_TAIL);
        }
        server = self::server(&home, "vctx.sock", &tuning).await;
        assert_archive(&home.database()).await;
        assert!(search(&ada.again()).await);
        let told = status(&home.wire("vctx.sock")).await;
        let number = told["serving"]["number"].as_u64().expect("a number");
        assert!(number >= served, "{told}");
        served = number;
        // Every chunk has a vector in the attribute that searches use.
        let kinds = kinds(&home.database()).await;
        let name = if number == 1 { "embedding" } else { "embedding_2" };
        let of = kinds["attributes"].as_array().unwrap().iter().find(|k| k["name"] == name);
        assert_eq!(of.expect("vectors that serve")["n"], kinds["chunks"], "{kinds}");
    }
    let wire = home.wire("vctx.sock");
    switched(&wire, 2).await;
    assert_archive(&home.database()).await;
    let ada = ada.again();
    for number in [0, 1] {
        assert_made_as_by_ingest(&home, &ada, number, "embedding_2").await;
    }
    // After the reindex, searches use both words and vectors, because a model computed the vectors.
    let found = ada.done("search_archival", &json!({"query_text": "elm pier"})).await;
    assert_eq!(found["result"]["mode"], "hybrid", "{found}");
    // A server that is killed while it removes the old vectors continues the removal after its
    // restart.
    for process in [&engine, &server] {
        for text in ["call failed", "request failed", "a job failed", "database"] {
            process.expect(text);
        }
    }
    server.kill();
    let server = self::server(&home, "vctx.sock", &tuning).await;
    server.expect("a job failed");
    until(&home.wire("vctx.sock"), |told| {
        told["chunks_cleaned"].as_u64() > Some(0) || told["state"] == "none"
    })
    .await;
    server.kill();
    let server = self::server(&home, "vctx.sock", &tuning).await;
    // The transaction of the killed server may hold its locks for a while.
    server.expect("a job failed");
    until(&home.wire("vctx.sock"), |told| told["state"] == "none").await;
    let kinds = kinds(&home.database()).await;
    assert_eq!(kinds["attributes"].as_array().unwrap().len(), 1, "{kinds}");
    assert_eq!(kinds["attributes"][0]["n"], kinds["chunks"], "{kinds}");
    assert_eq!(kinds["told"].as_array().unwrap().len(), 1, "{kinds}");
    assert!(search(&ada.again()).await);
    home.assert_verified("vctx.sock", "ada");
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn two_servers_do_it_together_and_one_that_knows_no_next_embedder_is_caught_up_with() {
    let home = Home::new();
    let _engine = home.engine().await;
    let tuning = to_lexical();
    let _first = server(&home, "vctx.sock", &tuning).await;
    let _second = server(&home, "second.sock", &tuning).await;
    let _third = server(&home, "third.sock", &eager()).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    let cid = Agent::create(home.wire("third.sock"), "cid", 8192, "").await;
    fill(&ada, 20).await;
    let searchers =
        ["vctx.sock", "second.sock"].map(|s| Searcher::start(Agent::at(home.wire(s), "ada")));
    let refused = ask(&home.wire("third.sock"), "start").await.refused(400, "INVALID_ARGUMENT");
    assert_eq!(refused["field"], "embedder.next");
    ask(&home.wire("second.sock"), "start").await.ok();
    for round in 0..10 {
        cid.done("ingest_archival", &document(&format!("c{}", round % 3), round, round)).await;
    }
    switched(&home.wire("third.sock"), 2).await;
    for searcher in searchers {
        assert!(searcher.end().await > 3);
    }
    assert_archive(&home.database()).await;
    let kinds = kinds(&home.database()).await;
    let next = kinds["attributes"].as_array().unwrap().iter().find(|k| k["name"] == "embedding_2");
    assert_eq!(next.expect("vectors")["n"], kinds["chunks"], "{kinds}");
    // An ingest with the caller's own vectors succeeds: a caller that knows the lexical embedder
    // can compute vectors of any dimension.
    cid.done("ingest_archival", &document("late", 1, 0)).await;
    assert!(search(&ada).await);
    home.assert_verified("vctx.sock", "ada");
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_stopped_gone_on_with_and_given_up() {
    let home = Home::new();
    let _engine = home.engine().await;
    let model = Model::of_length(&home.path("model.sock"), Duration::from_millis(20), 64);
    let server = server(&home, "vctx.sock", &to_model(&home, AFTER)).await;
    let wire = home.wire("vctx.sock");
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    for action in ["start", "stop", "cancel", "fly"] {
        ask(&wire, action).await.refused(400, "INVALID_ARGUMENT");
    }
    fill(&ada, 20).await;
    // The server detects a failing embedder before the reindex begins.
    model.fails.store(true, Ordering::SeqCst);
    ask(&wire, "start").await.refused(503, "EMBEDDER_UNAVAILABLE");
    assert_eq!(status(&wire).await["state"], "none");
    model.fails.store(false, Ordering::SeqCst);
    ask(&wire, "start").await.ok();
    until(&wire, |told| told["documents_done"].as_u64() > Some(1)).await;
    let stopped = ask(&wire, "stop").await.ok();
    assert_eq!(stopped["state"], "stopped");
    assert_eq!(stopped["phase"], "embedding");
    // After a reindex was stopped, the server may finish the current document, but must not begin
    // another.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let rests = status(&wire).await["documents_done"].as_u64().unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(status(&wire).await["documents_done"].as_u64(), Some(rests));
    assert!(rests < 20);
    // If the embedder of the new vectors fails during a reindex, ingests still succeed. The reindex
    // waits, and its state contains the reason.
    ask(&wire, "start").await.ok();
    model.fails.store(true, Ordering::SeqCst);
    server.expect("a job failed");
    server.expect("the embedder");
    ada.done("ingest_archival", &document("d2", 2, 1)).await;
    until(&wire, |told| told["obstacle"].is_string()).await;
    model.fails.store(false, Ordering::SeqCst);
    let told = ask(&wire, "cancel").await.ok();
    assert_eq!((&told["state"], &told["next"]), (&json!("cleaning"), &Value::Null));
    ask(&wire, "start").await.refused(409, "CONFLICT");
    assert!(search(&ada).await);
    until(&wire, |told| told["state"] == "none").await;
    let kinds = kinds(&home.database()).await;
    assert_eq!(kinds["attributes"].as_array().unwrap().len(), 1, "{kinds}");
    // The setting number of a cancelled reindex is not used again, so that its vectors cannot be
    // mistaken for those of the next reindex.
    let told = ask(&wire, "start").await.ok();
    assert_eq!(told["next"]["number"], 3);
    switched(&wire, 3).await;
    assert!(search(&ada).await);
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_alone_is_trained_anew_beside_the_one_that_serves() {
    let home = Home::new();
    let _engine = home.engine().await;
    let mut tuning = eager();
    // The server itself trains no new index, which could be pending when the command has ended.
    tuning.environment.push(("VCTX_ARCHIVE__RETRAIN_GROWTH".into(), "0".into()));
    let _server = server(&home, "vctx.sock", &tuning).await;
    let wire = home.wire("vctx.sock");
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    fill(&ada, 2).await;
    ask(&wire, "index").await.refused(400, "INVALID_ARGUMENT");
    fill(&ada, 24).await;
    let before = crate::archival::index_becomes(&ada, "ready").await;
    let searcher = Searcher::start(ada.again());
    let socket = home.path("vctx.sock").display().to_string();
    let output = home.run(&["reindex", "index", "--watch", "--socket", &socket]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = wire.get("/readyz").await.ok()["vector_index"].clone();
    assert_eq!((&told["state"], &told["next"]), (&json!("ready"), &Value::Null));
    assert_ne!(told["nLists"], before["nLists"]);
    let path = "/_api/index?collection=archival_docs";
    let indexes = home.database().call("GET", path, &Value::Null).await.ok();
    let vectors = indexes["indexes"].as_array().unwrap().iter().filter(|i| i["type"] == "vector");
    assert_eq!(vectors.count(), 1);
    assert!(search(&ada).await);
    assert!(searcher.end().await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_whose_vectors_took_long_gets_those_that_serve_by_then() {
    let home = Home::new();
    let _engine = home.engine().await;
    let _model =
        Model::of_length(&home.path("model.sock"), Duration::from_millis(8), AFTER as usize);
    let mut tuning = to_lexical();
    // The server's embedder is the slow model; its next embedder is the lexical embedder with the
    // same dimension.
    for (name, value) in to_model(&home, AFTER).environment {
        tuning.environment.push((name.replace("__NEXT__", "__"), value));
    }
    let _server = server(&home, "vctx.sock", &tuning).await;
    let wire = home.wire("vctx.sock");
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    ada.done("ingest_archival", &document("d1", 1, 0)).await;
    let text: String = (0..900).map(|n| format!("In round {n} the tide turns. ")).collect();
    let long = json!({"doc_id": "long", "document": text, "splitter": {"tokens_max": 16}});
    let slow = ada.again();
    let call = long.clone();
    let ingest = tokio::spawn(async move { slow.done("ingest_archival", &call).await });
    ask(&wire, "start").await.ok();
    switched(&wire, 2).await;
    // The ingest with the slow model takes several seconds. The reindex takes only one or two
    // seconds, so it ends first.
    ingest.await.expect("it is taken in");
    assert_archive(&home.database()).await;
    ada.done(
        "ingest_archival",
        &json!({"doc_id": "again", "document": text, "splitter": {"tokens_max": 16}}),
    )
    .await;
    let vectors = "FOR d IN archival_docs FILTER d.doc_id == @doc SORT d.index RETURN [d.model_id, d.embedding_2]";
    let of = async |doc: &str| home.database().rows(vectors, json!({"doc": doc})).await;
    assert_eq!(of("long").await, of("again").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedder_that_lies_about_its_length_changes_nothing() {
    let home = Home::new();
    let _engine = home.engine().await;
    let _model = Model::of_length(&home.path("model.sock"), Duration::ZERO, 32);
    let _server = server(&home, "vctx.sock", &to_model(&home, AFTER)).await;
    let wire = home.wire("vctx.sock");
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    fill(&ada, 2).await;
    let told = ask(&wire, "start").await.refused(503, "EMBEDDER_UNAVAILABLE");
    assert!(told["detail"].as_str().unwrap().contains("32 components"), "{told}");
    assert_eq!(status(&wire).await["state"], "none");
    let socket = home.path("vctx.sock").display().to_string();
    let output = home.run(&["reindex", "status", "--socket", &socket]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.contains("no reindex is under way") && text.contains("384 components"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_of_an_earlier_release_and_vectors_of_callers_change_too() {
    let home = Home::new();
    let _engine = home.engine().await;
    let first = server(&home, "vctx.sock", &to_lexical()).await;
    let wire = home.wire("vctx.sock");
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    // Vectors of a model that only the callers know.
    for number in 0..3 {
        let doc_id = format!("c{number}");
        let circle = crate::archival::circle(&doc_id, number * 40, 40, "cosine");
        ada.done("ingest_archival", &circle).await;
    }
    crate::archival::index_becomes(&ada, "ready").await;
    first.stop().await;
    // The test creates the state that an earlier release of vctx left: the vector index covers
    // every chunk, and neither the vector setting nor the manifests of documents contain the number
    // of a setting.
    let database = home.database();
    let path = "/_api/index?collection=archival_docs";
    let indexes = database.call("GET", path, &Value::Null).await.ok();
    let index = indexes["indexes"].as_array().unwrap().iter().find(|i| i["type"] == "vector");
    let index = index.expect("an index").clone();
    let gone = format!("/_api/index/{}", index["id"].as_str().unwrap());
    database.call("DELETE", &gone, &Value::Null).await.ok();
    let dense = json!({"type": "vector", "name": "passages_by_vector", "fields": ["embedding"], "params": index["params"]});
    let made = database.call("POST", path, &dense).await;
    assert_eq!(made.status, 201, "{}", made.text);
    for older in [
        "FOR v IN vctx_meta FILTER v._key == 'vector' REPLACE v WITH UNSET(v, 'number') IN vctx_meta RETURN 1",
        "FOR m IN archival_manifests REPLACE m WITH UNSET(m, 'embedded') IN archival_manifests RETURN 1",
    ] {
        assert!(!database.rows(older, json!({})).await.is_empty());
    }
    let _server = server(&home, "vctx.sock", &to_lexical()).await;
    let told = ask(&wire, "start").await.ok();
    assert_eq!(told["documents_by_caller"], 3);
    let query = json!({"query_vector": [1.0, 0.0], "limit": 7});
    assert_eq!(ada.done("search_archival", &query).await["result"]["k_actual"], 7);
    switched(&wire, 2).await;
    // After the reindex, searches use the server's own vectors, and no longer the vectors that the
    // caller sent.
    ada.tool("search_archival", &query, &key(), "*").await.refused(400, "INVALID_ARGUMENT");
    let circle = crate::archival::circle("c9", 0, 3, "cosine");
    ada.tool("ingest_archival", &circle, &key(), "*").await.refused(409, "VECTOR_SETTING_MISMATCH");
    // The search reads all lists of the index, because a chunk's vector depends on its neighbours
    // and may be in a list that is far from the question's vector.
    let words = json!({"query_text": "Bearing 045.", "mode": "vector", "limit": 5, "nProbe": 32});
    let found = ada.done("search_archival", &words).await;
    assert_eq!(found["result"]["k_actual"], 5);
    assert_eq!(found["result"]["results"][0]["text"], "Bearing 045. ");
    ada.done("ingest_archival", &document("own", 1, 0)).await;
    home.assert_verified("vctx.sock", "ada");
}
