//! Tests whole documents: every character can be found, in any script. A long document is ingested
//! in parts and becomes visible as a whole. A deleted document can no longer be found.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::archival::{ingest, search};
use crate::chance::share;
use crate::count;
use crate::database::Database;
use crate::home::{Home, Process};
use crate::talk::{Agent, key};
use crate::truths::assert_archive;

async fn stage() -> (Home, Process, Database, Agent) {
    let home = Home::new();
    let server = home.serve().await;
    let database = home.database_inside();
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    (home, server, database, ada)
}

/// Returns the texts of a document's chunks, in order.
async fn chunks(database: &Database, doc_id: &str) -> Vec<String> {
    let query = "FOR d IN archival_docs FILTER d.doc_id == @doc SORT d.index RETURN d.text";
    let rows = database.rows(query, json!({"doc": doc_id})).await;
    rows.iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
}

async fn first(agent: &Agent, arguments: Value) -> Value {
    search(agent, arguments).await.ok()["result"].clone()
}

fn results(result: &Value) -> &[Value] {
    result["results"].as_array().expect("results")
}

/// Generates a document of the given number of sentences, with a unique sentence to search for (a
/// needle) in each hundredth of it; also returns the needles.
fn haystack(sentences: usize) -> (String, Vec<String>) {
    let things =
        ["harbour", "lantern", "ledger", "orchard", "bridge", "kettle", "violin", "garden"];
    let deeds = ["stood behind", "was painted like", "cost more than", "leaned against"];
    let mut text = String::new();
    let mut needles = Vec::new();
    for at in 0..sentences {
        let (one, other) = (things[at % 8], things[(at / 8 + at) % 8]);
        text.push_str(&format!("In year {at} the {one} {} the {other}. ", deeds[at % 4]));
        if at % (sentences / 100) == 0 {
            let name =
                format!("{}{}", ["bora", "sirocco", "mistral", "zephyr"][at % 4], needles.len());
            text.push_str(&format!("The password of the keeper called {name} is quartz. "));
            needles.push(name);
        }
        if at % 40 == 39 {
            text.push_str("\n\n");
        }
    }
    (text, needles)
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn a_needle_in_every_hundredth_of_a_long_document_is_found() {
    let (_home, _server, database, ada) = stage().await;
    let (text, needles) = haystack(16_000);
    assert!(count::text(&text) >= 200_000, "{} tokens", count::text(&text));
    let arguments = json!({"doc_id": "annals", "document": text});
    let done = ada.tool("ingest_archival", &arguments, "annals", "").await.ok();
    assert!(done["result"]["inserted"].as_u64() > Some(512), "{done}");
    assert_eq!(chunks(&database, "annals").await.concat(), text, "every character has its chunk");
    assert_archive(&database).await;
    // Until the view shows a chunk, searches find the chunk by its time `ingested_ms`. An ingest
    // sets this time in the future, so that searches also find the chunks of a slow ingest.
    let recent = "RETURN MIN(FOR d IN archival_docs RETURN d.ingested_ms) >= DATE_NOW()";
    assert_eq!(database.row(recent, json!({})).await, true);
    let left = database.row("RETURN LENGTH(archival_parts)", json!({})).await;
    assert_eq!(left, 0, "what was kept of its parts goes with the last");
    for needle in share(&needles) {
        let asked =
            json!({"query_text": format!("What is the password of the keeper called {needle}?")});
        let found = first(&ada, asked).await;
        let best = &results(&found)[0];
        let shown = best["text"].as_str().expect("a text");
        assert!(shown.contains(&format!("called {needle} is")), "{needle}: {best}");
        // The position in the result is the position of the found text in the document.
        let place = |name: &str| best["offset"][name].as_u64().expect("a place") as usize;
        let there: String =
            text.chars().skip(place("start")).take(place("end") - place("start")).collect();
        assert_eq!(there, shown);
    }
    let again = ada.tool("ingest_archival", &arguments, "annals", "").await.ok();
    assert_eq!(again["replayed"], true);
}

/// Sentences in many scripts, each with a unique word.
const WRITINGS: [&str; 30] = [
    "The lighthouse keeper counts every lantern.",
    "Der Leuchtturmwärter zählt jede Laterne.",
    "Le gardien du phare compte chaque lanterne.",
    "El farero cuenta cada linterna.",
    "Il guardiano del faro conta ogni lanterna.",
    "O faroleiro conta cada lanterna.",
    "De vuurtorenwachter telt elke lantaarn.",
    "Fyrvaktaren räknar varje lykta.",
    "Fyrvokteren teller hver lykt.",
    "Majakanvartija laskee jokaisen lyhdyn.",
    "Latarnik liczy każdą latarnię.",
    "Strážce majáku počítá každou lucernu.",
    "A világítótorony őre minden lámpást megszámol.",
    "Paznicul farului numără fiecare felinar.",
    "Пазачът на фара брои всеки фенер.",
    "Смотритель маяка считает каждый фонарь.",
    "Доглядач маяка рахує кожен ліхтар.",
    "Ο φαροφύλακας μετράει κάθε φανάρι.",
    "Deniz feneri bekçisi her feneri sayar.",
    "שומר המגדלור סופר כל פנס.",
    "حارس المنارة يعد كل فانوس.",
    "نگهبان فانوس دریایی هر فانوس را می‌شمارد.",
    "प्रकाशस्तंभ का रखवाला हर लालटेन गिनता है।",
    "বাতিঘরের রক্ষক প্রতিটি লণ্ঠন গোনেন।",
    "கலங்கரை விளக்கக் காவலர் ஒவ்வொரு விளக்கையும் எண்ணுகிறார்.",
    "ผู้ดูแลประภาคารนับโคมไฟทุกดวง",
    "Người gác hải đăng đếm từng chiếc đèn lồng.",
    "등대지기는 모든 등불을 센다.",
    "灯台守はすべての提灯を数える。",
    "灯塔看守人数着每一盏灯笼。",
];

#[tokio::test(flavor = "multi_thread")]
async fn whatever_it_is_written_in_every_character_belongs_to_a_chunk_that_is_found() {
    let (_home, _server, database, ada) = stage().await;
    let unbroken: String = (0..6_000).map(|n| char::from(b'a' + (n * 7 % 26) as u8)).collect();
    let emoji = "🦀👩‍👩‍👧‍👦🏳️‍🌈🇵🇹".repeat(400);
    let zalgo = "e\u{301}\u{316}\u{33f}".repeat(700);
    let odd = format!(
        "start {}{}{} end",
        " ".repeat(3_000),
        "\t\r\n".repeat(200),
        "\u{200b}".repeat(300)
    );
    for (doc_id, text) in [
        ("line", unbroken.as_str()),
        ("emoji", &emoji),
        ("marks", &zalgo),
        ("white", &odd),
        ("all", &WRITINGS.join(" ")),
        ("short", "x"),
    ] {
        let arguments = json!({"doc_id": doc_id, "document": text, "splitter": {"tokens_max": 32}});
        ingest(&ada, &arguments, "*").await.ok();
        assert_eq!(chunks(&database, doc_id).await.concat(), text, "{doc_id}");
        let found = first(
            &ada,
            json!({"query_text": text.chars().take(60).collect::<String>(),
            "filter": {"doc_id": doc_id}}),
        )
        .await;
        assert!(!results(&found).is_empty(), "{doc_id}: {found}");
    }
    for (at, sentence) in WRITINGS.iter().enumerate() {
        let doc_id = format!("w{at}");
        ingest(&ada, &json!({"doc_id": doc_id, "document": sentence}), "*").await.ok();
    }
    for (at, sentence) in WRITINGS.iter().enumerate() {
        let found = first(&ada, json!({"query_text": sentence, "limit": 3})).await;
        let ids: Vec<&Value> = results(&found).iter().map(|r| &r["doc_id"]).collect();
        assert!(ids.contains(&&json!(format!("w{at}"))), "{sentence}: {ids:?}");
    }
    assert_archive(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_cut_as_its_splitter_says_with_exact_offsets() {
    let (_home, _server, database, ada) = stage().await;
    let boats = "The boat sails to Lisbon. The boat needs new sails. Sails of a boat wear in a storm. A boat in a storm sails slowly. ";
    let tea = "Green tea wants water of seventy degrees. Black tea wants boiling water. Tea in boiling water turns bitter. Bitter tea wants sugar. ";
    let code = "use std::fmt;\n\n/// Über tides.\nfn tide(at: u64) -> bool {\n    at > 7\n}\n\nfn berth(n: u64) -> u64 {\n    n + 1\n}\n";
    let prose = format!("{boats}{tea}");
    let long = prose.repeat(300);
    assert!(long.len() > 64 * 1024);
    for (doc_id, text, splitter, wanted) in [
        ("meaning", prose.as_str(), json!({"by": "semantic"}), Some(vec![boats, tea])),
        (
            "letters",
            "äbcdefghijklmnopqrstuvwxyz",
            json!({"by": "character", "chars_max": 16, "overlap_chars": 4}),
            Some(vec!["äbcdefghijklmnop", "mnopqrstuvwxyz"]),
        ),
        ("code", code, json!({"by": "code", "tokens_max": 24}), None),
        ("long", &long, json!({"by": "semantic", "tokens_max": 256}), None),
        ("longer", &long, json!({"by": "recursive"}), None),
    ] {
        ingest(&ada, &json!({"doc_id": doc_id, "document": text, "splitter": splitter}), "*")
            .await
            .ok();
        let made = chunks(&database, doc_id).await;
        if let Some(wanted) = wanted {
            assert_eq!(made, wanted, "{doc_id}");
        } else {
            assert_eq!(made.concat(), text, "{doc_id}");
        }
        let query = "FOR d IN archival_docs FILTER d.doc_id == @doc SORT d.index RETURN d.offset";
        let offsets = database.rows(query, json!({"doc": doc_id})).await;
        let characters: Vec<char> = text.chars().collect();
        for (offset, made) in offsets.iter().zip(&made) {
            let place = |name: &str| offset[name].as_u64().expect("a place") as usize;
            let part: String = characters[place("start")..place("end")].iter().collect();
            assert_eq!(&part, made, "{doc_id}");
        }
    }
    let functions = chunks(&database, "code").await;
    for whole in [
        &code[code.find("///").expect("it")..code.find("\n\nfn berth").expect("it")],
        &code[code.find("fn berth").expect("it")..],
    ] {
        assert!(functions.iter().any(|chunk| chunk.contains(whole)), "{functions:?}");
    }
    let topics = chunks(&database, "long").await;
    assert!(topics.len() > 200, "{} chunks", topics.len());
    let many = "One. ".repeat(16_385);
    let asked = json!({"doc_id": "many", "document": many, "splitter": {"by": "semantic"}});
    let problem = ingest(&ada, &asked, "*").await.refused(400, "INVALID_ARGUMENT");
    assert_eq!(problem["field"], "splitter.by", "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_document_is_refused_by_its_name() {
    let (_home, _server, database, ada) = stage().await;
    let problem = ingest(&ada, &json!({"doc_id": "d", "document": " \n\t "}), "*").await;
    assert_eq!(problem.refused(400, "INVALID_ARGUMENT")["field"], "document");
    let long = "word and another one ".repeat(90_000);
    let arguments =
        json!({"doc_id": "d", "document": long, "dimension": 4096, "splitter": {"tokens_max": 16}});
    let problem = ingest(&ada, &arguments, "*").await.refused(400, "INVALID_ARGUMENT");
    assert!(problem["detail"].as_str().is_some_and(|d| d.contains("at most")), "{problem}");
    let nothing =
        database.row("RETURN LENGTH(archival_docs) + LENGTH(archival_parts)", json!({})).await;
    assert_eq!(nothing, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hit_on_a_part_shows_the_larger_piece_once() {
    let (_home, _server, _database, ada) = stage().await;
    let paragraph = |name: &str| {
        format!(
            "The {name} chapter begins here. The {name} chapter goes on with tides. The {name} chapter ends at dusk.\n\n"
        )
    };
    let text = ["first", "second", "third"].map(paragraph).concat();
    let splitter = json!({"by": "parent_child", "tokens_max": 16, "parent_tokens_max": 32});
    ingest(&ada, &json!({"doc_id": "book", "document": text, "splitter": splitter}), "*")
        .await
        .ok();
    for arguments in [
        json!({"query_text": "How does the second chapter go on?"}),
        json!({"query_text": "How does the second chapter go on?", "mode": "vector"}),
        json!({"query_text": "How does the second chapter go on?", "mode": "hybrid"}),
    ] {
        let found = first(&ada, arguments.clone()).await;
        let list = results(&found);
        assert_eq!(list[0]["text"], paragraph("second"), "{arguments}: {found}");
        let texts: BTreeSet<&str> =
            list.iter().map(|r| r["text"].as_str().expect("a text")).collect();
        assert_eq!(texts.len(), list.len(), "{arguments}: a larger piece twice");
        assert_eq!(list.len(), 3, "{arguments}: {found}");
        assert_eq!(list[0]["offset"]["start"], paragraph("first").chars().count());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_away_is_gone_with_everything_that_was_made_of_it() {
    let (home, _server, database, ada) = stage().await;
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 8192, "").await;
    let message = ada.append("user", "The almanac is on the shelf.").await;
    let id = message["result"]["message_id"].as_str().expect("an id").to_owned();
    let document = json!({"doc_id": "tides/2026.md", "chunks": ["Low tide.", "High tide."], "provenance": {"message_ids": [id]}});
    let done = ingest(&ada, &document, "*").await.ok();
    ingest(&bob, &json!({"doc_id": "tides/2026.md", "chunks": ["Slack water."]}), "*").await.ok();
    let cite = "FOR d IN archival_docs FILTER d.agent_id == 'ada' AND d.index == 0
        INSERT { _from: CONCAT('messages/', @id), _to: d._id } INTO cites RETURN 1";
    assert_eq!(database.rows(cite, json!({"id": id})).await.len(), 1);

    let path = format!("{}/archive/tides%2F2026.md", ada.path());
    let delete = async |agent: &Agent, path: &str, key: &str, revision: &str| {
        let headers = [("idempotency-key", key), ("if-match", revision)];
        agent.wire.call("DELETE", path, &headers, String::new()).await
    };
    delete(&ada, &path, &key(), "_stale").await.refused(412, "REVISION_STALE");
    let missing = format!("{}/archive/nothing", ada.path());
    delete(&ada, &missing, &key(), "*").await.refused(404, "DOCUMENT_NOT_FOUND");
    let revision = done["_rev"].as_str().expect("a revision");
    let gone = delete(&ada, &path, "gone", revision).await.ok();
    assert_eq!(
        (&gone["result"]["deleted"], &gone["result"]["replaced"]),
        (&json!(true), &json!(2))
    );
    let left = database
        .row(
            "RETURN { chunks: (FOR d IN archival_docs RETURN d.agent_id), manifests: (FOR m IN archival_manifests RETURN m.agent_id),
               derived: LENGTH(derived_from), cites: LENGTH(cites) }",
            json!({}),
        )
        .await;
    let of_bob = json!(["bob"]);
    assert_eq!(left, json!({"chunks": of_bob, "manifests": of_bob, "derived": 0, "cites": 0}));
    assert_eq!(ada.state().await["archived"], json!({"documents": 0, "chunks": 0}));
    assert_archive(&database).await;
    assert_eq!(delete(&ada, &path, "gone", revision).await.ok()["replayed"], true);
    for mode in ["text", "vector", "hybrid"] {
        let found = first(&ada, json!({"query_text": "tide", "mode": mode})).await;
        assert_eq!(found["k_actual"], 0, "{mode}: {found}");
    }
    // The ingest tool can also delete a document; then the document's name is free again.
    ingest(&ada, &document, "").await.ok();
    let by_tool = ingest(&ada, &json!({"doc_id": "tides/2026.md", "delete": true}), "*").await.ok();
    assert_eq!(by_tool["result"]["deleted"], true);
    assert_archive(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_stands_on_the_first_pages_however_many_passages_there_are() {
    let (_home, _server, _database, ada) = stage().await;
    let keepers = ["Anselm", "Brunhild", "Casimir", "Dagmar", "Ewald"];
    let mut taken = 0;
    for passages in [1_usize, 5, 50, 200] {
        let chunks: Vec<String> = (taken..passages)
            .map(|n| {
                format!(
                    "The lighthouse number {n} was kept by {} the {n}th. {}",
                    keepers[n % 5],
                    count::words(40)
                )
            })
            .collect();
        if !chunks.is_empty() {
            ingest(&ada, &json!({"doc_id": format!("to-{passages}"), "chunks": chunks}), "*")
                .await
                .ok();
        }
        taken = passages;
        let before = ada.state().await["tokens"]["occupancy"].clone();
        for asked in [0, passages / 2, passages - 1] {
            let found = first(
                &ada,
                json!({"query_text": format!("Who kept the lighthouse number {asked}?")}),
            )
            .await;
            let best = &results(&found)[0];
            let text = best["text"].as_str().expect("a text");
            assert!(
                text.starts_with(&format!("The lighthouse number {asked} ")),
                "{passages}: {best}"
            );
            for name in ["id", "doc_id", "chunk_id"] {
                assert!(best[name].is_string(), "{name} is what an answer cites: {best}");
            }
            let rendered = count::text(&found["results"].to_string());
            assert!(rendered <= 512, "{passages}: {rendered}");
        }
        assert_eq!(ada.state().await["tokens"]["occupancy"], before, "looking costs no room");
    }
}
