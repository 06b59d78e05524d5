//! Reads documents of the archive by their names.

use serde::Deserialize;
use serde_json::{Value, json};

use super::db::{Ro, binds};
use super::fault::Result;
use super::query::queries;
use vctx_core::memory::archive::{FoundPassage, Manifest};
use vctx_core::trust::Scope;

queries! {
    DOCUMENT = "document_load",
    LIST = "document_list",
    LIST_BACK = "document_list_back",
    TEXTS = "document_texts",
    TOKENS = "document_tokens",
}

/// A character that sorts after all other characters, in the order of ArangoDB's indexes as in the
/// order of bytes.
const LAST: char = '\u{ffff}';

/// A document, with consecutive chunks of the ingest that the manifest describes.
#[derive(Debug, Default, Deserialize)]
pub struct LoadedDocument {
    /// The document's manifest; `None` if there is no such document.
    pub manifest: Option<Manifest>,
    /// The chunks, in the order of the document.
    pub passages: Vec<FoundPassage>,
}

/// Returns a document with its chunks from the index `from` on, at most `limit` of them.
pub async fn document(
    ro: &Ro,
    scope: &Scope,
    doc_id: &str,
    from: u64,
    limit: u64,
) -> Result<LoadedDocument> {
    let until = from.saturating_add(limit);
    Ok(ro.row(DOCUMENT, binds!(scope; doc_id, from, until)).await?.unwrap_or_default())
}

/// Which documents a list names.
#[derive(Clone, Debug)]
pub struct NamedDocuments {
    /// Beginning of their names.
    pub prefix: String,
    /// Name after which the list begins; empty for the first page.
    pub after: String,
    /// Whether the list is in the reverse order of the names.
    pub reverse: bool,
}

/// Returns the manifests of the first `limit` documents of a list.
pub async fn documents(
    ro: &Ro,
    scope: &Scope,
    named: &NamedDocuments,
    limit: u64,
) -> Result<Vec<Manifest>> {
    let NamedDocuments { prefix, after, reverse } = named;
    let until = format!("{prefix}{LAST}");
    if *reverse {
        let before = if after.is_empty() { &until } else { after };
        return ro.rows(LIST_BACK, binds!(scope; prefix, before, limit)).await;
    }
    ro.rows(LIST, binds!(scope; prefix, after, until, limit)).await
}

/// Returns the chunks of each document, at most `chunks_max` of one. A document that was replaced
/// since its manifest was read has no chunks.
pub async fn document_texts(
    ro: &Ro,
    scope: &Scope,
    documents: &[Manifest],
    chunks_max: u64,
) -> Result<Vec<Vec<FoundPassage>>> {
    let documents: Vec<Value> = documents
        .iter()
        .map(|manifest| json!({"doc_id": manifest.doc_id, "revision": manifest.revision}))
        .collect();
    ro.rows(TEXTS, binds!(scope; documents, chunks_max)).await
}

/// Returns the tokens of all chunks of each document, in the encoding that the agent had at the
/// ingest.
pub async fn document_tokens(ro: &Ro, scope: &Scope, documents: &[Manifest]) -> Result<Vec<u64>> {
    let names: Vec<&str> = documents.iter().map(|manifest| manifest.doc_id.as_str()).collect();
    ro.rows(TOKENS, binds!(scope; names)).await
}
