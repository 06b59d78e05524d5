//! Limits shared by several files of the store.

vctx_core::bounds! {
/// Number of rows in one batch of a query's result.
pub(crate) const BATCH_ROWS: u32 = 5_000;
/// Number of the view's best hits that are scored word by word. In conversations of 400 to 700
/// messages, nearly all messages that answer a question are among these hits or their neighbours.
pub(crate) const RECALL_WEIGHED_MAX: usize = 100;
/// Number of neighbouring positions on each side of an entry that are read with the entry.
pub(crate) const RECALL_AROUND_SEQS: u64 = 2;
/// Maximum number of characters of a neighbouring entry that are scored. Only the beginning of a
/// longer text is scored.
pub(crate) const RECALL_AROUND_CHARS_MAX: usize = 2_048;
/// Maximum number of chunks that one query of an ingest writes. One transaction may run several
/// such queries.
pub(crate) const INGEST_ROWS: usize = 128;
/// Number of requests with changes that may be on their way before further changes wait, to be sent
/// together.
pub(crate) const TOGETHER_SENT_MAX: usize = 2;
/// Maximum number of changes in one request.
pub(crate) const TOGETHER_CHANGES_MAX: usize = 32;
/// Maximum number of changes that wait to be sent together; further changes are sent alone.
pub(crate) const TOGETHER_WAITING_MAX: usize = 1_024;
/// Number of rows of each collection that one request removes while an import is undone.
pub(crate) const IMPORT_TRIM_ROWS: u64 = 256;
}
