//! Searches recall storage by words, and loads the messages of the entries found.

use std::ops::Range;

use super::db::{Ro, binds};
use super::fault::Result;
use super::query::queries;
use crate::limits::RECALL_TAIL_MS;
use crate::store::limits::{RECALL_AROUND_CHARS_MAX, RECALL_AROUND_SEQS, RECALL_WEIGHED_MAX};
use vctx_core::limits::{
    EVICT_ROWS_MAX, RECALL_DATED_OFFSET_MAX, RECALL_HITS_MAX, RECALL_TAIL_CHARS_MAX,
    TEXT_BYTES_MAX, TRACE_CHARS_MAX,
};
use vctx_core::memory::message::Message;
use vctx_core::policy::{Dated, DatedFound};
use vctx_core::search::{Entries, LASTING_MAX, Partner, RecallQuery, RecallRows, related_words};
use vctx_core::trust::Scope;

/// Maximum number of recent entries that are searched in addition to the view: as many as one
/// transaction of an eviction writes. Each search splits the texts of these entries into words, so
/// a larger number would be slow.
const RECALL_TAIL_ROWS_MAX: usize = EVICT_ROWS_MAX;
/// Maximum number of entries that the view does not show yet and that are ranked together with the
/// view's hits.
const RECALL_FRESH_MAX: usize = 100;
/// Maximum number of newest messages since the beginning of the queue among which a search looks
/// for messages of the queue, whose texts it splits into words. A window rarely has more messages.
const RECALL_QUEUE_ROWS_MAX: u64 = 1_000;
/// Maximum number of words of a query that no text contains and for which a search looks for
/// similar words; each of them is a search of its own.
pub(super) const UNKNOWN_MAX: usize = 3;
/// Minimum length of such a word, in characters. Shorter words are similar to too many others.
const RECALL_UNKNOWN_CHARS_MIN: usize = 5;
/// Number of the view's best hits that are ranked by their whole text; all others are ranked by the
/// beginning of their text.
const RECALL_DEEP_MAX: usize = 4;

queries! {
    SEARCH = "recall_search",
    PAIRS = "recall_pairs",
    ENTRIES = "recall_entries",
    DATED = "recall_dated",
    LASTING = "message_lasting",
}

/// What a search by words looks at.
pub struct RecallLook<'a> {
    /// The query.
    pub query: &'a RecallQuery,
    /// Positions of the queue's messages that the search also looks at.
    pub queue: Range<u64>,
    /// Digest of the vectors' fingerprint; `None` without vectors.
    pub fingerprint: Option<&'a str>,
    /// Server time of the search, in milliseconds.
    pub now_ms: u64,
}

/// Returns the rows from which the ranking chooses the results of a query, without the rows that
/// only a vector search finds. Searches only for the significant words of the query. If
/// `fingerprint` is given, the answer also says up to which entry vectors with this fingerprint
/// exist.
pub async fn search_recall(ro: &Ro, scope: &Scope, look: RecallLook<'_>) -> Result<RecallRows> {
    let RecallLook { query, queue, fingerprint, now_ms } = look;
    let filter = &query.filter;
    let both = query.phrases.first().zip(query.phrases.last());
    let binds = binds!(scope;
        words = query.telling.join(" "), telling = query.telling,
        related = related_words(&query.telling).join(" "), unknown_max = UNKNOWN_MAX,
        unknown_chars_min = RECALL_UNKNOWN_CHARS_MIN,
        phrases = both.iter().collect::<Vec<_>>(), role = filter.role, name = filter.name,
        labels = filter.labels, after = filter.after, before = filter.before, limit = RECALL_HITS_MAX + 1,
        since_ms = now_ms.saturating_sub(RECALL_TAIL_MS), recent_max = RECALL_TAIL_ROWS_MAX,
        weighed_max = RECALL_WEIGHED_MAX, fresh_max = RECALL_FRESH_MAX, beside = RECALL_AROUND_SEQS,
        chars_max = RECALL_TAIL_CHARS_MAX, deep_max = RECALL_DEEP_MAX,
        head_seq = queue.start.max(queue.end.saturating_sub(RECALL_QUEUE_ROWS_MAX)),
        end_seq = queue.end,
        deep_chars_max = TEXT_BYTES_MAX, beside_chars_max = RECALL_AROUND_CHARS_MAX, fingerprint
    );
    Ok(ro.row(SEARCH, binds).await?.unwrap_or_default())
}

/// Returns for each entry its reply, or the message to which it replies, if this partner is at most
/// `seqs_max` positions away. Leaves out entries without such a partner.
pub async fn pairs(ro: &Ro, scope: &Scope, ids: &[String], seqs_max: u64) -> Result<Vec<Partner>> {
    ro.rows(PAIRS, binds!(scope; ids, seqs_max)).await
}

/// Returns the entries of a period, in the order in which they were appended.
pub async fn entries_dated(ro: &Ro, scope: &Scope, dated: &Dated) -> Result<DatedFound> {
    let binds = binds!(scope;
        after = dated.after, before = dated.before, offset = dated.offset, limit = dated.limit,
        scan = RECALL_DATED_OFFSET_MAX, chars_max = TRACE_CHARS_MAX
    );
    Ok(ro.row(DATED, binds).await?.unwrap_or_default())
}

/// Returns the messages of entries, and their copies in the queue that begins at `head_seq`.
pub async fn entries(ro: &Ro, scope: &Scope, ids: &[String], head_seq: u64) -> Result<Entries> {
    Ok(ro.row(ENTRIES, binds!(scope; ids, head_seq)).await?.unwrap_or_default())
}

/// Returns the newest messages with lasting requests of the user, the newest first.
pub async fn lasting(ro: &Ro, scope: &Scope) -> Result<Vec<Message>> {
    ro.rows(LASTING, binds!(scope; limit = LASTING_MAX)).await
}
