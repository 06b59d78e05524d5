//! Tests the vectors of recall storage on real processes: they are computed in the background, once
//! for every passage, and never shown to another agent.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use vctx::search::passages;
use vctx::store::QUERIES;
use vctx::text::lexical;

use crate::home::{Home, Process, TORN_TAIL, Tuning};
use crate::outside::outside;
use crate::planted::assert_listed;
use crate::talk::Agent;

mod archive;

/// Dimension of the model's vectors.
const DIMENSION: usize = 384;
/// Maximum number of polls for pending vectors, and the pause between two polls.
const LOOKS_MAX: usize = 1_200;
const LOOK: Duration = Duration::from_millis(50);

/// A fake embedding model at an OpenAI-compatible endpoint on a Unix socket, which computes vectors
/// from the letters of words. A test can make the model slow, and can make it refuse requests.
pub(crate) struct Model {
    pub(crate) fails: Arc<AtomicBool>,
    texts: Arc<AtomicUsize>,
}

/// Decides, from the number of earlier requests and the texts, with which status the model refuses
/// a request, if at all.
type Mood = fn(usize, &[&str]) -> Option<&'static str>;

impl Model {
    pub(crate) fn start(socket: &Path, pause: Duration) -> Model {
        Model::moody(socket, pause, DIMENSION, |_, _| None)
    }

    /// Starts a model with vectors of the given dimension.
    pub(crate) fn of_length(socket: &Path, pause: Duration, dimension: usize) -> Model {
        Model::moody(socket, pause, dimension, |_, _| None)
    }

    /// Starts a model that refuses the requests that `mood` selects.
    fn moody(socket: &Path, pause: Duration, dimension: usize, mood: Mood) -> Model {
        let requests = Arc::<AtomicUsize>::default();
        let listener = UnixListener::bind(socket).expect("a socket");
        let (fails, texts) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let model = Model { fails: Arc::clone(&fails), texts: Arc::clone(&texts) };
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (fails, texts) = (Arc::clone(&fails), Arc::clone(&texts));
                let requests = Arc::clone(&requests);
                tokio::spawn(async move {
                    let mut stream = stream;
                    let mood =
                        |texts: &[&str]| mood(requests.fetch_add(1, Ordering::SeqCst), texts);
                    let how = (pause, dimension);
                    while answer(&mut stream, &fails, &texts, how, &mood).await.is_some() {}
                });
            }
        });
        model
    }

    /// Returns the number of texts that the model was asked to embed.
    pub(crate) fn asked(&self) -> usize {
        self.texts.load(Ordering::SeqCst)
    }
}

async fn answer(
    stream: &mut UnixStream,
    fails: &AtomicBool,
    asked: &AtomicUsize,
    (pause, dimension): (Duration, usize),
    mood: &(impl Fn(&[&str]) -> Option<&'static str> + Sync),
) -> Option<()> {
    let mut bytes = Vec::new();
    let body: Value = loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
        let length: usize = length.parse().ok()?;
        if bytes.len() >= end + 4 + length {
            break serde_json::from_slice(&bytes[end + 4..]).ok()?;
        }
    };
    let texts: Vec<&str> = body["input"].as_array()?.iter().filter_map(Value::as_str).collect();
    tokio::time::sleep(pause * u32::try_from(texts.len()).ok()?).await;
    let vector = |(at, text): (usize, &&str)| json!({"index": at, "embedding": lexical::embed_query(text, dimension)});
    let data: Vec<Value> = texts.iter().enumerate().map(vector).collect();
    let down = fails.load(Ordering::SeqCst).then_some("500 Down");
    let status = down.or_else(|| mood(&texts)).unwrap_or("200 OK");
    asked.fetch_add(texts.len(), Ordering::SeqCst);
    let text = json!({"data": data}).to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        text.len()
    );
    stream.write_all(head.as_bytes()).await.ok()?;
    stream.write_all(text.as_bytes()).await.ok()
}

pub(crate) fn tuned(home: &Home, version: &str) -> Tuning {
    let socket = home.path("model.sock").display().to_string();
    let environment = [
        ("VCTX_EMBEDDER__KIND", "endpoint"),
        ("VCTX_EMBEDDER__SOCKET", &socket),
        ("VCTX_EMBEDDER__MODEL", "letters"),
        ("VCTX_EMBEDDER__VERSION", version),
        ("VCTX_EMBEDDER__DIMENSION", "384"),
        ("VCTX_EMBEDDER__TIMEOUT_MS", "60000"),
    ];
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    Tuning { environment: environment.map(owned).into(), ..Tuning::default() }
}

async fn server(home: &Home, version: &str) -> Process {
    home.server("vctx.sock", "engine.sock", "engine-ro.sock", &tuned(home, version)).await
}

/// Returns the expected passages of an agent's texts, in the order of the entries.
fn wanted(texts: &[String]) -> Vec<Value> {
    let spans = |text: &String| {
        passages(text).into_iter().map(|p| json!([p.start, p.end])).collect::<Vec<_>>()
    };
    texts.iter().filter(|text| !text.trim().is_empty()).flat_map(spans).collect()
}

async fn made(home: &Home, scope: &str) -> Vec<Value> {
    let query = "FOR v IN recall_vectors FILTER v.agent_id == @scope SORT v.seq, v.passage RETURN [v.start, v.end]";
    home.database().rows(query, json!({"scope": scope})).await
}

/// Waits until every passage of the texts has exactly one vector.
pub(crate) async fn all_made(home: &Home, scope: &str, texts: &[String]) {
    let wanted = wanted(texts);
    for _ in 0..LOOKS_MAX {
        let made = made(home, scope).await;
        assert!(made.len() <= wanted.len(), "{} vectors for {} passages", made.len(), wanted.len());
        if made.len() == wanted.len() {
            assert_eq!(made, wanted);
            assert_listed(&home.database()).await;
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("{} of {} vectors were made", made(home, scope).await.len(), wanted.len());
}

pub(crate) async fn log(agent: &Agent, texts: &[String]) {
    for part in texts.chunks(100) {
        let entries: Vec<Value> = part.iter().map(|text| json!({"content": text})).collect();
        agent.done("write_recall", &json!({"entries": entries})).await;
    }
}

/// Returns the fingerprint of the embedder that computed the vectors in an agent's recall storage.
async fn fingerprint(home: &Home, scope: &str) -> Value {
    let mark = "FOR m IN recall_marks FILTER m._key == @scope RETURN m.fingerprint";
    home.database().row(mark, json!({"scope": scope})).await
}

/// Returns bind parameters of the query with which the server finds near passages. The constants
/// among the values hardly affect these tests.
fn near_binds(scope: &str, fingerprint: &Value, text: &str, limit: u64) -> Value {
    json!({"scope": scope, "fingerprint": fingerprint, "limit": limit, "known": [], "weighed_max": 1, "beside": 0, "chars_max": 10,
        "beside_chars_max": 10, "query_vector": lexical::embed_query(text, DIMENSION)})
}

/// Returns the passages that are nearest to a text, found with the server's own query.
async fn near(home: &Home, scope: &str, text: &str, limit: u64) -> Vec<Value> {
    let query = QUERIES.iter().find(|query| query.name == "recall_near_exact").expect("the query");
    let fingerprint = fingerprint(home, scope).await;
    let binds = near_binds(scope, &fingerprint, text, limit);
    let found = home.database().row(query.text, binds).await;
    found["near"].as_array().expect("passages").clone()
}

fn texts(count: usize) -> Vec<String> {
    let long =
        "The bicycle needs new brake pads before the tour in August, and the chain wants oil. "
            .repeat(9);
    let mut texts: Vec<String> =
        (0..count).map(|n| format!("Berth {n} lies beside buoy number {}.", n * 7)).collect();
    texts.extend(["Biscuit the cat gets drops from the veterinarian.".into(), "  \n ".into()]);
    texts.push(format!("{long} The harbour master wants fourteen euros. {long}"));
    texts
}

#[tokio::test(flavor = "multi_thread")]
async fn every_passage_of_what_is_logged_gets_a_vector_of_its_own_agent() {
    let home = Home::new();
    let _engine = home.engine().await;
    let _model = Model::start(&home.path("model.sock"), Duration::ZERO);
    let server = server(&home, "1").await;
    let (ada, bob) = (
        Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await,
        Agent::create(home.wire("vctx.sock"), "bob", 8192, "Be kind.").await,
    );
    let mut texts = texts(20);
    log(&ada, &texts).await;
    log(&bob, &["The choir rehearses Brahms on Thursdays.".into()]).await;
    all_made(&home, "ada", &texts).await;
    // Evicted messages get vectors as well.
    ada.append("user", "The tide turns at seven.").await;
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    texts.push("The tide turns at seven.".into());
    all_made(&home, "ada", &texts).await;
    all_made(&home, "bob", &["The choir rehearses Brahms on Thursdays.".into()]).await;

    // A long text is found by its matching passage.
    let found = near(&home, "ada", "harbour master, fourteen euros", 1).await;
    let (start, end) = (found[0]["start"].as_u64().unwrap(), found[0]["end"].as_u64().unwrap());
    let long = &texts[22];
    assert!(long[start as usize..end as usize].contains("fourteen"), "{found:?}");
    let found = near(&home, "ada", "When does the tide turn?", 3).await;
    assert_eq!(found[0]["seq"], 24);
    assert!(found[0].get("embedding").is_none());
    // No query finds passages of another agent.
    let found = near(&home, "bob", "harbour master tide cat Brahms", 40).await;
    assert_eq!(found.len(), 1);

    // A removed entry is hidden immediately, and its vectors are removed with it.
    let query = "FOR e IN recall_log FILTER e.seq == 24 AND e._from == 'core_memory/ada' REMOVE e IN recall_log RETURN OLD.seq";
    assert_eq!(home.database().rows(query, json!({})).await.len(), 1);
    let found = near(&home, "ada", "When does the tide turn?", 40).await;
    assert!(found.iter().all(|passage| passage["seq"] != 24));
    for look in 0.. {
        assert!(look < LOOKS_MAX, "the vectors of a removed entry stay");
        if made(&home, "ada").await.len() == wanted(&texts).len() - 1 {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }

    // Another version of the model counts as another embedder, so all vectors are replaced.
    texts.pop();
    server.stop().await;
    let first = near(&home, "ada", "cat", 1).await;
    assert_eq!(first.len(), 1);
    let _server = self::server(&home, "2").await;
    let fingerprints = "RETURN UNIQUE(FOR v IN recall_vectors RETURN v.fingerprint)";
    let before = home.database().row(fingerprints, json!({})).await;
    for look in 0.. {
        assert!(look < LOOKS_MAX, "vectors of the old embedder stay");
        let now = home.database().row(fingerprints, json!({})).await;
        if now.as_array().unwrap().len() == 1 && now != before {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    all_made(&home, "ada", &texts).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_says_so_while_what_was_logged_last_has_no_vectors() {
    static HELD: AtomicBool = AtomicBool::new(true);
    let home = Home::new();
    let _engine = home.engine().await;
    let held = |_, texts: &[&str]| {
        (HELD.load(Ordering::SeqCst) && texts != ["lantern"]).then_some("503 Busy")
    };
    let _model = Model::moody(&home.path("model.sock"), Duration::ZERO, DIMENSION, held);
    let server = server(&home, "1").await;
    server.expect("a job failed");
    server.expect("the embedder");
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let texts = ["The lantern hangs in the porch.".to_owned()];
    log(&ada, &texts).await;
    let asked = json!({"query": "lantern", "rehydrate": false});
    let found = ada.done("search_recall", &asked).await["result"].clone();
    assert_eq!((&found["vectors"], &found["complete"]), (&json!("exact"), &json!(false)));
    assert_eq!(found["total"], 1, "{found}");
    HELD.store(false, Ordering::SeqCst);
    all_made(&home, "ada", &texts).await;
    let found = ada.done("search_recall", &asked).await["result"].clone();
    assert_eq!((&found["vectors"], &found["complete"]), (&json!("exact"), &Value::Null));
    // A search by words does not wait for vectors.
    let words = json!({"query": "lantern", "mode": "text", "rehydrate": false});
    let found = ada.done("search_recall", &words).await["result"].clone();
    assert!(found["vectors"].is_null() && found["complete"].is_null(), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_the_queue_is_found_by_meaning_and_its_vector_is_made_before_the_search() {
    let home = Home::new();
    let _engine = home.engine().await;
    let model = Model::start(&home.path("model.sock"), Duration::ZERO);
    let _server = server(&home, "1").await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let said = ["Biscuit the cat gets marigold drops.", "The choir rehearses Brahms on Thursdays."];
    for text in said {
        ada.append("user", text).await;
    }
    for _ in 0..LOOKS_MAX {
        if model.asked() >= said.len() {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    assert_eq!(model.asked(), said.len(), "each message is embedded once");
    let asked = json!({"query": "which drops for the cat", "mode": "vector", "rehydrate": false, "similarity_min": 0.1});
    let found = ada.done("search_recall", &asked).await;
    let results = found["result"]["results"].as_array().expect("results");
    assert_eq!(results[0]["content"], said[0], "{found:#}");
    assert_eq!(model.asked(), said.len() + 1, "a search embeds nothing but the question");
    assert_eq!(made(&home, "ada").await.len(), 0, "vectors of the queue are not stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_passages_get_an_index_of_their_own_which_another_length_replaces() {
    let home = Home::new();
    let _engine = home.engine().await;
    let _model = Model::start(&home.path("model.sock"), Duration::ZERO);
    let first = server(&home, "1").await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 8192, "Be kind.").await;
    let texts = texts(200);
    log(&ada, &texts).await;
    log(&bob, &texts[..50]).await;
    all_made(&home, "ada", &texts).await;
    all_made(&home, "bob", &texts[..50]).await;
    first.stop().await;
    let mut few = tuned(&home, "1");
    few.environment.push(("VCTX_ARCHIVE__EXACT_ROWS_MAX".into(), "100".into()));
    let second = home.server("vctx.sock", "engine.sock", "engine-ro.sock", &few).await;
    index_is(&home, Some(DIMENSION)).await;
    let query = QUERIES.iter().find(|query| query.name == "recall_near").expect("the query");
    for (scope, text) in [("ada", "berth 77"), ("bob", "buoy number 140"), ("ada", "veterinarian")]
    {
        let exact = near(&home, scope, text, 5).await;
        let fingerprint = fingerprint(&home, scope).await;
        // A search that reads all lists and all rows returns the same similarities as an exact
        // comparison.
        let mut binds = near_binds(scope, &fingerprint, text, 5);
        binds["n_probe"] = 512.into();
        binds["fetch"] = 400.into();
        let found = home.database().row(query.text, binds).await;
        let best = |rows: &[Value]| {
            rows.iter().map(|row| row["similarity"].as_f64().unwrap()).collect::<Vec<_>>()
        };
        let (found, exact) = (best(found["near"].as_array().unwrap()), best(&exact));
        assert_eq!(found.len(), 5);
        for (a, b) in found.iter().zip(&exact) {
            assert!((a - b).abs() < 1e-5, "{scope}, {text}: {found:?} {exact:?}");
        }
    }
    second.stop().await;
    // The server must replace the vector index, because an index for vectors of the old dimension
    // would refuse the new vectors.
    let mut short = tuned(&home, "short");
    short.environment.push(("VCTX_EMBEDDER__DIMENSION".into(), "96".into()));
    home.database()
        .rows("FOR v IN recall_vectors REMOVE v IN recall_vectors RETURN 1", json!({}))
        .await;
    let third = home.server("vctx.sock", "engine.sock", "engine-ro.sock", &short).await;
    third.expect("a job failed");
    third.expect("the embedder");
    index_is(&home, None).await;
}

/// Waits until a vector index of the given dimension over recall storage exists, or is removed.
pub(crate) async fn index_is(home: &Home, dimension: Option<usize>) {
    for _ in 0..LOOKS_MAX {
        let path = "/_api/index?collection=recall_vectors";
        let indexes = home.database().call("GET", path, &Value::Null).await.ok();
        let found =
            indexes["indexes"].as_array().unwrap().iter().find(|index| index["type"] == "vector");
        let is = match (found, dimension) {
            (None, None) => true,
            (Some(index), Some(wanted)) => {
                index["params"]["dimension"] == json!(wanted) && index["trainingState"] == "ready"
            }
            _ => false,
        };
        if is {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("the vector index of recall storage is never of {dimension:?} components");
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn who_is_killed_goes_on_where_it_was() {
    let home = Home::new();
    let mut engine = home.engine().await;
    let model = Model::start(&home.path("model.sock"), Duration::from_millis(2));
    let mut server = server(&home, "1").await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let texts = texts(700);
    log(&ada, &texts).await;
    let all = wanted(&texts).len();
    for round in 1..=4 {
        let share = all * round / 5;
        for look in 0.. {
            assert!(look < LOOKS_MAX, "no more than {} of {share}", made(&home, "ada").await.len());
            if made(&home, "ada").await.len() >= share {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for process in [&engine, &server] {
            process.expect("a job failed");
            process.expect("database");
            process.expect("embedder");
        }
        // The test must not kill a database server that it did not start.
        if round % 2 == 0 && outside().is_none() {
            engine.kill();
            server.kill();
            engine = home.engine().await;
            engine.expect(TORN_TAIL);
        } else {
            server.kill();
        }
        server = self::server(&home, "1").await;
    }
    all_made(&home, "ada", &texts).await;
    let asked = model.texts.load(Ordering::SeqCst);
    assert!(asked < all * 3, "{asked} texts were embedded for {all} passages");
    // All servers of the test write to one log. This log contains warnings about the lost
    // connection, from servers whose engine was killed.
    server.expect("a job failed");
    home.assert_verified("vctx.sock", "ada");
    drop(server);
    drop(engine);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_fails_is_in_nobodys_way() {
    let home = Home::new();
    let _engine = home.engine().await;
    let model = Model::start(&home.path("model.sock"), Duration::ZERO);
    model.fails.store(true, Ordering::SeqCst);
    let server = server(&home, "1").await;
    server.expect("a job failed");
    server.expect("the embedder failed");
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let texts = texts(5);
    log(&ada, &texts).await;
    ada.append("user", "Good morning").await;
    let found =
        ada.done("search_recall", &json!({"query": "veterinarian", "rehydrate": false})).await;
    assert_eq!(found["result"]["results"][0]["content"], texts[5]);
    while model.texts.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(LOOK).await;
    }
    assert_eq!(made(&home, "ada").await.len(), 0);
    model.fails.store(false, Ordering::SeqCst);
    all_made(&home, "ada", &texts).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_the_model_refuses_is_in_nobodys_way() {
    let home = Home::new();
    let _engine = home.engine().await;
    let refuses: Mood = |_, texts| {
        texts.iter().any(|text| text.contains("unspeakable")).then_some("400 Bad Request")
    };
    let _model = Model::moody(&home.path("model.sock"), Duration::ZERO, DIMENSION, refuses);
    let server = server(&home, "1").await;
    server.expect("the model makes no vectors of an entry");
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 8192, "Be kind.").await;
    let mut texts = texts(20);
    let mut said = texts.clone();
    said.insert(0, "An unspeakable word.".into());
    said.insert(9, format!("{} Something unspeakable.", "The choir sings. ".repeat(60)));
    log(&ada, &said).await;
    log(&bob, &texts).await;
    all_made(&home, "bob", &texts).await;
    all_made(&home, "ada", &texts).await;
    log(&ada, &["The tide turns at seven.".into()]).await;
    texts.push("The tide turns at seven.".into());
    all_made(&home, "ada", &texts).await;
    let refused = "FOR m IN recall_marks FILTER m._key == 'ada' FOR r IN m.refused FOR e IN recall_log FILTER e._key == r.id SORT e.seq RETURN e.seq";
    assert_eq!(home.database().rows(refused, json!({})).await, [1, 10]);
    let asked = json!({"query": "unspeakable word", "mode": "text", "rehydrate": false});
    let found = ada.done("search_recall", &asked).await;
    assert_eq!(found["result"]["results"][0]["content"], said[0]);
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_text_gets_its_vectors_from_a_model_that_tires() {
    let home = Home::new();
    let _engine = home.engine().await;
    let tires: Mood = |requests, _| (requests % 12 >= 6).then_some("500 Tired");
    let model = Model::moody(&home.path("model.sock"), Duration::ZERO, DIMENSION, tires);
    let server = server(&home, "1").await;
    server.expect("a job failed");
    server.expect("the embedder");
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let fee = |n: usize| {
        format!("In year {n} the harbour master took {n} euros for a berth beside the old buoy. ")
    };
    let texts = vec![(0..3_000).map(fee).collect::<String>(), "The tide turns at seven.".into()];
    assert!(passages(&texts[0]).len() > 700);
    log(&ada, &texts).await;
    all_made(&home, "ada", &texts).await;
    let (asked, all) = (model.texts.load(Ordering::SeqCst), wanted(&texts).len());
    assert!(asked < all * 4, "{asked} texts were embedded for {all} passages");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_near_is_shown_wherever_in_a_text_it_stands() {
    let home = Home::new();
    let _engine = home.engine().await;
    let _model = Model::start(&home.path("model.sock"), Duration::ZERO);
    let _server = server(&home, "1").await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let noise = "Nothing of that kind was ever said here. ";
    let fact = "The veterinarian prescribes marigold drops.";
    let deep = |times: usize| format!("{}{fact} {}", noise.repeat(times), noise.repeat(9));
    for (role, text) in [
        ("user", "Marigold drops of the veterinarian?"),
        ("assistant", &deep(100)),
        ("user", "I see."),
        ("assistant", &deep(600)),
    ] {
        ada.append(role, text).await;
    }
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    let said: Vec<String> = ada
        .messages()
        .await
        .iter()
        .filter(|m| m["kind"] == "turn")
        .map(|m| m["content"].as_str().unwrap().to_owned())
        .collect();
    all_made(&home, "ada", &said).await;
    let asked = json!({"query": "veterinarian marigold drops", "mode": "vector", "rehydrate": false, "similarity_min": 0.1});
    let found = ada.done("search_recall", &asked).await["result"].take();
    let results = found["results"].as_array().unwrap();
    assert_eq!(results.len(), 3, "{found}");
    for result in results.iter().filter(|r| r["role"] == "assistant") {
        assert!(result["content"].as_str().unwrap().contains(fact), "{}", result["excerpt"]);
        assert!(result["score"].as_f64().unwrap() > 0.1);
    }
}

#[tokio::test]
async fn without_a_model_there_are_no_vectors() {
    let home = Home::new();
    let _engine = home.engine().await;
    let _server =
        home.server("vctx.sock", "engine.sock", "engine-ro.sock", &Tuning::default()).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    log(&ada, &texts(3)).await;
    // During this pause, a background job that computes vectors would have run three times.
    tokio::time::sleep(Duration::from_millis(1_600)).await;
    assert_eq!(made(&home, "ada").await.len(), 0);
}
