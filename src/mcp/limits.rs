//! Limits shared by several files of this crate.

vctx_core::bounds! {
/// Maximum number of newest messages that a model gets after a conflict about the queue.
pub(crate) const MCP_CURRENT_MESSAGES: u64 = 5;
}
