//! Limits shared by several files of the models module.

vctx_core::bounds! {
/// Maximum number of texts in one embedder batch.
pub(crate) const EMBED_BATCH_TEXTS_MAX: usize = 64;
}
