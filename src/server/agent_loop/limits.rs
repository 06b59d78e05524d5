//! Limits shared by several files of the agent loop.

use vctx_core::limits::HEARTBEAT_COOLDOWN_MS_MAX;

vctx_core::bounds! {
/// Lease period of a run, in milliseconds: other servers wait this long before they take over the
/// run of a dead server.
pub(crate) const RUN_LEASE_MS: u64 = 6_000;
/// Longest wait for a heartbeat, in milliseconds: the longest cooldown of heartbeats plus one
/// second.
pub(crate) const RUN_BEAT_MS_MAX: u64 = HEARTBEAT_COOLDOWN_MS_MAX + 1_000;
}
