//! Searches of recall storage: what one look tells, and the messages behind what was found.

use serde_json::json;

use super::db::{Binds, Ro};
use super::fault::Fault;
use super::query::{Query, query};
use vctx_core::limits::{
    RECALL_AROUND_CHARS_MAX, RECALL_AROUND_SEQS, RECALL_DATED_OFFSET_MAX, RECALL_DEEP_MAX,
    RECALL_FRESH_MAX, RECALL_HITS_MAX, RECALL_TAIL_CHARS_MAX, RECALL_TAIL_MS, RECALL_TAIL_ROWS_MAX,
    RECALL_WEIGHED_MAX, TEXT_BYTES_MAX, TRACE_CHARS_MAX,
};
use vctx_core::policy::{Dated, DatedFound, Entries, PairOf, RecallQuery, Scope, Sources};

/// Entries that match.
pub(super) const SEARCH: Query = query!("recall_search");
/// Replies, and what they reply to.
pub(super) const PAIRS: Query = query!("recall_pairs");
/// Messages of entries.
pub(super) const ENTRIES: Query = query!("recall_entries");

/// Entries by their time.
pub(super) const DATED: Query = query!("recall_dated");

/// What the list of a query is made of at a moment of server time, but for what is near to it. Only words that tell something are looked for. The fingerprint is that of the vectors that are asked about.
pub async fn search_recall(
    ro: &Ro,
    scope: &Scope,
    query: &RecallQuery,
    fingerprint: Option<&str>,
    now_ms: u64,
) -> Result<Sources, Fault> {
    let filter = &query.filter;
    let both = query.phrases.first().zip(query.phrases.last());
    let binds = [
        ("words", query.telling.join(" ").into()),
        ("telling", json!(query.telling)),
        ("phrases", json!(both.iter().collect::<Vec<_>>())),
        ("role", json!(filter.role)),
        ("name", json!(filter.name)),
        ("after", json!(filter.after)),
        ("before", json!(filter.before)),
        ("limit", (RECALL_HITS_MAX + 1).into()),
        ("since_ms", now_ms.saturating_sub(RECALL_TAIL_MS).into()),
        ("recent_max", RECALL_TAIL_ROWS_MAX.into()),
        ("weighed_max", RECALL_WEIGHED_MAX.into()),
        ("fresh_max", RECALL_FRESH_MAX.into()),
        ("beside", RECALL_AROUND_SEQS.into()),
        ("chars_max", RECALL_TAIL_CHARS_MAX.into()),
        ("deep_max", RECALL_DEEP_MAX.into()),
        ("deep_chars_max", TEXT_BYTES_MAX.into()),
        ("beside_chars_max", RECALL_AROUND_CHARS_MAX.into()),
        ("fingerprint", json!(fingerprint)),
    ];
    let rows: Vec<Sources> = ro.rows(SEARCH, Binds::of(scope, binds)).await?;
    Ok(rows.into_iter().next().unwrap_or_default())
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

/// Entries of a span of time, as they were appended.
pub async fn entries_dated(ro: &Ro, scope: &Scope, dated: &Dated) -> Result<DatedFound, Fault> {
    let binds = [
        ("after", json!(dated.after)),
        ("before", json!(dated.before)),
        ("offset", dated.offset.into()),
        ("limit", dated.limit.into()),
        ("scan", RECALL_DATED_OFFSET_MAX.into()),
        ("chars_max", TRACE_CHARS_MAX.into()),
    ];
    let rows: Vec<DatedFound> = ro.rows(DATED, Binds::of(scope, binds)).await?;
    Ok(rows.into_iter().next().unwrap_or_default())
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
