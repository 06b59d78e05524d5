//! Tests that pages of passages stay within their token limit, and that no text is lost between two
//! pages.

use serde_json::{Value, json};
use vctx_core::chunk::{Detail, Piece, View, page_cost, pages, part_value};
use vctx_core::memory::archive::FoundPassage;
use vctx_core::search::ScoreParts;

use crate::world::{FourBytes, Letters};

fn passage(key: &str, text: &str, provenance: Value) -> FoundPassage {
    serde_json::from_value(json!({"key": key, "doc_id": "d", "chunk_id": key, "text": text, "similarity": 0.5,
        "provenance": provenance, "chunk_links": {"previous": null, "next": null}, "offset": {"start": 10, "end": 20},
        "freshness_ts": "2026-01-01T00:00:00.000Z", "revision": "r"}))
    .unwrap()
}

fn view(passage: &FoundPassage) -> View<'_> {
    View { passage, parts: Detail::Whole(None) }
}

fn check(rows: &[FoundPassage], tokens_max: u64) -> Vec<Piece> {
    let views: Vec<View<'_>> = rows.iter().map(view).collect();
    let pieces = pages(&FourBytes, &views, tokens_max);
    let mut texts = vec![String::new(); rows.len()];
    let mut on_page: Vec<Value> = Vec::new();
    let mut page = 1;
    for piece in &pieces {
        assert!(piece.page == page || piece.page == page + 1, "{pieces:?}");
        if piece.page > page {
            on_page.clear();
            page = piece.page;
        }
        let passage = &rows[piece.row];
        assert_eq!(piece.start, texts[piece.row].len(), "no gap and no double");
        texts[piece.row].push_str(&passage.text[piece.start..piece.end]);
        on_page.push(part_value(&FourBytes, &view(passage), piece.start, piece.end));
        assert!(page_cost(&FourBytes, &on_page) <= tokens_max, "page {page}");
    }
    let wanted: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
    assert_eq!(texts, wanted, "the pages are the whole list");
    pieces
}

#[test]
fn every_page_keeps_its_tokens_and_all_pages_are_the_whole_list() {
    let long = "Die Gezeiten kommen täglich zweimal. ".repeat(300);
    let unbroken = "ä".repeat(5_000);
    for texts in [
        &["short", "short too", "third"][..],
        &["a", &long, "b"],
        &[&unbroken],
        &[&long, &unbroken, &long],
        &["x"; 40],
    ] {
        let rows: Vec<FoundPassage> = texts
            .iter()
            .enumerate()
            .map(|(at, text)| passage(&format!("{at:04}"), text, json!({"owner": "a"})))
            .collect();
        for tokens_max in [200, 512] {
            check(&rows, tokens_max);
        }
    }
}

#[test]
fn a_large_passage_is_cut_between_words_and_says_where() {
    let long = "Die Gezeiten kommen täglich zweimal. ".repeat(100);
    let rows = [passage("k", &long, json!({"owner": "a"}))];
    let pieces = check(&rows, 512);
    assert!(pieces.len() > 1);
    let second = part_value(&FourBytes, &view(&rows[0]), pieces[1].start, pieces[1].end);
    let from = long[..pieces[1].start].chars().count();
    assert!(long[..pieces[1].start].ends_with(' '));
    assert_eq!(second["part"]["start"], from);
    assert_eq!(second["part"]["of"], long.chars().count());
    assert_eq!(second["offset"]["start"], 10 + from);
}

#[test]
fn the_longest_names_leave_room_for_a_text() {
    let mut row = passage(
        &"f".repeat(32),
        &"word ".repeat(500),
        json!({"owner": "o".repeat(193), "source": "s"}),
    );
    row.doc_id = "d".repeat(256);
    row.chunk_id = "c".repeat(128);
    let rows = [row];
    let pieces = pages(&Letters, &[view(&rows[0])], 512);
    assert_eq!(pieces.last().map(|p| p.end), Some(2_500));
    for piece in &pieces {
        let value = part_value(&Letters, &view(&rows[0]), piece.start, piece.end);
        assert!(page_cost(&Letters, &[value]) <= 512, "{piece:?}");
    }
}

#[test]
fn a_provenance_that_would_fill_the_page_is_cut() {
    let rows =
        [passage("k", "text", json!({"owner": "a", "source": "s", "note": "n".repeat(4_000)}))];
    check(&rows, 512);
    let value = part_value(&FourBytes, &view(&rows[0]), 0, 4);
    assert_eq!(value["provenance"], json!({"source": "s", "owner": "a"}));
    assert_eq!(value["provenance_cut"], true);
}

#[test]
fn what_is_plain_takes_no_room_unless_all_is_asked_for() {
    let plain: FoundPassage = serde_json::from_value(json!({"key": "k", "doc_id": "d", "chunk_id": "0003", "text": "t",
        "similarity": null, "score": 2.0, "provenance": {"owner": "a"}, "chunk_links": {"previous": "0002", "next": null},
        "offset": null, "freshness_ts": "2026-01-01T00:00:00.000Z", "dated": false, "revision": "r"}))
    .unwrap();
    let short = |passage: &FoundPassage| {
        part_value(&FourBytes, &View { passage, parts: Detail::Short }, 0, passage.text.len())
    };
    let bare = json!({"id": "archival_docs/k", "doc_id": "d", "chunk_id": "0003", "score": 2, "text": "t"});
    assert_eq!(short(&plain), bare);
    let told = FoundPassage {
        dated: Some(true),
        provenance: json!({"owner": "a", "source": "s"}).as_object().cloned().unwrap(),
        chunk_id: "tide".into(),
        ..plain.clone()
    };
    let told = short(&told);
    assert_eq!(told["freshness_ts"], "2026-01-01");
    assert_eq!(told["provenance"], json!({"source": "s"}));
    assert_eq!(told["chunk_links"], json!({"previous": "0002", "next": null}));
    let parts = ScoreParts { bm25: 1.5, words: 2.0, ..ScoreParts::default() };
    let view = View { passage: &plain, parts: Detail::Whole(Some(parts)) };
    let whole = part_value(&FourBytes, &view, 0, 1);
    assert_eq!(whole["parts"], json!({"bm25": 1.5, "words": 2}));
    assert_eq!(whole["provenance"], json!({"owner": "a"}));
    assert_eq!(whole["freshness_ts"], "2026-01-01T00:00:00.000Z");
}
