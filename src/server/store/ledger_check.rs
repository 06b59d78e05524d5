//! Compares the rows of an agent with the agent's ledger, in one snapshot of the database.
//!
//! The snapshot is on the write socket, because a proxy on the read socket may refuse transactions.
//! An export leaves out rows that nothing refers to; here every row that names the agent is read.

use std::collections::BTreeSet;
use std::sync::Mutex;

use serde_json::{Value, json};

use super::db::{Rw, binds};
use super::dump::{
    CITES, Dump, MESSAGES, Opened, PROMPTS, Read, Row, SUMMARIES, Sink, Unfit, VERSIONS,
    collections,
};
use super::fault::Result;
use super::query::queries;
use vctx_core::ledger::note::Head;
use vctx_core::ledger::{Difference, Fold, Folded, Wrong};
use vctx_core::memory::export::RowKind;
use vctx_core::trust::Scope;

/// Maximum number of tool sets and of document names that one request returns.
const LISTED_ROWS: u64 = 5_000;
/// Maximum number of pages of document names.
const PAGES_MAX: usize = 1_000_000;

queries! {
    RECALL = "ledger_recall",
    VECTORS = "ledger_vectors",
    DOCUMENTS = "ledger_documents",
    TOOL_SETS = "ledger_tool_sets",
}

/// Compares all rows of an agent with its ledger. Returns `None` if there is no such agent. `now_s`
/// is the time in seconds since 1970. Entries of recall storage may be missing if their message is
/// older than `recall_before`; an empty text means that none may be missing. `signed` is a head of
/// the ledger that was signed before, if any.
pub async fn check_ledger(
    rw: &Rw,
    scope: &Scope,
    now_s: u64,
    recall_before: &str,
    signed: Option<&Head>,
) -> Read<Option<Folded>> {
    let mut dump = Dump::begin_rw(rw, scope).await?;
    let folded = folded(&mut dump, now_s, recall_before, signed).await;
    dump.end().await;
    folded
}

async fn folded(
    dump: &mut Dump<'_>,
    now_s: u64,
    recall_before: &str,
    signed: Option<&Head>,
) -> Read<Option<Folded>> {
    dump.collect_unfit();
    let opened = dump.open().await?;
    let Some(core) = &opened.core else { return Ok(None) };
    let mut fold = Fold::default();
    fold.row(RowKind::Core, core);
    let mut sink = |kind, row| {
        fold.row(kind, &row);
        Ok(())
    };
    dump.everything(&opened, &mut sink).await?;
    let mut folded = fold.finish(&opened.owner.sealed_as, now_s, recall_before, signed);
    for unfit in dump.take_unfit() {
        folded.differences.push(Difference {
            wrong: Wrong::Shape,
            collection: unfit.kind.collection(),
            row: unfit.key,
            what: unfit.why,
        });
    }
    Ok(Some(folded))
}

/// Returns what is wrong with an attribute that follows from the others, if anything. No digest
/// covers such an attribute, because an export leaves it out or the database computes it.
pub(super) fn computed_fault(kind: RowKind, row: &mut Row) -> Option<&'static str> {
    let is = |row: &Row, name: &str| row.get(name).is_some_and(|value| !value.is_null());
    match kind {
        RowKind::Recall if row.shift_remove("at_right") != Some(true.into()) => {
            Some("has an `at_ms` that does not follow from its message")
        }
        RowKind::Messages => {
            let (marked, gone) = (is(row, "tainted_seq"), !is(row, "meta"));
            let copy = row.get("kind").is_some_and(|kind| kind == "copy");
            let tainted = row.get("meta").is_some_and(|meta| !meta["taint"].is_null()) && !copy;
            let right = row.get("tainted_seq") == row.get("seq");
            let wrong = (marked && !right) || (!gone && marked != tainted);
            wrong.then_some("has a `tainted_seq` that does not follow from its `meta`")
        }
        RowKind::Passages => {
            let tainted = row.get("taint").and_then(Value::as_array).is_some_and(|t| !t.is_empty());
            let right = match tainted {
                true => row.get("tainted_key") == row.get("_key"),
                false => !is(row, "tainted_key"),
            };
            (!right).then_some("has a `tainted_key` that does not follow from its `taint`")
        }
        _ => None,
    }
}

impl<'a> Dump<'a> {
    /// Opens a snapshot on the write socket, only for reading.
    pub(super) async fn begin_rw(rw: &'a Rw, scope: &'a Scope) -> Result<Self> {
        let transaction = rw.link.begin(&collections()).await?;
        Ok(Self::within(rw, scope, &transaction))
    }

    /// Makes the dump collect rows that cannot be exported, instead of ending with an error.
    pub(super) fn collect_unfit(&mut self) {
        self.unfit = Some(Mutex::default());
    }

    /// Returns the collected rows that cannot be exported.
    pub(super) fn take_unfit(&mut self) -> Vec<Unfit> {
        let unfit = self.unfit.as_mut().map(|unfit| unfit.get_mut().expect("no holder panics"));
        unfit.map(std::mem::take).unwrap_or_default()
    }

    /// Returns the document keys of the agent's call records that have an idempotency key.
    pub(super) async fn keyed_answers(&mut self) -> Read<Vec<String>> {
        let keyed = self.records().await?.into_iter().filter(|record| record.key.is_some());
        Ok(keyed.map(|record| record.doc_key).collect())
    }

    /// Reads all rows of the agent except the core.
    async fn everything(&mut self, opened: &Opened, sink: &mut Sink<'_>) -> Read<()> {
        let owner = &opened.owner;
        let numbered = [
            (RowKind::Versions, VERSIONS),
            (RowKind::Messages, MESSAGES),
            (RowKind::Recall, RECALL),
            (RowKind::RecallVectors, VECTORS),
            (RowKind::Cites, CITES),
            (RowKind::Derived, SUMMARIES),
            (RowKind::Prompts, PROMPTS),
        ];
        for (part, query) in numbered {
            self.numbered(part, query, 0, owner, sink).await?;
        }
        let mut documents: BTreeSet<String> = self.documents().await?.into_iter().collect();
        self.documents_of_chunks(&mut documents).await?;
        let documents: Vec<String> = documents.into_iter().collect();
        self.manifests(&documents, owner, sink).await?;
        self.passages(&documents, owner, sink).await?;
        self.sources(&documents, owner, sink).await?;
        let binds = binds!(self.scope; limit = LISTED_ROWS);
        self.give(RowKind::ToolSets, self.page(TOOL_SETS, binds).await?.rows, owner, sink)?;
        // A record without a key contains no text any more, and is in no export either.
        let keys = self.keyed_answers().await?;
        self.answers_of(&keys, owner, sink).await?;
        self.schedules(owner, sink).await?;
        self.events(owner, sink).await
    }

    async fn documents_of_chunks(&self, found: &mut BTreeSet<String>) -> Read<()> {
        let mut after = json!("");
        for _ in 0..PAGES_MAX {
            let binds = binds!(self.scope; after, limit = LISTED_ROWS);
            let page = self.page(DOCUMENTS, binds).await?;
            for row in &page.rows {
                let row: Value = serde_json::from_str(row.get()).unwrap_or_default();
                found.extend(row["doc_id"].as_str().map(str::to_owned));
            }
            match page.last {
                Value::Null => break,
                last => after = last,
            }
        }
        Ok(())
    }
}
