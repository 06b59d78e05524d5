//! Compares the rows of an agent with the agent's ledger, in one snapshot of the database.
//!
//! The snapshot is on the write socket, because a proxy on the read socket may refuse transactions.
//! An export leaves out rows that nothing refers to; here every row that names the agent is read.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};

use super::db::{Rw, binds};
use super::dump::{
    CITES, Dump, MESSAGES, Opened, PACKS, PROMPTS, Read, Row, SUMMARIES, Sink, VERSIONS,
    collections, object,
};
use super::fault::{Fault, FaultKind, Result};
use super::query::queries;
use vctx_core::ledger::note::Head;
use vctx_core::ledger::{Difference, Fold, Folded, LocalKind, Secret, Wrong};
use vctx_core::memory::archive::VectorSetting;
use vctx_core::memory::export::{RowKind, VectorKind};
use vctx_core::trust::Scope;

/// Maximum number of tool sets and of document names that one request returns.
const LISTED_ROWS: u64 = 5_000;
/// Maximum number of pages of document names, or of rows that an export leaves out.
const PAGES_MAX: usize = 1_000_000;
/// Number of stored result lists that one request returns.
const LOCAL_ROWS: u64 = 200;
/// Number of parts of documents, or of forget operations, that one request returns.
pub(super) const LOCAL_LARGE_ROWS: u64 = 16;

queries! {
    ANSWERS = "ledger_answers",
    RECALL = "ledger_recall",
    VECTORS = "ledger_vectors",
    DOCUMENTS = "ledger_documents",
    TOOL_SETS = "ledger_tool_sets",
    LISTS = "ledger_pages",
    PARTS = "ledger_parts",
    pub(super) FORGETTINGS = "ledger_forgettings",
    MARKS = "ledger_marks",
}

/// Compares all rows of an agent with its ledger. Returns `None` if there is no such agent. `now_s`
/// is the time in seconds since 1970. Entries of recall storage may be missing if their message is
/// older than `recall_before`; an empty text means that none may be missing. `signed` are heads of
/// the ledger that were signed before. Entries after the number `coded_after` must have the code of
/// a server of this database.
pub async fn check_ledger(
    rw: &Rw,
    scope: &Scope,
    now_s: u64,
    recall_before: &str,
    signed: &[Head],
    coded_after: Option<u64>,
) -> Read<Option<Folded>> {
    let mut dump = Dump::begin_rw(rw, scope).await?;
    let coded = rw.heads.secret().cloned().zip(coded_after);
    dump.comparison = Some(Comparison { compared: Mutex::default(), coded });
    let folded = folded(&mut dump, now_s, recall_before, signed).await;
    dump.end().await;
    folded
}

async fn folded(
    dump: &mut Dump<'_>,
    now_s: u64,
    recall_before: &str,
    signed: &[Head],
) -> Read<Option<Folded>> {
    let opened = dump.open().await?;
    let Some(core) = &opened.core else { return Ok(None) };
    let mut fold = Fold::default();
    fold.row(RowKind::Core, core);
    if let Some(comparison) = &dump.comparison {
        fold.core_in_database(&comparison.lock().core);
    }
    dump.local(&mut |kind, row| {
        fold.local_row(kind, row, dump.scope);
        Ok(())
    })
    .await?;
    let mut sink = |kind, row| {
        fold.row(kind, &row);
        Ok(())
    };
    dump.everything(&opened, &mut sink).await?;
    let mut folded = fold.finish(&opened.owner.sealed_as, now_s, recall_before, signed);
    let comparison = dump.comparison.take().unwrap_or_default();
    folded.differences.append(&mut comparison.lock().unfit);
    Ok(Some(folded))
}

/// A comparison of an agent's rows with the ledger, while the rows are read.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    compared: Mutex<Compared>,
    /// The secret of the database's servers, and the number of the entry after which entries must
    /// have a code.
    coded: Option<(Arc<Secret>, u64)>,
}

#[derive(Debug, Default)]
struct Compared {
    /// The rows that cannot be exported or contradict other rows, as differences.
    unfit: Vec<Difference>,
    /// The core as the database has it.
    core: Row,
    /// The vector setting of the database.
    setting: Option<VectorSetting>,
}

impl Comparison {
    fn lock(&self) -> MutexGuard<'_, Compared> {
        self.compared.lock().expect("no holder panics")
    }

    /// Notes a row that cannot be exported, or that contradicts other rows.
    pub(super) fn unfit(&self, kind: RowKind, key: &str, why: &str) {
        self.unreadable(kind.collection(), key, why);
    }

    /// Notes a row that cannot be read.
    pub(super) fn unreadable(&self, collection: &'static str, key: &str, why: &str) {
        let (row, what) = (key.to_owned(), why.to_owned());
        self.lock().unfit.push(Difference { wrong: Wrong::Shape, collection, row, what });
    }

    /// Returns what is wrong with an attribute that follows from other rows, if anything. No digest
    /// covers such an attribute, because an export leaves it out or the database computes it.
    pub(super) fn fault(&self, kind: RowKind, row: &mut Row) -> Option<&'static str> {
        let is = |row: &Row, name: &str| row.get(name).is_some_and(|value| !value.is_null());
        let follows = match kind {
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
                let taint = row.get("taint").and_then(Value::as_array);
                let right = match taint.is_some_and(|taint| !taint.is_empty()) {
                    true => row.get("tainted_key") == row.get("_key"),
                    false => !is(row, "tainted_key"),
                };
                (!right).then_some("has a `tainted_key` that does not follow from its `taint`")
            }
            RowKind::Events => {
                let (secret, after) = self.coded.as_ref()?;
                let n = row.get("n").and_then(Value::as_u64)?;
                let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default();
                let imported = self.lock().core.get("imported_entries").and_then(Value::as_u64);
                if imported == Some(n) && !secret.holds_imported(text("hash"), text("code")) {
                    return Some("is the last imported entry, as the core says, but not imported");
                }
                // The signature covers an older entry, which has no code if an earlier program
                // version wrote it.
                let right = n <= *after || secret.holds_entry(text("hash"), text("code"));
                (!right).then_some("was not written by a server with the secret of this database")
            }
            RowKind::Answers => {
                let rev = row.get("response").and_then(|response| response["_rev"].as_str());
                let right = rev.is_some_and(is_revision);
                (!right).then_some("has an answer whose `_rev` is no revision")
            }
            _ => None,
        };
        follows.or_else(|| owner_fault(kind, row)).or_else(|| self.vector_fault(kind, row))
    }

    /// Returns what is wrong with the description of vectors in a chunk or a document, if anything.
    fn vector_fault(&self, kind: RowKind, row: &Row) -> Option<&'static str> {
        if !matches!(kind, RowKind::Passages | RowKind::Manifests) {
            return None;
        }
        let compared = self.lock();
        let setting = compared.setting.as_ref()?;
        if kind == RowKind::Manifests {
            let newest = setting.last.unwrap_or(0).max(setting.number);
            let embedded = row.get("embedded").and_then(Value::as_u64).unwrap_or(setting.number);
            if !(setting.number..=newest).contains(&embedded) {
                return Some("has an `embedded` that is the number of no vector setting");
            }
        }
        // While a reindex ends, rows still describe the former vectors.
        if setting.leaving.is_some() {
            return None;
        }
        let described = setting.described();
        let wrong = |name: &str| row.get(name) != Some(&described[name]);
        let any = ["dimension", "embedding_version", "metric", "model_id"].into_iter().any(wrong);
        any.then_some("describes other vectors than those of the database's vector setting")
    }
}

/// Reads the vector setting of the database. If rows are compared, a setting that cannot be read is
/// noted as a difference.
pub(super) fn read_setting(
    row: Option<Value>,
    comparison: Option<&Comparison>,
) -> Result<Option<VectorSetting>> {
    let read = row.map(serde_json::from_value::<VectorSetting>).transpose();
    // The parser's words contain the stored value.
    read.or_else(|_| match comparison {
        Some(comparison) => {
            comparison.unreadable("vctx_meta", "vector", "cannot be read");
            Ok(None)
        }
        None => Err(Fault::new(FaultKind::Garbage, "the vector setting cannot be read")),
    })
}

/// Returns the attributes of a vector setting that describe the vectors: dimension, version, metric
/// and model.
pub fn kind_of(setting: &VectorSetting) -> VectorKind {
    VectorKind {
        dimension: setting.dimension,
        embedding_version: setting.embedding_version.clone(),
        metric: setting.metric,
        model_id: setting.model_id.clone(),
    }
}

/// Maximum number of characters of a revision.
const REVISION_CHARS_MAX: usize = 32;

/// Returns whether a text can be a revision of the database.
fn is_revision(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=REVISION_CHARS_MAX).contains(&text.len()) && text.bytes().all(known)
}

/// Returns what is wrong with the agent that a row names, if anything. Edges are found by their
/// ends, and an edge of recall storage or of a chunk names no agent.
fn owner_fault(kind: RowKind, row: &Row) -> Option<&'static str> {
    let ends_only = match kind {
        RowKind::Recall => true,
        RowKind::Derived => row.contains_key("chunk"),
        _ => false,
    };
    let names = row.get("agent_id").is_some_and(|agent| !agent.is_null());
    match (ends_only, names) {
        (true, true) => Some("has an `agent_id`, which only other edges have"),
        (false, false) => Some("has no `agent_id`"),
        _ => None,
    }
}

impl<'a> Dump<'a> {
    /// Opens a snapshot on the write socket, only for reading.
    pub(super) async fn begin_rw(rw: &'a Rw, scope: &'a Scope) -> Result<Self> {
        let mut collections = collections();
        collections.extend(LocalKind::ALL.map(LocalKind::collection));
        let transaction = rw.link.begin(&collections).await?;
        Ok(Self::within(rw, scope, &transaction))
    }

    /// Notes what a comparison needs to know of the agent.
    pub(super) fn compare_with(&self, core: &Row, setting: Option<VectorSetting>) {
        if let Some(comparison) = &self.comparison {
            let mut compared = comparison.lock();
            compared.core.clone_from(core);
            compared.setting = setting;
        }
    }

    /// Reads the rows of the agent that an export leaves out and that its ledger describes.
    pub(super) async fn local(
        &self,
        sink: &mut (dyn FnMut(LocalKind, Row) -> Result<()> + Send),
    ) -> Read<()> {
        for kind in LocalKind::ALL {
            let (query, limit) = match kind {
                LocalKind::Pages => (LISTS, LOCAL_ROWS),
                LocalKind::Parts => (PARTS, LOCAL_LARGE_ROWS),
                LocalKind::Forgettings => (FORGETTINGS, LOCAL_LARGE_ROWS),
                LocalKind::Marks => (MARKS, 1),
            };
            let mut after = json!("");
            for _ in 0..PAGES_MAX {
                let page = self.page(query, binds!(self.scope; after, limit)).await?;
                for row in &page.rows {
                    sink(kind, object(row)?)?;
                }
                match page.last {
                    Value::Null => break,
                    last => after = last,
                }
            }
        }
        Ok(())
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
            self.numbered(part, query, json!(0), owner, sink).await?;
        }
        let mut documents: BTreeSet<String> = self.documents().await?.into_iter().collect();
        self.documents_of_chunks(&mut documents).await?;
        let documents: Vec<String> = documents.into_iter().collect();
        self.manifests(&documents, owner, sink).await?;
        self.passages(&documents, owner, sink).await?;
        self.sources(&documents, owner, sink).await?;
        let binds = binds!(self.scope; limit = LISTED_ROWS);
        self.give(RowKind::ToolSets, self.page(TOOL_SETS, binds).await?.rows, owner, sink)?;
        self.numbered(RowKind::Packs, PACKS, json!(""), owner, sink).await?;
        // A record without a key contains no text any more, and is in no export either.
        self.numbered(RowKind::Answers, ANSWERS, json!(""), owner, sink).await?;
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
