//! Tests that small value types of the memory keep their invariants.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use vctx_core::memory::Fingerprint;
use vctx_core::memory::archive::{
    ChunkLinks, Metric, Passage, attribute, manifest_key, passage_key,
};
use vctx_core::memory::core::RecentRevisions;
use vctx_core::memory::edges::{joined_key, version_key};
use vctx_core::memory::forget::{Forgetting, ForgottenText};
use vctx_core::memory::page::plain;
use vctx_core::memory::recall_vector::{RecallMark, Refused};
use vctx_core::memory::schedule::Schedule;
use vctx_core::memory::strict_json::StrictJson;
use vctx_core::memory::tokens::Encoding;

#[test]
fn a_manifest_names_places_and_holds_no_request() {
    let item =
        |seq| ForgottenText { seq, id: format!("m{seq}"), kind: "turn".into(), digest: "d".into() };
    let mut row = Forgetting {
        items: [1, 2, 3, 7].map(item).to_vec(),
        request_hash: "of the text".into(),
        ..Forgetting::default()
    };
    assert_eq!(row.manifest()["seqs"], json!(["1-3", "7"]));
    assert_eq!(row.manifest()["state"], "under_way");
    let digest = row.manifest()["items_digest"].clone();
    row.end("now");
    assert_eq!((row.manifest()["state"].clone(), row.request_hash.as_str()), (json!("done"), ""));
    assert_eq!(row.manifest()["items_digest"], digest);
}

#[test]
fn the_phases_come_to_an_end() {
    let mut row = Forgetting::default();
    for _ in 0..7 {
        assert!(!row.is_done());
        row.advance();
    }
    assert!(row.is_done());
}

fn schedule(every_ms: Option<u64>, due_ms: u64) -> Schedule {
    let at_ms = every_ms.is_none().then_some(due_ms);
    serde_json::from_value(json!({"_key": "k", "agent_id": "ada", "tenant": "", "name": "n", "every_ms": every_ms, "at_ms": at_ms,
        "content": "c", "run": false, "due_ms": due_ms, "created_at": "", "updated_at": ""}))
    .expect("a schedule")
}

#[test]
fn one_tick_stands_for_all_that_were_missed_and_the_rhythm_stays() {
    for (now_ms, wanted) in [
        (9_999, None),
        (10_000, Some((0, 11_000))),
        (10_999, Some((0, 11_000))),
        (11_000, Some((1, 12_000))),
        (3_610_500, Some((3_600, 3_611_000))),
    ] {
        let tick = schedule(Some(1_000), 10_000).tick(now_ms);
        assert_eq!(tick.map(|t| t.due_ms), wanted.map(|_| 10_000));
        assert_eq!(tick.map(|t| (t.missed, t.next_ms)), wanted.map(|(m, n)| (m, Some(n))));
    }
}

#[test]
fn what_fires_once_fires_late_rather_than_never_and_has_no_next_moment() {
    let once = schedule(None, 10_000);
    assert_eq!(once.tick(9_999), None);
    let late = once.tick(99_000).expect("a tick");
    assert_eq!((late.due_ms, late.missed, late.next_ms), (10_000, 0, None));
}

#[test]
fn what_was_refused_is_tried_again_after_a_pause_from_the_first_on() {
    let refused = |id: &str, logged_ms| Refused { id: id.into(), logged_ms };
    let mark = RecallMark {
        logged_ms: Some(900),
        refused: vec![refused("b", Some(700)), refused("a", Some(300))],
        refused_ms: 1_000,
        ..RecallMark::default()
    };
    let mut early = mark.clone();
    early.try_again(1_999, 1_000);
    assert_eq!(early, mark);
    let mut late = mark.clone();
    late.try_again(2_000, 1_000);
    assert_eq!((late.logged_ms, late.refused.len()), (Some(300), 0));
    let mut old = RecallMark { refused: vec![refused("a", None)], ..mark };
    old.try_again(2_000, 1_000);
    assert_eq!(old.logged_ms, None, "an entry of the first schema was logged before all others");
    let mut none = RecallMark { logged_ms: Some(5), ..RecallMark::default() };
    none.try_again(2_000, 1_000);
    assert_eq!(none.logged_ms, Some(5));
}

#[test]
fn a_name_survives_parse_print_and_json() {
    for &encoding in Encoding::ALL {
        assert_eq!(encoding.to_string().parse(), Ok(encoding));
        let json = serde_json::to_string(&encoding).expect("an encoding is a string");
        assert_eq!(json, format!("\"{encoding}\""));
        assert_eq!(serde_json::from_str::<Encoding>(&json).expect("own spelling"), encoding);
    }
}

#[test]
fn an_unknown_name_is_refused_and_repeated() {
    for name in ["", "O200K_BASE", "gpt2", "o200k_base "] {
        let error = name.parse::<Encoding>().expect_err("no encoding");
        assert!(error.to_string().contains(name), "{error}");
        assert!(serde_json::from_str::<Encoding>(&format!("\"{name}\"")).is_err());
    }
}

#[test]
fn every_value_is_what_it_is_in_json() {
    let text =
        r#"{"a": [null, true, 1, -1, 1.5, 18446744073709551615, "ä\n", {"b": {}, "c": []}]}"#;
    let StrictJson(value) = serde_json::from_str(text).unwrap();
    assert_eq!(value, serde_json::from_str::<Value>(text).unwrap());
}

#[test]
fn a_name_that_stands_twice_is_refused_at_any_depth() {
    for text in
        [r#"{"a": 1, "a": 1}"#, r#"{"a": [{"b": 1, "c": 2, "b": 3}]}"#, r#"{"a": 1, "\u0061": 2}"#]
    {
        assert!(serde_json::from_str::<StrictJson>(text).is_err(), "{text}");
    }
}

#[test]
fn a_score_without_a_fraction_is_written_without_one() {
    for (score, text) in
        [(1.0, "1"), (-0.0, "0"), (0.25, "0.25"), (-3.0, "-3"), (2e9, "2000000000.0")]
    {
        assert_eq!(plain(score).to_string(), text);
    }
}

#[test]
fn the_key_of_an_edge_knows_its_direction() {
    assert_ne!(joined_key("a", "b"), joined_key("b", "a"));
    assert_eq!(joined_key("a", "b"), joined_key("a", "b"));
}

#[test]
fn versions_of_agents_and_tenants_have_keys_of_their_own() {
    let keys = [version_key("ada", 12), version_key("ada:1", 2), version_key("ada", 2)];
    assert_eq!(keys, ["ada:12", "ada:1:2", "ada:2"]);
}

#[test]
fn the_newest_revisions_are_known_and_no_others() {
    let mut recent = RecentRevisions::default();
    for version in 1..=9 {
        recent.push(&format!("_a{version}---"), version, 4);
    }
    let known: Vec<Option<u64>> =
        (5..=9).map(|v| recent.version_of(&format!("_a{v}---"))).collect();
    assert_eq!(known, [None, Some(6), Some(7), Some(8), Some(9)]);
    assert_eq!((recent.oldest_version(), RecentRevisions::default().oldest_version()), (6, 0));
    assert_eq!(recent.version_of("_a"), None);
    assert_eq!(recent.version_of(""), None);
}

#[test]
fn another_model_version_or_length_is_another_fingerprint() {
    let of = |model: &str, version: &str, dimension| Fingerprint {
        model_id: model.into(),
        embedding_version: version.into(),
        dimension,
    };
    let all = [of("m", "1", 2), of("n", "1", 2), of("m", "2", 2), of("m", "1", 3), of("m1", "", 2)];
    let digests: BTreeSet<String> = all.iter().map(Fingerprint::digest).collect();
    assert_eq!(digests.len(), all.len());
    assert_eq!(of("m", "1", 2).digest(), all[0].digest());
}

#[test]
fn keys_of_two_agents_documents_or_chunks_differ() {
    let keys = [
        passage_key("a", "d", "c"),
        passage_key("b", "d", "c"),
        passage_key("a", "e", "c"),
        passage_key("a", "d", "e"),
        passage_key("a", "d\0c", ""),
        manifest_key("a", "d"),
        manifest_key("b", "d"),
    ];
    let different: BTreeSet<&String> = keys.iter().collect();
    assert_eq!(different.len(), keys.len());
    assert!(keys.iter().all(|k| [32, 20].contains(&k.len())));
}

#[test]
fn a_missing_vector_is_left_out() {
    let passage = Passage {
        key: "k".into(),
        agent_id: "a".into(),
        doc_id: "d".into(),
        chunk_id: "0".into(),
        index: 0,
        text: "t".into(),
        vectors: BTreeMap::new(),
        dimension: 2,
        metric: Metric::Cosine,
        embedding_version: "1".into(),
        model_id: "m".into(),
        provenance: Map::new(),
        labels: Vec::new(),
        chunk_links: ChunkLinks::default(),
        offset: None,
        freshness_ts: String::new(),
        dated: false,
        parent: None,
        ingested_ms: 0,
        token_estimate: 1,
        revision: "r".into(),
        taint: Vec::new(),
        tainted_key: None,
    };
    let value = serde_json::to_value(&passage).unwrap();
    assert!(value.get("embedding").is_none());
    let two = [(attribute(1), vec![1.0]), (attribute(2), vec![0.0, 1.0])];
    let value = serde_json::to_value(Passage { vectors: two.into(), ..passage }).unwrap();
    assert_eq!((&value["embedding"], &value["embedding_2"]), (&json!([1.0]), &json!([0.0, 1.0])));
}
