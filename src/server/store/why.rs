//! What the life of a fact and the reasons of a prompt are told from.

use serde::Deserialize;
use serde_json::{Value, json};

use super::core::VERSIONS;
use super::db::{Binds, Ro};
use super::fault::Fault;
use super::query::{Query, query};
use vctx_core::limits::{WHY_LOOKED_MAX, WHY_SAID_MAX, WHY_SCAN_ROWS};
use vctx_core::memory::message::Message;
use vctx_core::memory::prompt::{Marks, Texts};
use vctx_core::policy::Scope;

/// Messages that hold a text.
pub(super) const SAYS: Query = query!("message_says");
/// Marks of prompts.
pub(super) const MARKS: Query = query!("prompt_marks");
/// What stood outside of a window.
pub(super) const OUTSIDE: Query = query!("prompt_outside");

/// A message, and the entry of recall storage that it became.
#[derive(Clone, Debug, Deserialize)]
pub struct SaidRow {
    /// The message.
    pub message: Message,
    /// The eviction that logged it; none for direct writes, and while it is not logged.
    pub batch: Option<String>,
    /// When it was logged, in milliseconds since 1970.
    pub logged_ms: Option<u64>,
    /// Revision of the summary that stood for it then.
    pub summary_rev: Option<u64>,
}

/// Messages that may say something.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct SaidRows {
    /// Those that hold the text or the words, the newest first.
    pub said: Vec<SaidRow>,
    /// Those that a search found.
    pub found: Vec<SaidRow>,
}

/// Messages below a place that hold a text in lower case or all of some words, among the newest; and some by id.
pub async fn says(
    ro: &Ro,
    scope: &Scope,
    text: &str,
    words: &[String],
    ids: &[String],
    before_seq: u64,
) -> Result<SaidRows, Fault> {
    let binds = [
        ("text", text.into()),
        ("words", json!(words)),
        ("ids", json!(ids)),
        ("before_seq", before_seq.into()),
        ("scan", WHY_SCAN_ROWS.into()),
        ("limit", WHY_SAID_MAX.into()),
    ];
    let rows: Vec<SaidRows> = ro.rows(SAYS, Binds::of(scope, binds)).await?;
    Ok(rows.into_iter().next().unwrap_or_default())
}

/// Copies of texts from a version on, oldest first.
pub async fn texts(
    ro: &Ro,
    scope: &Scope,
    from_version: u64,
    limit: u64,
) -> Result<Vec<Texts>, Fault> {
    let binds = [("from_version", from_version.into()), ("limit", limit.into())];
    ro.rows(VERSIONS, Binds::of(scope, binds)).await
}

/// Marks of prompts from a turn on, in order.
pub async fn marks(
    ro: &Ro,
    scope: &Scope,
    from_turn: u64,
    limit: u64,
) -> Result<Vec<Marks>, Fault> {
    let binds = [("from_turn", from_turn.into()), ("limit", limit.into())];
    ro.rows(MARKS, Binds::of(scope, binds)).await
}

/// What stood outside of a window that began and ended at these places.
pub async fn outside(ro: &Ro, scope: &Scope, head_seq: u64, next_seq: u64) -> Result<Value, Fault> {
    let binds = [
        ("head_seq", head_seq.into()),
        ("next_seq", next_seq.into()),
        ("looked", WHY_LOOKED_MAX.into()),
        ("limit", WHY_SAID_MAX.into()),
    ];
    let rows: Vec<Value> = ro.rows(OUTSIDE, Binds::of(scope, binds)).await?;
    Ok(rows.into_iter().next().unwrap_or_default())
}
