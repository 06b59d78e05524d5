//! Limits shared by several files of the executor.

use vctx_core::limits::WINDOW_TOKENS_MAX;

vctx_core::bounds! {
/// Maximum number of messages that are read for one eviction or one window. A message costs at
/// least 4 tokens, so no window can contain more.
pub(crate) const QUEUE_ROWS_MAX: u64 = WINDOW_TOKENS_MAX / 4;
/// Maximum number of attempts of a call after conflicts or lost answers.
pub(crate) const ATTEMPTS_MAX: u32 = 64;
/// Number of neighbouring chunks on each side of a document's part that serve as context when the
/// part's vectors are computed.
pub(crate) const PART_MARGIN: usize = 2;
/// Longest time that one call spends on the vectors of a document's parts, in milliseconds; a
/// repeated call continues the work.
pub(crate) const PARTS_MS_MAX: u64 = 120_000;
/// Maximum number of restarts of an export that has lost its database snapshot.
pub(crate) const EXPORT_TRIES_MAX: u32 = 5;
/// Period for which an import reserves the agent's name, in milliseconds after its last batch of
/// rows.
pub(crate) const IMPORT_LEASE_MS: u64 = 15_000;
}
