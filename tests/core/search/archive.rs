//! Tests the ranking of chunks: hits of the view, recent chunks that the view does not show yet,
//! identifiers, and the fusion of two result lists.

use vctx_core::memory::archive::{FoundPassage, Metric};
use vctx_core::search::{
    Fusion, LookCounts, NearPlan, NearResult, RankedChunk, WordResult, WordRow, ranked,
};

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn row(key: &str, text: &str, score: Option<f64>) -> WordRow {
    let (words, doc_id) = (text.to_owned(), "d".to_owned());
    WordRow { key: key.into(), doc_id, parent: None, score, words, similarity: None }
}

fn found(asked: &str, wanted: &str, rows: Vec<WordRow>) -> WordResult {
    WordResult { asked: words(asked), wanted: words(wanted), rows, ..WordResult::default() }
}

fn near(rows: &[(&str, f64)]) -> NearResult {
    let row = |(key, similarity): &(&str, f64)| -> FoundPassage {
        serde_json::from_value(serde_json::json!({"key": key, "doc_id": "d", "chunk_id": "c", "text": "t",
            "similarity": similarity, "provenance": {}, "chunk_links": {"previous": null, "next": null}, "offset": null,
            "freshness_ts": "", "revision": "r"}))
        .unwrap()
    };
    let rows = Some(rows.iter().map(row).collect());
    NearResult { plan: NearPlan::Exact, k: 10, rows, looked: LookCounts::default() }
}

fn order(list: &[RankedChunk]) -> Vec<&str> {
    list.iter().map(|one| one.key.as_str()).collect()
}

fn text(found: &WordResult) -> Vec<RankedChunk> {
    ranked(found, None, Metric::Cosine, Fusion::ZScore, 100)
}

#[test]
fn equal_scores_are_parted_by_beginning_neighbours_relatives_and_closeness() {
    let filler = "x ".repeat(40);
    for (better, worse) in [
        (format!("boat {filler}"), format!("{filler} boat")),
        (format!("{filler} red boat"), format!("{filler} boat x x red")),
        (format!("{filler} boat singer"), format!("{filler} boat other")),
        (format!("{filler} boat x x red"), format!("{filler} boat {filler} red")),
    ] {
        let rows = vec![row("a", &worse, Some(1.0)), row("b", &better, Some(1.0))];
        let list = text(&found("red boat sings", "red boat sing", rows));
        assert_eq!(order(&list), ["b", "a"], "{better}");
        let parts = list[0].parts;
        let around = parts.beginning + parts.neighbours + parts.together;
        let sum = parts.bm25 + around + parts.related + parts.topic;
        assert!((sum - list[0].score).abs() < 1e-9 && parts.words == list[0].score);
    }
}

#[test]
fn a_chunk_with_similar_words_only_is_listed_if_no_chunk_has_the_words() {
    let salary = || row("salary", "your salari arriv on friday", None);
    let alone = found("wage", "wage", vec![salary()]);
    let list = text(&alone);
    assert_eq!(order(&list), ["salary"]);
    let parts = list[0].parts;
    assert!(parts.bm25 == 0.0 && parts.related > 0.0 && parts.topic > 0.0, "{parts:?}");
    let both = found("wage", "wage", vec![row("wage", "the wage", Some(3.0)), salary()]);
    assert_eq!(order(&text(&both)), ["wage"]);
}

#[test]
fn what_the_view_does_not_show_yet_stands_by_its_words() {
    let rows =
        vec![row("v1", "blue boat here too", Some(4.0)), row("v2", "one boat of many", Some(1.0))];
    let mut all = found("blue boat", "blue boat", rows);
    all.tail.rows = vec![row("v1", "blue boat here too", None), row("t", "a blue boat", None)];
    // Two texts contain both words of the query; the shorter one comes first. A text with only one
    // of the words comes last.
    let list = text(&all);
    assert_eq!(order(&list), ["t", "v1", "v2"]);
    assert_eq!(list[1].parts.bm25, 4.0, "the view's own score stands where there is one");
    let mut fresh = found("blue boat", "blue boat", Vec::new());
    fresh.tail.rows =
        vec![row("t1", "boat", None), row("t2", "blue", None), row("t3", "blue boat", None)];
    assert_eq!(order(&text(&fresh))[0], "t3");
}

#[test]
fn an_identifier_is_found_whole_or_not_at_all() {
    let mut all = found("ab 12 cd", "ab 12 cd", vec![row("part", "ab here 12 there", Some(9.0))]);
    all.tail.phrases = vec![words("ab 12 cd")];
    assert_eq!(order(&text(&all)), ["part"], "nobody has it whole");
    all.tail.rows = vec![row("whole", "key ab 12 cd", None), row("some", "12 ab", None)];
    assert_eq!(order(&text(&all)), ["whole"]);
    all.rows = vec![row("shown", "ab 12 cd value", Some(2.0))];
    all.identified = true;
    let list = ranked(&all, Some(&near(&[("other", 0.9)])), Metric::Cosine, Fusion::ZScore, 9);
    let mut keys = order(&list);
    keys.sort_unstable();
    assert_eq!(keys, ["shown", "whole"], "what is only near to an identifier is another one");
}

#[test]
fn each_list_finds_what_the_other_misses_and_both_together_win() {
    let mut rows = vec![
        row("both", "boat", Some(3.0)),
        row("words", "boat", Some(3.0)),
        row("weak", "x boat", Some(0.5)),
    ];
    for (row, similarity) in rows.iter_mut().zip([0.9, 0.1, 0.0]) {
        row.similarity = Some(similarity);
    }
    let all = found("boat", "boat", rows);
    for fusion in [Fusion::ZScore, Fusion::Rrf] {
        let close = near(&[("near", 0.95), ("both", 0.9), ("far", 0.05)]);
        let list = ranked(&all, Some(&close), Metric::Cosine, fusion, 100);
        assert_eq!(list[0].key, "both", "{fusion:?}");
        let place = |key: &str| list.iter().position(|one| one.key == key).unwrap();
        // If the fusion uses only the ranks, every result that is in both lists comes before every
        // result that is in only one list.
        let scores = fusion == Fusion::ZScore;
        assert!(place("near") < place("weak") || !scores, "{fusion:?}");
        assert!(place("words") < place("far"), "{fusion:?}");
        let distant = near(&[("near", 0.1), ("both", 0.2), ("far", 9.0)]);
        let mut all = all.clone();
        for (row, distance) in all.rows.iter_mut().zip([0.2, 5.0, 9.0]) {
            row.similarity = Some(distance);
        }
        let list = ranked(&all, Some(&distant), Metric::L2, fusion, 100);
        assert_eq!(list[0].key, "both", "{fusion:?} by distance");
    }
}

#[test]
fn ranks_are_fused_by_their_reciprocals() {
    let mut rows = vec![row("a", "boat", Some(2.0)), row("b", "x boat", Some(1.0))];
    rows[1].similarity = Some(0.5);
    let all = found("boat", "boat", rows);
    let list = ranked(&all, Some(&near(&[("c", 0.9)])), Metric::Cosine, Fusion::Rrf, 9);
    let score = |key: &str| list.iter().find(|one| one.key == key).unwrap().score;
    assert!((score("a") - 1.0 / 61.0).abs() < 1e-12);
    assert!((score("b") - 2.0 / 62.0).abs() < 1e-12);
    assert!((score("c") - 1.0 / 61.0).abs() < 1e-12);
}

#[test]
fn parts_of_one_larger_piece_stand_for_it_once() {
    let mut rows = vec![
        row("a", "boat boat", Some(3.0)),
        row("b", "boat", Some(2.0)),
        row("c", "boat", Some(1.0)),
    ];
    rows[0].parent = Some(4);
    rows[1].parent = Some(4);
    assert_eq!(order(&text(&found("boat", "boat", rows))), ["a", "c"]);
}
