//! Finds agents with texts that are older than the retention policy allows, and removes these
//! texts.

use serde_json::json;

use super::executor::Executor;
use super::request::{CallRequest, whose};
use crate::limits::EXPIRE_AGENTS_LOOKED;
use crate::store::{self, DueAgent};
use vctx_core::error::Result;
use vctx_core::policy::Retention;
use vctx_core::tools::ExpireRecall;
use vctx_core::trust::Actor;

impl Executor {
    /// Sets the retention policy.
    #[must_use]
    pub fn with_retention(self, retention: Retention) -> Self {
        Self { retention, ..self }
    }

    /// Returns whether the policy never removes texts by age.
    pub fn retains_for_ever(&self) -> bool {
        self.retention.recall_ttl_s().is_none()
    }

    /// Returns the agents whose keys follow a given key, and whether each of them has texts due for
    /// removal.
    pub async fn due_agents(&self, after: &str) -> Result<Vec<DueAgent>> {
        let before = self.retention.before(self.kernel.clock.unix_ms());
        self.kernel.read(|ro| store::due_agents(ro, after, &before, EXPIRE_AGENTS_LOOKED)).await
    }

    /// Removes some due texts of an agent. Returns `true` if any texts were removed; in this case,
    /// more texts may be due.
    pub async fn expire(&self, agent: &DueAgent, actor: &Actor) -> Result<bool> {
        let now = self.kernel.clock.unix_ms();
        let (before, fresh) = (self.retention.before(now), self.retention.fresh(now));
        let arguments = [("before", json!(before))];
        let whose = whose(actor, &agent.tenant, &agent.key);
        let request = CallRequest::internal(whose, ExpireRecall { before, fresh }, arguments);
        let reply = self.call(&request).await?;
        Ok(reply.body["result"]["wrote"] == true)
    }
}
