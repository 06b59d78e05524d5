//! Limits the number of agents of a tenant, with a count that may be some seconds old, and the text
//! of the blocks of an imported agent.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::executor::Executor;
use super::kernel::patience;
use crate::store::{self, Row};
use vctx_base::clock;
use vctx_core::error::{Code, Error, Result};
use vctx_core::trust::{Principal, Scope, admit};

/// Time for which a count below the limit is used, in milliseconds. Agents that this server makes
/// meanwhile are added to the count; agents of other servers are noticed later.
const COUNT_MS: u64 = 60_000;
/// Time for which a count at the limit is used, in milliseconds. It is short, so that a new agent
/// is soon possible after another one was forgotten.
const FULL_COUNT_MS: u64 = 1_000;

/// The limit on the agents of a tenant, and the last counts by tenant.
#[derive(Debug, Default)]
pub(super) struct AgentQuota {
    /// Maximum number of agents of a tenant; 0 means unlimited.
    agents_max: u64,
    counted: Mutex<HashMap<String, Counted>>,
}

/// A number of agents, and the moment when it was counted.
#[derive(Clone, Copy, Debug)]
struct Counted {
    agents: u64,
    at: Instant,
}

impl AgentQuota {
    fn of(agents_max: u64) -> Self {
        Self { agents_max, counted: Mutex::default() }
    }

    fn known(&self, tenant: &str) -> Option<u64> {
        let counted = self.counted.lock().expect("no holder panics");
        let one = counted.get(tenant)?;
        let ms = if one.agents < self.agents_max { COUNT_MS } else { FULL_COUNT_MS };
        (one.at.elapsed() < Duration::from_millis(ms)).then_some(one.agents)
    }

    fn note(&self, tenant: &str, agents: u64) {
        let mut counted = self.counted.lock().expect("no holder panics");
        counted.insert(tenant.to_owned(), Counted { agents, at: clock::now() });
    }

    /// Adds an agent that this server made to the count.
    pub(super) fn add(&self, tenant: &str) {
        if let Some(one) = self.counted.lock().expect("no holder panics").get_mut(tenant) {
            one.agents += 1;
        }
    }
}

impl Executor {
    /// Sets the maximum number of agents of a tenant; 0 means unlimited.
    #[must_use]
    pub fn with_agents_max(self, agents_max: u64) -> Self {
        Self { quota: AgentQuota::of(agents_max), ..self }
    }

    /// Sets the maximum length of the texts of all blocks of an agent together, in bytes.
    #[must_use]
    pub fn with_blocks_bytes_max(mut self, blocks_bytes_max: u64) -> Self {
        self.kernel.blocks_bytes_max = blocks_bytes_max;
        self
    }

    /// Refuses a new agent if the tenant already has the maximum number of agents.
    pub async fn check_quota(&self, principal: &Principal, agent: &str) -> Result<()> {
        self.room_for(&admit(principal, agent)?).await
    }

    /// Refuses a new agent if the tenant already has the maximum number of agents; accepts an agent
    /// that exists.
    pub(super) async fn room_for(&self, scope: &Scope) -> Result<()> {
        let (tenant, most) = (scope.tenant(), self.quota.agents_max);
        if most == 0 {
            return Ok(());
        }
        let agents = match self.quota.known(tenant) {
            Some(agents) => agents,
            None => {
                let agents = self.kernel.read(|ro| store::agents_of(ro, tenant, most)).await?;
                self.quota.note(tenant, agents);
                agents
            }
        };
        if agents < most {
            return Ok(());
        }
        match self.kernel.fresh(scope, &[], patience()).await {
            Err(error) if error.code == Code::AgentNotFound => {
                let text = format!(
                    "there are {most} agents, the maximum: forget agents that are not needed, or raise server.agents_max"
                );
                Err(Error::new(Code::Forbidden, text).with("agents_max", most))
            }
            other => other.map(drop),
        }
    }
}

/// Refuses an imported core whose blocks have more text than the blocks of an agent may have.
pub(super) fn check_blocks(core: &Row, bytes_max: u64) -> Result<()> {
    let blocks =
        core.get("working_blocks").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let contents = blocks.iter().filter_map(|block| block["content"].as_str());
    let bytes: u64 = contents.map(|content| content.len() as u64).sum();
    if bytes <= bytes_max {
        return Ok(());
    }
    let why = format!(
        "the blocks have {bytes} bytes together, more than the allowed {bytes_max}: raise core.blocks_bytes_max for this import"
    );
    Err(Error::argument("file", why).with("bytes_max", bytes_max))
}
