//! Collects the heads of the ledgers that this server has written, until a checkpoint signs them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock};

use serde::Deserialize;

use super::db::{Rw, binds};
use super::fault::Result;
use super::query::queries;
use super::transaction::Stream;
use vctx_core::ledger::note::Head;
use vctx_core::ledger::{ITEMS_VERSION, Secret, link, text_of};
use vctx_core::trust::Scope;

queries! {
    ENTRIES = "ledger_entries",
    HEAD = "ledger_head",
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

/// Maximum number of agents whose last entry a server remembers.
const KNOWN_HEADS_MAX: usize = 8_192;

/// The heads that this server has written or read.
#[derive(Debug, Default)]
pub struct Heads {
    /// The heads that no checkpoint has signed yet, by agent.
    unsigned: Mutex<BTreeMap<String, Option<Unsigned>>>,
    /// The last entries, by agent. Another server may have written newer ones.
    known: Mutex<HashMap<String, Head>>,
    /// The secret of the database's servers, if they sign checkpoints.
    secret: OnceLock<Arc<Secret>>,
}

impl Heads {
    /// Sets the secret of the database's servers.
    pub fn set_secret(&self, secret: Arc<Secret>) {
        // Only the start of a server sets the secret.
        let _ = self.secret.set(secret);
    }

    /// Returns the secret of the database's servers, if they sign checkpoints.
    pub(super) fn secret(&self) -> Option<&Arc<Secret>> {
        self.secret.get()
    }

    /// Returns whether an entry with this hash and code was written by a server with this secret.
    pub fn is_coded(&self, hash: &str, code: &str) -> bool {
        self.secret().is_none_or(|secret| secret.holds(hash, code))
    }

    /// Notes entries of a ledger that no checkpoint has signed, and that this server has not
    /// written.
    pub fn found(&self, scope: &Scope, before: Head, after: Head) {
        let one = Unsigned { before, after, whole: false };
        let mut all = self.unsigned.lock().expect("no holder panics");
        all.entry(scope.key().to_owned()).or_insert(Some(one));
    }

    /// Adds an entry that this server has written, given by the heads before and after it.
    pub(super) fn written(&self, scope: &Scope, before: Head, after: Head) {
        self.know(scope, after.clone());
        let mut all = self.unsigned.lock().expect("no holder panics");
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

    /// Returns the last entry of an agent's ledger, if this server knows it.
    pub(super) fn known(&self, scope: &Scope) -> Option<Head> {
        self.known.lock().expect("no holder panics").get(scope.key()).cloned()
    }

    /// Remembers the last entry of an agent's ledger.
    fn know(&self, scope: &Scope, head: Head) {
        let mut known = self.known.lock().expect("no holder panics");
        if known.len() >= KNOWN_HEADS_MAX && !known.contains_key(scope.key()) {
            known.clear();
        }
        known.insert(scope.key().to_owned(), head);
    }

    /// Drops the last entry of an agent's ledger, because there is a newer one.
    pub(super) fn drop_known(&self, scope: &Scope) {
        self.known.lock().expect("no holder panics").remove(scope.key());
    }

    /// Notes that the agent was forgotten or has moved away.
    pub fn gone(&self, scope: &Scope) {
        self.drop_known(scope);
        self.unsigned.lock().expect("no holder panics").insert(scope.key().to_owned(), None);
    }

    /// Takes all unsigned heads; `None` stands for an agent that is gone.
    pub fn take(&self) -> BTreeMap<String, Option<Unsigned>> {
        std::mem::take(&mut *self.unsigned.lock().expect("no holder panics"))
    }

    /// Puts heads back that could not be signed, unless there are newer ones.
    pub fn put_back(&self, heads: BTreeMap<String, Option<Unsigned>>) {
        let mut all = self.unsigned.lock().expect("no holder panics");
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

/// The last entry of a ledger, as the database returns it.
#[derive(Deserialize)]
pub(super) struct Last {
    pub(super) n: Option<u64>,
    pub(super) hash: Option<String>,
    /// Whether this program version wrote the entry.
    pub(super) is_new: bool,
}

/// Returns the last entry of an agent's ledger inside a transaction.
pub(super) async fn last_inside(stream: &Stream<'_>, scope: &Scope) -> Result<Option<Last>> {
    let binds = binds!(scope; items_version = ITEMS_VERSION);
    Ok(stream.rows(HEAD, binds).await?.into_iter().next())
}

/// Returns the last entry of an agent's ledger, as this server knows it or else from the database.
/// Returns `None` if there is none that this program version wrote.
pub(super) async fn head_of(rw: &Rw, scope: &Scope) -> Result<Option<Head>> {
    if let Some(head) = rw.heads.known(scope) {
        return Ok(Some(head));
    }
    let last: Option<Last> = rw.row(HEAD, binds!(scope; items_version = ITEMS_VERSION)).await?;
    let head = last.filter(|last| last.is_new);
    let head = head.and_then(|last| Some(Head { n: last.n?, hash: last.hash? }));
    if let Some(head) = &head {
        rw.heads.know(scope, head.clone());
    }
    Ok(head)
}

/// Returns the last entry of an agent's ledger in the database, whatever program version wrote it.
pub async fn last_head(rw: &Rw, scope: &Scope) -> Result<Option<Head>> {
    let last: Option<Last> = rw.row(HEAD, binds!(scope; items_version = ITEMS_VERSION)).await?;
    Ok(last.and_then(|last| Some(Head { n: last.n?, hash: last.hash? })))
}

/// Reads the entries after a head, and returns the head of the last entry. Returns `None` if the
/// ledger does not contain the head, if an entry does not follow from the one before it, or if
/// `strict` is true and a server with the same secret has not written the entry.
pub async fn fold_on(rw: &Rw, scope: &Scope, from: &Head, strict: bool) -> Result<Option<Head>> {
    if from.n > 0 {
        let binds = binds!(scope; after = from.n - 1, limit = 1_u64);
        let found: Option<Head> = rw.row(ENTRIES, binds).await?;
        if found.as_ref() != Some(from) {
            return Ok(None);
        }
    }
    folded(rw, scope, from, strict, u64::MAX).await
}

/// Returns whether the entries after the head `from` lead to the head `to`.
pub async fn leads_to(rw: &Rw, scope: &Scope, from: &Head, to: &Head) -> Result<bool> {
    Ok(folded(rw, scope, from, false, to.n).await?.as_ref() == Some(to))
}

/// Reads the entries after a head up to the number `most`.
async fn folded(
    rw: &Rw,
    scope: &Scope,
    from: &Head,
    strict: bool,
    most: u64,
) -> Result<Option<Head>> {
    let mut head = from.clone();
    for _ in 0..ENTRY_PAGES_MAX {
        if head.n >= most {
            return Ok(Some(head));
        }
        let binds = binds!(scope; after = head.n, limit = ENTRY_ROWS.min(most - head.n));
        let rows: Vec<serde_json::Map<String, serde_json::Value>> = rw.rows(ENTRIES, binds).await?;
        let full = rows.len() as u64 == ENTRY_ROWS;
        for row in rows {
            let n = head.n + 1;
            let hash = link(&head.hash, n, &text_of(&row));
            let told = (row.get("n").and_then(serde_json::Value::as_u64), row.get("hash"));
            if told != (Some(n), Some(&hash.as_str().into())) {
                return Ok(None);
            }
            let code = row.get("code").and_then(serde_json::Value::as_str).unwrap_or_default();
            if strict && !rw.heads.is_coded(&hash, code) {
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
