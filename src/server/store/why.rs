//! Loads the rows for the history of a fact and for the explanation of a prompt.

use serde::Deserialize;
use serde_json::Value;

use super::core::{StoredVersions, VERSIONS};
use super::db::{Ro, binds};
use super::fault::Result;
use super::query::queries;
use crate::limits::WHY_SCAN_ROWS;
use vctx_core::memory::message::Message;
use vctx_core::memory::prompt::{Marks, Texts};
use vctx_core::trust::Scope;

/// Maximum number of messages in the history of a fact; the history contains the newest messages.
const WHY_SAID_MAX: u64 = 50;
/// Maximum number of entries of recall storage that are examined to find the last evicted message.
/// This number includes entries that no eviction wrote.
const WHY_LOOKED_MAX: u64 = 1_024;

queries! {
    SAYS = "message_says",
    MARKS = "prompt_marks",
    OUTSIDE = "prompt_outside",
}

/// A message, with data of its recall storage entry.
#[derive(Clone, Debug, Deserialize)]
pub struct SaidRow {
    /// The message itself.
    pub message: Message,
    /// Id of the eviction that logged the message; `None` if the message is still in the queue, or
    /// if it came to recall storage without an eviction.
    pub batch: Option<String>,
    /// When the message was logged, in milliseconds since 1970.
    pub logged_ms: Option<u64>,
    /// Revision of the summary that covers the message since its eviction.
    pub summary_rev: Option<u64>,
}

/// Messages that may contain a fact.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct SaidRows {
    /// Messages that contain the text or all of the words, newest first.
    pub said: Vec<SaidRow>,
    /// Messages that a recall search found.
    pub found: Vec<SaidRow>,
}

/// Returns the newest messages before a position that contain a text (in lower case) or all of some
/// words; also returns the messages with the given ids.
pub async fn says(
    ro: &Ro,
    scope: &Scope,
    text: &str,
    words: &[String],
    ids: &[String],
    before_seq: u64,
) -> Result<SaidRows> {
    let binds = binds!(scope;
        text, words, ids, before_seq, scan = WHY_SCAN_ROWS, limit = WHY_SAID_MAX
    );
    Ok(ro.row(SAYS, binds).await?.unwrap_or_default())
}

/// Returns core versions from a version number on, oldest first.
pub async fn texts(ro: &Ro, scope: &Scope, from_version: u64, limit: u64) -> Result<Vec<Texts>> {
    let binds = binds!(scope; from_version, limit);
    ro.row::<StoredVersions>(VERSIONS, binds).await?.unwrap_or_default().typed()
}

/// Returns prompts from the given turn on, in the order of turns: for each prompt, the fields that
/// identify the texts that the prompt showed.
pub async fn marks(ro: &Ro, scope: &Scope, from_turn: u64, limit: u64) -> Result<Vec<Marks>> {
    ro.rows(MARKS, binds!(scope; from_turn, limit)).await
}

/// Returns what the queue of a past window did not contain: the last message that was evicted
/// before that window, the event of that eviction, and the entries between `head_seq` and
/// `next_seq` that came to recall storage without an eviction. `head_seq` and `next_seq` are the
/// beginning and the end of that queue.
pub async fn outside(ro: &Ro, scope: &Scope, head_seq: u64, next_seq: u64) -> Result<Value> {
    let binds = binds!(scope; head_seq, next_seq, looked = WHY_LOOKED_MAX, limit = WHY_SAID_MAX);
    Ok(ro.row(OUTSIDE, binds).await?.unwrap_or_default())
}
