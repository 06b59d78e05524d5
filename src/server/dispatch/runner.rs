//! Who runs an agent because of a tick.

use async_trait::async_trait;

use vctx_core::error::Result;
use vctx_core::policy::Principal;

/// Runs agents from an event until their model yields.
#[async_trait]
pub trait Runner: Send + Sync {
    /// Runs an agent whose tick stands in its queue already, as message `event_seq`. `key` is the key of the run: the same tick is given
    /// again, here or to another server, when its run was cut off, and the run then goes on.
    ///
    /// An error means that the run could not be ended: a passing one ([`vctx_core::error::Code::status`] 409, 429 or 5xx) is tried again later,
    /// every other one ends it.
    async fn tick(
        &self,
        principal: &Principal,
        agent: &str,
        event_seq: u64,
        key: &str,
    ) -> Result<()>;
}
