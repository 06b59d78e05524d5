//! Pages of passages: a result list is cut into pages of so many tokens, counted as they are read, once, when the search is made.

use serde_json::{Map, Value, json};

use crate::limits::PAGE_META_TOKENS_MAX;
use crate::memory::archive::{FoundPassage, Span};
use crate::memory::tokens::TokenCounter;
use crate::policy::preview;

/// A passage, or a part of one that is larger than a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Place of the passage in the result list.
    pub row: usize,
    /// Where the part begins in its text, in bytes.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// The page that it stands on, from 1.
    pub page: u64,
}

/// Tokens of a page as it is read: its results as compact JSON.
pub fn page_cost(counter: &dyn TokenCounter, results: &[Value]) -> u64 {
    counter.count(&Value::from(results.to_vec()).to_string())
}

/// Cuts a result list into pages of at most `tokens_max`. A passage goes on a page whole where it fits; one that is larger than a page
/// is cut, at white space where there is some, and goes on with the next.
pub fn pages(counter: &dyn TokenCounter, rows: &[FoundPassage], tokens_max: u64) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut page = 1;
    let mut there: Vec<Value> = Vec::new();
    for (row, passage) in rows.iter().enumerate() {
        let mut start = 0;
        loop {
            let end = passage.text.len();
            if may_fit(counter, &passage.text[start..], tokens_max) {
                let whole = shown(counter, passage, start, end);
                if fits(counter, &there, &whole, tokens_max) {
                    there.push(whole);
                    pieces.push(Piece { row, start, end, page });
                    break;
                }
            }
            if !there.is_empty() {
                there.clear();
                page += 1;
                continue;
            }
            let end = cut(counter, passage, start, tokens_max);
            pieces.push(Piece { row, start, end, page });
            page += 1;
            start = end;
            if start == passage.text.len() {
                break;
            }
        }
    }
    pieces
}

/// Whether a text may fit a page at all: of a long one the beginning is counted first, since each page of it asks again.
fn may_fit(counter: &dyn TokenCounter, text: &str, tokens_max: u64) -> bool {
    const BYTES_PER_TOKEN: usize = 16;
    let reach = usize::try_from(tokens_max).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN);
    text.len() <= reach || counter.count(&text[..text.floor_char_boundary(reach)]) <= tokens_max
}

fn fits(counter: &dyn TokenCounter, there: &[Value], next: &Value, tokens_max: u64) -> bool {
    let mut all = there.to_vec();
    all.push(next.clone());
    page_cost(counter, &all) <= tokens_max
}

/// The end of a part from `start` on that fills a page alone, but for a few bytes; at least one character, so that paging gets on.
fn cut(counter: &dyn TokenCounter, passage: &FoundPassage, start: usize, tokens_max: u64) -> usize {
    let text = &passage.text;
    let at = |wanted: usize| text.floor_char_boundary(wanted.min(text.len()));
    let fits = |end: usize| fits(counter, &[], &shown(counter, passage, start, end), tokens_max);
    // A usual token stands for some four bytes. From there on by doubled steps, then between the last two.
    const BYTES_PER_TOKEN: usize = 4;
    /// Bytes that a page may leave empty.
    const LEFT_EMPTY: usize = 32;
    let mut step =
        usize::try_from(tokens_max).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN).max(1);
    let mut low = start + text[start..].chars().next().map_or(0, char::len_utf8);
    let mut high = at(low.saturating_add(step));
    while high > low && fits(high) {
        low = high;
        step = step.saturating_mul(2);
        high = at(low.saturating_add(step));
    }
    while high > low + LEFT_EMPTY {
        let middle = at(low + (high - low) / 2);
        if middle <= low {
            break;
        }
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    let words_end = text[start..low].rfind(char::is_whitespace).map(|space| start + space);
    // A cut between words, unless that would leave half of the page empty; the white space stays with the first part.
    let between = words_end.map(|end| end + text[end..].chars().next().map_or(0, char::len_utf8));
    match between.filter(|&end| low < text.len() && end > start + (low - start) / 2 && fits(end)) {
        Some(end) => end,
        None => low,
    }
}

/// A passage, or the part of it between two places, as it stands on a page.
pub fn shown(
    counter: &dyn TokenCounter,
    passage: &FoundPassage,
    start: usize,
    end: usize,
) -> Value {
    let text = &passage.text;
    let chars = |to: usize| text[..to].chars().count() as u64;
    let mut value = meta(counter, passage);
    value.insert("text".into(), text[start..end].into());
    let (from, to) = (chars(start), chars(end));
    if let Some(offset) = passage.offset {
        let place = Span { start: offset.start + from, end: offset.start + to };
        value.insert("offset".into(), json!(place));
    }
    if start > 0 || end < text.len() {
        value.insert("part".into(), json!({"start": from, "end": to, "of": chars(text.len())}));
    }
    Value::Object(value)
}

/// What stands in the place of a passage that was taken in again, or taken away, since the search was made.
pub fn gone(id: &str, changed: bool, similarity: f64) -> Value {
    let why = if changed { "changed" } else { "gone" };
    json!({"id": id, "similarity": rounded(similarity), "text": null, why: true})
}

/// Everything but the text. What is said of a passage must leave room for it: where that is too much, its neighbours and all but the
/// source and the owner are left out, and a name of its document that takes as much itself is cut; its `id` is always whole.
fn meta(counter: &dyn TokenCounter, passage: &FoundPassage) -> Map<String, Value> {
    let mut value = Map::new();
    value.insert("id".into(), id(&passage.key).into());
    value.insert("doc_id".into(), passage.doc_id.as_str().into());
    value.insert("chunk_id".into(), passage.chunk_id.as_str().into());
    value.insert("similarity".into(), rounded(passage.similarity.unwrap_or(0.0)));
    value.insert("freshness_ts".into(), passage.freshness_ts.as_str().into());
    let mut whole = value.clone();
    whole.insert("provenance".into(), Value::Object(passage.provenance.clone()));
    whole.insert("chunk_links".into(), json!(passage.chunk_links));
    let cost = |map: &Map<String, Value>| counter.count(&Value::Object(map.clone()).to_string());
    if cost(&whole) <= PAGE_META_TOKENS_MAX {
        return whole;
    }
    if cost(&value) > PAGE_META_TOKENS_MAX {
        value.insert("doc_id".into(), preview(counter, &passage.doc_id, SHORT_TOKENS_MAX).into());
        value.insert("doc_id_cut".into(), true.into());
    }
    value.insert("provenance_cut".into(), true.into());
    value.insert("provenance".into(), json!({}));
    for name in ["owner", "source"] {
        let text = passage.provenance.get(name).and_then(Value::as_str);
        let Some(text) = text.filter(|text| counter.count(text) <= SHORT_TOKENS_MAX) else {
            continue;
        };
        let mut with = value.clone();
        with["provenance"][name] = text.into();
        if cost(&with) <= PAGE_META_TOKENS_MAX {
            value = with;
        }
    }
    value
}

/// Tokens of a source or owner that is kept when a provenance is cut, and of a document's name that is too long.
const SHORT_TOKENS_MAX: u64 = 48;

/// `_id` of a chunk.
pub fn id(key: &str) -> String {
    format!("archival_docs/{key}")
}

/// Six decimals: an index computes in floats of four bytes.
fn rounded(similarity: f64) -> Value {
    json!((similarity * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Encoding;

    /// One token for each started four letters.
    struct Quarters;

    impl TokenCounter for Quarters {
        fn encoding(&self) -> Encoding {
            Encoding::O200kBase
        }

        fn count(&self, text: &str) -> u64 {
            (text.chars().count() as u64).div_ceil(4)
        }
    }

    fn passage(key: &str, text: &str, provenance: Value) -> FoundPassage {
        serde_json::from_value(json!({"key": key, "doc_id": "d", "chunk_id": key, "text": text, "similarity": 0.5,
            "provenance": provenance, "chunk_links": {"previous": null, "next": null}, "offset": {"start": 10, "end": 20},
            "freshness_ts": "2026-01-01T00:00:00.000Z", "revision": "r"}))
        .unwrap()
    }

    fn check(rows: &[FoundPassage], tokens_max: u64) -> Vec<Piece> {
        let pieces = pages(&Quarters, rows, tokens_max);
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
            on_page.push(shown(&Quarters, passage, piece.start, piece.end));
            assert!(page_cost(&Quarters, &on_page) <= tokens_max, "page {page}");
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
        let second = shown(&Quarters, &rows[0], pieces[1].start, pieces[1].end);
        let from = long[..pieces[1].start].chars().count();
        assert!(long[..pieces[1].start].ends_with(' '));
        assert_eq!(second["part"]["start"], from);
        assert_eq!(second["part"]["of"], long.chars().count());
        assert_eq!(second["offset"]["start"], 10 + from);
    }

    #[test]
    fn a_provenance_that_would_fill_the_page_is_cut() {
        let rows =
            [passage("k", "text", json!({"owner": "a", "source": "s", "note": "n".repeat(4_000)}))];
        check(&rows, 512);
        let value = shown(&Quarters, &rows[0], 0, 4);
        assert_eq!(value["provenance"], json!({"source": "s", "owner": "a"}));
        assert_eq!(value["provenance_cut"], true);
    }
}
