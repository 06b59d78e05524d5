//! Reads all rows of an agent from one snapshot of the database, page by page, in the order of an
//! export.
//!
//! A read-only stream transaction provides the snapshot. It would not suffice to check that the
//! core's revision stays the same, since jobs and clients write vectors of recall storage,
//! schedules, threads and events without changing the core. A read-only transaction has no size
//! limit, and each request for a page restarts the transaction's idle timeout. A slow client does
//! not keep the transaction open, since all rows are written to a file before the first one is
//! sent. If the transaction is lost (the database was restarted, or an operator ended it), the
//! caller begins the export again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::db::{Binds, Link, Ro, Rw, binds, must};
use super::fault::{Fault, FaultKind};
use super::ledger_check::{Comparison, kind_of, read_setting};
use super::meanwhile::meanwhile;
use super::owned::OWNED;
use super::query::{Query, queries};
use crate::limits::{EXPORT_ANSWERS, EXPORT_PAGE_BYTES, EXPORT_PAGE_GROWTH, EXPORT_PAGE_ROWS};
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::export::{Owner, RowKind, carried, exact, in_order};
use vctx_core::trust::Scope;

/// Maximum number of short rows that one request returns: names of documents, or keys of call
/// records.
const EXPORT_LIST_ROWS: u64 = 5_000;
/// Maximum number of events with the same timestamp; an export of more such events fails.
const EXPORT_MOMENT_ROWS_MAX: u64 = 65_536;
/// Maximum number of pages in which an export reads the rows of one kind.
const EXPORT_PAGES_MAX: usize = 10_000_000;

queries! {
    CORE = "export_core",
    pub(super) VERSIONS = "export_versions",
    pub(super) MESSAGES = "export_messages",
    RECALL = "export_recall",
    RECALL_VECTORS = "export_recall_vectors",
    DOCUMENTS = "export_documents",
    MANIFESTS = "export_manifests",
    PASSAGES = "export_passages",
    SOURCES = "export_sources",
    pub(super) SUMMARIES = "export_summaries",
    pub(super) CITES = "export_cites",
    pub(super) PROMPTS = "export_prompts",
    TOOL_SETS = "export_tool_sets",
    pub(super) PACKS = "export_packs",
    pub(super) ANSWER_KEYS = "export_answer_keys",
    ANSWERS = "export_answers",
    SCHEDULES = "export_schedules",
    EVENTS = "export_events",
}

/// A row of an export, as JSON.
pub type Row = Map<String, Value>;
/// Receives the rows of an export one by one.
pub type Sink<'a> = dyn FnMut(RowKind, Row) -> Result<()> + Send + 'a;

/// Why the rows of an agent were not read to the end.
#[derive(Debug)]
pub enum Broken {
    /// A fault of the database.
    Store(Fault),
    /// A row that cannot be read, or an error of the function that receives the rows.
    Other(Error),
}

impl Broken {
    /// Returns the fault; an unreadable row counts as an unusable answer of the database.
    pub(super) fn into_fault(self) -> Fault {
        match self {
            Self::Store(fault) => fault,
            Self::Other(error) => Fault::new(FaultKind::Garbage, error.message),
        }
    }
}

impl From<Fault> for Broken {
    fn from(fault: Fault) -> Self {
        Self::Store(fault)
    }
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<Broken> for Error {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Store(fault) => fault.into(),
            Broken::Other(error) => error,
        }
    }
}

pub(super) type Read<T> = std::result::Result<T, Broken>;

/// An agent's core and owner, which are read before its other rows.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The owner of the rows.
    pub owner: Owner,
    /// The core as an export row; `None` if there is no such agent.
    pub core: Option<Row>,
    /// Head of the agent's hash chain.
    pub chain_head: String,
    /// Only versions of the core after this version number are read; with 0, all versions are read.
    pub versions_after: u64,
}

/// A snapshot of the database for reading one agent.
pub struct Dump<'a> {
    link: &'a Link,
    socket: &'static str,
    pub(super) scope: &'a Scope,
    transaction: String,
    rows: AtomicU64,
    /// The comparison for which rows are read; without one, a row that cannot be exported ends the
    /// reading with an error.
    pub(super) comparison: Option<Comparison>,
}

#[derive(Deserialize)]
pub(super) struct Page {
    pub(super) last: Value,
    pub(super) rows: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct CoreRow {
    core: Option<Box<RawValue>>,
    setting: Option<Value>,
}

impl<'a> Dump<'a> {
    /// Opens a snapshot of the current state on the read socket. If a proxy on the read socket
    /// refuses transactions, uses the write socket, still only for reading.
    pub async fn begin(
        ro: &'a Ro,
        rw: &'a Rw,
        scope: &'a Scope,
    ) -> std::result::Result<Self, Fault> {
        let collections = collections();
        let (link, socket, transaction) = match ro.link().begin(&collections).await {
            Ok(transaction) => (ro.link(), "ro", transaction),
            Err(Fault { kind: FaultKind::Arango { status: 403 | 405, .. }, .. }) => {
                (&*rw.link, "rw", rw.link.begin(&collections).await?)
            }
            Err(fault) => return Err(fault),
        };
        Ok(Self {
            link,
            socket,
            scope,
            transaction,
            rows: AtomicU64::new(EXPORT_PAGE_ROWS.0),
            comparison: None,
        })
    }

    /// Reads inside a running transaction of the write socket.
    pub(super) fn within(rw: &'a Rw, scope: &'a Scope, transaction: &str) -> Self {
        let transaction = transaction.to_owned();
        Self {
            link: &rw.link,
            socket: "rw",
            scope,
            transaction,
            rows: AtomicU64::new(EXPORT_PAGE_ROWS.0),
            comparison: None,
        }
    }

    /// Closes the snapshot.
    pub async fn end(self) {
        if let Err(fault) = self.link.end(&self.transaction).await {
            tracing::debug!(%fault, "ending a read transaction failed");
        }
    }

    /// Reads the core and the vector setting.
    pub async fn open(&self) -> Read<Opened> {
        let rows: Vec<CoreRow> = self.inside(CORE, binds!(self.scope;)).await?;
        let row = rows.into_iter().next().unwrap_or(CoreRow { core: None, setting: None });
        let key = self.scope.key();
        let setting = read_setting(row.setting, self.comparison.as_ref())?;
        let mut owner = Owner {
            scope: key.to_owned(),
            tenant: self.scope.tenant().to_owned(),
            sealed_as: key.to_owned(),
            vector: setting.as_ref().map(kind_of),
            number: setting.as_ref().map_or(1, |setting| setting.number),
        };
        let Some(core) = row.core else {
            return Ok(Opened { owner, core: None, chain_head: String::new(), versions_after: 0 });
        };
        let core = object(&core)?;
        self.compare_with(&core, setting);
        if let Some(Value::String(name)) = core.get("sealed_as") {
            owner.sealed_as.clone_from(name);
        }
        let core = match carried(RowKind::Core, core.clone(), &owner) {
            Ok(core) => core,
            Err(why) => {
                self.unfit(RowKind::Core, key.to_owned(), &why)?;
                core
            }
        };
        let chain_head = core.get("chain").and_then(|chain| chain["head"].as_str());
        let chain_head = chain_head.unwrap_or_default().to_owned();
        Ok(Opened { owner, core: Some(core), chain_head, versions_after: 0 })
    }

    /// Reads all rows of the agent except the core, which was read before. Returns the number of
    /// call records that cannot be exported, since an old release of vctx wrote them without their
    /// keys.
    pub async fn rest(&mut self, opened: &Opened, sink: &mut Sink<'_>) -> Read<u64> {
        let owner = &opened.owner;
        let mut tools: BTreeSet<String> = BTreeSet::new();
        if let Some(Value::Array(kept)) =
            opened.core.as_ref().and_then(|core| core.get("tool_sets"))
        {
            tools.extend(kept.iter().filter_map(Value::as_str).map(str::to_owned));
        }
        self.numbered(RowKind::Versions, VERSIONS, json!(opened.versions_after), owner, sink)
            .await?;
        let numbered = [
            (RowKind::Messages, MESSAGES),
            (RowKind::Recall, RECALL),
            (RowKind::RecallVectors, RECALL_VECTORS),
        ];
        for (part, query) in numbered {
            self.numbered(part, query, json!(0), owner, sink).await?;
        }
        let documents = self.documents().await?;
        self.manifests(&documents, owner, sink).await?;
        self.passages(&documents, owner, sink).await?;
        self.numbered(RowKind::Cites, CITES, json!(0), owner, sink).await?;
        self.numbered(RowKind::Derived, SUMMARIES, json!(0), owner, sink).await?;
        self.sources(&documents, owner, sink).await?;
        let mut prompts = |part, row: Row| {
            tools.extend(row.get("tools").and_then(Value::as_str).map(str::to_owned));
            sink(part, row)
        };
        self.numbered(RowKind::Prompts, PROMPTS, json!(0), owner, &mut prompts).await?;
        self.tool_sets(&tools, owner, sink).await?;
        self.numbered(RowKind::Packs, PACKS, json!(""), owner, sink).await?;
        let left = self.answers(owner, sink).await?;
        self.schedules(owner, sink).await?;
        self.events(owner, sink).await?;
        Ok(left)
    }

    /// Returns the document keys of the agent's call records.
    pub async fn answer_keys(&mut self) -> Read<Vec<String>> {
        let keys = self.records().await?;
        Ok(keys.into_iter().map(|record| record.doc_key).collect())
    }

    fn unfit(&self, part: RowKind, key: String, why: &str) -> Result<()> {
        let Some(comparison) = &self.comparison else {
            let text = format!("a row of {} {why}: it cannot be exported", part.collection());
            return Err(Error::new(Code::Internal, text));
        };
        comparison.unfit(part, &key, why);
        Ok(())
    }

    pub(super) fn give(
        &self,
        part: RowKind,
        rows: Vec<Box<RawValue>>,
        owner: &Owner,
        sink: &mut Sink<'_>,
    ) -> Read<()> {
        let rows: Read<Vec<Row>> = rows.iter().map(|row| object(row)).collect();
        self.give_objects(part, rows?, owner, sink)
    }

    fn give_objects(
        &self,
        part: RowKind,
        rows: Vec<Row>,
        owner: &Owner,
        sink: &mut Sink<'_>,
    ) -> Read<()> {
        let mut fit = Vec::with_capacity(rows.len());
        for mut row in rows {
            let key = row.get("_key").and_then(Value::as_str).unwrap_or_default().to_owned();
            if let Some(comparison) = &self.comparison
                && let Some(why) = comparison.fault(part, &mut row)
            {
                self.unfit(part, key.clone(), why)?;
            }
            match carried(part, row, owner) {
                Ok(row) => fit.push(row),
                Err(why) => self.unfit(part, key, &why)?,
            }
        }
        if self.comparison.is_some() {
            return fit.into_iter().try_for_each(|row| Ok(sink(part, row)?));
        }
        let sorted = in_order(part, fit).map_err(|why| {
            Error::new(Code::Internal, format!("a row of {} {why}", part.collection()))
        })?;
        for row in sorted {
            sink(part, row)?;
        }
        Ok(())
    }

    pub(super) async fn inside<R: DeserializeOwned>(
        &self,
        query: Query,
        binds: Binds,
    ) -> std::result::Result<Vec<R>, Fault> {
        metrics::counter!(metric::STORE_TRIPS, "socket" => self.socket).increment(1);
        self.link.rows_inside(&self.transaction, query, binds).await
    }

    pub(super) async fn page(&self, query: Query, binds: Binds) -> Read<Page> {
        Ok(must(self.inside(query, binds).await?.into_iter().next(), query)?)
    }

    /// Returns the page of rows that follow `after`, the number or key of the last row read. The
    /// number of rows on this page depends on the size of the rows on earlier pages. If the
    /// database's answer is too long for the HTTP client, the function requests a page with fewer
    /// rows.
    pub(super) async fn behind(&self, query: Query, after: &Value) -> Read<Page> {
        loop {
            let limit = self.rows.load(Ordering::Relaxed);
            let binds = binds!(self.scope; after = after.clone(), limit);
            match self.page(query, binds).await {
                Ok(page) => {
                    let bytes: usize = page.rows.iter().map(|row| row.get().len()).sum();
                    let (least, most) = EXPORT_PAGE_ROWS;
                    let fitting = limit * EXPORT_PAGE_BYTES as u64 / (bytes.max(1) as u64);
                    let next_max = limit.max(least) * EXPORT_PAGE_GROWTH;
                    self.rows.store(fitting.clamp(1, most.min(next_max)), Ordering::Relaxed);
                    return Ok(page);
                }
                Err(Broken::Store(fault)) if fault.too_large() && limit > 1 => {
                    self.rows.store((limit / 8).max(1), Ordering::Relaxed);
                }
                Err(broken) => return Err(broken),
            }
        }
    }

    /// Reads all rows of one kind page by page, in ascending order of the number or key that each
    /// row has.
    pub(super) async fn numbered(
        &self,
        part: RowKind,
        query: Query,
        after: Value,
        owner: &Owner,
        sink: &mut Sink<'_>,
    ) -> Read<()> {
        let mut page = self.behind(query, &after).await?;
        for _ in 0..EXPORT_PAGES_MAX {
            if page.last.is_null() {
                return self.give(part, page.rows, owner, sink);
            }
            let next = self.behind(query, &page.last);
            page = meanwhile(next, || self.give(part, page.rows, owner, sink)).await?;
        }
        Err(endless(part))
    }

    /// Returns the agent's document names in byte order, independent of the database's collation.
    pub(super) async fn documents(&mut self) -> Read<Vec<String>> {
        let mut found: BTreeSet<String> = BTreeSet::new();
        let mut after = json!("");
        for _ in 0..EXPORT_PAGES_MAX {
            let binds = binds!(self.scope; after, limit = EXPORT_LIST_ROWS);
            let page = self.page(DOCUMENTS, binds).await?;
            for row in &page.rows {
                let row = object(row)?;
                found.extend(row.get("doc_id").and_then(Value::as_str).map(str::to_owned));
            }
            match page.last {
                Value::Null => return Ok(found.into_iter().collect()),
                last => after = last,
            }
        }
        Err(endless(RowKind::Manifests))
    }

    pub(super) async fn manifests(
        &self,
        documents: &[String],
        owner: &Owner,
        sink: &mut Sink<'_>,
    ) -> Read<()> {
        for some in documents.chunks(EXPORT_PAGE_ROWS.1 as usize) {
            let binds = binds!(self.scope; documents = some);
            self.give(RowKind::Manifests, self.page(MANIFESTS, binds).await?.rows, owner, sink)?;
        }
        Ok(())
    }

    pub(super) async fn passages(
        &self,
        documents: &[String],
        owner: &Owner,
        sink: &mut Sink<'_>,
    ) -> Read<()> {
        for document in documents {
            let mut after = json!(-1);
            loop {
                let binds = binds!(self.scope; doc_id = document, after, limit = PASSAGE_ROWS);
                let page = self.page(PASSAGES, binds).await?;
                let full = page.rows.len() as u64 == PASSAGE_ROWS;
                self.give(RowKind::Passages, page.rows, owner, sink)?;
                after = page.last;
                // This loop always ends, since each page begins after the last chunk of the
                // previous page.
                if !full {
                    break;
                }
            }
        }
        Ok(())
    }

    pub(super) async fn sources(
        &self,
        documents: &[String],
        owner: &Owner,
        sink: &mut Sink<'_>,
    ) -> Read<()> {
        for some in documents.chunks(SOURCE_DOCUMENTS) {
            let binds = binds!(self.scope; documents = some);
            self.give(RowKind::Derived, self.page(SOURCES, binds).await?.rows, owner, sink)?;
        }
        Ok(())
    }

    async fn tool_sets(
        &self,
        digests: &BTreeSet<String>,
        owner: &Owner,
        sink: &mut Sink<'_>,
    ) -> Read<()> {
        let keys: Vec<String> =
            digests.iter().map(|digest| format!("{}:{digest}", owner.scope)).collect();
        for some in keys.chunks(EXPORT_ANSWERS) {
            let binds = binds!(self.scope; keys = some);
            self.give(RowKind::ToolSets, self.page(TOOL_SETS, binds).await?.rows, owner, sink)?;
        }
        Ok(())
    }

    /// Returns the document keys of all the agent's call records, each with its idempotency key if
    /// it has one.
    async fn records(&mut self) -> Read<Vec<Record>> {
        let mut found = Vec::new();
        let mut after = json!("");
        for _ in 0..EXPORT_PAGES_MAX {
            let binds = binds!(self.scope; after, limit = EXPORT_LIST_ROWS);
            let page = self.page(ANSWER_KEYS, binds).await?;
            for row in &page.rows {
                found.extend(Record::of(&object(row)?));
            }
            match page.last {
                Value::Null => return Ok(found),
                last => after = last,
            }
        }
        Err(endless(RowKind::Answers))
    }

    async fn answers(&mut self, owner: &Owner, sink: &mut Sink<'_>) -> Read<u64> {
        let records = self.records().await?;
        let all = records.len();
        let mut named: BTreeMap<(String, Option<u64>), String> = BTreeMap::new();
        for record in records {
            if let Some(key) = record.key {
                named.insert((key, record.part), record.doc_key);
            }
        }
        let left = (all - named.len()) as u64;
        let keys: Vec<String> = named.into_values().collect();
        self.answers_of(&keys, owner, sink).await?;
        Ok(left)
    }

    /// Reads the call records with the given document keys.
    async fn answers_of(&self, keys: &[String], owner: &Owner, sink: &mut Sink<'_>) -> Read<()> {
        let mut read = Vec::new();
        for some in keys.chunks(ANSWER_ROWS) {
            let next = self.page(ANSWERS, binds!(self.scope; keys = some));
            read = meanwhile(next, || self.give(RowKind::Answers, read, owner, sink)).await?.rows;
        }
        self.give(RowKind::Answers, read, owner, sink)
    }

    pub(super) async fn schedules(&self, owner: &Owner, sink: &mut Sink<'_>) -> Read<()> {
        let binds = binds!(self.scope; limit = EXPORT_LIST_ROWS);
        self.give(RowKind::Schedules, self.page(SCHEDULES, binds).await?.rows, owner, sink)
    }

    /// Reads events in the order of their timestamps. All events of one timestamp come on one page,
    /// so that they are sorted together.
    pub(super) async fn events(&self, owner: &Owner, sink: &mut Sink<'_>) -> Read<()> {
        let (mut after, mut limit) = (String::new(), EXPORT_PAGE_ROWS.1);
        let mut page = self.page(EVENTS, binds!(self.scope; after, limit)).await?;
        for _ in 0..EXPORT_PAGES_MAX {
            if (page.rows.len() as u64) < limit {
                return self.give(RowKind::Events, page.rows, owner, sink);
            }
            let last = page.last.as_str().unwrap_or_default().to_owned();
            let is_last = |row: &Row| row.get("ts").and_then(Value::as_str) == Some(&last);
            let first = page.rows.first().map(|row| object(row)).transpose()?;
            if first.as_ref().is_some_and(is_last) {
                if limit >= EXPORT_MOMENT_ROWS_MAX {
                    return Err(endless(RowKind::Events));
                }
                limit *= 8;
                page = self.page(EVENTS, binds!(self.scope; after, limit)).await?;
                continue;
            }
            (after, limit) = (last.clone(), EXPORT_PAGE_ROWS.1);
            let next = self.page(EVENTS, binds!(self.scope; after, limit));
            let give = || {
                let rows: Read<Vec<Row>> = page.rows.iter().map(|row| object(row)).collect();
                let mut rows = rows?;
                rows.retain(|row| !is_last(row));
                self.give_objects(RowKind::Events, rows, owner, sink)
            };
            page = meanwhile(next, give).await?;
        }
        Err(endless(RowKind::Events))
    }
}

/// Returns the collections that a dump reads.
pub(super) fn collections() -> Vec<&'static str> {
    let parts = OWNED.iter().filter(|owned| owned.part.is_some());
    parts.map(|owned| owned.collection).chain(["vctx_meta"]).collect()
}

/// Number of chunks that one request returns. A chunk's vector has at most a few thousand
/// components.
const PASSAGE_ROWS: u64 = 128;
/// Number of documents whose edges one request returns.
const SOURCE_DOCUMENTS: usize = 32;
/// Number of call records that one request returns. The answer stored in a record may contain all
/// texts of a window.
const ANSWER_ROWS: usize = 64;

/// A call record: its document key, and its idempotency key if it has one.
pub(super) struct Record {
    pub(super) doc_key: String,
    pub(super) key: Option<String>,
    part: Option<u64>,
}

impl Record {
    fn of(row: &Row) -> Option<Self> {
        let key = match row.get("key") {
            None | Some(Value::Null) => None,
            Some(Value::String(key)) => Some(key.clone()),
            // The row is refused when it is read as a whole.
            Some(other) => Some(other.to_string()),
        };
        let doc_key = row.get("_key")?.as_str()?.to_owned();
        Some(Self { doc_key, key, part: row.get("part").and_then(Value::as_u64) })
    }
}

fn endless(part: RowKind) -> Broken {
    let text = format!("too many pages of {}", part.collection());
    Broken::Store(Fault::new(FaultKind::Garbage, text))
}

pub(super) fn object(row: &RawValue) -> Read<Row> {
    match exact(row.get()) {
        Ok(Value::Object(row)) => Ok(row),
        Ok(_) => Err(Fault::new(FaultKind::Garbage, "a row is not a JSON object").into()),
        Err(why) => Err(Fault::new(FaultKind::Garbage, format!("a row {why}")).into()),
    }
}
