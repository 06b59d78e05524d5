//! Writes an imported agent: reserves its name with a marker row, writes the rows in batches, and
//! then publishes the agent in one last write. Until this last write, no caller sees the agent or
//! its rows.
//!
//! Each batch updates the marker in the same transaction. Another import of the same file can thus
//! continue an interrupted import; an import of a different file undoes it. Rows are never
//! overwritten: if a key already exists, the import fails.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use super::db::{Binds, Rw, binds, must};
use super::dump::Row;
use super::fault::{Fault, Result};
use super::query::{Query, queries};
use super::transaction::{Committed, Stream};
use super::{FaultKind, WriteMode};
use crate::store::limits::IMPORT_TRIM_ROWS;
use vctx_core::memory::edges::version_key;
use vctx_core::memory::export::RowKind;
use vctx_core::memory::forget::tombstone_key;
use vctx_core::trust::Scope;

queries! {
    BEGIN = "import_begin",
    WRITE = "import_write",
    TRIM = "import_trim",
    DROP = "import_drop",
    FINISH = "import_finish",
}

const WRITES: [&str; 21] = [
    "archival_parts",
    "departures",
    "forgets",
    "pages",
    "recall_marks",
    "core_memory",
    "core_versions",
    "messages",
    "recall_log",
    "recall_vectors",
    "archival_manifests",
    "archival_docs",
    "cites",
    "derived_from",
    "prompts",
    "tool_sets",
    "context_packs",
    "idempotency",
    "memory_events",
    "schedules",
    "vctx_meta",
];

/// The rows of one batch, grouped by kind.
pub type Batch = HashMap<RowKind, Vec<Row>>;

/// The marker row, which reserves a name for an import.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ImportMark {
    /// Id of the import that owns the marker.
    pub by: String,
    /// Hash of the imported state.
    #[serde(default)]
    pub state: String,
    /// Number of rows written so far.
    pub rows: u64,
    /// When the marker's lease ends, in milliseconds since 1970.
    #[serde(default)]
    pub until_ms: u64,
}

/// Outcome of the write that reserves the agent's name for an import.
#[derive(Clone, Debug, Deserialize)]
pub struct ImportStart {
    /// Whether an agent with this name exists.
    pub there: bool,
    /// Whether an agent with this name was forgotten as a whole.
    pub forgotten: bool,
    /// The marker of an earlier import, if any.
    pub held: Option<ImportMark>,
    /// Whether the import has now reserved the name.
    pub taken: bool,
}

/// Outcome of an import's last write.
#[derive(Clone, Debug, Deserialize)]
pub struct ImportEnd {
    /// Whether an agent with this name already existed.
    pub there: bool,
    /// The marker as the last write found it, if any.
    pub mark: Option<ImportMark>,
    /// Whether the imported vectors belong to the current vector setting.
    pub serves: bool,
    /// Revision of the core, if this write published the agent.
    pub rev: Option<String>,
}

/// Writes the rows of an import.
pub struct ImportWriter<'a> {
    /// Connection for writes.
    pub rw: &'a Rw,
    /// Scope of the imported agent.
    pub scope: &'a Scope,
    /// Id of the import that writes.
    pub by: &'a str,
    /// How rows are written: in single requests or in stream transactions.
    pub mode: WriteMode,
    /// Whether the import belongs to a move. Such an import may take over the marker of another
    /// server that was moving the same agent.
    pub moving: bool,
}

impl ImportWriter<'_> {
    fn mark_key(&self) -> String {
        Self::mark_key_of(self.scope)
    }

    fn first_key(&self) -> String {
        version_key(self.scope.key(), 1)
    }

    /// Returns the key of the marker row for an agent.
    pub(super) fn mark_key_of(scope: &Scope) -> String {
        format!("import:{}", scope.key())
    }

    pub(super) async fn one<R: for<'de> Deserialize<'de>>(
        &self,
        query: Query,
        binds: Binds,
    ) -> Result<Option<R>> {
        if self.mode == WriteMode::SingleRequest {
            return Ok(self.rw.rows::<R>(query, binds).await?.into_iter().next());
        }
        let stream = Stream::begin(self.rw, &[], &WRITES).await?;
        let rows = match stream.rows::<R>(query, binds).await {
            Ok(rows) => rows,
            Err(fault) => {
                stream.abort().await;
                return Err(fault);
            }
        };
        match stream.commit().await? {
            Committed::Yes => Ok(rows.into_iter().next()),
            Committed::No | Committed::Unknown => {
                Err(Fault::new(FaultKind::Lost, "the outcome of the commit is unknown"))
            }
        }
    }

    /// Returns the row of a query that always returns exactly one row.
    pub(super) async fn must<R: for<'de> Deserialize<'de>>(
        &self,
        query: Query,
        binds: Binds,
    ) -> Result<R> {
        must(self.one(query, binds).await?, query)
    }

    /// Runs a query that removes a batch of rows. Returns the number of removed rows, or `None` if
    /// another import owns the marker.
    pub(super) async fn trimmed(&self, query: Query, binds: Binds) -> Result<Option<u64>> {
        #[derive(Deserialize)]
        struct Done {
            held: bool,
            gone: u64,
        }
        let done: Done = self.must(query, binds).await?;
        Ok(done.held.then_some(done.gone))
    }

    /// Reserves the agent's name, or takes over an import whose lease has expired.
    pub async fn begin(&self, state: &str, now_ms: u64, until_ms: u64) -> Result<ImportStart> {
        let binds = binds!(self.scope;
            mark_key = self.mark_key(), first_key = self.first_key(), by = self.by, state, now_ms,
            until_ms, moving = self.moving, tombstone = tombstone_key(self.scope.key()),
            sync = self.rw.sync
        );
        self.must(BEGIN, binds).await
    }

    /// Writes the rows that follow the first `before` rows. Returns `false` if another import owns
    /// the marker, or if the number of rows written so far is not `before`.
    pub async fn write(&self, batch: Batch, before: u64, until_ms: u64) -> Result<bool> {
        #[derive(Deserialize)]
        struct Done {
            mark: Option<ImportMark>,
            written: bool,
        }
        let rows = before + batch.values().map(|rows| rows.len() as u64).sum::<u64>();
        let of = |part: RowKind| batch.get(&part).map_or(&[][..], Vec::as_slice);
        let binds = binds!(self.scope;
            mark_key = self.mark_key(), by = self.by, before, rows, until_ms,
            versions = of(RowKind::Versions), messages = of(RowKind::Messages),
            recall = of(RowKind::Recall), vectors = of(RowKind::RecallVectors),
            manifests = of(RowKind::Manifests), passages = of(RowKind::Passages),
            cites = of(RowKind::Cites), derived = of(RowKind::Derived),
            prompts = of(RowKind::Prompts), tool_sets = of(RowKind::ToolSets),
            packs = of(RowKind::Packs), answers = of(RowKind::Answers), events = of(RowKind::Events), sync = self.rw.sync
        );
        let done: Done = self.must(WRITE, binds).await?;
        // If the answer to an earlier attempt was lost, that attempt may still have written this
        // batch.
        let known = done.mark.is_some_and(|mark| mark.by == self.by && mark.rows == rows);
        Ok(done.written || known)
    }

    /// Removes a batch of the rows that the import has written. Returns the number of removed rows,
    /// or `None` if another import owns the marker. `answers` lists the keys of the call records to
    /// remove.
    pub async fn trim(&self, answers: &[String], until_ms: u64) -> Result<Option<u64>> {
        let binds = binds!(self.scope;
            mark_key = self.mark_key(), by = self.by, until_ms, limit = IMPORT_TRIM_ROWS, answers,
            sync = self.rw.sync
        );
        self.trimmed(TRIM, binds).await
    }

    /// Releases the agent's name that the import reserved; called when no rows of the import are
    /// left.
    pub async fn drop_place(&self) -> Result<()> {
        let binds = binds!(self.scope;
            mark_key = self.mark_key(), first_key = self.first_key(), by = self.by,
            sync = self.rw.sync
        );
        self.one::<Value>(DROP, binds).await.map(drop)
    }

    /// Publishes the agent. `number` is the number of the vector setting; it is given only if the
    /// agent has documents.
    pub async fn finish(
        &self,
        core: &Row,
        first: &Row,
        schedules: &[Row],
        rows: u64,
        number: Option<u64>,
    ) -> Result<ImportEnd> {
        let binds = binds!(self.scope;
            mark_key = self.mark_key(), by = self.by, rows, number, core, first, schedules,
            sync = self.rw.sync
        );
        self.must(FINISH, binds).await
    }
}
