//! Reads all rows of an agent in the order of an export, page by page, from one state of the database.
//!
//! The state is that of a stream transaction that only reads. A guard by the core's revision would not do: jobs and clients write vectors of
//! recall storage, schedules, threads and events past the core. A reading transaction has no size that counts, each page renews its idle
//! time, and what is read goes to a file, so that no slow client keeps it open. Where it is lost (the database started anew, somebody swept
//! it away), the caller begins again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::db::{Binds, Link, Ro, Rw};
use super::fault::{Fault, FaultKind};
use super::owned::OWNED;
use super::query::{Query, query};
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{
    EXPORT_LIST_ROWS, EXPORT_MOMENT_ROWS_MAX, EXPORT_PAGE_BYTES, EXPORT_PAGE_ROWS, EXPORT_PAGES_MAX,
};
use vctx_core::memory::archive::VectorSetting;
use vctx_core::memory::export::{Owner, Part, VectorKind, carried, exact, in_order};
use vctx_core::policy::Scope;

/// The core and the vector setting.
pub(super) const CORE: Query = query!("export_core");
/// Copies of texts.
pub(super) const VERSIONS: Query = query!("export_versions");
/// Messages.
pub(super) const MESSAGES: Query = query!("export_messages");
/// Entries of recall storage.
pub(super) const RECALL: Query = query!("export_recall");
/// Their vectors.
pub(super) const RECALL_VECTORS: Query = query!("export_recall_vectors");
/// Names of documents.
pub(super) const DOCUMENTS: Query = query!("export_documents");
/// Their manifests.
pub(super) const MANIFESTS: Query = query!("export_manifests");
/// Their chunks.
pub(super) const PASSAGES: Query = query!("export_passages");
/// What chunks were made of.
pub(super) const SOURCES: Query = query!("export_sources");
/// What summaries were made of.
pub(super) const SUMMARIES: Query = query!("export_summaries");
/// Who cites what.
pub(super) const CITES: Query = query!("export_cites");
/// Prompts.
pub(super) const PROMPTS: Query = query!("export_prompts");
/// Tool sets.
pub(super) const TOOL_SETS: Query = query!("export_tool_sets");
/// Keys of records.
pub(super) const ANSWER_KEYS: Query = query!("export_answer_keys");
/// Records.
pub(super) const ANSWERS: Query = query!("export_answers");
/// Schedules.
pub(super) const SCHEDULES: Query = query!("export_schedules");
/// Events.
pub(super) const EVENTS: Query = query!("export_events");

/// A row as it stands in an export.
pub type Row = Map<String, Value>;
/// Takes the rows, one after the other.
pub type Sink<'a> = dyn FnMut(Part, Row) -> Result<()> + Send + 'a;

/// Why a reading ended early.
#[derive(Debug)]
pub enum Broken {
    /// The database.
    Store(Fault),
    /// What was read, or whoever takes it.
    Other(Error),
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

type Read<T> = std::result::Result<T, Broken>;

/// What an agent is, before its rows.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Whose the rows are.
    pub owner: Owner,
    /// The core, as it stands in an export; none if there is no such agent.
    pub core: Option<Row>,
    /// Head of the hash chain.
    pub chain_head: String,
    /// Copies of texts are read behind this version.
    pub versions_after: u64,
}

/// One state of the database.
pub struct Dump<'a> {
    link: &'a Link,
    socket: &'static str,
    scope: &'a Scope,
    transaction: String,
    rows: u64,
}

#[derive(Deserialize)]
struct Page {
    last: Value,
    rows: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct CoreRow {
    core: Option<Box<RawValue>>,
    setting: Option<VectorSetting>,
}

impl<'a> Dump<'a> {
    /// Takes hold of the present state, on the socket for reads. Where a proxy stands there that lets no transaction pass, on the one for writes:
    /// it names collections to read alone, so that nothing can be written in it.
    pub async fn begin(
        ro: &'a Ro,
        rw: &'a Rw,
        scope: &'a Scope,
    ) -> std::result::Result<Self, Fault> {
        let parts = OWNED.iter().filter(|owned| owned.part.is_some());
        let mut collections: Vec<&str> = parts.map(|owned| owned.collection).collect();
        collections.push("vctx_meta");
        let (link, socket, transaction) = match ro.link().begin(&collections).await {
            Ok(transaction) => (ro.link(), "ro", transaction),
            Err(Fault { kind: FaultKind::Arango { status: 403 | 405, .. }, .. }) => {
                (&rw.link, "rw", rw.link.begin(&collections).await?)
            }
            Err(fault) => return Err(fault),
        };
        Ok(Self { link, socket, scope, transaction, rows: EXPORT_PAGE_ROWS.0 })
    }

    /// Lets go of it.
    pub async fn end(self) {
        if let Err(fault) = self.link.end(&self.transaction).await {
            tracing::debug!(%fault, "a reading transaction is left to its idle time");
        }
    }

    /// The core and the vectors that serve.
    pub async fn open(&self) -> Read<Opened> {
        let binds = Binds::of(self.scope, []);
        let rows: Vec<CoreRow> = self.inside(CORE, binds).await?;
        let row = rows.into_iter().next().unwrap_or(CoreRow { core: None, setting: None });
        let key = self.scope.key();
        let mut owner = Owner {
            scope: key.to_owned(),
            tenant: self.scope.tenant().to_owned(),
            sealed_as: key.to_owned(),
            vector: row.setting.as_ref().map(kind_of),
            number: row.setting.as_ref().map_or(1, |setting| setting.number),
        };
        let Some(core) = row.core else {
            return Ok(Opened { owner, core: None, chain_head: String::new(), versions_after: 0 });
        };
        let core = object(&core)?;
        if let Some(Value::String(name)) = core.get("sealed_as") {
            owner.sealed_as.clone_from(name);
        }
        let core = carry(Part::Core, core, &owner)?;
        let chain_head = core["chain"]["head"].as_str().unwrap_or_default().to_owned();
        Ok(Opened { owner, core: Some(core), chain_head, versions_after: 0 })
    }

    /// All rows behind the core; gives how many records of calls had to stay, since they were written before keys were kept.
    pub async fn rest(&mut self, opened: &Opened, sink: &mut Sink<'_>) -> Read<u64> {
        let owner = &opened.owner;
        let mut tools: BTreeSet<String> = BTreeSet::new();
        if let Some(Value::Array(kept)) =
            opened.core.as_ref().and_then(|core| core.get("tool_sets"))
        {
            tools.extend(kept.iter().filter_map(Value::as_str).map(str::to_owned));
        }
        self.numbered(Part::Versions, VERSIONS, opened.versions_after, owner, sink).await?;
        let numbered = [
            (Part::Messages, MESSAGES),
            (Part::Recall, RECALL),
            (Part::RecallVectors, RECALL_VECTORS),
        ];
        for (part, query) in numbered {
            self.numbered(part, query, 0, owner, sink).await?;
        }
        let documents = self.documents().await?;
        self.manifests(&documents, owner, sink).await?;
        self.passages(&documents, owner, sink).await?;
        self.numbered(Part::Cites, CITES, 0, owner, sink).await?;
        self.numbered(Part::Derived, SUMMARIES, 0, owner, sink).await?;
        self.sources(&documents, owner, sink).await?;
        let mut prompts = |part, row: Row| {
            tools.extend(row.get("tools").and_then(Value::as_str).map(str::to_owned));
            sink(part, row)
        };
        self.numbered(Part::Prompts, PROMPTS, 0, owner, &mut prompts).await?;
        self.tool_sets(&tools, owner, sink).await?;
        let left = self.answers(owner, sink).await?;
        self.schedules(owner, sink).await?;
        self.events(owner, sink).await?;
        Ok(left)
    }

    /// Keys of the agent's records of calls.
    pub async fn answer_keys(&mut self) -> Read<Vec<String>> {
        let keys = self.records().await?;
        Ok(keys.into_iter().map(|record| record.doc_key).collect())
    }

    async fn inside<R: DeserializeOwned>(
        &self,
        query: Query,
        binds: Binds,
    ) -> std::result::Result<Vec<R>, Fault> {
        metrics::counter!(metric::STORE_TRIPS, "socket" => self.socket).increment(1);
        self.link.rows_inside(&self.transaction, query, binds).await
    }

    async fn page(&self, query: Query, binds: Binds) -> Read<Page> {
        let rows: Vec<Page> = self.inside(query, binds).await?;
        let none = || Fault::new(FaultKind::Garbage, format!("no row from {}", query.name));
        Ok(rows.into_iter().next().ok_or_else(none)?)
    }

    /// A page behind a place. Its length follows from what rows took so far; where an answer is too long for our client, a shorter one is
    /// asked for.
    async fn behind(&mut self, query: Query, after: &Value) -> Read<Page> {
        loop {
            let binds =
                Binds::of(self.scope, [("after", after.clone()), ("limit", self.rows.into())]);
            match self.page(query, binds).await {
                Ok(page) => {
                    let bytes: usize = page.rows.iter().map(|row| row.get().len()).sum();
                    let (least, most) = EXPORT_PAGE_ROWS;
                    let fitting = self.rows * EXPORT_PAGE_BYTES as u64 / (bytes.max(1) as u64);
                    self.rows = fitting.clamp(1, most.min(self.rows.max(least) * 2));
                    return Ok(page);
                }
                Err(Broken::Store(fault)) if fault.kind == FaultKind::Lost && self.rows > 1 => {
                    self.rows = (self.rows / 8).max(1);
                }
                Err(broken) => return Err(broken),
            }
        }
    }

    /// Rows along a number line.
    async fn numbered(
        &mut self,
        part: Part,
        query: Query,
        after: u64,
        owner: &Owner,
        sink: &mut Sink<'_>,
    ) -> Read<()> {
        let mut after = json!(after);
        for _ in 0..EXPORT_PAGES_MAX {
            let page = self.behind(query, &after).await?;
            give(part, page.rows, owner, sink)?;
            match page.last {
                Value::Null => return Ok(()),
                last => after = last,
            }
        }
        Err(endless(part))
    }

    /// Documents by name, in the order of bytes, whatever the database's own order of names is.
    async fn documents(&mut self) -> Read<Vec<String>> {
        let mut found: BTreeSet<String> = BTreeSet::new();
        let mut after = json!("");
        for _ in 0..EXPORT_PAGES_MAX {
            let limit = EXPORT_LIST_ROWS.into();
            let binds = Binds::of(self.scope, [("after", after), ("limit", limit)]);
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
        Err(endless(Part::Manifests))
    }

    async fn manifests(
        &self,
        documents: &[String],
        owner: &Owner,
        sink: &mut Sink<'_>,
    ) -> Read<()> {
        for some in documents.chunks(EXPORT_PAGE_ROWS.1 as usize) {
            let binds = Binds::of(self.scope, [("documents", json!(some))]);
            give(Part::Manifests, self.page(MANIFESTS, binds).await?.rows, owner, sink)?;
        }
        Ok(())
    }

    async fn passages(&self, documents: &[String], owner: &Owner, sink: &mut Sink<'_>) -> Read<()> {
        for document in documents {
            let mut after = json!(-1);
            loop {
                let doc_id = document.as_str().into();
                let binds = [("doc_id", doc_id), ("after", after), ("limit", PASSAGE_ROWS.into())];
                let page = self.page(PASSAGES, Binds::of(self.scope, binds)).await?;
                let full = page.rows.len() as u64 == PASSAGE_ROWS;
                give(Part::Passages, page.rows, owner, sink)?;
                after = page.last;
                // An index is above all before it, so this ends.
                if !full {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn sources(&self, documents: &[String], owner: &Owner, sink: &mut Sink<'_>) -> Read<()> {
        for some in documents.chunks(SOURCE_DOCUMENTS) {
            let binds = Binds::of(self.scope, [("documents", json!(some))]);
            give(Part::Derived, self.page(SOURCES, binds).await?.rows, owner, sink)?;
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
        for some in keys.chunks(EXPORT_PAGE_ROWS.0 as usize) {
            let binds = Binds::of(self.scope, [("keys", json!(some))]);
            give(Part::ToolSets, self.page(TOOL_SETS, binds).await?.rows, owner, sink)?;
        }
        Ok(())
    }

    /// The agent's records.
    async fn records(&mut self) -> Read<Vec<Record>> {
        let mut found = Vec::new();
        let mut after = json!("");
        for _ in 0..EXPORT_PAGES_MAX {
            let limit = EXPORT_LIST_ROWS.into();
            let binds = Binds::of(self.scope, [("after", after), ("limit", limit)]);
            let page = self.page(ANSWER_KEYS, binds).await?;
            for row in &page.rows {
                let record = serde_json::from_str(row.get());
                found.push(record.map_err(|e| {
                    Fault::new(FaultKind::Garbage, format!("a record at column {}", e.column()))
                })?);
            }
            match page.last {
                Value::Null => return Ok(found),
                last => after = last,
            }
        }
        Err(endless(Part::Answers))
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
        for some in keys.chunks(ANSWER_ROWS) {
            let binds = Binds::of(self.scope, [("keys", json!(some))]);
            give(Part::Answers, self.page(ANSWERS, binds).await?.rows, owner, sink)?;
        }
        Ok(left)
    }

    async fn schedules(&self, owner: &Owner, sink: &mut Sink<'_>) -> Read<()> {
        let binds = Binds::of(self.scope, [("limit", EXPORT_LIST_ROWS.into())]);
        give(Part::Schedules, self.page(SCHEDULES, binds).await?.rows, owner, sink)
    }

    /// Events moment by moment: a page ends between two of them, so that those of one moment are put in order together.
    async fn events(&self, owner: &Owner, sink: &mut Sink<'_>) -> Read<()> {
        let (mut after, mut limit) = (String::new(), EXPORT_PAGE_ROWS.1);
        for _ in 0..EXPORT_PAGES_MAX {
            let binds = [("after", after.as_str().into()), ("limit", limit.into())];
            let page = self.page(EVENTS, Binds::of(self.scope, binds)).await?;
            let full = page.rows.len() as u64 == limit;
            let last = page.last.as_str().unwrap_or_default().to_owned();
            let mut rows = Vec::with_capacity(page.rows.len());
            for row in &page.rows {
                rows.push(object(row)?);
            }
            if full {
                rows.retain(|row| row.get("ts").and_then(Value::as_str) != Some(&last));
            }
            if full && rows.is_empty() && limit < EXPORT_MOMENT_ROWS_MAX {
                limit *= 8;
                continue;
            }
            if full && rows.is_empty() {
                return Err(endless(Part::Events));
            }
            give_objects(Part::Events, rows, owner, sink)?;
            if !full {
                return Ok(());
            }
            (after, limit) = (last, EXPORT_PAGE_ROWS.1);
        }
        Err(endless(Part::Events))
    }
}

/// Chunks of a document read at once: each has a vector of some thousand components at most.
const PASSAGE_ROWS: u64 = 128;
/// Documents whose edges are read at once.
const SOURCE_DOCUMENTS: usize = 32;
/// Records of calls read at once: an answer may hold the texts of a window.
const ANSWER_ROWS: usize = 64;

#[derive(Deserialize)]
struct Record {
    #[serde(rename = "_key")]
    doc_key: String,
    key: Option<String>,
    part: Option<u64>,
}

/// What the vectors of a setting are.
pub fn kind_of(setting: &VectorSetting) -> VectorKind {
    VectorKind {
        dimension: setting.dimension,
        embedding_version: setting.embedding_version.clone(),
        metric: setting.metric,
        model_id: setting.model_id.clone(),
    }
}

fn endless(part: Part) -> Broken {
    let text = format!("too many pages of {}", part.collection());
    Broken::Store(Fault::new(FaultKind::Garbage, text))
}

fn object(row: &RawValue) -> Read<Row> {
    match exact(row.get()) {
        Ok(Value::Object(row)) => Ok(row),
        Ok(_) => Err(Fault::new(FaultKind::Garbage, "a row is no object").into()),
        Err(why) => Err(Fault::new(FaultKind::Garbage, format!("a row {why}")).into()),
    }
}

fn carry(part: Part, row: Row, owner: &Owner) -> Result<Row> {
    carried(part, row, owner).map_err(|why| {
        let text = format!("a row of {} {why}: it cannot be exported", part.collection());
        Error::new(Code::Internal, text)
    })
}

fn give(part: Part, rows: Vec<Box<RawValue>>, owner: &Owner, sink: &mut Sink<'_>) -> Read<()> {
    let rows: Read<Vec<Row>> = rows.iter().map(|row| object(row)).collect();
    give_objects(part, rows?, owner, sink)
}

fn give_objects(part: Part, rows: Vec<Row>, owner: &Owner, sink: &mut Sink<'_>) -> Read<()> {
    let rows: Result<Vec<Row>> = rows.into_iter().map(|row| carry(part, row, owner)).collect();
    let sorted = in_order(part, rows?).map_err(|why| {
        Error::new(Code::Internal, format!("a row of {} {why}", part.collection()))
    })?;
    for row in sorted {
        sink(part, row)?;
    }
    Ok(())
}

/// Rows by the part that they are of, as a batch takes them in.
pub type Batch = HashMap<Part, Vec<Row>>;
