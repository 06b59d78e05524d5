//! Writes that no call makes: a stream transaction runs a query, and appends an entry with
//! the changed rows to the agent's ledger. An agent without a ledger gets one first.

use std::collections::HashMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::core::{LOAD, Loaded};
use super::db::{Binds, Rw, binds};
use super::dump::{Broken, Dump};
use super::fault::{Fault, FaultKind, Result};
use super::heads::{head_of, last_inside};
use super::ledger::{Entry, Touched, Written};
use super::owned::OWNED;
use super::query::{Query, queries};
use super::rekey::rekey;
use super::transaction::{Committed, Stream};
use vctx_base::clock::{Clock as _, SystemClock};
use vctx_base::ids::SystemIds;
use vctx_core::clock::iso8601;
use vctx_core::ids::Ids as _;
use vctx_core::ledger::note::Head;
use vctx_core::ledger::{self, Item, LocalKind, Shape};
use vctx_core::memory::core::Core;
use vctx_core::memory::event::{Event, EventType};
use vctx_core::memory::export::RowKind;
use vctx_core::trust::Scope;

/// Collections that a write beside calls may read.
const READS: [&str; 2] = ["core_memory", "messages"];
/// Maximum number of attempts of one write beside calls, after conflicts with other writers.
const BESIDE_TRIES_MAX: u32 = 72;
/// After each such number of attempts, transactions of dead servers are looked for.
const LEFTOVER_TRIES: u32 = 8;
/// The longest pause before the next attempt is this number of milliseconds for each earlier one.
const BESIDE_PAUSE_MS: u64 = 4;
/// Maximum number of rows that one entry lists when an agent gets its ledger.
const ADOPTED_ROWS: usize = 2_000;
/// Number of rows of each collection that one request gives a salt.
const SALTED_ROWS: u64 = 1_000;
/// Maximum number of requests that give salts to the rows of one agent.
const SALTINGS_MAX: u32 = 100_000;

/// Name of the write that accepts a core.
const ACCEPT: &str = "accept";

queries! {
    TOUCHED = "core_touched",
    APPEND = "ledger_append",
    SALT = "ledger_salt",
    CORE = "ledger_core",
    NOTE = "event_write",
}

/// A write beside calls: a query in a stream transaction that may write the given collections.
pub(super) struct Beside<'a> {
    /// Name of the write in the ledger's entry.
    pub(super) what: &'static str,
    /// Collections that the query writes.
    pub(super) writes: &'a [&'a str],
    /// The query.
    pub(super) query: Query,
    /// Its bind variables.
    pub(super) binds: Binds,
}

/// Runs a write beside calls. `took` gets the rows that the query returned, and adds the changed
/// rows to the entry; if it adds none, nothing is written. After a conflict with another writer,
/// everything is repeated.
pub(super) async fn beside<R: DeserializeOwned, T>(
    rw: &Rw,
    scope: &Scope,
    work: Beside<'_>,
    took: impl Fn(Vec<R>, &mut Written<'_>) -> Result<T>,
) -> Result<T> {
    let what = work.what;
    let mut writes = work.writes.to_vec();
    writes.push("memory_events");
    for tries in 1..=BESIDE_TRIES_MAX {
        let reads: Vec<&str> = READS.into_iter().filter(|name| !writes.contains(name)).collect();
        let stream = Stream::begin(rw, &reads, &writes).await?;
        match attempt(&stream, rw, scope, &work, &took).await {
            Ok(Attempt::Nothing(out)) => {
                stream.abort().await;
                return Ok(out);
            }
            Ok(Attempt::Written(out, before, after)) => match stream.commit().await {
                Ok(Committed::Yes) => {
                    rw.heads.written(scope, before, after);
                    return Ok(out);
                }
                Ok(Committed::Unknown) => {
                    rw.heads.drop_known(scope);
                    return Err(Fault::new(FaultKind::Lost, "commit not confirmed"));
                }
                Ok(Committed::No) => {}
                Err(fault) if fault.raced() => {}
                Err(fault) => return Err(fault),
            },
            Ok(Attempt::Unsealed) => {
                stream.abort().await;
                Box::pin(adopt(rw, scope)).await.map_err(Broken::into_fault)?;
            }
            Ok(Attempt::Raced) => stream.abort().await,
            Err(fault) => {
                stream.abort().await;
                if !fault.raced() {
                    return Err(fault);
                }
            }
        }
        rw.heads.drop_known(scope);
        pause(rw, tries).await;
    }
    Err(overtaken(what))
}

fn overtaken(what: &str) -> Fault {
    let text = format!("{what}: another writer was faster {BESIDE_TRIES_MAX} times");
    Fault::new(FaultKind::Arango { status: 409, num: 1200 }, text)
}

/// Waits before the next attempt, longer after more of them. The locks may belong to a transaction
/// of a dead server, which is looked for now and then.
async fn pause(rw: &Rw, tries: u32) {
    if tries.is_multiple_of(LEFTOVER_TRIES)
        && let Err(fault) = rw.leftovers.lock().await.look(rw).await
    {
        tracing::debug!(%fault, "cannot list the running transactions");
    }
    let most = BESIDE_PAUSE_MS * u64::from(tries);
    tokio::time::sleep(Duration::from_millis(SystemIds.below(most))).await;
}

enum Attempt<T> {
    /// The statements changed no row.
    Nothing(T),
    /// Statements and entry wait for the commit. The heads are those before and after the entry.
    Written(T, Head, Head),
    /// Another writer has appended an entry.
    Raced,
    /// The agent has no ledger yet.
    Unsealed,
}

async fn attempt<R: DeserializeOwned, T>(
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
    work: &Beside<'_>,
    took: &impl Fn(Vec<R>, &mut Written<'_>) -> Result<T>,
) -> Result<Attempt<T>> {
    let mut written = Written::new(scope);
    let rows = stream.rows(work.query, work.binds.clone()).await?;
    let out = took(rows, &mut written)?;
    if written.is_empty() {
        return Ok(Attempt::Nothing(out));
    }
    let Some(before) = head_of(rw, scope).await? else { return Ok(Attempt::Unsealed) };
    let entry = written.alone(&event_of(scope, work.what));
    Ok(match append(stream, rw, scope, entry, &before).await? {
        Some(after) => Attempt::Written(out, before, after),
        None => Attempt::Raced,
    })
}

/// Returns the audit row of a write beside calls.
fn event_of(scope: &Scope, what: &'static str) -> Event {
    let mut details = Map::new();
    // The list of events leaves out the writes that no call makes, but shows what was accepted.
    match what {
        ACCEPT => details.insert("accepted".into(), "core".into()),
        _ => details.insert("beside".into(), what.into()),
    };
    Event {
        kind: EventType::Audit,
        details,
        agent_id: scope.key().to_owned(),
        ts: iso8601(SystemClock.unix_ms()),
    }
}

/// Appends an entry after the given head. Returns the head after it, or `None` if another entry
/// follows the given head. A head with the number 0 stands for a ledger without entries.
async fn append(
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
    entry: Entry,
    before: &Head,
) -> Result<Option<Head>> {
    let (entry, after) = entry.after(rw, scope, before);
    let last = (before.n > 0).then_some(before);
    let binds = binds!(scope; entry, last, sync = rw.sync);
    let written = stream.rows::<u64>(APPEND, binds).await?;
    Ok((!written.is_empty()).then_some(after))
}

/// Runs a write beside calls in one request: the query writes rows that `wrote` adds to the entry,
/// and the entry. `bound` returns the bind variables for an entry and the head before it. Does
/// nothing if the agent does not exist or is being moved.
pub(super) async fn beside_at_once(
    rw: &Rw,
    scope: &Scope,
    (what, query): (&'static str, Query),
    bound: impl Fn(Value, &Head) -> Binds,
    wrote: impl Fn(&mut Written<'_>) -> Result<()>,
) -> Result<()> {
    let entry = || {
        let mut written = Written::new(scope);
        wrote(&mut written)?;
        Ok(written.alone(&event_of(scope, what)))
    };
    match at_once(rw, scope, query, bound, entry).await {
        Err(fault) if fault.raced() => Err(overtaken(what)),
        done => done,
    }
}

/// Lists an agent's core, as it is in the database, in an entry of its own. Returns `false` if the
/// core does not have the revision `rev` any more, or if the agent is being moved.
pub async fn accept_core(rw: &Rw, scope: &Scope, rev: &str) -> Result<bool> {
    let binds = binds!(scope; rev);
    let work = Beside { what: ACCEPT, writes: &["core_memory"], query: TOUCHED, binds };
    beside(rw, scope, work, |rows: Vec<Touched>, written| {
        let any = !rows.is_empty();
        written.touched(rows)?;
        Ok(any)
    })
    .await
}

/// Writes an event that is not part of a change of the agent's memory, as an entry of the ledger.
/// Does nothing if the agent does not exist or is being moved.
pub async fn note(rw: &Rw, scope: &Scope, event: &Event) -> Result<()> {
    let bound = |entry, last: &Head| binds!(scope; entry, last, sync = rw.sync);
    at_once(rw, scope, NOTE, bound, || Ok(Written::new(scope).alone(event))).await
}

/// Runs a query that appends an entry after the head that the server knows. After a conflict with
/// another writer, everything is repeated.
async fn at_once(
    rw: &Rw,
    scope: &Scope,
    query: Query,
    bound: impl Fn(Value, &Head) -> Binds,
    entry: impl Fn() -> Result<Entry>,
) -> Result<()> {
    let mut raced = None;
    for tries in 1..=BESIDE_TRIES_MAX {
        let Some(before) = head_of(rw, scope).await? else {
            if !Box::pin(adopt(rw, scope)).await.map_err(Broken::into_fault)? {
                return Ok(());
            }
            continue;
        };
        let (row, after) = entry()?.after(rw, scope, &before);
        match rw.row::<u64>(query, bound(row, &before)).await {
            Ok(Some(_)) => {
                rw.heads.written(scope, before, after);
                return Ok(());
            }
            Ok(None) => {
                rw.heads.drop_known(scope);
                // Without a newer entry, the agent is missing or is being moved.
                if head_of(rw, scope).await?.is_none_or(|last| last == before) {
                    return Ok(());
                }
            }
            Err(fault) => {
                rw.heads.drop_known(scope);
                if !fault.raced() {
                    return Err(fault);
                }
                raced = Some(fault);
            }
        }
        pause(rw, tries).await;
    }
    Err(raced.unwrap_or_else(|| overtaken("event")))
}

/// Gives an agent its ledger: entries that list all rows of the agent as they are. If an earlier
/// program version wrote the ledger, the entries list only the rows that this version did not list.
/// Returns `false` if the agent does not exist or has a ledger of this program version already.
pub async fn adopt(rw: &Rw, scope: &Scope) -> std::result::Result<bool, Broken> {
    for tries in 1..BESIDE_TRIES_MAX {
        match adopt_once(rw, scope).await {
            // A dead server may have begun the same.
            Err(Broken::Store(fault)) if fault.raced() => pause(rw, tries).await,
            adopted => return adopted,
        }
    }
    adopt_once(rw, scope).await
}

async fn adopt_once(rw: &Rw, scope: &Scope) -> std::result::Result<bool, Broken> {
    rekey(rw, scope).await?;
    salt_rows(rw, scope).await?;
    let listed = |name: &&str| LocalKind::by_name(name).is_some();
    let mut collections: Vec<&str> = OWNED
        .iter()
        .filter(|owned| owned.part.is_some() || listed(&owned.collection))
        .map(|owned| owned.collection)
        .collect();
    collections.sort_unstable();
    let stream = Stream::begin(rw, &["vctx_meta"], &collections).await?;
    let adopted = adopt_inside(&stream, rw, scope).await;
    match adopted {
        Ok(true) => match stream.commit().await? {
            Committed::Yes => Ok(true),
            Committed::No | Committed::Unknown => {
                Err(Fault::new(FaultKind::Lost, "commit not confirmed").into())
            }
        },
        Ok(false) => {
            stream.abort().await;
            Ok(false)
        }
        Err(broken) => {
            stream.abort().await;
            Err(broken)
        }
    }
}

async fn adopt_inside(
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
) -> std::result::Result<bool, Broken> {
    let last = last_inside(stream, scope).await?;
    if last.as_ref().is_some_and(|last| last.is_new) {
        return Ok(false);
    }
    let continued = last.and_then(|last| Some(Head { n: last.n?, hash: last.hash? }));
    let is_continued = continued.is_some();
    let mut dump = Dump::within(rw, scope, stream.id()?);
    let opened = dump.open().await?;
    let Some(core) = &opened.core else { return Ok(false) };
    if !is_continued && core.get("salt").is_some_and(|salt| salt != "") {
        let why = "no entry describes the core, which had a ledger".to_owned();
        return Err(Fault::new(FaultKind::Contradicted, why).into());
    }
    let mut written = Written::new(scope);
    if !is_continued {
        let core = settle_core(stream, rw, scope).await?;
        written.row(RowKind::Core, core, None)?;
    }
    let mut salts: HashMap<u64, String> = HashMap::new();
    let mut sink = |kind: RowKind, row: Map<String, Value>| {
        let seq = row.get("seq").and_then(Value::as_u64);
        let salt = row.get("salt").and_then(Value::as_str);
        if let (RowKind::Messages, Some(seq), Some(salt)) = (kind, seq, salt) {
            salts.insert(seq, salt.to_owned());
        }
        let of_message = matches!(kind, RowKind::Recall | RowKind::RecallVectors);
        let salt = seq.filter(|_| of_message).and_then(|seq| salts.get(&seq)).map(String::as_str);
        let mut items = Item::of_export(kind, &row, salt);
        if is_continued && let Ok(items) = &mut items {
            items.retain(|item| item.shape == Shape::Vector);
        }
        written.add(kind, items).map_err(Into::into)
    };
    dump.rest(&opened, &mut sink).await?;
    dump.local(&mut |kind, row| written.local(kind, &row.into())).await?;
    stream.touch();
    let genesis = Head { n: 0, hash: ledger::genesis(&opened.owner.sealed_as) };
    let mut head = continued.unwrap_or(genesis);
    let what = if is_continued { "complete" } else { "adopt" };
    let source = core.get("cloned").filter(|_| !is_continued).cloned();
    for some in written.parts(ADOPTED_ROWS) {
        let mut event = event_of(scope, what);
        if let Some(source) = &source {
            event.details = Map::from_iter([("cloned".to_owned(), source.clone())]);
        }
        let entry = some.alone(&event);
        let after = append(stream, rw, scope, entry, &head).await?;
        head = after.ok_or_else(|| overtaken(what))?;
    }
    Ok(true)
}

/// Writes the core in the form of this program version, with a new salt. Returns the core.
async fn settle_core(
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
) -> std::result::Result<Value, Broken> {
    let raced = || Fault::new(FaultKind::Arango { status: 409, num: 1200 }, "the core changed");
    let loaded: Vec<Loaded> =
        stream.rows(LOAD, binds!(scope; replay_keys = Vec::<String>::new())).await?;
    let mut core: Core = loaded.into_iter().next().and_then(|row| row.core).ok_or_else(raced)?;
    core.salt = SystemIds.salt();
    let rev = std::mem::take(&mut core.rev);
    let core = json!(core);
    if !stream.wrote(CORE, binds!(scope; rev, core, sync = rw.sync)).await? {
        return Err(raced().into());
    }
    Ok(core)
}

async fn salt_rows(rw: &Rw, scope: &Scope) -> Result<()> {
    for _ in 0..SALTINGS_MAX {
        let seed = SystemIds.salt();
        let binds = binds!(scope; seed, limit = SALTED_ROWS, sync = rw.sync);
        let changed: Option<u64> = rw.row(SALT, binds).await?;
        if changed.unwrap_or(0) == 0 {
            return Ok(());
        }
    }
    Err(Fault::new(FaultKind::Garbage, format!("more than {SALTINGS_MAX} requests for salts")))
}
