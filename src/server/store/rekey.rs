//! Moves the call records of an earlier program version to the document keys of this version. The
//! earlier version hashed the caller's idempotency key itself, which may contain text.

use serde::{Deserialize, Serialize};

use super::db::{Rw, binds};
use super::dump::ANSWER_KEYS;
use super::fault::{Fault, FaultKind, Result};
use super::query::queries;
use vctx_core::memory::answer_key::{answer_key, is_kept_key, kept_key};
use vctx_core::trust::Scope;

/// Number of records that one request reads or moves.
const REKEYED_ROWS: u64 = 1_000;
/// Maximum number of requests that read the keys of one agent's records.
const REKEY_PAGES_MAX: usize = 100_000;

queries! {
    REKEY = "answer_rekey",
    DROP = "answer_drop",
}

#[derive(Deserialize)]
struct KeyPage {
    last: Option<String>,
    rows: Vec<KeyRow>,
}

#[derive(Deserialize)]
struct KeyRow {
    #[serde(rename = "_key")]
    doc_key: String,
    key: Option<String>,
    part: Option<u64>,
}

/// A record's document key before and after, and the new form of its idempotency key.
#[derive(Serialize)]
struct Pair {
    from: String,
    to: String,
    key: String,
}

/// Moves all such records of an agent. Each record is copied before the old one is removed, so an
/// interrupted move loses none and can be repeated.
pub(super) async fn rekey(rw: &Rw, scope: &Scope) -> Result<()> {
    let mut after = String::new();
    for _ in 0..REKEY_PAGES_MAX {
        let binds = binds!(scope; after, limit = REKEYED_ROWS);
        let Some(page) = rw.row::<KeyPage>(ANSWER_KEYS, binds).await? else { return Ok(()) };
        let pairs: Vec<Pair> = page.rows.into_iter().filter_map(|row| moved(row, scope)).collect();
        if !pairs.is_empty() {
            let copied: Option<u64> = rw.row(REKEY, binds!(scope; pairs, sync = rw.sync)).await?;
            tracing::debug!(?copied, "records of an earlier program version got new keys");
            let keys: Vec<&str> = pairs.iter().map(|pair| pair.from.as_str()).collect();
            rw.row::<u64>(DROP, binds!(scope; keys, sync = rw.sync)).await?;
        }
        match page.last {
            Some(last) => after = last,
            None => return Ok(()),
        }
    }
    let text = format!("more than {REKEY_PAGES_MAX} pages of call records");
    Err(Fault::new(FaultKind::Garbage, text))
}

/// Returns how a record moves, or `None` if it has the form of this version.
fn moved(row: KeyRow, scope: &Scope) -> Option<Pair> {
    let key = row.key.filter(|key| !is_kept_key(key))?;
    let key = kept_key(&key);
    Some(Pair { to: answer_key(scope.key(), &key, row.part), from: row.doc_key, key })
}
