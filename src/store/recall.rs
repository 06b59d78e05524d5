//! Searches of recall storage: its view, what the view may not show yet, and the messages behind what was found.

use serde_json::json;

use super::db::{Binds, Ro};
use super::fault::Fault;
use super::query::{Query, query};
use crate::limits::{RECALL_HITS_MAX, RECALL_TAIL_CHARS_MAX, RECALL_TAIL_MS, RECALL_TAIL_ROWS_MAX};
use crate::policy::{Entries, PairOf, RecallQuery, Recent, Scope, Spoken, ViewHit};

/// Entries with a word of the query.
pub(super) const SEARCH: Query = query!("recall_search");
/// The same with phrases first.
pub(super) const PHRASE: Query = query!("recall_phrase");
/// The same under conditions.
pub(super) const FILTERED: Query = query!("recall_filtered");
/// Entries logged a moment ago.
pub(super) const TAIL: Query = query!("recall_tail");
/// How rare words are.
pub(super) const RARITY: Query = query!("recall_rarity");
/// Entries as they are weighed.
pub(super) const SPOKEN: Query = query!("recall_spoken");
/// Replies, and what they reply to.
pub(super) const PAIRS: Query = query!("recall_pairs");
/// Messages of entries.
pub(super) const ENTRIES: Query = query!("recall_entries");

/// The best entries of the view, best first; one more than a list holds, to tell that there are more. Only words that tell something
/// are looked for.
pub async fn search_view(
    ro: &Ro,
    scope: &Scope,
    query: &RecallQuery,
) -> Result<Vec<ViewHit>, Fault> {
    let limit = RECALL_HITS_MAX + 1;
    let words = query.telling.join(" ");
    let filter = &query.filter;
    let phrase = query.phrases.first().unwrap_or(&query.words).as_str();
    let other = query.phrases.last().unwrap_or(&query.words).as_str();
    if !filter.is_open() {
        let binds = [
            ("words", words.into()),
            ("phrase", phrase.into()),
            ("other_phrase", other.into()),
            ("role", json!(filter.role)),
            ("name", json!(filter.name)),
            ("after", json!(filter.after)),
            ("before", json!(filter.before)),
            ("limit", limit.into()),
        ];
        return ro.rows(FILTERED, Binds::of(scope, binds)).await;
    }
    if query.phrases.is_empty() {
        let binds = [("words", words.into()), ("limit", limit.into())];
        return ro.rows(SEARCH, Binds::of(scope, binds)).await;
    }
    let binds = [
        ("words", words.into()),
        ("phrase", phrase.into()),
        ("other_phrase", other.into()),
        ("limit", limit.into()),
    ];
    ro.rows(PHRASE, Binds::of(scope, binds)).await
}

/// The entries that were logged so recently that the view may not show them, at a moment of server time; last logged first.
pub async fn recall_tail(
    ro: &Ro,
    scope: &Scope,
    query: &RecallQuery,
    now_ms: u64,
) -> Result<Vec<Recent>, Fault> {
    let filter = &query.filter;
    let binds = [
        ("words", query.telling.join(" ").into()),
        ("since_ms", now_ms.saturating_sub(RECALL_TAIL_MS).into()),
        ("limit", RECALL_TAIL_ROWS_MAX.into()),
        ("chars_max", RECALL_TAIL_CHARS_MAX.into()),
        ("role", json!(filter.role)),
        ("name", json!(filter.name)),
        ("after", json!(filter.after)),
        ("before", json!(filter.before)),
    ];
    ro.rows(TAIL, Binds::of(scope, binds)).await
}

/// How rare each telling word of a query is, in their order; none for one that the view does not hold.
pub async fn rarity(
    ro: &Ro,
    scope: &Scope,
    query: &RecallQuery,
) -> Result<Vec<Option<f64>>, Fault> {
    ro.rows(RARITY, Binds::of(scope, [("words", json!(query.telling))])).await
}

/// The entries at some places as they are weighed, each text up to so many characters; none where nothing is asked for.
pub async fn spoken(
    ro: &Ro,
    scope: &Scope,
    seqs: &[u64],
    chars_max: usize,
) -> Result<Vec<Spoken>, Fault> {
    if seqs.is_empty() {
        return Ok(Vec::new());
    }
    let binds = [("seqs", json!(seqs)), ("chars_max", chars_max.into())];
    ro.rows(SPOKEN, Binds::of(scope, binds)).await
}

/// For each entry the reply to it, or what it replies to, within so many places; entries without one are left out.
pub async fn pairs(
    ro: &Ro,
    scope: &Scope,
    ids: &[String],
    seqs_max: u64,
) -> Result<Vec<PairOf>, Fault> {
    let binds = [("ids", json!(ids)), ("seqs_max", seqs_max.into())];
    ro.rows(PAIRS, Binds::of(scope, binds)).await
}

/// The messages of entries, and their copies in the queue that begins at a place.
pub async fn entries(
    ro: &Ro,
    scope: &Scope,
    ids: &[String],
    head_seq: u64,
) -> Result<Entries, Fault> {
    let binds = [("ids", json!(ids)), ("head_seq", head_seq.into())];
    let rows: Vec<Entries> = ro.rows(ENTRIES, Binds::of(scope, binds)).await?;
    Ok(rows.into_iter().next().unwrap_or_default())
}
