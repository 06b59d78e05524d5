//! Tests searches of recall storage on real processes: entries are found as soon as they are
//! written, page by page, and never by another agent; the search copies them into the window with a
//! mark.

use std::time::Duration;

use serde_json::{Value, json};

use crate::count;
use crate::database::Database;
use crate::home::{Home, Tuning};
use crate::talk::{Agent, key};
use crate::wire::Answer;

/// Maximum number of pages that the test reads.
const PAGES_MAX: usize = 100;
/// Maximum number of polls of a view that lags, and the pause between two polls.
const LOOKS_MAX: usize = 600;
const LOOK: Duration = Duration::from_millis(50);

async fn search(agent: &Agent, arguments: &Value) -> Value {
    agent.done("search_recall", arguments).await["result"].take()
}

fn texts(result: &Value) -> Vec<&str> {
    let results = result["results"].as_array().expect("results");
    results.iter().map(|r| r["content"].as_str().expect("a text")).collect()
}

/// Searches recall storage without an idempotency key and a revision.
async fn bare(agent: &Agent, arguments: &Value) -> Answer {
    let path = format!("{}/tools/search_recall", agent.path());
    agent.wire.call("POST", &path, &[], arguments.to_string()).await
}

async fn store(agent: &Agent, texts: &[&str]) {
    let entries: Vec<Value> = texts.iter().map(|text| json!({"content": text})).collect();
    agent.done("write_recall", &json!({"entries": entries})).await;
}

#[tokio::test]
async fn what_is_stored_or_evicted_is_found_at_once_from_any_server() {
    let home = Home::new();
    let _engine = home.engine().await;
    let tuning = Tuning::default();
    let _first = home.server("vctx.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    let _second = home.server("second.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let other = Agent::at(home.wire("second.sock"), "ada");
    for round in 0..10 {
        let fact = format!("The harbour code of round {round} is marigold{round}.");
        store(&ada, &[&fact]).await;
        let found = search(&other, &json!({"query": format!("marigold{round}")})).await;
        assert_eq!(texts(&found), [&fact]);
        let said = format!("I left the bicycle number{round} at the chapel.");
        ada.append("user", said.as_str()).await;
        other.done("evict_fifo", &json!({"target_tokens": 0})).await;
        let found = search(&ada, &json!({"query": format!("number{round} bicycles")})).await;
        assert_eq!(texts(&found)[0], said, "words are found by their stems");
    }
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test]
async fn what_the_tail_no_longer_holds_is_found_through_the_view() {
    let home = Home::new();
    let _engine = home.engine().await;
    let tuning = Tuning::default();
    let _server = home.server("vctx.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let scattered = "boat boat, and a boat more, blue as ever: blue blue";
    store(&ada, &[scattered, "They took the blue boat across the bay at dawn", "A loud song"])
        .await;
    let aged = "FOR e IN recall_log UPDATE e WITH { logged_ms: 1 } IN recall_log RETURN NEW._key";
    assert_eq!(home.database().rows(aged, json!({})).await.len(), 3);
    let asked = json!({"query": "blue boat", "rehydrate": false});
    let mut found = Value::Null;
    for _ in 0..LOOKS_MAX {
        found = search(&ada, &asked).await;
        if texts(&found).len() == 2 {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    assert_eq!(texts(&found), ["They took the blue boat across the bay at dawn", scattered]);
    let quoted = search(&ada, &json!({"query": "\"blue boat\"", "rehydrate": false})).await;
    assert!(texts(&quoted)[0].starts_with("They took"));
    let receipts = ada.messages().await;
    for result in found["results"].as_array().expect("results") {
        let message = receipts.iter().find(|m| m["id"] == result["id"]).expect("a message");
        for part in ["seq", "digest", "chain"] {
            assert_eq!(result["receipt"][part], message[part]);
        }
    }
}

/// Waits until the view shows the given number of entries.
pub(crate) async fn view_shows(database: &Database, entries: usize) {
    for _ in 0..LOOKS_MAX {
        if database.rows("FOR e IN recall_view RETURN e._key", json!({})).await.len() == entries {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("the view never shows {entries} entries");
}

async fn archive_shows(database: &Database, chunks: usize) {
    for _ in 0..LOOKS_MAX {
        let shown = database.rows("FOR d IN archival_view RETURN d._key", json!({})).await;
        if shown.len() == chunks {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("the view never shows {chunks} chunks");
}

#[tokio::test]
async fn a_phrase_ranks_above_its_words_scattered_before_and_after_the_view_has_it() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    // This short entry contains both words, but not the phrase. It would be the best match if the
    // search did not prefer entries with the phrase.
    let scattered = "boat, boat, blue, blue";
    let phrase =
        "At dawn they took the blue boat across the bay to look for the old man and his dog";
    store(&ada, &[phrase, scattered, "A loud song", "A green door", "The tide"]).await;
    let database = home.database_inside();
    for in_view in [false, true] {
        if in_view {
            view_shows(&database, 5).await;
        }
        for (query, best) in [("\"blue boat\"", phrase), ("boat \"blue\"", scattered)] {
            let found = search(&ada, &json!({"query": query, "rehydrate": false})).await;
            assert_eq!(texts(&found).len(), 2, "{found}");
            assert_eq!(texts(&found)[0], best, "{query}, in the view: {in_view}");
        }
    }
    let view = database.call("GET", "/_api/view/recall_view/properties", &Value::Null).await.ok();
    let fields = &view["links"]["recall_log"]["fields"];
    assert_eq!(fields["payload"]["fields"]["content"]["analyzers"], json!(["text_en"]), "{view}");
    assert_eq!(fields["_from"]["analyzers"], json!(["identity"]), "{view}");
}

#[tokio::test]
async fn the_same_reading_call_twice_is_answered_byte_for_byte_the_same() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let texts: Vec<String> =
        (0..12).map(|n| format!("Lamp {n} of the quay, lamp of oil")).collect();
    store(&ada, &texts.iter().map(String::as_str).collect::<Vec<_>>()).await;
    ada.done("store_core", &json!({"block_id": "human", "content": "Likes tea."})).await;
    ada.done(
        "ingest_archival",
        &json!({"doc_id": "quay", "chunks": ["The quay has lamps.", "Oil burns."]}),
    )
    .await;
    view_shows(&home.database_inside(), texts.len()).await;
    // As long as the view does not show a chunk, the server computes the chunk's score without the
    // view.
    archive_shows(&home.database_inside(), 2).await;
    let calls = [
        ("search_recall", json!({"query": "lamp of oil", "limit": 20, "rehydrate": false})),
        ("search_archival", json!({"query_text": "lamps on the quay"})),
        ("fetch_core", json!({"block_id": "human"})),
    ];
    let version = ada.state().await["version"].clone();
    for (tool, arguments) in &calls {
        let path = format!("{}/tools/{tool}", ada.path());
        let first = ada.wire.call("POST", &path, &[], arguments.to_string()).await;
        let second = ada.again().wire.call("POST", &path, &[], arguments.to_string()).await;
        assert_eq!(first.text, second.text, "{tool}");
        let body = first.ok();
        let results = body["result"]["results"].as_array().map(Vec::len);
        let wanted = [("search_recall", 12), ("search_archival", 2)];
        let wanted = wanted.iter().find(|(name, _)| name == tool).map(|(_, count)| *count);
        assert_eq!(results, wanted, "{tool}: {body}");
    }
    assert_eq!(ada.state().await["version"], version, "nothing was written");
}

#[tokio::test]
async fn two_agents_with_the_same_words_never_see_each_other() {
    let home = Home::new();
    let _server = home.serve().await;
    let (ada, bob) = (
        Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await,
        Agent::create(home.wire("vctx.sock"), "bob", 8192, "Be kind.").await,
    );
    for n in 0..30 {
        store(&ada, &[&format!("The lighthouse keeper of ada, part {n}")]).await;
        store(&bob, &[&format!("The lighthouse keeper of bob, part {n}")]).await;
    }
    for (agent, own) in [(&ada, "of ada"), (&bob, "of bob")] {
        let mut token = Value::Null;
        let mut seen = 0;
        for _ in 0..PAGES_MAX {
            let asked = json!({"query": "lighthouse keeper", "limit": 7, "page_token": token});
            let found = search(agent, &asked).await;
            assert!(texts(&found).iter().all(|text| text.contains(own)), "{found}");
            seen += texts(&found).len();
            token = found["next_page_token"].clone();
            if token.is_null() {
                break;
            }
            let foreign = if own == "of ada" { &bob } else { &ada };
            let asked = json!({"query": "lighthouse keeper", "limit": 7, "page_token": token});
            bare(foreign, &asked).await.refused(400, "PAGE_TOKEN_INVALID");
        }
        assert_eq!(seen, 30);
        let context = agent.context().await.to_string();
        let other = if own == "of ada" { "of bob" } else { "of ada" };
        assert!(context.contains(own) && !context.contains(other));
    }
}

#[tokio::test]
async fn copies_count_exactly_and_are_never_logged_again() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    for n in 0..12 {
        ada.append("user", format!("Entry {n}: the tide table hangs behind the door.")).await;
    }
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    let database = home.database_inside();
    let edges = database.counts().await["recall"].clone();
    assert_eq!(edges, 12);
    for _ in 0..5 {
        let before = ada.state().await["tokens"]["occupancy"].as_u64().expect("a number");
        let found = search(&ada, &json!({"query": "tide table", "limit": 5})).await;
        let after = ada.state().await["tokens"]["occupancy"].as_u64().expect("a number");
        assert_eq!(found["tokens_added"], after - before);
        assert!(after > before);
        let context = ada.context().await;
        let items = context["manifest"]["items"].as_array().expect("items");
        let of_copies = items.iter().filter(|i| i["section"] == "fifo" && i["id"] != "opening");
        assert_eq!(of_copies.count(), 5, "{items:?}");
        assert_eq!(context["tokens"]["occupancy"], after);
        assert!(context.to_string().contains("Recalled from earlier"));
        let again = search(&ada, &json!({"query": "tide table", "limit": 5})).await;
        assert_eq!(again["tokens_added"], 0, "they stand there already");
        ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
        assert_eq!(database.counts().await["recall"], edges);
    }
    let copies: Vec<Value> =
        ada.messages().await.into_iter().filter(|m| m["kind"] == "copy").collect();
    assert_eq!(copies.len(), 25);
    assert!(copies.iter().all(|m| m["copy_of"].is_string() && m["logged"] == false));
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test]
async fn page_tokens_walk_the_whole_while_others_write_and_evict() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 2048, "Be kind.").await;
    let other = ada.again();
    let many: Vec<String> =
        (0..60).map(|n| format!("Sail number {n} {}", "canvas ".repeat(n % 7))).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    store(&ada, &many).await;
    let asked = |token: &Value| json!({"query": "sails", "limit": 20, "page_token": token});
    let (mut seen, mut token, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let found = search(&ada, &asked(&token)).await;
        let ids = found["results"].as_array().expect("results").iter();
        seen.extend(ids.map(|r| r["id"].as_str().expect("an id").to_owned()));
        pages += 1;
        assert!(pages < PAGES_MAX);
        token = found["next_page_token"].clone();
        if token.is_null() {
            break;
        }
        store(&other, &["Another sail was sewn meanwhile"]).await;
        other.append("user", "A word from outside. ".repeat(12)).await;
        if pages % 3 == 0 {
            other.done("evict_fifo", &json!({"target_tokens": 0})).await;
        }
        let occupancy = ada.state().await["tokens"]["occupancy"].as_u64().expect("a number");
        assert!(occupancy <= 2048);
    }
    assert!(pages > 3, "a tight window gives partial results");
    let mut unique = seen.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!((seen.len(), unique.len()), (60, 60), "no gap and no double");
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test]
async fn tokens_that_were_tampered_with_or_are_stale_are_refused() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let entries = ["rope one", "rope two", "rope three"];
    store(&ada, &entries).await;
    let found = search(&ada, &json!({"query": "rope", "limit": 1, "rehydrate": false})).await;
    let token = found["next_page_token"].as_str().expect("a token").to_owned();
    let asked = |query: &str, token: &str| json!({"query": query, "limit": 1, "rehydrate": false, "page_token": token});
    bare(&ada, &asked("rope", &token)).await.ok();
    bare(&ada, &asked("ropes", &token)).await.refused(400, "PAGE_TOKEN_INVALID");
    let parts: Vec<&str> = token.split('.').collect();
    let moved = format!("{}.2.{}.{}", parts[0], parts[2], parts[3]);
    let expired = format!("{}.{}.1.{}", parts[0], parts[1], parts[3]);
    let missing = format!("{}.{}.{}.{}", "0".repeat(32), parts[1], parts[2], parts[3]);
    for (text, status, code) in [
        (moved.as_str(), 400, "PAGE_TOKEN_INVALID"),
        (missing.as_str(), 400, "PAGE_TOKEN_INVALID"),
        ("nonsense", 400, "PAGE_TOKEN_INVALID"),
        (expired.as_str(), 410, "PAGE_EXPIRED"),
    ] {
        bare(&ada, &asked("rope", text)).await.refused(status, code);
    }
}

#[tokio::test]
async fn a_search_takes_a_key_mints_one_and_is_done_once() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    store(&ada, &["An anchor of bronze", "An anchor of iron"]).await;
    let asked = json!({"query": "anchor"});
    let minted = bare(&ada, &asked).await.ok();
    let made = minted["idempotency_key"].as_str().expect("a minted key");
    let again = ada.tool("search_recall", &asked, made, "*").await.ok();
    assert_eq!((&again["replayed"], &again["result"]), (&json!(true), &minted["result"]));
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    let own = key();
    let first = ada.tool("search_recall", &asked, &own, "*").await.ok();
    let copies = ada.state().await["queue"]["count"].clone();
    let second = ada.tool("search_recall", &asked, &own, "*").await.ok();
    assert_eq!((&copies, &ada.state().await["queue"]["count"]), (&json!(2), &copies));
    assert_eq!((&second["replayed"], &second["result"]), (&json!(true), &first["result"]));
    let spelled_out = json!({"query": "anchor", "page_token": null, "role": null});
    let third = ada.tool("search_recall", &spelled_out, &own, "*").await.ok();
    assert_eq!(third["replayed"], true, "a null is an argument left out");
    let other = json!({"query": "bronze"});
    ada.tool("search_recall", &other, &own, "*").await.refused(409, "IDEMPOTENCY_KEY_REUSED");
    let read = bare(&ada, &json!({"query": "anchor", "rehydrate": false})).await.ok();
    assert_eq!((&read["idempotency_key"], &read["token_estimate"]), (&Value::Null, &json!(0)));
}

#[tokio::test]
async fn a_result_too_large_for_the_window_is_previewed_and_its_id_leads_to_the_whole() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 1024, "Be kind.").await;
    let long = format!("The ledger begins. {}", "One more line of the ledger. ".repeat(3000));
    store(&ada, &[&long]).await;
    let found = search(&ada, &json!({"query": "ledger", "whole": true})).await;
    assert_eq!(
        (&found["truncated"], &found["results"][0]["truncated"]),
        (&json!(true), &json!(true))
    );
    assert!(texts(&found)[0].starts_with("The ledger begins."));
    let id = found["results"][0]["id"].as_str().expect("an id");
    let state = ada.state().await;
    assert!(state["tokens"]["occupancy"].as_u64() <= Some(1024));
    let notice =
        state["notices"].as_array().expect("notices").iter().find(|n| n["kind"] == "spool");
    assert!(notice.expect("a notice")["content"].as_str().expect("a text").contains(id));
    let messages = ada.messages().await;
    let whole = messages.iter().find(|m| m["id"] == id).expect("the id resolves");
    assert_eq!(whole["content"], long);
}

/// Appends messages of two people and evicts all of them.
async fn talk(agent: &Agent) {
    for (role, name, said_at, content) in [
        ("user", "Ida", "2024-05-01", "Otto, what did you paint last summer?"),
        ("assistant", "Otto", "2024-05-01", "A harbour with three red cranes."),
        ("user", "Ida", "2024-05-02", "My name is Ida. I paint a lake each summer."),
        ("assistant", "Otto", "2024-05-02", "Then paint the lake again."),
    ] {
        let message = json!({"content": content, "name": name, "said_at": said_at});
        agent.done("append_fifo", &json!({"message": message, "role": role})).await;
    }
    agent.done("evict_fifo", &json!({"target_tokens": 0})).await;
}

#[tokio::test]
async fn a_result_tells_who_said_it_why_it_stands_there_and_what_belongs_to_it() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    talk(&ada).await;
    let asked = json!({"query": "What did Otto paint in summer?", "rehydrate": false, "explain": true, "pairs": true});
    let found = search(&ada, &asked).await;
    let first = &found["results"][0];
    assert_eq!(first["content"], "A harbour with three red cranes.", "{found}");
    assert_eq!((&first["name"], &first["said_at"]), (&json!("Otto"), &json!("2024-05-01")));
    assert_eq!(first["pair"]["content"], "Otto, what did you paint last summer?");
    let parts = first["parts"].as_object().expect("parts");
    let sum: f64 = parts.values().map(|part| part.as_f64().expect("a number")).sum();
    let relevance = vctx::search::relevance(sum, false);
    assert!((relevance - first["score"].as_f64().expect("a score")).abs() < 1e-3, "{first}");
    assert!(parts["speaker"].as_f64() > Some(0.0) && parts["answers"].as_f64() > Some(0.0));
    let question = found["results"].as_array().expect("results").iter().find(|r| r["seq"] == 1);
    assert_eq!(question.expect("the question")["pair"]["seq"], 2);
    let proposal = &found["proposals"][0];
    assert_eq!(proposal["tool"], "store_core");
    assert_eq!(proposal["arguments"]["content"], "My name is Ida.");
    let state = ada.state().await;
    assert!(!state["working_blocks"].to_string().contains("My name is Ida"), "nothing is written");
    let made = ada.done("store_core", &proposal["arguments"]).await;
    assert_eq!(made["replayed"], false);
    let again = search(&ada, &asked).await;
    assert_eq!(again["proposals"], Value::Null, "what the core holds is not proposed");
}

#[tokio::test]
async fn a_search_keeps_to_role_name_and_time_before_and_after_the_view_has_it() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    talk(&ada).await;
    let database = home.database_inside();
    for in_view in [false, true] {
        if in_view {
            view_shows(&database, 4).await;
            let aged = "FOR e IN recall_log UPDATE e WITH { logged_ms: 1 } IN recall_log RETURN 1";
            database.rows(aged, json!({})).await;
            let asked = json!({"query": "paint summer lake cranes", "rehydrate": false});
            let mut looks = 0;
            while texts(&search(&ada, &asked).await).len() < 4 {
                looks += 1;
                assert!(looks < LOOKS_MAX, "the view never shows them again");
                tokio::time::sleep(LOOK).await;
            }
        }
        for (condition, wanted) in [
            (json!({"role": "user"}), vec![1, 3]),
            (json!({"role": "assistant"}), vec![2, 4]),
            (json!({"name": "Ida"}), vec![1, 3]),
            (json!({"name": "Nobody"}), vec![]),
            (json!({"after": "2024-05-02"}), vec![3, 4]),
            (json!({"before": "2024-05-02"}), vec![1, 2]),
            (
                json!({"after": "2024-05-01", "before": "2024-05-01T00:00:00.001Z", "role": "user"}),
                vec![1],
            ),
        ] {
            let mut asked = json!({"query": "paint summer lake", "rehydrate": false});
            asked
                .as_object_mut()
                .expect("an object")
                .extend(condition.as_object().expect("one").clone());
            let found = search(&ada, &asked).await;
            let results = found["results"].as_array().expect("results").iter();
            let mut seqs: Vec<u64> = results.map(|r| r["seq"].as_u64().expect("a place")).collect();
            seqs.sort_unstable();
            let beside: Vec<u64> = wanted.clone();
            assert!(
                seqs.iter().all(|seq| beside.contains(seq)),
                "{asked} {seqs:?}, in view: {in_view}"
            );
            assert_eq!(seqs.is_empty(), wanted.is_empty(), "{asked}, in view: {in_view}");
        }
    }
}

#[tokio::test]
async fn a_long_message_is_shown_and_brought_back_by_the_passage_that_matters() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let noise = "Nothing of that kind was ever said here. ".repeat(40);
    let long = format!("{noise}The harbour code is marigold. {noise}");
    store(&ada, &[&long]).await;
    let found = search(&ada, &json!({"query": "harbour code"})).await;
    let result = &found["results"][0];
    let place = |name: &str| result["excerpt"][name].as_u64().expect("a place") as usize;
    let excerpt = &long[place("start")..place("end")];
    assert_eq!((&result["content"], place("bytes")), (&json!(excerpt), long.len()));
    assert!(excerpt.contains("marigold") && excerpt.len() < 500);
    let copy = ada.messages().await.into_iter().find(|m| m["kind"] == "copy").expect("a copy");
    assert_eq!((&copy["content"], &copy["seq"]), (&json!(excerpt), &result["copy_seq"]));
    assert_eq!(
        copy["meta"]["recalled"]["excerpt"],
        json!({"start": place("start"), "end": place("end")})
    );
    assert!(ada.context().await.to_string().contains("marigold"));
    let whole =
        search(&ada, &json!({"query": "harbour code", "whole": true, "rehydrate": false})).await;
    assert_eq!(texts(&whole), [&long]);
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test]
async fn a_page_keeps_to_its_tokens_and_waits_for_a_window_that_has_room_for_it() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 2048, "Be kind.").await;
    let many: Vec<String> = (0..20)
        .map(|n| format!("Sail number {n} of the old fleet, {}", "sewn by hand, ".repeat(8)))
        .collect();
    store(&ada, &many.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let (mut seen, mut token) = (Vec::new(), Value::Null);
    for _ in 0..PAGES_MAX {
        let asked = json!({"query": "sails", "limit": 20, "tokens_max": 512, "rehydrate": false, "page_token": token});
        let found = search(&ada, &asked).await;
        let results = found["results"].as_array().expect("results");
        assert!(!results.is_empty() && results.len() < 20, "{found}");
        seen.extend(results.iter().map(|r| r["seq"].as_u64().expect("a place")));
        token = found["next_page_token"].clone();
        if token.is_null() {
            break;
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=20).collect::<Vec<u64>>(), "no gap and no double");
    let asked = json!({"query": "sails", "tokens_max": 4096});
    let paused = search(&ada, &asked).await;
    assert_eq!((texts(&paused).len(), &paused["paused"]), (0, &json!(true)));
    let token = &paused["next_page_token"];
    assert!(token.is_string(), "{paused}");
    let goes_on = json!({"query": "sails", "tokens_max": 512, "page_token": token});
    assert!(!texts(&search(&ada, &goes_on).await).is_empty());
    // A page shows only the beginning of a message that is longer than the page.
    let long = format!("The regatta {}", "runs past the mole ".repeat(150));
    store(&ada, &[&long]).await;
    let asked = json!({"query": "regatta", "whole": true, "tokens_max": 320, "rehydrate": false});
    let found = search(&ada, &asked).await;
    let (shown, one) = (texts(&found)[0], &found["results"][0]);
    assert_eq!((&found["truncated"], &one["truncated"]), (&json!(true), &json!(true)), "{found}");
    assert!(long.starts_with(shown.trim_end_matches('…')) && shown.len() > 100, "{found}");
    assert!(count::text(shown) <= 320, "{found}");
}

#[tokio::test]
async fn a_search_that_cannot_be_made_says_what_to_do() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    for (arguments, code) in [
        (json!({"query": "x", "mode": "vector"}), "MODE_UNAVAILABLE"),
        (json!({"query": "x", "mode": "hybrid"}), "MODE_UNAVAILABLE"),
        (json!({"query": "x", "mode": "guess"}), "INVALID_ARGUMENT"),
        (json!({"query": "x", "after": "yesterday"}), "INVALID_ARGUMENT"),
        (json!({"query": "x", "name": ""}), "INVALID_ARGUMENT"),
        (json!({"query": "x", "role": "nobody"}), "INVALID_ARGUMENT"),
        (json!({"query": "x", "tokens_max": 63}), "INVALID_ARGUMENT"),
        (json!({"query": "x", "similarity_min": 0.7}), "INVALID_ARGUMENT"),
        (json!({"query": "x", "mode": "vector", "similarity_min": 1.1}), "INVALID_ARGUMENT"),
        (json!({"query": "x", "limit": 21}), "INVALID_ARGUMENT"),
        (json!({"query": " … "}), "INVALID_ARGUMENT"),
        (json!({"query": "x".repeat(2000)}), "INVALID_ARGUMENT"),
    ] {
        bare(&ada, &arguments).await.refused(400, code);
    }
    let nothing = search(&ada, &json!({"query": "nothing like it"})).await;
    assert_eq!((texts(&nothing).len(), &nothing["next_page_token"]), (0, &Value::Null));
}
