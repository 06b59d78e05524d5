//! Limits that several tools share.

crate::bounds! {
/// Maximum number of chunks of a document that the server splits.
pub(crate) const DOCUMENT_CHUNKS_MAX: usize = 16_384;
/// Maximum size of the provenance of a document or chunk, in bytes of its JSON.
pub(crate) const PROVENANCE_BYTES_MAX: usize = 4 * 1024;
/// Maximum number of source messages that one ingest may name.
pub(crate) const DERIVED_MAX: usize = 512;
}
