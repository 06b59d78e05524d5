//! Tests what searches reach: passages deep in a long text, in any script and spelling, next to a
//! copy of another passage, and in messages whose time (`said_at`) is invalid.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::home::{Home, Tuning};
use crate::talk::Agent;

/// Maximum number of polls of a view that lags, and the pause between two polls.
const LOOKS_MAX: usize = 600;
const LOOK: Duration = Duration::from_millis(50);

async fn search(agent: &Agent, arguments: &Value) -> Value {
    agent.done("search_recall", arguments).await["result"].take()
}

async fn store(agent: &Agent, texts: &[&str]) {
    let entries: Vec<Value> = texts.iter().map(|text| json!({"content": text})).collect();
    agent.done("write_recall", &json!({"entries": entries})).await;
}

fn texts(result: &Value) -> Vec<&str> {
    let results = result["results"].as_array().expect("results");
    results.iter().map(|r| r["content"].as_str().expect("a text")).collect()
}

/// Returns a text of at least this length without the searched words.
fn noise(bytes: usize) -> String {
    "Nothing of that kind was ever said here. ".repeat(bytes / 41 + 1)
}

#[tokio::test]
async fn a_part_deep_in_a_long_text_is_what_is_shown() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    for (bytes, name) in [(4_000, "juniper"), (20_000, "marigold"), (200_000, "oleander")] {
        let long = format!("{}The harbour code is {name}. {}", noise(bytes), noise(1_000));
        store(&ada, &[&long]).await;
        // A search finds a passage deep in a text as soon as the view shows the passage.
        let mut found = Value::Null;
        for _ in 0..LOOKS_MAX {
            let asked = json!({"query": format!("harbour code {name}"), "rehydrate": false});
            found = search(&ada, &asked).await;
            if found["results"][0]["excerpt"]["bytes"] == long.len() {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        let result = &found["results"][0];
        assert!(
            result["content"].as_str().expect("a text").contains(name),
            "{name}: {}",
            result["excerpt"]
        );
    }
}

#[tokio::test]
async fn a_copy_of_another_part_is_not_what_was_asked_for() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let long = format!(
        "The harbour code is marigold. {}The cat gets drops at nine. {}",
        noise(1_500),
        noise(500)
    );
    store(&ada, &[&long]).await;
    search(&ada, &json!({"query": "harbour code"})).await;
    let found = search(&ada, &json!({"query": "when does the cat get its drops"})).await;
    let result = &found["results"][0];
    assert!(texts(&found)[0].contains("drops at nine"));
    let messages = ada.messages().await;
    let copy = messages.iter().find(|m| m["seq"] == result["copy_seq"]).expect("a copy");
    assert_eq!(copy["content"], result["content"], "the copy holds what the answer says of it");
    assert!(ada.context().await.to_string().contains("drops at nine"));
    let whole = search(&ada, &json!({"query": "harbour code", "whole": true})).await;
    let result = &whole["results"][0];
    let messages = ada.messages().await;
    let copy = messages.iter().find(|m| m["seq"] == result["copy_seq"]).expect("a copy");
    assert_eq!((&copy["content"], &result["content"]), (&json!(long), &json!(long)));
    // A message or passage that is already in the window is not copied again.
    let before = messages.len();
    for again in [json!({"query": "harbour code"}), json!({"query": "cat drops", "whole": true})] {
        let found = search(&ada, &again).await;
        let result = &found["results"][0];
        let copy = messages.iter().find(|m| m["seq"] == result["copy_seq"]).expect("a copy");
        let (held, shown) = (copy["content"].as_str(), result["content"].as_str());
        assert!(held.expect("a text").contains(shown.expect("a text")));
    }
    assert_eq!(ada.messages().await.len(), before);
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test]
async fn any_script_and_spelling_is_found() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 16_384, "Be kind.").await;
    let cases = [
        ("Her re\u{301}sume\u{301} lies in the drawer.", "re\u{301}sume\u{301}"),
        ("The caf\u{e9} opens at noon.", "cafe\u{301}"),
        ("The nai\u{308}ve painter left.", "na\u{ef}ve"),
        ("मेरी किताब हिन्दी में है।", "हिन्दी"),
        ("من می\u{200c}خواهم برگردم", "می\u{200c}خواهم"),
        ("המפתח מתחת לעציץ", "המפתח"),
        ("المفتاح تحت الحصيرة", "المفتاح"),
        ("Ключ лежит под ковриком", "ковриком"),
        ("鍵は植木鉢の下にあります", "植木鉢"),
        ("ร้านกาแฟอยู่ที่นี่", "ร้านกาแฟ"),
        ("열쇠는 화분 아래에 있습니다", "화분"),
        ("Der Schlüssel liegt unter der Fußmatte.", "Fußmatte"),
        ("line one\r\nthe buoy is orange\r\nline three", "buoy orange"),
        ("Le mot de passe est \u{201c}perce\u{2011}neige\u{201d}.", "perce\u{2011}neige"),
    ];
    store(&ada, &cases.map(|(text, _)| text)).await;
    let mut lost = Vec::new();
    for (text, query) in cases {
        let found = search(&ada, &json!({"query": query, "rehydrate": false})).await;
        if texts(&found).first() != Some(&text) {
            lost.push((query, texts(&found).iter().map(|t| (*t).to_owned()).collect::<Vec<_>>()));
        }
    }
    assert!(lost.is_empty(), "{lost:#?}");
}

#[tokio::test]
async fn a_clock_that_makes_no_sense_is_in_nobodys_way() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 16_384, "Be kind.").await;
    let clocks = [
        "2024-02-31",
        "2024-13-01",
        "2024-00-00",
        "0000-00-00",
        "99999-01-01",
        "-0044-03-15",
        "2024",
        "2024-05",
        "2024-05-01T25:61:61Z",
        "2024-05-01T10:00:00+99:99",
        "12:30",
        "yesterday",
        " ",
        "8 May 2023",
        "2024-W01-1",
        "1e9",
        "20240501",
        "2024-05-01T10:00:00.123456789Z",
        "٢٠٢٤-٠٥-٠١",
    ];
    for clock in clocks {
        let entry =
            json!({"content": format!("The buoy of clock {clock} is orange."), "said_at": clock});
        ada.done("write_recall", &json!({"entries": [entry]})).await;
        for more in [json!({}), json!({"after": "1970-01-01"}), json!({"before": "2100-01-01"})] {
            let mut asked = json!({"query": "orange buoy", "rehydrate": false, "limit": 20});
            asked
                .as_object_mut()
                .expect("an object")
                .extend(more.as_object().expect("one").clone());
            let answer = ada.tool("search_recall", &asked, &crate::talk::key(), "*").await;
            assert_eq!(answer.status, 200, "{clock}: {more}: {}", answer.body);
        }
    }
    let all = search(&ada, &json!({"query": "orange buoy", "rehydrate": false, "limit": 20})).await;
    assert_eq!(texts(&all).len(), clocks.len());
}

#[tokio::test]
async fn searches_at_once_bring_a_message_back_once() {
    let home = Home::new();
    let _engine = home.engine().await;
    let tuning = Tuning::default();
    let _first = home.server("vctx.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    let _second = home.server("second.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    for round in 0..8 {
        let facts: Vec<String> =
            (0..3).map(|n| format!("Sail {n} of round{round} is marigold.")).collect();
        store(&ada, &facts.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let asked = json!({"query": format!("round{round}")});
        let mut calls = JoinSet::new();
        for socket in ["vctx.sock", "second.sock"].repeat(3) {
            let (agent, asked) = (Agent::at(home.wire(socket), "ada"), asked.clone());
            calls.spawn(async move { search(&agent, &asked).await });
        }
        let found = calls.join_all().await;
        let queue = ada.messages().await;
        let mut copies: BTreeMap<String, usize> = BTreeMap::new();
        for copy in queue.iter().filter(|m| m["kind"] == "copy") {
            *copies.entry(copy["content"].to_string()).or_default() += 1;
        }
        assert!(copies.values().all(|count| *count == 1), "{copies:?}");
        for result in found.iter().flat_map(|f| f["results"].as_array().expect("results")) {
            let copy = queue.iter().find(|m| m["seq"] == result["copy_seq"]);
            assert_eq!(copy.expect("a copy")["content"], result["content"]);
        }
    }
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test]
async fn the_first_documents_of_a_database_have_vectors_of_one_length() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 8192, "Be kind.").await;
    let fee = |n| {
        format!("In year {n} the harbour master took {n} euros for a berth beside the old buoy. ")
    };
    let long: String = (0..800).map(fee).collect();
    let long = json!({"doc_id": "long", "document": long, "splitter": {"tokens_max": 32}});
    let slow = tokio::spawn(async move { ada.done("ingest_archival", &long).await });
    // While the vectors of the document are being computed, the server answers that the document
    // does not exist.
    let parts = "RETURN LENGTH(FOR p IN archival_parts RETURN 1)";
    let database = home.database_inside();
    while database.row(parts, json!({})).await == json!(0) && !slow.is_finished() {
        tokio::task::yield_now().await;
    }
    let short = json!({"doc_id": "short", "document": "A text.", "dimension": 64});
    let key = crate::talk::key();
    let answer = bob.tool("ingest_archival", &short, &key, "*").await;
    slow.await.expect("a task");
    let lengths =
        "RETURN SORTED_UNIQUE(FOR d IN archival_docs RETURN [d.dimension, LENGTH(d.embedding)])";
    let lengths = database.row(lengths, json!({})).await;
    let setting = "FOR v IN vctx_meta FILTER v._key == 'vector' RETURN v.dimension";
    let setting = database.row(setting, json!({})).await;
    assert_eq!(lengths, json!([[setting, setting]]));
    assert!(matches!(answer.status, 200 | 409), "{}", answer.text);
}
