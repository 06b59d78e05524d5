//! Limits shared by several files of the models module.

/// Maximum number of texts in one embedder batch.
pub(crate) const EMBED_BATCH_TEXTS_MAX: usize = 64;
