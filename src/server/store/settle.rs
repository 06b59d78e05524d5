//! Writes an imported agent: the place is taken under a mark, rows follow in batches that nobody sees, and one last write lets the agent be.
//!
//! Each batch moves the mark in the same transaction, so that an import that was cut off anywhere is gone on with by another of the same file,
//! or taken back by one of another. Nothing is ever written over: a key that is taken ends the import.

use serde::Deserialize;
use serde_json::{Value, json};

use super::db::{Binds, Rw};
use super::dump::{Batch, Row};
use super::fault::Fault;
use super::query::{Query, query};
use super::transaction::{Committed, Stream};
use super::{FaultKind, WriteMode};
use vctx_core::limits::IMPORT_TRIM_ROWS;
use vctx_core::memory::export::Part;
use vctx_core::memory::forget::tombstone_key;
use vctx_core::memory::joined::version_key;
use vctx_core::policy::Scope;

/// The place is taken.
pub(super) const BEGIN: Query = query!("import_begin");
/// Some rows.
pub(super) const WRITE: Query = query!("import_write");
/// Some rows go.
pub(super) const TRIM: Query = query!("import_trim");
/// The place is given back.
pub(super) const DROP: Query = query!("import_drop");
/// The agent is.
pub(super) const FINISH: Query = query!("import_finish");

const WRITES: [&str; 20] = [
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
    "idempotency",
    "memory_events",
    "schedules",
    "vctx_meta",
];

/// The mark of an import, as it stood.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Mark {
    /// Who writes.
    pub by: String,
    /// Hash of the state that is written.
    #[serde(default)]
    pub state: String,
    /// Rows that are.
    pub rows: u64,
    /// Until when nobody else may go on, in milliseconds since 1970.
    #[serde(default)]
    pub until_ms: u64,
}

/// Whether the place of an agent could be taken.
#[derive(Clone, Debug, Deserialize)]
pub struct Begun {
    /// There is such an agent.
    pub there: bool,
    /// There was one, which was forgotten whole.
    pub forgotten: bool,
    /// A mark stood there.
    pub held: Option<Mark>,
    /// The place is the caller's.
    pub taken: bool,
}

/// What became of the last write.
#[derive(Clone, Debug, Deserialize)]
pub struct Finished {
    /// There was such an agent.
    pub there: bool,
    /// The mark as it was.
    pub mark: Option<Mark>,
    /// Whether the vectors are those that serve.
    pub serves: bool,
    /// Revision of the core.
    pub rev: Option<String>,
}

/// An import on its way.
pub struct Settle<'a> {
    /// Where it writes.
    pub rw: &'a Rw,
    /// Whose place it has.
    pub scope: &'a Scope,
    /// Who writes.
    pub by: &'a str,
    /// How.
    pub mode: WriteMode,
    /// Whether it is a move, which the directory gave the place: it takes over what another one of the same agent began.
    pub moving: bool,
}

impl Settle<'_> {
    fn mark_key(&self) -> String {
        Self::mark_key_of(self.scope)
    }

    fn first_key(&self) -> String {
        version_key(self.scope.key(), 1)
    }

    /// Key of the mark that stands for an agent on its way in.
    pub(super) fn mark_key_of(scope: &Scope) -> String {
        format!("import:{}", scope.key())
    }

    pub(super) async fn one<R: for<'de> Deserialize<'de>>(
        &self,
        query: Query,
        binds: Binds,
    ) -> Result<Option<R>, Fault> {
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
                Err(Fault::new(FaultKind::Lost, "nobody knows whether it was committed"))
            }
        }
    }

    pub(super) fn some<R>(row: Option<R>, query: Query) -> Result<R, Fault> {
        let none = || Fault::new(FaultKind::Garbage, format!("no row from {}", query.name));
        row.ok_or_else(none)
    }

    /// Takes the place, or goes on with what a mark stands for whose time is over.
    pub async fn begin(&self, state: &str, now_ms: u64, until_ms: u64) -> Result<Begun, Fault> {
        let binds = Binds::of(
            self.scope,
            [
                ("mark_key", self.mark_key().into()),
                ("first_key", self.first_key().into()),
                ("by", self.by.into()),
                ("state", state.into()),
                ("now_ms", now_ms.into()),
                ("until_ms", until_ms.into()),
                ("moving", self.moving.into()),
                ("tombstone", tombstone_key(self.scope.key()).into()),
                ("sync", self.rw.sync.into()),
            ],
        );
        Self::some(self.one(BEGIN, binds).await?, BEGIN)
    }

    /// Writes rows behind the first `before`; false if the place is another's, or other rows are there.
    pub async fn write(&self, batch: Batch, before: u64, until_ms: u64) -> Result<bool, Fault> {
        #[derive(Deserialize)]
        struct Done {
            mark: Option<Mark>,
            written: bool,
        }
        let rows = before + batch.values().map(|rows| rows.len() as u64).sum::<u64>();
        let of = |part: Part| json!(batch.get(&part).map_or(&[][..], Vec::as_slice));
        let binds = Binds::of(
            self.scope,
            [
                ("mark_key", self.mark_key().into()),
                ("by", self.by.into()),
                ("before", before.into()),
                ("rows", rows.into()),
                ("until_ms", until_ms.into()),
                ("versions", of(Part::Versions)),
                ("messages", of(Part::Messages)),
                ("recall", of(Part::Recall)),
                ("vectors", of(Part::RecallVectors)),
                ("manifests", of(Part::Manifests)),
                ("passages", of(Part::Passages)),
                ("cites", of(Part::Cites)),
                ("derived", of(Part::Derived)),
                ("prompts", of(Part::Prompts)),
                ("tool_sets", of(Part::ToolSets)),
                ("answers", of(Part::Answers)),
                ("events", of(Part::Events)),
                ("sync", self.rw.sync.into()),
            ],
        );
        let done: Done = Self::some(self.one(WRITE, binds).await?, WRITE)?;
        // An earlier try of this very batch may have been written without its answer.
        let known = done.mark.is_some_and(|mark| mark.by == self.by && mark.rows == rows);
        Ok(done.written || known)
    }

    /// Takes some rows away that were written; how many, or none if the place is another's. `answers` are keys of records of calls.
    pub async fn trim(&self, answers: &[String], until_ms: u64) -> Result<Option<u64>, Fault> {
        #[derive(Deserialize)]
        struct Done {
            held: bool,
            gone: u64,
        }
        let binds = Binds::of(
            self.scope,
            [
                ("mark_key", self.mark_key().into()),
                ("by", self.by.into()),
                ("until_ms", until_ms.into()),
                ("limit", IMPORT_TRIM_ROWS.into()),
                ("answers", json!(answers)),
                ("sync", self.rw.sync.into()),
            ],
        );
        let done: Done = Self::some(self.one(TRIM, binds).await?, TRIM)?;
        Ok(done.held.then_some(done.gone))
    }

    /// Gives the place back, when no row is left.
    pub async fn drop_place(&self) -> Result<(), Fault> {
        let binds = Binds::of(
            self.scope,
            [
                ("mark_key", self.mark_key().into()),
                ("first_key", self.first_key().into()),
                ("by", self.by.into()),
                ("sync", self.rw.sync.into()),
            ],
        );
        self.one::<Value>(DROP, binds).await.map(drop)
    }

    /// Lets the agent be. `number` is that of the vectors' setting, of an agent that has documents.
    pub async fn finish(
        &self,
        core: &Row,
        first: &Row,
        schedules: &[Row],
        rows: u64,
        number: Option<u64>,
    ) -> Result<Finished, Fault> {
        let binds = Binds::of(
            self.scope,
            [
                ("mark_key", self.mark_key().into()),
                ("by", self.by.into()),
                ("rows", rows.into()),
                ("number", json!(number)),
                ("core", json!(core)),
                ("first", json!(first)),
                ("schedules", json!(schedules)),
                ("sync", self.rw.sync.into()),
            ],
        );
        Self::some(self.one(FINISH, binds).await?, FINISH)
    }
}
