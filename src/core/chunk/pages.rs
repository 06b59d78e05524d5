//! Divides all results of an archival search into pages of a bounded number of tokens, before the
//! first page is shown.

use serde_json::{Map, Value, json};

use crate::memory::Labels;
use crate::memory::archive::{FoundPassage, Span};
use crate::memory::page::plain;
use crate::memory::tokens::TokenCounter;
use crate::policy::preview;
use crate::search::ScoreParts;

/// Maximum number of tokens that the attributes of one passage may take on a page.
const PAGE_META_TOKENS_MAX: u64 = 256;
/// Number of attempts to shorten a part to an estimated length. If the part still does not fit on
/// its page after these attempts, it is halved until it fits.
const PAGE_CUT_TRIES_MAX: usize = 8;

/// A passage, or a part of a passage that is larger than a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index of the passage in the result list.
    pub row: usize,
    /// First byte of the part in the passage's text.
    pub start: usize,
    /// First byte after the part in the passage's text.
    pub end: usize,
    /// Number of the page that shows the part, from 1.
    pub page: u64,
}

/// A passage, and the selection of its attributes that are shown.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The passage.
    pub passage: &'a FoundPassage,
    /// Which attributes are shown.
    pub parts: Detail,
}

/// Which attributes of a passage are shown.
#[derive(Clone, Copy, Debug)]
pub enum Detail {
    /// The attributes needed for a citation. To save tokens, attributes with default values are
    /// left out: the owner if it is the agent, the time if it is the time of the ingest, and the
    /// neighbours if their names are their indexes.
    Short,
    /// All attributes, and the given components of the score, if any.
    Whole(Option<ScoreParts>),
}

/// A search result whose text is shown on pages, whole or in parts.
pub trait Leaf {
    /// Returns the whole text of the result.
    fn text(&self) -> &str;
    /// Returns the JSON value that a page shows for a byte range of the text.
    fn part_value(&self, counter: &dyn TokenCounter, start: usize, end: usize) -> Value;
}

impl Leaf for View<'_> {
    fn text(&self) -> &str {
        &self.passage.text
    }

    fn part_value(&self, counter: &dyn TokenCounter, start: usize, end: usize) -> Value {
        part_value(counter, self, start, end)
    }
}

/// Returns the number of tokens of a page, whose results are written as compact JSON.
pub fn page_cost(counter: &dyn TokenCounter, results: &[Value]) -> u64 {
    counter.count(&Value::from(results.to_vec()).to_string())
}

/// Divides a result list into pages of at most `tokens_max` tokens. A passage that fits on a page
/// stays whole; a larger passage is split at white space, and its next part is on the next page.
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

/// Returns the JSON value of the rest of a passage, from `start` on, if the rest fits on the page.
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
    let next = leaf.part_value(counter, start, text.len());
    let mut all = there.to_vec();
    all.push(next.clone());
    (page_cost(counter, &all) <= tokens_max).then_some(next)
}

/// Returns the end of a part that fills a page and has at least one character. The first length to
/// try is too long; the part is then shortened until it fits.
fn cut<L: Leaf>(counter: &dyn TokenCounter, leaf: &L, start: usize, tokens_max: u64) -> usize {
    let text = leaf.text();
    let first = start + text[start..].chars().next().map_or(0, char::len_utf8);
    let cost = |end: usize| page_cost(counter, &[leaf.part_value(counter, start, end)]);
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

/// Moves the end of a part back to the end of a sentence. If no sentence ends in the second half of
/// the part, moves the end back to white space in this half. If there is no white space either,
/// keeps the end. The white space stays at the end of the part.
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

/// Returns a length in bytes. A text of this length has more than the given number of tokens. Of a
/// longer text, it therefore suffices to count the tokens of the first bytes up to this length.
fn stretch(tokens: u64) -> usize {
    const BYTES_PER_TOKEN: usize = 16;
    usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN)
}

/// Returns the JSON value that a page shows for a passage or for a byte range of its text.
pub fn part_value(counter: &dyn TokenCounter, view: &View<'_>, start: usize, end: usize) -> Value {
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

/// Returns the JSON value that is shown instead of a passage that was changed or removed after the
/// search.
pub fn gone(id: &str, changed: bool, scored: bool, value: f64) -> Value {
    let why = if changed { "changed" } else { "gone" };
    let name = if scored { "score" } else { "similarity" };
    json!({"id": id, name: rounded(value), "text": null, why: true})
}

/// Returns all attributes of a passage except the text. If the attributes exceed
/// [`PAGE_META_TOKENS_MAX`], the neighbours and all provenance except source and owner are left
/// out, and a long document name is truncated. The `id` is never truncated.
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
        Detail::Short => tell_short(passage, &mut value, &mut whole),
        Detail::Whole(parts) => {
            value.insert("freshness_ts".into(), passage.freshness_ts.as_str().into());
            if let Some(parts) = parts {
                value.insert("parts".into(), json!(parts_told(&parts)));
            }
            whole.clone_from(&value);
            whole.insert("provenance".into(), Value::Object(passage.provenance.clone()));
            whole.insert("chunk_links".into(), json!(passage.chunk_links));
            if !passage.labels.is_empty() {
                let labels = Labels::read(passage.labels.iter().map(String::as_str));
                whole.insert("labels".into(), json!(labels));
            }
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

/// Adds the attributes that differ from the default: a date from the caller, provenance other than
/// the owner, and the chunk links if the name of the chunk or of a neighbour is not a number.
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

/// Time of day in a timestamp that was given as a date only; [`Detail::Short`] leaves it out.
const MIDNIGHT: &str = "T00:00:00.000Z";

/// Returns whether a chunk's name is a number of at least four digits, as in the names that the
/// server gives to chunks.
fn is_number(chunk_id: &str) -> bool {
    chunk_id.len() >= 4 && chunk_id.bytes().all(|b| b.is_ascii_digit())
}

/// Returns the components of a score that are not zero, rounded.
fn parts_told(parts: &ScoreParts) -> Map<String, Value> {
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

/// Rounds a score to three decimals, which is enough to compare scores within one list.
fn scored(score: f64) -> Value {
    plain((score * 1e3).round() / 1e3)
}

/// Maximum number of tokens of a source or owner in a shortened provenance, and of a truncated
/// document name.
const SHORT_TOKENS_MAX: u64 = 48;

/// Returns the `_id` of a chunk.
pub fn id(key: &str) -> String {
    format!("archival_docs/{key}")
}

/// Rounds a similarity to six decimals, the precision of the index's 32-bit floats.
fn rounded(similarity: f64) -> Value {
    plain((similarity * 1e6).round() / 1e6)
}
