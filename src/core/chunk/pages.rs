//! Pages of passages: a result list is cut into pages of so many tokens, counted as they are read, once, when the search is made.

use serde_json::{Map, Value, json};

use crate::limits::{PAGE_CUT_TRIES_MAX, PAGE_META_TOKENS_MAX};
use crate::memory::archive::{FoundPassage, Span};
use crate::memory::page::plain;
use crate::memory::tokens::TokenCounter;
use crate::policy::{Parts, preview};

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

/// A passage as it is shown.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What was found.
    pub passage: &'a FoundPassage,
    /// How much is told of it beside its text.
    pub parts: Told,
}

/// How much is told of a passage.
#[derive(Clone, Copy, Debug)]
pub enum Told {
    /// What a reader needs to cite it. Room on a page is dear: what is plain is left out (that it is the agent's own, the time of its ingest,
    /// neighbours that are called by their numbers).
    Short,
    /// Everything, with the parts of its score if it has any.
    Whole(Option<Parts>),
}

/// Something with a text that is shown on pages: whole, or part by part.
pub trait Leaf {
    /// The text.
    fn text(&self) -> &str;
    /// The part of it between two places, in bytes, as it stands on a page.
    fn shown(&self, counter: &dyn TokenCounter, start: usize, end: usize) -> Value;
}

impl Leaf for View<'_> {
    fn text(&self) -> &str {
        &self.passage.text
    }

    fn shown(&self, counter: &dyn TokenCounter, start: usize, end: usize) -> Value {
        shown(counter, self, start, end)
    }
}

/// Tokens of a page as it is read: its results as compact JSON.
pub fn page_cost(counter: &dyn TokenCounter, results: &[Value]) -> u64 {
    counter.count(&Value::from(results.to_vec()).to_string())
}

/// Cuts a result list into pages of at most `tokens_max`. A passage goes on a page whole where it fits; one that is larger than a page
/// is cut, at white space where there is some, and goes on with the next.
pub fn pages<L: Leaf>(counter: &dyn TokenCounter, rows: &[L], tokens_max: u64) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut page = 1;
    let mut there: Vec<Value> = Vec::new();
    for (row, leaf) in rows.iter().enumerate() {
        let mut start = 0;
        loop {
            let end = leaf.text().len();
            if let Some(whole) = whole(counter, &there, leaf, start, tokens_max) {
                there.push(whole);
                pieces.push(Piece { row, start, end, page });
                break;
            }
            if !there.is_empty() {
                there.clear();
                page += 1;
                continue;
            }
            let end = cut(counter, leaf, start, tokens_max);
            pieces.push(Piece { row, start, end, page });
            page += 1;
            start = end;
            if start == leaf.text().len() {
                break;
            }
        }
    }
    pieces
}

/// The rest of a passage, if it fits a page beside what is there already.
fn whole<L: Leaf>(
    counter: &dyn TokenCounter,
    there: &[Value],
    leaf: &L,
    start: usize,
    tokens_max: u64,
) -> Option<Value> {
    let text = leaf.text();
    let reach = text.floor_char_boundary((start + stretch(tokens_max)).min(text.len()));
    if reach < text.len() && counter.count(&text[start..reach]) > tokens_max {
        return None;
    }
    let next = leaf.shown(counter, start, text.len());
    let mut all = there.to_vec();
    all.push(next.clone());
    (page_cost(counter, &all) <= tokens_max).then_some(next)
}

/// The end of a part from `start` on that fills most of a page alone; at least one character, so that paging gets on. How far a page
/// reaches is guessed from a stretch that is too long for it, and the guess is shortened until it fits.
fn cut<L: Leaf>(counter: &dyn TokenCounter, leaf: &L, start: usize, tokens_max: u64) -> usize {
    let text = leaf.text();
    let first = start + text[start..].chars().next().map_or(0, char::len_utf8);
    let cost = |end: usize| page_cost(counter, &[leaf.shown(counter, start, end)]);
    let at = |length: usize| text.floor_char_boundary((start + length).min(text.len())).max(first);
    let bare = cost(start);
    let room = tokens_max.saturating_sub(bare).max(1);
    let mut length = stretch(tokens_max);
    for _ in 0..PAGE_CUT_TRIES_MAX {
        let end = at(length);
        let found = cost(end);
        if found <= tokens_max {
            return between_words(text, start, end);
        }
        let taken = (end - start) as u64;
        let guess = taken.saturating_mul(room) / found.saturating_sub(bare).max(1);
        length = usize::try_from(guess.min(taken) * 97 / 100).unwrap_or(0);
    }
    let mut end = at(length);
    while cost(end) > tokens_max && end > first {
        end = at((end - start) / 2);
    }
    end
}

/// A cut behind a sentence, else behind white space, unless that would leave half of the page empty; the white space stays with the first part.
fn between_words(text: &str, start: usize, end: usize) -> usize {
    if end == text.len() {
        return end;
    }
    let half = start + (end - start) / 2;
    let behind = |at: usize| at + text[at..].chars().next().map_or(0, char::len_utf8);
    let spaces = || text[start..end].rmatch_indices(char::is_whitespace).map(|(at, _)| start + at);
    let closes = |at: &usize| text[..*at].ends_with(['.', '!', '?', '。', '\n', '"', '”']);
    let far = |at: &usize| behind(*at) > half;
    let sentence = spaces().take_while(far).find(closes);
    sentence.or_else(|| spaces().take_while(far).next()).map_or(end, behind)
}

/// Bytes that surely are more than so many tokens of prose; what is longer need not be counted whole to know that it does not fit.
fn stretch(tokens: u64) -> usize {
    const BYTES_PER_TOKEN: usize = 16;
    usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN)
}

/// A passage, or the part of it between two places, as it stands on a page.
pub fn shown(counter: &dyn TokenCounter, view: &View<'_>, start: usize, end: usize) -> Value {
    let passage = view.passage;
    let text = &passage.text;
    let chars = |to: usize| text[..to].chars().count() as u64;
    let mut value = meta(counter, view);
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
pub fn gone(id: &str, changed: bool, scored: bool, value: f64) -> Value {
    let why = if changed { "changed" } else { "gone" };
    let name = if scored { "score" } else { "similarity" };
    json!({"id": id, name: rounded(value), "text": null, why: true})
}

/// Everything but the text. What is said of a passage must leave room for it: where that is too much, its neighbours and all but the
/// source and the owner are left out, and a name of its document that takes as much itself is cut; its `id` is always whole.
fn meta(counter: &dyn TokenCounter, view: &View<'_>) -> Map<String, Value> {
    let passage = view.passage;
    let mut value = Map::new();
    value.insert("id".into(), id(&passage.key).into());
    value.insert("doc_id".into(), passage.doc_id.as_str().into());
    value.insert("chunk_id".into(), passage.chunk_id.as_str().into());
    match passage.score {
        Some(score) => value.insert("score".into(), scored(score)),
        None => value.insert("similarity".into(), rounded(passage.similarity.unwrap_or(0.0))),
    };
    if !passage.tainted.is_empty() {
        value.insert("tainted".into(), json!(passage.tainted));
    }
    if passage.quarantined {
        value.insert("quarantined".into(), true.into());
    }
    let mut whole = value.clone();
    match view.parts {
        Told::Short => tell_short(passage, &mut value, &mut whole),
        Told::Whole(parts) => {
            value.insert("freshness_ts".into(), passage.freshness_ts.as_str().into());
            if let Some(parts) = parts {
                value.insert("parts".into(), json!(parts_told(&parts)));
            }
            whole.clone_from(&value);
            whole.insert("provenance".into(), Value::Object(passage.provenance.clone()));
            whole.insert("chunk_links".into(), json!(passage.chunk_links));
        }
    }
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

/// What is not plain: a date that somebody gave, a provenance beside the owner, neighbours that have names.
fn tell_short(
    passage: &FoundPassage,
    value: &mut Map<String, Value>,
    whole: &mut Map<String, Value>,
) {
    if passage.dated != Some(false) {
        let ts = passage.freshness_ts.trim_end_matches(MIDNIGHT);
        value.insert("freshness_ts".into(), ts.into());
        whole.insert("freshness_ts".into(), ts.into());
    }
    let mut provenance = passage.provenance.clone();
    provenance.remove("owner");
    if !provenance.is_empty() {
        whole.insert("provenance".into(), Value::Object(provenance));
    }
    let links = &passage.chunk_links;
    let named = |id: &Option<String>| id.as_ref().is_some_and(|id| !is_number(id));
    if !is_number(&passage.chunk_id) || named(&links.previous) || named(&links.next) {
        whole.insert("chunk_links".into(), json!(links));
    }
}

/// The rest of a moment that is a day.
const MIDNIGHT: &str = "T00:00:00.000Z";

/// Whether a chunk is called by its place.
fn is_number(chunk_id: &str) -> bool {
    chunk_id.len() >= 4 && chunk_id.bytes().all(|b| b.is_ascii_digit())
}

/// The parts of a score, rounded; what is 0 is left out.
fn parts_told(parts: &Parts) -> Map<String, Value> {
    let mut told = Map::new();
    if let Value::Object(all) = json!(parts) {
        for (name, value) in all {
            if let Some(value) = value.as_f64().filter(|value| *value != 0.0) {
                told.insert(name, scored(value));
            }
        }
    }
    told
}

/// Three decimals: a score is compared within its list only.
fn scored(score: f64) -> Value {
    plain((score * 1e3).round() / 1e3)
}

/// Tokens of a source or owner that is kept when a provenance is cut, and of a document's name that is too long.
const SHORT_TOKENS_MAX: u64 = 48;

/// `_id` of a chunk.
pub fn id(key: &str) -> String {
    format!("archival_docs/{key}")
}

/// Six decimals: an index computes in floats of four bytes.
fn rounded(similarity: f64) -> Value {
    plain((similarity * 1e6).round() / 1e6)
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

    fn view(passage: &FoundPassage) -> View<'_> {
        View { passage, parts: Told::Whole(None) }
    }

    fn check(rows: &[FoundPassage], tokens_max: u64) -> Vec<Piece> {
        let views: Vec<View<'_>> = rows.iter().map(view).collect();
        let pieces = pages(&Quarters, &views, tokens_max);
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
            on_page.push(shown(&Quarters, &view(passage), piece.start, piece.end));
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
        let second = shown(&Quarters, &view(&rows[0]), pieces[1].start, pieces[1].end);
        let from = long[..pieces[1].start].chars().count();
        assert!(long[..pieces[1].start].ends_with(' '));
        assert_eq!(second["part"]["start"], from);
        assert_eq!(second["part"]["of"], long.chars().count());
        assert_eq!(second["offset"]["start"], 10 + from);
    }

    /// One token for each letter: nothing costs more.
    struct Letters;

    impl TokenCounter for Letters {
        fn encoding(&self) -> Encoding {
            Encoding::O200kBase
        }

        fn count(&self, text: &str) -> u64 {
            text.chars().count() as u64
        }
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
            let value = shown(&Letters, &view(&rows[0]), piece.start, piece.end);
            assert!(page_cost(&Letters, &[value]) <= 512, "{piece:?}");
        }
    }

    #[test]
    fn a_provenance_that_would_fill_the_page_is_cut() {
        let rows =
            [passage("k", "text", json!({"owner": "a", "source": "s", "note": "n".repeat(4_000)}))];
        check(&rows, 512);
        let value = shown(&Quarters, &view(&rows[0]), 0, 4);
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
            shown(&Quarters, &View { passage, parts: Told::Short }, 0, passage.text.len())
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
        let parts = Parts { bm25: 1.5, words: 2.0, ..Parts::default() };
        let view = View { passage: &plain, parts: Told::Whole(Some(parts)) };
        let whole = shown(&Quarters, &view, 0, 1);
        assert_eq!(whole["parts"], json!({"bm25": 1.5, "words": 2}));
        assert_eq!(whole["provenance"], json!({"owner": "a"}));
        assert_eq!(whole["freshness_ts"], "2026-01-01T00:00:00.000Z");
    }
}
