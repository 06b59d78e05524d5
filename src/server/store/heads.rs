//! Collects the heads of the ledgers that this server has written, until a checkpoint signs them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::db::{Rw, binds};
use super::fault::Result;
use super::query::queries;
use vctx_core::ledger::note::Head;
use vctx_core::ledger::{link, text_of};
use vctx_core::trust::Scope;

queries! {
    ENTRIES = "ledger_entries",
}

/// Number of entries that one request reads.
const ENTRY_ROWS: u64 = 500;
/// Maximum number of requests that read the entries of one agent for a checkpoint.
const ENTRY_PAGES_MAX: usize = 100_000;

/// The entries that this server has written to one agent's ledger since the last checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsigned {
    /// Head before the first of these entries.
    pub before: Head,
    /// Head after the last of these entries, as this server computed it.
    pub after: Head,
    /// Whether each of these entries follows the one before it. If not, another server has written
    /// entries in between.
    pub whole: bool,
}

/// The heads that no checkpoint has signed yet, by agent.
#[derive(Debug, Default)]
pub struct Heads(Mutex<BTreeMap<String, Option<Unsigned>>>);

impl Heads {
    /// Adds an entry that this server has written. `before` is the head before it, and `text` is
    /// the text that the entry's hash covers.
    pub(super) fn written(&self, scope: &Scope, before: Head, text: &str) {
        let n = before.n + 1;
        let after = Head { n, hash: link(&before.hash, n, text) };
        let mut all = self.0.lock().expect("no holder panics");
        match all.get_mut(scope.key()) {
            Some(Some(known)) => {
                known.whole &= known.after == before;
                known.after = after;
            }
            _ => {
                let one = Unsigned { before, after, whole: true };
                all.insert(scope.key().to_owned(), Some(one));
            }
        }
    }

    /// Notes that the agent was forgotten or has moved away.
    pub fn gone(&self, scope: &Scope) {
        self.0.lock().expect("no holder panics").insert(scope.key().to_owned(), None);
    }

    /// Takes all unsigned heads; `None` stands for an agent that is gone.
    pub fn take(&self) -> BTreeMap<String, Option<Unsigned>> {
        std::mem::take(&mut *self.0.lock().expect("no holder panics"))
    }

    /// Puts heads back that could not be signed, unless there are newer ones.
    pub fn put_back(&self, heads: BTreeMap<String, Option<Unsigned>>) {
        let mut all = self.0.lock().expect("no holder panics");
        for (agent, old) in heads {
            match (all.get_mut(&agent), old) {
                (Some(Some(newer)), Some(old)) => {
                    newer.whole &= old.whole && newer.before == old.after;
                    newer.before = old.before;
                }
                (Some(_), _) => {}
                (None, old) => drop(all.insert(agent, old)),
            }
        }
    }
}

/// Reads the entries after a head, and returns the head of the last entry. Returns `None` if an
/// entry does not follow from the one before it.
pub async fn fold_on(rw: &Rw, scope: &Scope, from: &Head) -> Result<Option<Head>> {
    let mut head = from.clone();
    for _ in 0..ENTRY_PAGES_MAX {
        let binds = binds!(scope; after = head.n, limit = ENTRY_ROWS);
        let rows: Vec<serde_json::Map<String, serde_json::Value>> = rw.rows(ENTRIES, binds).await?;
        let full = rows.len() as u64 == ENTRY_ROWS;
        for row in rows {
            let n = head.n + 1;
            let hash = link(&head.hash, n, &text_of(&row));
            let told = (row.get("n").and_then(serde_json::Value::as_u64), row.get("hash"));
            if told != (Some(n), Some(&hash.as_str().into())) {
                return Ok(None);
            }
            head = Head { n, hash };
        }
        if !full {
            return Ok(Some(head));
        }
    }
    Ok(None)
}
