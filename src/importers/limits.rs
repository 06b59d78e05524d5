//! Limits shared by several importers.

vctx_core::bounds! {
/// Maximum number of blocks, entries and documents of one import together.
pub(crate) const IMPORT_ITEMS_MAX: usize = 1_000_000;
}
