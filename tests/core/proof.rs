//! Tests histories of blocks, and the search for texts that state a fact.

use serde_json::{Value, json};
use vctx_core::memory::prompt::{Marks, Texts};
use vctx_core::proof::{Fact, Lives, Says, presence_ranges};

fn texts(version: u64, summary: (&str, u64), blocks: Value) -> Texts {
    let blocks: Vec<Value> = blocks
        .as_object()
        .unwrap()
        .iter()
        .map(|(id, content)| json!({"id": id, "role": "x", "content": content, "token_estimate": 1, "pinned": false, "changed_at_version": 1}))
        .collect();
    serde_json::from_value(json!({"_key": format!("ada:{version}"), "version": version,
        "system": {"content": "Be brief.", "token_estimate": 1, "changed_at_version": 1}, "working_blocks": blocks,
        "queue_head_summary": {"content": summary.0, "revision": summary.1}, "context_window": 100, "encoding": "o200k_base",
        "token_budget": {"warning": 1, "flush": 1, "target": 1, "max": 1}, "ts": format!("t{version}")}))
    .unwrap()
}

#[test]
fn a_fact_lives_fades_and_dies_in_summary_and_blocks() {
    let fact = Fact::parse("berth costs 14").unwrap();
    let mut lives = Lives::default();
    for copy in [
        texts(1, ("", 0), json!({})),
        texts(3, ("The berth costs 14.", 1), json!({})),
        texts(5, ("The berth costs 14.", 1), json!({"plan": "Berth costs 14"})),
        texts(7, ("A berth.", 2), json!({"plan": "Berth costs 14"})),
        texts(9, ("Nothing.", 3), json!({})),
    ] {
        lives.take(&fact, &copy);
    }
    let spans = lives.spans();
    let told: Vec<(&str, u64, Option<u64>, bool, usize)> = spans
        .iter()
        .map(|s| (s.of.as_str(), s.from_version, s.until_version, s.says.is_some(), s.words.len()))
        .collect();
    assert_eq!(
        told,
        [
            ("summary", 3, Some(7), true, 3),
            ("block plan", 5, Some(9), true, 3),
            ("summary", 7, Some(9), false, 1)
        ]
    );
    assert_eq!((spans[0].from_revision, spans[0].until_revision), (Some(1), Some(2)));

    let mark = |turn, version| Marks { turn, version, head_seq: 1, next_seq: 1, pack: None };
    let prompts = [mark(1, 2), mark(2, 3), mark(3, 4), mark(4, 6), mark(5, 8), mark(6, 10)];
    let ranges = presence_ranges(&prompts, &[], &spans, &[]);
    let told: Vec<((u64, u64), String)> =
        ranges.iter().map(|h| (h.turns, h.r#as.join("+"))).collect();
    assert_eq!(
        told,
        [
            ((2, 3), "summary".to_owned()),
            ((4, 4), "summary+block plan".to_owned()),
            ((5, 5), "block plan".to_owned())
        ]
    );
}

#[test]
fn a_text_says_a_fact_letter_by_letter_or_by_its_words() {
    let fact = Fact::parse("The berth costs 14 crowns").unwrap();
    for (text, says) in [
        ("She said: the  Berth costs 14\ncrowns.", Some(Says::Exactly)),
        ("14 crowns: that is what a berth costs.", Some(Says::ByWords)),
        ("The berth costs 140 crowns", None),
        ("The berth costs much", None),
        ("", None),
    ] {
        assert_eq!(fact.said_in(text), says, "{text}");
    }
    assert_eq!(fact.held_in("a berth of 14"), ["berth", "14"]);
}

#[test]
fn an_excerpt_shows_where_it_is_said() {
    let fact = Fact::parse("berth costs 14").unwrap();
    let long = format!("{} The BERTH costs 14. {}", "ä ".repeat(300), "b ".repeat(300));
    let shown = fact.excerpt(&long);
    assert!(
        shown.contains("BERTH costs 14") && shown.starts_with('…') && shown.ends_with('…'),
        "{shown}"
    );
    assert_eq!(shown.chars().count(), 200 + 2);
    assert_eq!(fact.excerpt("short"), "short");
}
