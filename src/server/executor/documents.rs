//! Shows documents of the archive by their names, with their texts as they were stored.

use serde_json::{Map, Value, json};

use super::executor::Executor;
use super::kernel::patience;
use super::request::page_limit;
use crate::limits::{DOCUMENT_PAGE, DOCUMENT_TEXTS_BYTES_MAX, DOCUMENT_TEXTS_PAGE, DOCUMENTS_PAGE};
use crate::store::{self, NamedDocuments};
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::DOC_ID_BYTES_MAX;
use vctx_core::memory::Labels;
use vctx_core::memory::archive::{FoundPassage, Manifest};
use vctx_core::memory::core::Core;
use vctx_core::tools::OWNER;
use vctx_core::trust::{Principal, Scope, TaintMode, admit, texts_of};

/// A page of documents.
#[derive(Clone, Debug)]
pub struct DocumentsPage {
    /// The documents of the list.
    pub named: NamedDocuments,
    /// Maximum number of documents.
    pub limit: Option<u64>,
    /// Whether each document has its chunks.
    pub texts: bool,
    /// Whether each document has the number of tokens of its chunks.
    pub tokens: bool,
}

impl Executor {
    /// Returns a document with a page of its chunks, from the index `from` on. `originals` tells
    /// whether chunks in quarantine have their texts.
    pub async fn document(
        &self,
        principal: &Principal,
        (agent, doc_id): (&str, &str),
        (from, limit): (u64, Option<u64>),
        originals: bool,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let limit = page_limit(limit, DOCUMENT_PAGE)?;
        check_part("doc_id", doc_id)?;
        let (core, _) = self.kernel.fresh(&scope, &[], patience()).await?;
        let read = |ro| store::document(ro, &scope, doc_id, from, limit);
        let found = self.kernel.read(read).await?;
        let missing = || Error::new(Code::DocumentNotFound, "no such document in the archive");
        let manifest = found.manifest.ok_or_else(missing)?;
        let shown = Presentation { core: &core, taint: self.taint, originals };
        let next = from.saturating_add(limit);
        let mut document = shown.document(&manifest);
        document.insert("agent".into(), scope.agent().into());
        document.insert("passages".into(), shown.passages(&found.passages, from));
        document.insert("next_index".into(), json!((next < manifest.chunks).then_some(next)));
        Ok(Value::Object(document))
    }

    /// Returns a page of the documents whose names begin with a text, in the order of the names.
    /// With texts, the page ends early if they are long. A server with a quarantine refuses the
    /// list without `originals`, since a name and the position of a page may be texts in
    /// quarantine.
    pub async fn documents(
        &self,
        principal: &Principal,
        agent: &str,
        page: &DocumentsPage,
        originals: bool,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let bounds = if page.texts || page.tokens { DOCUMENT_TEXTS_PAGE } else { DOCUMENTS_PAGE };
        let limit = page_limit(page.limit, bounds)?;
        check_part("prefix", &page.named.prefix)?;
        check_part("after", &page.named.after)?;
        if self.taint == TaintMode::Quarantine && !originals {
            let told = "the names of documents may come from outside, and this server has a \
                        quarantine: send true to see them, with all texts as they were stored";
            return Err(Error::argument("originals", told));
        }
        let (core, _) = self.kernel.fresh(&scope, &[], patience()).await?;
        let read = |ro| store::documents(ro, &scope, &page.named, limit + 1);
        let mut manifests = self.kernel.read(read).await?;
        let is_full = manifests.len() as u64 > limit;
        manifests.truncate(limit as usize);
        let shown = Presentation { core: &core, taint: self.taint, originals };
        let mut documents: Vec<Map<String, Value>> = match page.texts {
            true => self.with_texts(&scope, &shown, &manifests).await?,
            false => manifests.iter().map(|manifest| shown.document(manifest)).collect(),
        };
        if page.tokens {
            let manifests = &manifests[..documents.len()];
            let read = |ro| store::document_tokens(ro, &scope, manifests);
            for (document, tokens) in documents.iter_mut().zip(self.kernel.read(read).await?) {
                document.insert("tokens".into(), tokens.into());
            }
        }
        let has_more = is_full || documents.len() < manifests.len();
        let last = documents.len().checked_sub(1).filter(|_| has_more);
        let next = last.map(|last| manifests[last].doc_id.as_str());
        Ok(json!({"agent": scope.agent(), "documents": documents, "next": next}))
    }

    /// Shows documents with all their chunks, until the texts are long together. A document with
    /// many chunks, or one that was replaced since its manifest was read, has `null` for its
    /// chunks: a caller reads it by its name.
    async fn with_texts(
        &self,
        scope: &Scope,
        shown: &Presentation<'_>,
        manifests: &[Manifest],
    ) -> Result<Vec<Map<String, Value>>> {
        let mut documents = Vec::with_capacity(manifests.len());
        let (mut rest, mut bytes) = (manifests, 0);
        while !rest.is_empty() && bytes < DOCUMENT_TEXTS_BYTES_MAX {
            let together = read_together(rest);
            let (some, others) = rest.split_at(together.max(1));
            rest = others;
            let texts = match together {
                0 => vec![Vec::new()],
                _ => {
                    let chunks_max = DOCUMENT_PAGE.1;
                    let read = |ro| store::document_texts(ro, scope, some, chunks_max);
                    self.kernel.read(read).await?
                }
            };
            for (manifest, passages) in some.iter().zip(&texts) {
                bytes += passages.iter().map(|passage| passage.text.len()).sum::<usize>();
                let is_whole = passages.len() as u64 == manifest.chunks;
                let told = if is_whole { shown.passages(passages, 0) } else { Value::Null };
                let mut document = shown.document(manifest);
                document.insert("passages".into(), told);
                documents.push(document);
            }
        }
        Ok(documents)
    }
}

/// Returns how many of the documents one query reads whole: as many as have few chunks together.
/// Returns 0 if the first one is too long for a list.
fn read_together(manifests: &[Manifest]) -> usize {
    let mut chunks = 0;
    let fits = |manifest: &&Manifest| {
        chunks += manifest.chunks;
        chunks <= DOCUMENT_PAGE.1
    };
    manifests.iter().take_while(fits).count()
}

/// Refuses a name, or a part of one, that no document can have.
fn check_part(field: &str, text: &str) -> Result<()> {
    if text.len() <= DOC_ID_BYTES_MAX && !text.chars().any(char::is_control) {
        return Ok(());
    }
    let told = format!("use at most {DOC_ID_BYTES_MAX} bytes without control characters");
    Err(Error::argument(field, told))
}

/// How documents are shown to a caller.
struct Presentation<'a> {
    core: &'a Core,
    taint: TaintMode,
    originals: bool,
}

impl Presentation<'_> {
    fn document(&self, manifest: &Manifest) -> Map<String, Value> {
        // The caller gave the provenance without the owner, which the server adds.
        let mut given = manifest.provenance.clone();
        given.remove(OWNER);
        let (mut provenance, mut labels) = (json!(given), &manifest.labels[..]);
        let mut names = texts_of(&manifest.provenance);
        names.extend(labels.iter().map(String::as_str));
        let is_held = self.taint == TaintMode::Quarantine && !self.originals;
        if is_held && !self.taint.rules_in("", &names).is_empty() {
            (provenance, labels) = (json!({}), &[]);
        }
        let fields = json!({
            "doc_id": manifest.doc_id, "_rev": manifest.revision, "chunks": manifest.chunks,
            "provenance": provenance, "labels": labels_of(labels), "created_at": manifest.created_at,
            "updated_at": manifest.updated_at,
        });
        fields.as_object().cloned().unwrap_or_default()
    }

    fn passages(&self, passages: &[FoundPassage], from: u64) -> Value {
        let shown = (from..).zip(passages).map(|(index, passage)| self.passage(index, passage));
        shown.collect()
    }

    fn passage(&self, index: u64, passage: &FoundPassage) -> Value {
        let mut shown = json!({"chunk_id": passage.chunk_id, "index": index,
            "text": passage.text, "offset": passage.offset,
            "freshness_ts": passage.freshness_ts});
        let report = self.taint.untrusted_passage(self.core, passage);
        if !report.rules.is_empty() {
            shown["tainted"] = json!(report.rules);
        }
        if let Some(told) = report.held.filter(|_| !self.originals) {
            shown["text"] = told.into();
            shown["quarantined"] = true.into();
            // The sender of the text may also have chosen this name.
            shown["chunk_id"] = Value::Null;
        }
        shown
    }
}

/// Returns stored labels as an object.
fn labels_of(stored: &[String]) -> Labels {
    Labels::read(stored.iter().map(String::as_str))
}
