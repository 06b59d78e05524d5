//! Searches of recall storage: its view, what the view may not show yet, and the messages behind what was found.

use serde_json::json;

use super::db::{Binds, Ro};
use super::fault::Fault;
use super::query::{Query, query};
use crate::limits::{
    RECALL_HITS_MAX, RECALL_TAIL_CHARS_MAX, RECALL_TAIL_MS, RECALL_TAIL_ROWS_MAX,
    RECALL_WEIGHED_MAX,
};
use crate::policy::{Entries, Hit, RecallQuery, Recent, Scope, Tail};

/// Entries with a word of the query.
pub(super) const SEARCH: Query = query!("recall_search");
/// The same with phrases first.
pub(super) const PHRASE: Query = query!("recall_phrase");
/// Entries logged a moment ago.
pub(super) const TAIL: Query = query!("recall_tail");
/// Entries as tokens.
pub(super) const WORDS: Query = query!("recall_words");
/// Messages of entries.
pub(super) const ENTRIES: Query = query!("recall_entries");

/// The best entries of the view, best first; one more than a list holds, to tell that there are more.
pub async fn search_view(ro: &Ro, scope: &Scope, query: &RecallQuery) -> Result<Vec<Hit>, Fault> {
    let limit = RECALL_HITS_MAX + 1;
    let Some(phrase) = query.phrases.first() else {
        let binds = [("words", query.words.as_str().into()), ("limit", limit.into())];
        return ro.rows(SEARCH, Binds::of(scope, binds)).await;
    };
    let other = query.phrases.last().unwrap_or(phrase);
    let binds = [
        ("words", query.words.as_str().into()),
        ("phrase", phrase.as_str().into()),
        ("other_phrase", other.as_str().into()),
        ("limit", limit.into()),
    ];
    ro.rows(PHRASE, Binds::of(scope, binds)).await
}

/// The entries that were logged so recently that the view may not show them, at a moment of server time.
pub async fn recall_tail(
    ro: &Ro,
    scope: &Scope,
    query: &RecallQuery,
    now_ms: u64,
) -> Result<Tail, Fault> {
    let binds = [
        ("words", query.words.as_str().into()),
        ("phrases", json!(query.phrases)),
        ("since_ms", now_ms.saturating_sub(RECALL_TAIL_MS).into()),
        ("limit", RECALL_TAIL_ROWS_MAX.into()),
        ("chars_max", RECALL_TAIL_CHARS_MAX.into()),
    ];
    let rows: Vec<Tail> = ro.rows(TAIL, Binds::of(scope, binds)).await?;
    Ok(rows.into_iter().next().unwrap_or_default())
}

/// The best of the view's hits as tokens, to weigh recent entries beside them.
pub async fn words_of(ro: &Ro, scope: &Scope, hits: &[Hit]) -> Result<Vec<Recent>, Fault> {
    let best = hits.iter().take(RECALL_WEIGHED_MAX).map(|hit| hit.id.as_str());
    let ids: Vec<&str> = best.collect();
    let binds = [("ids", json!(ids)), ("chars_max", RECALL_TAIL_CHARS_MAX.into())];
    ro.rows(WORDS, Binds::of(scope, binds)).await
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
