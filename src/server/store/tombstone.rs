//! Tombstones: the rows of `forgets` that say that a whole agent was forgotten. A tombstone has a
//! code, which only the servers of the database can make, because no ledger describes it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::db::{Rw, binds};
use super::dump::Page;
use super::fault::Result;
use super::forget::{forgetting_in, note_rows};
use super::import::ImportWriter;
use super::ledger_check::{FORGETTINGS, LOCAL_LARGE_ROWS};
use super::query::queries;
use vctx_core::ledger::note::Head;
use vctx_core::ledger::{Item, LocalKind};
use vctx_core::memory::event::{Event, EventType, entry_key};
use vctx_core::memory::forget::{
    Forgetting, KeptManifests, LastEntry, Phase, coded_text, tombstone_key,
};
use vctx_core::memory::receipt::sha256;
use vctx_core::trust::Scope;

queries! {
    LAST = "forget_last",
    GONE = "ledger_gone",
    STRAYS = "ledger_strays",
}

/// Number of agents between which one request looks for rows of agents without a core.
const STRAY_AGENTS: u64 = 200;
/// Maximum number of such rows that one request counts in each collection.
const STRAY_ROWS_MAX: u64 = 1_000;
/// Maximum number of such requests.
const STRAY_PAGES_MAX: usize = 1_000_000;
/// Maximum number of collections and agents with such rows that one call lists.
const STRAYS_MAX: usize = 1_000;

/// Maximum number of pages of an agent's manifests.
const MANIFEST_PAGES_MAX: usize = 100_000;

/// The end of an agent that is forgotten as a whole, as its tombstone says it.
#[derive(Debug, Deserialize)]
pub(super) struct LastState {
    rev: String,
    chain: Value,
    n: Option<u64>,
    hash: Option<String>,
}

impl LastState {
    /// Notes the state of the agent in a tombstone. Returns the revision of the core and the number
    /// of the last entry.
    pub(super) fn noted_in(self, row: &mut Forgetting) -> (String, Option<u64>) {
        row.chain = Some(self.chain);
        row.last = self.n.zip(self.hash).map(|(n, hash)| LastEntry { n, hash });
        (self.rev, self.n)
    }
}

/// Returns the row that takes the place of the entry after the last one. No server can append an
/// entry to the ledger of an agent any more that is being forgotten: a write that has begun fails,
/// and a later one finds a row that is no entry.
pub(super) fn closing(row: &Forgetting, last: Option<u64>) -> Value {
    let n = last.unwrap_or(0) + 1;
    let event = Event {
        kind: EventType::Audit,
        details: Map::from_iter([("forget".to_owned(), "agent".into())]),
        agent_id: row.agent_id.clone(),
        ts: row.begun_at.clone(),
    };
    let mut event = json!(event);
    event["_key"] = entry_key(&row.agent_id, n).into();
    event["n"] = n.into();
    event
}

/// Returns what a tombstone says about an agent; `None` if there is no such agent.
pub(super) async fn last_of(rw: &Rw, scope: &Scope) -> Result<Option<LastState>> {
    rw.row(LAST, binds!(scope;)).await
}

/// Gives a tombstone its code, if the server has the secret of the database.
pub fn seal(rw: &Rw, row: &mut Forgetting) {
    let text = json!(row).as_object().map(coded_text).unwrap_or_default();
    row.code = rw.heads.secret().map(|secret| secret.code(&text));
}

/// Returns whether a tombstone has a code of the database's secret.
pub fn is_sealed(rw: &Rw, row: &Forgetting) -> bool {
    json!(row).as_object().is_some_and(|row| holds(rw, row))
}

fn holds(rw: &Rw, row: &Map<String, Value>) -> bool {
    let code = row.get("code").and_then(Value::as_str).unwrap_or_default();
    rw.heads.secret().is_some_and(|secret| secret.holds(&coded_text(row), code))
}

/// The manifests of an agent's forget operations, except the tombstone.
#[derive(Debug, Default)]
pub struct OtherManifests {
    /// Number and digest of all of them.
    pub kept: KeptManifests,
    /// Those that have not ended, as they are covered by the digest.
    pub unended: Vec<Forgetting>,
}

/// Reads the manifests of an agent's forget operations, except the tombstone. With a time, the
/// manifests that have not ended are given and covered as if they ended at that time.
pub async fn other_manifests(
    rw: &Rw,
    scope: &Scope,
    ended_at: Option<&str>,
) -> Result<OtherManifests> {
    let mut others = OtherManifests::default();
    let (own, mut items) = (tombstone_key(scope.key()), String::new());
    let mut after = json!("");
    for _ in 0..MANIFEST_PAGES_MAX {
        let binds = binds!(scope; after, limit = LOCAL_LARGE_ROWS);
        let page: Option<Page> = rw.row(FORGETTINGS, binds).await?;
        let Some(page) = page else { break };
        for row in &page.rows {
            let mut row: Map<String, Value> = serde_json::from_str(row.get()).unwrap_or_default();
            if row.get("_key").is_some_and(|key| *key == own) {
                continue;
            }
            others.kept.count += 1;
            if row.get("phase") != Some(&json!(Phase::Done)) {
                let parsed: Option<Forgetting> = serde_json::from_value(row.clone().into()).ok();
                others.unended.extend(parsed.map(|mut one| {
                    if let Some(at) = ended_at {
                        one.step += 1;
                        one.end(at);
                        row = json!(one).as_object().cloned().unwrap_or_default();
                    }
                    one
                }));
            }
            let item = Item::of_local(LocalKind::Forgettings, row, scope);
            items += &item.map_or_else(|why| why, |item| item.to_string());
            items.push('\n');
        }
        match page.last {
            Value::Null => break,
            last => after = last,
        }
    }
    others.kept.digest = sha256(&items);
    Ok(others)
}

/// What the database says about an agent that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remains {
    /// The agent has a core.
    Core,
    /// The agent has moved away, to the database with this name.
    Departure(String),
    /// A server with the secret of the database has forgotten the whole agent.
    Tombstone,
    /// A server with the secret of the database removes the rows of the agent.
    Forgetting,
    /// An import or a move writes the agent.
    Arriving,
    /// The agent has a tombstone that no server with the secret wrote, or that was changed.
    Forged,
    /// The agent has a tombstone from before its last signed entry.
    Old,
    /// The manifests of the agent's forget operations are not those that the tombstone names.
    Manifests,
    /// There is nothing.
    Nothing,
}

#[derive(Deserialize)]
struct Gone {
    there: bool,
    departed: Option<String>,
    arriving: bool,
    tombstone: Option<Map<String, Value>>,
    others: bool,
}

/// Returns what the database says about each of the given agents, with the last entry of its ledger
/// that was signed.
pub async fn remains(rw: &Rw, signed: &[(Scope, Option<Head>)]) -> Result<Vec<Remains>> {
    let found = gone(rw, signed).await?;
    let mut remains = Vec::with_capacity(found.len());
    for ((scope, signed), found) in signed.iter().zip(found) {
        remains.push(match found {
            Gone { there: true, .. } => Remains::Core,
            Gone { tombstone: Some(row), others, .. } => {
                tombstone_of(rw, scope, signed.as_ref(), &row, others).await?
            }
            Gone { departed: Some(to), .. } => Remains::Departure(to),
            Gone { arriving: true, .. } => Remains::Arriving,
            Gone { .. } => Remains::Nothing,
        });
    }
    Ok(remains)
}

async fn gone(rw: &Rw, signed: &[(Scope, Option<Head>)]) -> Result<Vec<Gone>> {
    let asked = |(scope, _): &(Scope, _)| {
        let mark = ImportWriter::mark_key_of(scope);
        json!({"key": scope.key(), "tenant": scope.tenant(), "mark": mark,
            "tombstone": tombstone_key(scope.key())})
    };
    let agents: Vec<Value> = signed.iter().map(asked).collect();
    rw.rows(GONE, binds!(none; agents)).await
}

async fn tombstone_of(
    rw: &Rw,
    scope: &Scope,
    signed: Option<&Head>,
    row: &Map<String, Value>,
    others: bool,
) -> Result<Remains> {
    let is_own = row.get("agent_id").is_some_and(|agent| agent == scope.key());
    if rw.heads.secret().is_some() && !(is_own && holds(rw, row)) {
        return Ok(Remains::Forged);
    }
    let parsed: Option<Forgetting> = serde_json::from_value(row.clone().into()).ok();
    let last = parsed.as_ref().and_then(|row| row.last.as_ref());
    let follows = |signed: &Head| {
        last.is_some_and(|last| {
            last.n > signed.n || (last.n == signed.n && last.hash == signed.hash)
        })
    };
    if !signed.is_none_or(follows) {
        return Ok(Remains::Old);
    }
    let Some(ended) = parsed.filter(Forgetting::is_done) else { return Ok(Remains::Forgetting) };
    let kept = ended.kept.unwrap_or_default();
    if !others && kept.count == 0 {
        return Ok(Remains::Tombstone);
    }
    Ok(match other_manifests(rw, scope, None).await?.kept == kept {
        true => Remains::Tombstone,
        false => Remains::Manifests,
    })
}

/// Gives the tombstones of agents their codes if they have none, because an earlier program version
/// wrote them. Each agent comes with the last entry of its ledger that was signed.
pub async fn seal_earlier(rw: &Rw, signed: &[(Scope, Option<Head>)]) -> Result<()> {
    if signed.is_empty() {
        return Ok(());
    }
    for ((scope, last), found) in signed.iter().zip(gone(rw, signed).await?) {
        let is_sealed = |row: &Map<String, Value>| row.get("code").is_some_and(Value::is_string);
        if found.tombstone.is_some_and(|row| !is_sealed(&row)) {
            seal_one(rw, scope, last.as_ref()).await?;
        }
    }
    Ok(())
}

async fn seal_one(rw: &Rw, scope: &Scope, signed: Option<&Head>) -> Result<()> {
    let found: Option<Forgetting> = forgetting_in(rw, scope, &tombstone_key(scope.key())).await?;
    let Some(mut row) = found.filter(|row| row.code.is_none()) else { return Ok(()) };
    if row.is_done() {
        row.kept = Some(other_manifests(rw, scope, None).await?.kept);
    }
    if row.last.is_none() {
        row.last = signed.map(|head| LastEntry { n: head.n, hash: head.hash.clone() });
    }
    let at = row.step;
    row.step += 1;
    seal(rw, &mut row);
    note_rows(rw, scope, &row, at).await.map(drop)
}

/// Rows of an agent that has no core.
#[derive(Clone, Debug, Deserialize)]
pub struct Stray {
    /// Collection of the rows.
    pub of: String,
    /// The agent, as the rows name it.
    pub agent: Value,
    /// Number of rows; for many rows, a part of them.
    pub rows: u64,
}

/// Rows of agents that have no core.
#[derive(Clone, Debug, Default)]
pub struct Strays {
    /// The rows, by collection and agent.
    pub found: Vec<Stray>,
    /// Whether there may be more of them than one call lists.
    pub more: bool,
}

/// Returns rows of a tenant's agents that have no core. Rows that a server writes or removes are
/// among them.
pub async fn strays(rw: &Rw, tenant: &str) -> Result<Strays> {
    #[derive(Deserialize)]
    struct Found {
        last: Option<String>,
        found: Vec<Stray>,
    }
    let prefix = if tenant.is_empty() { String::new() } else { format!("{tenant}:") };
    let (mut all, mut after) = (Strays::default(), String::new());
    for _ in 0..STRAY_PAGES_MAX {
        let binds = binds!(none; after, prefix, limit = STRAY_AGENTS, most = STRAY_ROWS_MAX);
        let Some(page) = rw.row::<Found>(STRAYS, binds).await? else { break };
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for one in &page.found {
            *counts.entry(&one.of).or_default() += one.rows;
        }
        all.more |= counts.values().any(|count| *count >= STRAY_ROWS_MAX);
        all.found.extend(page.found);
        let Some(last) = page.last else { break };
        if all.found.len() >= STRAYS_MAX {
            all.more = true;
            break;
        }
        after = last;
    }
    all.more |= all.found.len() > STRAYS_MAX;
    all.found.truncate(STRAYS_MAX);
    Ok(all)
}
