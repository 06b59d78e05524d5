//! Collects the heads of the ledgers that this server has written, until a checkpoint signs them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::db::{Rw, binds};
use super::fault::{Fault, FaultKind, Result};
use super::query::queries;
use super::transaction::Stream;
use vctx_core::ledger::note::Head;
use vctx_core::ledger::{ITEMS_VERSION, Secret, link, text_of};
use vctx_core::trust::Scope;

queries! {
    ENTRIES = "ledger_entries",
    HEAD = "ledger_head",
    HEADS = "ledger_heads",
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

/// The last entry of an agent's ledger, as far as this server knows.
#[derive(Debug)]
struct KnownHead {
    head: Head,
    /// The revision of the core that this server wrote together with the entry.
    rev: Option<String>,
}

/// The heads that this server has written or read.
#[derive(Debug, Default)]
pub struct Heads {
    /// The heads that no checkpoint has signed yet, by agent.
    unsigned: Mutex<BTreeMap<String, Option<Unsigned>>>,
    /// The last entries, by agent. Another server may have written newer ones.
    known: Mutex<HashMap<String, KnownHead>>,
    /// What this server trusts, if it signs checkpoints.
    trust: OnceLock<Trust>,
    /// One signal for each agent that feeds follow.
    followed: Mutex<HashMap<String, watch::Sender<()>>>,
    /// Whether entries without a code may be right, because an earlier program version wrote them.
    lenient: AtomicBool,
}

/// The heads that checkpoints have signed.
pub trait SignedHeads: fmt::Debug + Send + Sync {
    /// Returns the newest signed head of an agent that is there.
    fn signed_head(&self, agent: &str) -> Option<Head>;
    /// Returns whether the agent's ledger contradicted its signed head.
    fn is_contradicted(&self, agent: &str) -> bool;
}

#[derive(Debug)]
struct Trust {
    /// The secret of the database's servers.
    secret: Arc<Secret>,
    signed: Arc<dyn SignedHeads>,
}

impl Heads {
    /// Sets the secret of the database's servers, and the signed heads.
    pub fn set_trust(&self, secret: Arc<Secret>, signed: Arc<dyn SignedHeads>) {
        // Only the start of a server sets them.
        let _ = self.trust.set(Trust { secret, signed });
    }

    /// Sets whether entries without a code may be right.
    pub fn set_lenient(&self, is_lenient: bool) {
        self.lenient.store(is_lenient, Ordering::Relaxed);
    }

    /// Returns whether entries without a code may be right.
    pub fn is_lenient(&self) -> bool {
        self.lenient.load(Ordering::Relaxed)
    }

    /// Returns the secret of the database's servers, if they sign checkpoints.
    pub(crate) fn secret(&self) -> Option<&Arc<Secret>> {
        self.trust.get().map(|trust| &trust.secret)
    }

    /// Gives an imported entry its code, in place of that of another database. Entries up to the
    /// number `imported` get the code of an import, others that of this database.
    pub fn recode(&self, row: &mut Map<String, Value>, imported: u64) {
        let n = row.get("n").and_then(Value::as_u64);
        let hash = row.get("hash").and_then(Value::as_str);
        let (Some(secret), Some(n), Some(hash)) = (self.secret(), n, hash) else { return };
        let code = if n <= imported { secret.imported_code(hash) } else { secret.code(hash) };
        row.insert("code".into(), code.into());
    }

    /// Notes entries of a ledger that no checkpoint has signed, and that this server has not
    /// written.
    pub fn found(&self, scope: &Scope, before: Head, after: Head) {
        let one = Unsigned { before, after, whole: false };
        let mut all = self.unsigned.lock().expect("no holder panics");
        all.entry(scope.key().to_owned()).or_insert(Some(one));
    }

    /// Returns a signal that changes when this server has written an entry to the agent's ledger.
    /// Returns `None` if there are `most` receivers for the agent already.
    pub fn follow(&self, scope: &Scope, most: usize) -> Option<watch::Receiver<()>> {
        let mut followed = self.followed.lock().expect("no holder panics");
        followed.retain(|_, signal| signal.receiver_count() > 0);
        let signal = followed.entry(scope.key().to_owned()).or_default();
        (signal.receiver_count() < most).then(|| signal.subscribe())
    }

    /// Wakes the feeds that follow the agent.
    fn wake(&self, scope: &Scope) {
        let followed = self.followed.lock().expect("no holder panics");
        if let Some(signal) = followed.get(scope.key()) {
            signal.send_replace(());
        }
    }

    /// Adds an entry that this server has written, given by the heads before and after it.
    pub(super) fn written(&self, scope: &Scope, before: Head, after: Head) {
        self.written_with(scope, before, after, None);
    }

    /// Adds an entry that this server has written together with a revision of the core, if any.
    pub(super) fn written_with(&self, scope: &Scope, before: Head, after: Head, rev: Option<&str>) {
        self.know(scope, after.clone(), rev);
        self.wake(scope);
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
        let known = self.known.lock().expect("no holder panics");
        known.get(scope.key()).map(|known| known.head.clone())
    }

    /// Remembers the last entry of an agent's ledger.
    fn know(&self, scope: &Scope, head: Head, rev: Option<&str>) {
        let mut known = self.known.lock().expect("no holder panics");
        if known.len() >= KNOWN_HEADS_MAX && !known.contains_key(scope.key()) {
            known.clear();
        }
        let rev = rev.map(str::to_owned);
        known.insert(scope.key().to_owned(), KnownHead { head, rev });
    }

    /// Returns whether this server wrote the given entry together with the given revision of the
    /// core. As long as the core has this revision, the ledger has the entry.
    pub(super) fn is_of_core(&self, scope: &Scope, head: &Head, rev: &str) -> bool {
        let known = self.known.lock().expect("no holder panics");
        let known = known.get(scope.key());
        known.is_some_and(|known| known.head == *head && known.rev.as_deref() == Some(rev))
    }

    /// Drops the last entry of an agent's ledger, because there is a newer one.
    pub(super) fn drop_known(&self, scope: &Scope) {
        self.known.lock().expect("no holder panics").remove(scope.key());
    }

    /// Notes that the agent was forgotten or has moved away.
    pub fn gone(&self, scope: &Scope) {
        self.drop_known(scope);
        self.wake(scope);
        self.unsigned.lock().expect("no holder panics").insert(scope.key().to_owned(), None);
    }

    /// Takes all unsigned heads.
    pub fn take(&self) -> TakenHeads<'_> {
        let left = std::mem::take(&mut *self.unsigned.lock().expect("no holder panics"));
        TakenHeads { heads: self, left }
    }

    /// Puts heads back that were not signed, unless there are newer ones.
    fn put_back(&self, heads: BTreeMap<String, Option<Unsigned>>) {
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

/// Unsigned heads on their way to a checkpoint. Those that are left at the end are put back, also
/// if signing them fails or is interrupted.
#[derive(Debug)]
pub struct TakenHeads<'h> {
    heads: &'h Heads,
    left: BTreeMap<String, Option<Unsigned>>,
}

impl TakenHeads<'_> {
    /// Returns the heads by agent; `None` stands for an agent that is gone.
    pub fn left(&self) -> &BTreeMap<String, Option<Unsigned>> {
        &self.left
    }

    /// Removes a head that was signed, or that must not be signed.
    pub fn remove(&mut self, agent: &str) {
        self.left.remove(agent);
    }
}

impl Drop for TakenHeads<'_> {
    fn drop(&mut self) {
        self.heads.put_back(std::mem::take(&mut self.left));
    }
}

/// The last entry of a ledger, as the database returns it.
#[derive(Deserialize)]
pub(super) struct Last {
    pub(super) n: Option<u64>,
    pub(super) hash: Option<String>,
    /// The code of the entry.
    code: Option<String>,
    /// Whether this program version wrote the entry.
    pub(super) is_new: bool,
}

/// Returns the last entry of an agent's ledger inside a transaction.
pub(super) async fn last_inside(stream: &Stream<'_>, scope: &Scope) -> Result<Option<Last>> {
    let binds = binds!(scope; items_version = ITEMS_VERSION);
    Ok(stream.rows(HEAD, binds).await?.into_iter().next())
}

/// What a ledger in the database must contain.
struct Least {
    /// The newest head that this server has signed.
    signed: Option<Head>,
    /// Number of the newest entry that this server has signed or written; 0 if there is none.
    n: u64,
}

/// Returns what a ledger must contain. The caller asks before it reads the ledger, because this
/// server may write and sign further entries meanwhile.
fn least_of(rw: &Rw, scope: &Scope) -> Least {
    let signed = rw.heads.trust.get().and_then(|trust| trust.signed.signed_head(scope.key()));
    let written = match rw.heads.unsigned.lock().expect("no holder panics").get(scope.key()) {
        Some(Some(unsigned)) => unsigned.after.n,
        _ => 0,
    };
    let n = signed.as_ref().map_or(0, |signed| signed.n).max(written);
    Least { signed, n }
}

/// Refuses a ledger that no server of the database wrote so: its last entry must have a code of the
/// secret, and it must contain what this server has signed or written.
async fn check_last(rw: &Rw, scope: &Scope, least: Least, last: Option<&Last>) -> Result<()> {
    let Some(trust) = rw.heads.trust.get() else { return Ok(()) };
    let refused = |why: String| Err(Fault::new(FaultKind::Contradicted, why));
    if trust.signed.is_contradicted(scope.key()) {
        return refused("the ledger contradicts its signed head".into());
    }
    let Least { signed, n: least } = least;
    let last = last.and_then(|last| Some((last.n?, last.hash.as_deref()?, last.code.as_deref())));
    let Some((n, hash, code)) = last else {
        return match signed {
            Some(signed) => refused(format!("entry {} is missing, which was signed", signed.n)),
            None => Ok(()),
        };
    };
    if n < least {
        return refused(format!("entry {least} is missing, which was signed or written"));
    }
    let is_signed = signed.as_ref().is_some_and(|signed| signed.n == n && signed.hash == hash);
    let is_lenient = rw.heads.is_lenient();
    if !is_signed && !is_lenient && !trust.secret.holds_entry(hash, code.unwrap_or_default()) {
        return refused(format!("entry {n} was not written by a server with the secret"));
    }
    match signed.filter(|_| !is_signed) {
        Some(signed) if !contains(rw, scope, &signed).await? => {
            refused(format!("entry {} is not the one that was signed", signed.n))
        }
        _ => Ok(()),
    }
}

/// Returns whether a ledger contains a head.
async fn contains(rw: &Rw, scope: &Scope, head: &Head) -> Result<bool> {
    let binds = binds!(scope; after = head.n.saturating_sub(1), limit = 1_u64);
    let found: Option<Head> = rw.row(ENTRIES, binds).await?;
    Ok(head.n == 0 || found.as_ref() == Some(head))
}

/// Returns the last entry of an agent's ledger, as this server knows it or else from the database.
/// Returns `None` if there is none that this program version wrote. A ledger that no server of the
/// database wrote so is refused.
pub(super) async fn head_of(rw: &Rw, scope: &Scope) -> Result<Option<Head>> {
    if let Some(head) = rw.heads.known(scope) {
        return Ok(Some(head));
    }
    let least = least_of(rw, scope);
    let last: Option<Last> = rw.row(HEAD, binds!(scope; items_version = ITEMS_VERSION)).await?;
    check_last(rw, scope, least, last.as_ref()).await?;
    let head = last.filter(|last| last.is_new);
    let head = head.and_then(|last| Some(Head { n: last.n?, hash: last.hash? }));
    if let Some(head) = &head {
        rw.heads.know(scope, head.clone(), None);
    }
    Ok(head)
}

/// Returns the last entries of agents' ledgers in the database, whatever program version wrote
/// them, in order of the agents. An entry whose number cannot be read gets the largest number, so
/// that nothing continues it.
pub async fn last_heads(rw: &Rw, scopes: &[Scope]) -> Result<Vec<Option<Head>>> {
    #[derive(Deserialize)]
    struct Found {
        n: Value,
        hash: Value,
    }
    if scopes.is_empty() {
        return Ok(Vec::new());
    }
    let agents: Vec<&str> = scopes.iter().map(Scope::key).collect();
    let found: Vec<Option<Found>> = rw.rows(HEADS, binds!(none; agents)).await?;
    if found.len() != scopes.len() {
        let text = format!("{} rows for {} agents", found.len(), scopes.len());
        return Err(Fault::new(FaultKind::Garbage, text));
    }
    let head = |found: Found| Head {
        n: found.n.as_u64().unwrap_or(u64::MAX),
        hash: found.hash.as_str().unwrap_or_default().to_owned(),
    };
    Ok(found.into_iter().map(|found| found.map(head)).collect())
}

/// Reads the entries after a head, and returns the head of the last entry. Returns `None` if the
/// ledger does not contain the head, if an entry does not follow from the one before it, or if
/// `strict` is true and a server with the same secret has not written the entry.
pub async fn fold_on(rw: &Rw, scope: &Scope, from: &Head, strict: bool) -> Result<Option<Head>> {
    if !contains(rw, scope, from).await? {
        return Ok(None);
    }
    folded(rw, scope, from, strict, u64::MAX).await
}

/// Returns whether a head is part of the ledger that this server trusts: the entries after it lead
/// to the last entry.
pub async fn is_part_of_ledger(rw: &Rw, scope: &Scope, head: &Head) -> Result<bool> {
    let mut last = head_of(rw, scope).await?;
    if last.as_ref().is_some_and(|last| last.n < head.n) {
        // Another server has written the entry.
        rw.heads.drop_known(scope);
        last = head_of(rw, scope).await?;
    }
    // An earlier program version wrote the ledger.
    let Some(last) = last else { return Ok(true) };
    Ok(folded(rw, scope, head, false, last.n).await?.as_ref() == Some(&last))
}

/// Returns whether an import brought along the entry with this number.
pub async fn is_imported(rw: &Rw, scope: &Scope, n: u64) -> Result<bool> {
    #[derive(Deserialize)]
    struct Entry {
        n: u64,
        hash: String,
        code: Option<String>,
    }
    let Some(trust) = rw.heads.trust.get() else { return Ok(true) };
    let binds = binds!(scope; after = n.saturating_sub(1), limit = 1_u64);
    let found: Option<Entry> = rw.row(ENTRIES, binds).await?;
    Ok(found.is_some_and(|entry| {
        let code = entry.code.unwrap_or_default();
        entry.n == n && trust.secret.holds_imported(&entry.hash, &code)
    }))
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
        let rows: Vec<Map<String, Value>> = rw.rows(ENTRIES, binds).await?;
        let full = rows.len() as u64 == ENTRY_ROWS;
        for row in rows {
            let n = head.n + 1;
            let hash = link(&head.hash, n, &text_of(&row));
            let told = (row.get("n").and_then(Value::as_u64), row.get("hash"));
            if told != (Some(n), Some(&hash.as_str().into())) {
                return Ok(None);
            }
            let code = row.get("code").and_then(Value::as_str).unwrap_or_default();
            if strict && rw.heads.secret().is_some_and(|secret| !secret.holds_entry(&hash, code)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use vctx_core::trust::{Actor, Principal, admit};

    fn head(n: u64) -> Head {
        Head { n, hash: format!("{n:064x}") }
    }

    #[test]
    fn heads_whose_signature_was_interrupted_are_there_again() {
        let actor = Actor { uid: 0, pid: 0, label: None };
        let principal = Principal { actor, tenant: String::new(), called: None };
        let [ada, bob, eve] = ["ada", "bob", "eve"].map(|name| admit(&principal, name).unwrap());
        let heads = Heads::default();
        heads.written(&ada, head(0), head(1));
        heads.written(&bob, head(4), head(5));
        heads.gone(&eve);
        let mut taken = heads.take();
        assert_eq!((taken.left().len(), heads.take().left().len()), (3, 0));
        taken.remove("bob");
        // Another call writes before the heads are put back.
        heads.written(&ada, head(1), head(2));
        drop(taken);
        let again = heads.take();
        let one = Unsigned { before: head(0), after: head(2), whole: true };
        assert_eq!(again.left()["ada"], Some(one));
        assert_eq!(again.left()["eve"], None);
        assert_eq!(again.left().len(), 2);
    }
}
