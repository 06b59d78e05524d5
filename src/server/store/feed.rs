//! Reads the entries of an agent's ledger as the changes of a feed.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::db::{Ro, binds};
use super::fault::Result;
use super::query::queries;
use vctx_core::ledger::note::Head;
use vctx_core::trust::Scope;

queries! {
    FOLLOW = "entry_follow",
}

/// An entry of a ledger, without the rows that it lists.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FollowedEntry {
    /// Number and hash of the entry.
    #[serde(flatten)]
    pub head: Head,
    /// The event, as the list of events shows it.
    #[serde(flatten)]
    pub event: Value,
}

/// Entries of a ledger, read from one snapshot.
#[derive(Debug, Default, Deserialize)]
pub struct FollowedEntries {
    /// Whether the agent is in this database.
    pub is_there: bool,
    /// The last entry; `None` if the agent has no ledger yet.
    pub last: Option<Head>,
    /// The entries, in order.
    pub entries: Vec<FollowedEntry>,
}

/// Returns entries of an agent's ledger in order, from the number `from` on.
pub async fn followed(ro: &Ro, scope: &Scope, from: u64, limit: u64) -> Result<FollowedEntries> {
    Ok(ro.row(FOLLOW, binds!(scope; from, limit)).await?.unwrap_or_default())
}
