//! Tests traces: they lead from a message, a passage, a summary or the agent to all linked items,
//! within limits, page by page without gaps, and never to another agent's data.

use serde_json::{Value, json};

use crate::archival::{ingest, offer};
use crate::count;
use crate::database::Database;
use crate::home::{Home, Process};
use crate::talk::{Agent, key};
use crate::wire::Answer;

/// A server, its database, and an agent with seven turns. The fourth turn answers the third turn
/// and cites a passage whose source is the first turn. Two evictions removed all turns except the
/// last two from the queue.
struct Stage {
    home: Home,
    _server: Process,
    database: Database,
    ada: Agent,
    /// `_id` of the cited chunk.
    chunk: String,
}

async fn stage() -> Stage {
    let home = Home::new();
    let server = home.serve().await;
    let database = home.database_inside();
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    let first = ada.append("user", "The almanac is on the shelf.").await;
    let made_of = json!({"source": "almanac", "message_ids": [first["result"]["message_id"]]});
    ingest(&ada, &offer("tides.md", json!({"provenance": made_of})), "*").await.ok();
    let chunk =
        database.row("FOR d IN archival_docs FILTER d.index == 1 RETURN d._id", json!({})).await;
    let chunk = chunk.as_str().expect("an id").to_owned();
    ada.append("assistant", "Noted.").await;
    ada.append("user", "When is high tide?").await;
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    ada.done(
        "append_fifo",
        &json!({"message": "At seven.", "role": "assistant", "cites": [chunk]}),
    )
    .await;
    ada.append("user", "Thank you.").await;
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    ada.append("user", "And low tide?").await;
    ada.append("assistant", "At one.").await;
    Stage { home, _server: server, database, ada, chunk }
}

impl Stage {
    async fn asked(&self, query: &str) -> Answer {
        self.ada.wire.get(&format!("{}/trace?{query}", self.ada.path())).await
    }

    /// Returns relation and target of each item that a trace lists. A target is a message by its
    /// seq, a chunk by its name, or a summary by its revision.
    async fn traced(&self, query: &str) -> Vec<String> {
        named(&self.asked(query).await.ok()["entries"])
    }
}

fn named(entries: &Value) -> Vec<String> {
    let entries = entries.as_array().expect("entries");
    let name = |entry: &Value| {
        let end = ["seq", "chunk_id", "summary_rev", "head_seq"].map(|name| entry[name].clone());
        end.into_iter().find(|end| !end.is_null()).expect("a name").to_string().replace('"', "")
    };
    let shown = |entry: &Value| match entry["of"].as_u64() {
        None => name(entry),
        Some(of) => format!(
            "{}-{}-{}",
            name(&entries[of as usize]),
            entry["by"].as_str().expect("by"),
            name(entry)
        ),
    };
    entries.iter().map(shown).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_relation_leads_both_ways() {
    let stage = stage().await;
    let chunk = stage.chunk.clone();
    for (query, wanted) in [
        (
            "from=4&follow=around&around=2",
            &["4", "4-before-3", "4-before-2", "4-after-5", "4-after-6"][..],
        ),
        ("from=4&follow=cites", &["4", "4-cites-0001"]),
        (&format!("from={chunk}&follow=cited_by"), &["0001", "0001-cited_by-4"]),
        (&format!("from={chunk}&follow=derived_from"), &["0001", "0001-derived_from-1"]),
        ("from=1&follow=derived", &["1", "1-derived-0000", "1-derived-0001", "1-derived-0002"]),
        (&format!("from={chunk}&follow=links"), &["0001", "0001-previous-0000", "0001-next-0002"]),
        ("from=5&follow=summary", &["5", "5-summary-2"]),
        (
            "from=5&follow=summary,derived_from&depth=2",
            &["5", "5-summary-2", "2-derived_from-4", "2-summary_before-1"],
        ),
        (
            "from=1&follow=summary,derived,derived_from&depth=3",
            &[
                "1",
                "1-summary-1",
                "1-derived-0000",
                "1-derived-0001",
                "1-derived-0002",
                "1-derived_from-2",
                "1-derived_from-3",
                "1-summary_after-2",
                "2-derived_from-4",
                "2-derived_from-5",
            ],
        ),
        (
            "from=agent&follow=logged",
            &["6", "6-logged-5", "6-logged-4", "6-logged-3", "6-logged-2", "6-logged-1"],
        ),
        ("from=agent&follow=summary", &["6", "6-summary-2"]),
        ("from=7&follow=summary", &["7"]),
        (
            "from=4&follow=cites,derived_from,around&depth=2&around=1",
            &[
                "4",
                "4-before-3",
                "4-after-5",
                "4-cites-0001",
                "3-before-2",
                "5-after-6",
                "0001-derived_from-1",
            ],
        ),
    ] {
        let mut found = stage.traced(query).await;
        let mut wanted: Vec<String> = wanted.iter().map(|w| (*w).to_owned()).collect();
        // If one step follows several relations, the order of its results is not specified.
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted, "{query}");
    }
    // A trace from a copy leads to the original message.
    let found =
        stage.ada.done("search_recall", &json!({"query": "almanac shelf", "limit": 1})).await;
    let copy = found["result"]["results"][0]["copy_seq"].as_u64().expect("a copy");
    assert_eq!(
        stage.traced(&format!("from={copy}&follow=copies")).await[1],
        format!("{copy}-copy_of-1")
    );
    assert_eq!(stage.traced("from=1&follow=copies").await[1], format!("1-copied-{copy}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_tells_what_was_cited_and_whether_it_is_still_that() {
    let stage = stage().await;
    let whole = stage.asked("from=4&follow=cites").await.ok();
    let cited = &whole["entries"][1];
    assert_eq!((&cited["text"], &cited["doc_id"]), (&json!("High tide. "), &json!("tides.md")));
    assert_eq!(cited["digest"].as_str().map(str::len), Some(64));
    assert_eq!(cited["changed"], Value::Null);
    let same = offer("tides.md", json!({}));
    ingest(&stage.ada, &same, "*").await.ok();
    let again = stage.asked("from=4&follow=cites").await.ok();
    assert_eq!(
        (&again["entries"][1]["changed"], &again["entries"][1]["digest"]),
        (&json!(false), &cited["digest"])
    );
    let other = offer("tides.md", json!({"chunks": ["Low tide. ", "Neap tide. ", "Slack water."]}));
    ingest(&stage.ada, &other, "*").await.ok();
    let changed = stage.asked("from=4&follow=cites").await.ok();
    assert_eq!(
        (&changed["entries"][1]["changed"], &changed["entries"][1]["text"]),
        (&json!(true), &json!("Neap tide. "))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_questions_are_told_which_part_is_wrong_and_foreign_is_as_missing() {
    let stage = stage().await;
    let bob = Agent::create(stage.home.wire("vctx.sock"), "bob", 8192, "Be brief.").await;
    let foreign = bob.append("user", "Secret of bob.").await;
    let foreign = foreign["result"]["message_id"].as_str().expect("an id");
    for (query, field) in [
        ("", "from"),
        ("from=", "from"),
        ("from=0", "from"),
        ("from=999", "from"),
        ("from=archival_docs/0000", "from"),
        ("from=core_memory/bob", "from"),
        ("from=core_versions/bob:1", "from"),
        ("from=users/root", "from"),
        (&format!("from={foreign}"), "from"),
        (&format!("from={}", "x".repeat(400)), "from"),
        ("from=1&follow=likes", "follow"),
        ("from=1&depth=0", "depth"),
        ("from=1&depth=4", "depth"),
        ("from=1&depth=x", "depth"),
        ("from=1&around=9", "around"),
        ("from=1&limit=41", "limit"),
        ("from=1&limit=-1", "limit"),
        ("from=1&color=red", "color"),
    ] {
        let refused = stage.asked(query).await;
        assert_eq!(
            (refused.status, &refused.body["field"]),
            (400, &json!(field)),
            "{query}: {}",
            refused.text
        );
        assert!(!refused.text.contains(foreign), "{query}");
    }
    for (arguments, field) in
        [(json!({"from": foreign}), "from"), (json!({"from": "1", "to": "2"}), "to")]
    {
        let refused = stage.ada.tool("trace_memory", &arguments, &key(), "*").await;
        assert_eq!(
            (refused.status, &refused.body["field"]),
            (400, &json!(field)),
            "{arguments}: {}",
            refused.text
        );
    }
    let (missing, other) =
        (stage.asked("from=0190-none").await, stage.asked(&format!("from={foreign}")).await);
    assert_eq!(missing.text, other.text, "somebody else's is as nobody's");
    // A trace does not follow edges that were inserted directly into the database.
    let planted = "FOR e IN [{ _from: @mine, _to: @theirs }] INSERT e INTO derived_from RETURN 1";
    let mine = stage
        .database
        .row("FOR m IN messages FILTER m.agent_id == 'ada' AND m.seq == 1 RETURN m._id", json!({}))
        .await;
    for (from, to) in [
        (mine.clone(), json!(format!("messages/{foreign}"))),
        (json!(format!("messages/{foreign}")), mine),
    ] {
        stage.database.row(planted, json!({"mine": from, "theirs": to})).await;
    }
    let all = stage.asked("from=1&depth=3&limit=40").await.ok();
    assert!(!all.to_string().contains("Secret of bob"), "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_trace_are_small_and_together_the_whole_of_it() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 32_768, "Be brief.").await;
    for turn in 0..24 {
        ada.append("user", format!("Turn {turn}. {}", count::words(60 + 40 * (turn % 4)))).await;
    }
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    let whole =
        ada.wire.get(&format!("{}/trace?from=agent&limit=40&follow=logged", ada.path())).await.ok();
    let mut asked = json!({"from": "agent", "limit": 40, "follow": ["logged"]});
    let (mut texts, mut pages) = (Vec::<(u64, String)>::new(), 0);
    loop {
        let page = ada.done("trace_memory", &asked).await;
        let result = &page["result"];
        pages += 1;
        assert_eq!((&result["page"], &result["more"]), (&json!(pages), &json!(false)));
        assert!(result["page_tokens"].as_u64().expect("tokens") <= 512, "{result}");
        assert_eq!(json!(count::text(&result["results"].to_string())), result["page_tokens"]);
        for entry in result["results"].as_array().expect("results") {
            let (n, text) =
                (entry["n"].as_u64().expect("n"), entry["text"].as_str().expect("a text"));
            match texts.last_mut() {
                Some((last, before)) if *last == n => before.push_str(text),
                _ => texts.push((n, text.to_owned())),
            }
        }
        // Messages that are appended between two pages do not change the later pages.
        ada.append("user", "Meanwhile.").await;
        match result["next_page_token"].as_str() {
            Some(token) => asked["page_token"] = token.into(),
            None => break,
        }
    }
    assert!(pages > 5, "{pages} pages");
    let wanted: Vec<(u64, String)> = whole["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .map(|e| (e["n"].as_u64().expect("n"), e["text"].as_str().expect("a text").to_owned()))
        .collect();
    assert_eq!(wanted.len(), 25);
    assert_eq!(texts, wanted);
    let few =
        ada.wire.get(&format!("{}/trace?from=agent&limit=3&follow=logged", ada.path())).await.ok();
    assert_eq!((named(&few["entries"]).len(), &few["more"]), (4, &json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_without_room_for_a_page_is_told_so_and_asked_again_it_gets_it() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 1_024, "Be brief.").await;
    for turn in 0..4 {
        ada.append("user", format!("Turn {turn}. {}", count::words(120))).await;
    }
    let asked = json!({"from": "1", "follow": ["around"]});
    let held = ada.done("trace_memory", &asked).await;
    assert_eq!(
        (&held["result"]["withheld"], &held["result"]["results"]),
        (&json!("tokens"), &json!([])),
        "{held}"
    );
    ada.done("evict_fifo", &json!({"target_tokens": 100})).await;
    let shown = ada.done("trace_memory", &asked).await;
    assert_eq!(shown["result"]["results"][0]["seq"], 1, "{shown}");
    assert_eq!(shown["result"]["withheld"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_draws_the_trace_and_lists_the_history_after_a_restart() {
    let stage = stage().await;
    stage.ada.done("store_core", &json!({"block_id": "human", "content": "Likes tea."})).await;
    stage.ada.done("store_core", &json!({"block_id": "human", "content": "Likes coffee."})).await;
    stage._server.stop().await;
    let _again = stage.home.serve().await;
    let socket = stage.home.path("vctx.sock");
    let socket = socket.to_str().expect("a path");
    let said = |arguments: &[&str]| {
        let output = stage.home.run(&[arguments, &["--socket", socket]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let tree = said(&["trace", "4", "--agent", "ada", "--follow", "cites,summary"]);
    assert!(tree.starts_with("message 4 assistant"), "{tree}");
    assert!(
        tree.contains("cites: 0001 of tides.md") && tree.contains("summary: summary 2"),
        "{tree}"
    );
    let json: Value =
        serde_json::from_str(&said(&["trace", "4", "--agent", "ada", "--json"])).expect("JSON");
    assert_eq!(json["entries"][0]["text"], "At seven.");
    // `vctx history` prints the versions of the core, oldest first, so the last line but one is the
    // state before the last change.
    let lines = said(&["history", "--agent", "ada", "--json", "--limit", "100"]);
    let copies: Vec<Value> =
        lines.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let human = |copy: &Value| copy["working_blocks"][0]["content"].clone();
    let (last, before) = (&copies[copies.len() - 1], &copies[copies.len() - 2]);
    assert_eq!((human(before), human(last)), (json!("Likes tea."), json!("Likes coffee.")));
    assert!(
        copies.windows(2).all(|pair| pair[0]["version"].as_u64() < pair[1]["version"].as_u64())
    );
    assert_eq!(copies[0]["version"], 1);
    let table = said(&["history", "--agent", "ada"]);
    assert!(table.contains("human: Likes tea."), "{table}");
    for query in ["limit=0", "limit=21", "from_version=x", "page=2"] {
        let refused =
            stage.ada.again().wire.get(&format!("{}/history?{query}", stage.ada.path())).await;
        assert_eq!(refused.status, 400, "{query}: {}", refused.text);
    }
}
