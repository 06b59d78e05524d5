//! Tests the items of ledger entries, and the fold of entries whose statements changed rows that
//! they found.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};
use vctx_core::ledger::{Fold, ITEMS_VERSION, Item, genesis, link, text_of};
use vctx_core::memory::Encoding;
use vctx_core::memory::canonical::{canonical_of, canonical_with};
use vctx_core::memory::export::RowKind;
use vctx_core::memory::form::Form;
use vctx_core::memory::receipt::{canonical_json, sha256};
use vctx_core::text::Tiktoken;
use vctx_core::tools::{NewAgent, new_core};
use vctx_core::trust::{Actor, Principal, admit};

/// Digests of the same length as those of entries.
const A: &str = "AAAAAAAAAAAAAAAAAAAAAA";
const B: &str = "BBBBBBBBBBBBBBBBBBBBBB";
const C: &str = "CCCCCCCCCCCCCCCCCCCCCC";

#[test]
fn an_item_is_parsed_as_it_is_written() {
    for text in [
        "m7".to_owned(),
        format!("m7 {A}"),
        format!("i{B} {A} 1790000000"),
        format!("m7 {A} <{B}"),
        format!("q7 {A} <{B}"),
        format!("i{B} {A} 1790000000 <{C}"),
        format!("w{B} {A}"),
    ] {
        let item = Item::parse(&text).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(item.to_string(), text);
    }
    for text in [
        String::new(),
        "z7".to_owned(),
        format!("<{A}"),
        format!("m7 <{A}"),
        format!("m7 {A} <"),
        format!("m7 {A} <{B}B"),
        format!("m7 {A} <{}", &B[1..]),
        format!("m7 {A} <{}=", &B[1..]),
        format!("m7 {A} <<{}", &B[1..]),
        format!("m7 {A} <{B} 1790000000"),
        format!("m7 {A} <{B} <{B}"),
        format!("m7 {A} soon <{B}"),
        format!("m7 {A} 1790000000 <{B} x"),
        format!("m7 {A} {B}"),
        // A vector is never changed, and an event neither.
        format!("w{B} {A} <{C}"),
        format!("e {A} <{B}"),
    ] {
        assert_eq!(Item::parse(&text), None, "{text}");
    }
}

/// Returns the differences that a fold reports of entries with the given items, without any rows.
fn folded(entries: &[&[String]]) -> Vec<(&'static str, String, String)> {
    let mut fold = Fold::default();
    let mut head = genesis("ada");
    for (n, items) in (1..).zip(entries) {
        let mut rows = vec![ITEMS_VERSION.to_owned()];
        rows.extend(items.iter().cloned());
        let row = json!({"type": "audit", "ts": "t", "details": {}, "n": n, "rows": rows});
        let mut row: Map<String, Value> = row.as_object().expect("a row").clone();
        head = link(&head, n, &text_of(&row));
        row.insert("hash".into(), head.as_str().into());
        fold.row(RowKind::Events, &row);
    }
    let folded = fold.finish("ada", 0, "", &[]);
    let told = folded.differences.into_iter();
    told.map(|one| (one.wrong.name(), one.row, one.what)).collect()
}

#[test]
fn the_row_that_a_statement_found_is_compared_with_the_entries_before() {
    let (new, gone) = (format!("m7 {A}"), "m7".to_owned());
    let then = |after: &str, before: &str| format!("m7 {after} <{before}");
    // A row that does not exist is no matter of this test: each case removes it in the end.
    let end = [gone.clone()];
    let first = [new.clone()];
    assert_eq!(folded(&[&first, &[then(B, A)], &[then(C, B)], &end]), []);
    // Two statements of one entry change the same row.
    assert_eq!(folded(&[&first, &[then(B, A), then(C, B)], &end]), []);
    let changed = |entry: u64, by: u64| {
        let what =
            format!("was not the row that entry {entry} describes when entry {by} changed it");
        ("changed", "7".to_owned(), what)
    };
    assert_eq!(folded(&[&first, &[then(C, B), then(B, A)], &end]), [changed(1, 2), changed(2, 2)]);
    // A difference stays, and is not repeated.
    let later = [then(A, C)];
    assert_eq!(folded(&[&first, &[then(C, B)], &later, &end]), [changed(1, 2)]);
    // A row of no entry, and a row that an entry removed.
    let extra = |by: u64| {
        let what = format!("was described by no entry when entry {by} changed it");
        ("extra", "7".to_owned(), what)
    };
    assert_eq!(folded(&[&[then(B, A)], &end]), [extra(1)]);
    assert_eq!(folded(&[&first, &end, &[then(B, A)], &end]), [extra(3)]);
    // A row that is written without the row before, as it is written new, is not compared.
    assert_eq!(folded(&[&first, &[format!("m7 {B}")], &end]), []);
    // A malformed word is named.
    let told = folded(&[&first, &[format!("m7 {B} <{}", &A[1..])], &end]);
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].0, told[0].1.as_str()), ("shape", "entry 2"));
}

#[test]
fn a_row_that_is_about_to_be_written_has_the_item_of_the_stored_row() {
    let actor = Actor { uid: 1000, pid: 1, label: None };
    let scope = admit(&Principal { actor, tenant: "acme".into(), called: None }, "ada").unwrap();
    let of_row = |kind, row: &Value| {
        let row = row.as_object().unwrap().clone();
        let items = Item::of_row(kind, row, &scope, None).unwrap();
        items.iter().map(Item::to_string).collect::<Vec<String>>()
    };
    let message = json!({"_key": "m1", "agent_id": "acme:ada", "seq": 7, "kind": "turn", "role": "tool",
        "content": "Boat", "meta": {"name": "ferry"}, "token_estimate": 5, "created_at": "2026-05-05T09:14:00.000Z",
        "copy_of": null, "salt": "s", "digest": "d", "chain": "c", "tainted_seq": 7});
    let item = Item::of_message(message.as_object().unwrap(), &scope).unwrap();
    assert_eq!(vec![item.to_string()], of_row(RowKind::Messages, &message));
    let body = NewAgent {
        context_window: 4096,
        system: Some("Be kind.".into()),
        encoding: Encoding::default(),
        form: Some(Form::default()),
        zone: None,
        outbound: None,
        engineer: None,
        user: None,
        incarnation: None,
    };
    let counter = Tiktoken::new(Encoding::default());
    let mut core = new_core(&scope, &body, &counter, 1_000).unwrap();
    core.queue_head_summary.kept = Some("acme:ada:3".into());
    let row = json!(core);
    let item = Item::of_core(&core, &scope).unwrap();
    assert_eq!(vec![item.to_string()], of_row(RowKind::Core, &row));
    let replay = json!({"_key": sha256("acme:ada\0k"), "key": "k", "agent_id": "acme:ada",
        "tool": "append_fifo", "request_hash": "h", "created_at": "2026-05-05T09:14:00.000Z",
        "expires_at": 1_800_000_000, "salt": "s"});
    let response = json!({"result": {"message_id": "m1"}, "tokens": {"free": 3}});
    let mut stored = replay.clone();
    stored["response"] = response.clone();
    stored["response"]["_rev"] = "_r".into();
    let item = Item::of_answer(replay.as_object().unwrap(), &response, &scope).unwrap();
    assert_eq!(vec![item.to_string()], of_row(RowKind::Answers, &stored));
    let other = json!({"_key": "m1", "agent_id": "bob", "seq": 7});
    assert!(Item::of_message(other.as_object().unwrap(), &scope).is_err());
}

#[test]
fn a_value_is_written_as_the_canonical_text_of_its_json() {
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Form {
        Unit,
        Newtype(u8),
        Tuple(u8, &'static str),
        Struct { zeta: f64, alpha: Option<bool> },
    }
    #[derive(Serialize)]
    struct Row {
        zulu: Vec<Form>,
        alpha: (i64, f32, char),
        #[serde(skip_serializing_if = "Option::is_none")]
        left_out: Option<u8>,
        null: Option<u8>,
        #[serde(flatten)]
        more: BTreeMap<String, Value>,
        texts: Vec<String>,
        numbers: BTreeMap<u32, f64>,
        empty: (Vec<u8>, BTreeMap<String, u8>),
    }
    let more = json!({"nested": {"b": [1.0, 2.5, -0.0, 1e300], "a": "\u{1}\"ä"}, "beta": null});
    let row = Row {
        zulu: vec![
            Form::Unit,
            Form::Newtype(3),
            Form::Tuple(4, "x"),
            Form::Struct { zeta: 5.0, alpha: None },
        ],
        alpha: (-7, 0.25, 'é'),
        left_out: None,
        null: None,
        more: serde_json::from_value(more).unwrap(),
        // Each byte of ASCII, at each place of a piece.
        texts: (0..200u8)
            .map(|n| format!("{}\u{1f600}{}", "y".repeat(n.into()), char::from(n % 128)))
            .collect(),
        numbers: BTreeMap::from([(10, 1.5), (9, f64::NAN)]),
        empty: (Vec::new(), BTreeMap::new()),
    };
    let expected = canonical_json(&json!(row));
    for text in &row.texts {
        assert!(expected.contains(&serde_json::to_string(text).unwrap()), "{text:?}");
    }
    assert_eq!(String::from_utf8(canonical_of(&row).unwrap()).unwrap(), expected);
    let without = canonical_with(&row, &|name, value| match name {
        "numbers" => value != br#"{"10":1.5,"9":null}"#,
        name => name != "alpha",
    });
    let mut kept = json!(row);
    for name in ["alpha", "numbers"] {
        kept.as_object_mut().unwrap().shift_remove(name);
    }
    assert_eq!(String::from_utf8(without.unwrap()).unwrap(), canonical_json(&kept));
    assert!(canonical_of(&BTreeMap::from([(Some(vec![1]), 1)])).is_err());
}
