//! Retention from outside the thinking rooms: whose turn it is, and the write that takes texts away.

use serde_json::{Map, json};

use super::executor::Executor;
use super::request::CallRequest;
use crate::store::{self, DueAgent};
use vctx_core::error::Result;
use vctx_core::limits::EXPIRE_AGENTS_LOOKED;
use vctx_core::policy::{Actor, Principal, Retention};
use vctx_core::tools::{Call, ExpireRecall};

impl Executor {
    /// The same, with a policy of retention.
    #[must_use]
    pub fn with_retention(self, retention: Retention) -> Self {
        Self { retention, ..self }
    }

    /// Whether anything ever goes by its age.
    pub fn retains_for_ever(&self) -> bool {
        self.retention.recall_ttl_s().is_none()
    }

    /// The next agents behind a key, and whether something of them is due.
    pub async fn due_agents(&self, after: &str) -> Result<Vec<DueAgent>> {
        let before = self.retention.before(self.clock.unix_ms());
        self.patiently(|| store::due_agents(&self.ro, after, &before, EXPIRE_AGENTS_LOOKED)).await
    }

    /// Takes some of what is due from an agent; true if something went and there may be more.
    pub async fn expire(&self, agent: &DueAgent, actor: &Actor) -> Result<bool> {
        let prefix = format!("{}:", agent.tenant);
        let name = match agent.tenant.as_str() {
            "" => agent.key.as_str(),
            _ => agent.key.strip_prefix(&prefix).unwrap_or(&agent.key),
        };
        let before = self.retention.before(self.clock.unix_ms());
        let request = CallRequest {
            principal: Principal { actor: actor.clone(), tenant: agent.tenant.clone() },
            agent: name.to_owned(),
            arguments: Map::from_iter([("before".to_owned(), json!(before))]),
            call: Call::ExpireRecall(ExpireRecall { before }),
            key: None,
            guard: None,
            wording: None,
            capture: None,
        };
        let reply = self.call(&request).await?;
        Ok(reply.body["result"]["wrote"] == true)
    }
}
