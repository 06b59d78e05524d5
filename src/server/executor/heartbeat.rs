//! Heartbeats from outside the thinking rooms: their figures, and the chains that nobody will go on with.

use serde_json::{Map, Value, json};

use super::executor::Executor;
use super::request::CallRequest;
use crate::store;
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::change::Change;
use vctx_core::memory::event::EventType;
use vctx_core::policy::{Actor, Principal};
use vctx_core::tools::{BuryChain, Call};

/// Why a beat waits, as `vctx_hb_rate_limited_total` names it.
const RATE: &str = "rate";
const COOLDOWN: &str = "cooldown";

/// Figures of a change that was written.
pub(super) fn count(change: &Change) {
    for event in &change.events {
        match event.kind {
            EventType::HbStart => metrics::counter!(metric::HB_STARTED).increment(1),
            EventType::HbEnd => {
                let reason = event.details["reason"].as_str().unwrap_or_default().to_owned();
                metrics::counter!(metric::HB_TERMINATED, "reason" => reason).increment(1);
            }
            EventType::Warning
            | EventType::Flush
            | EventType::Summarize
            | EventType::Error
            | EventType::Audit
            | EventType::RunStart
            | EventType::RunEnd
            | EventType::Variance => {}
        }
    }
    let Some(beat) = change.envelope.get("heartbeat") else { return };
    if beat["granted"] == true {
        metrics::histogram!(metric::HB_DEPTH).record(figure(&beat["chain_depth"]));
        metrics::histogram!(metric::HB_DURATION_MS).record(figure(&beat["duration_ms"]));
    }
    match beat["refused"].as_str() {
        Some("rate_limited") => refused(RATE),
        Some(_) => refused(COOLDOWN),
        None => {}
    }
}

fn figure(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

/// A beat that has to wait is answered with an error where it is all that was asked.
pub(super) fn count_refusal(error: &Error) {
    match error.code {
        Code::HeartbeatRateLimited => refused(RATE),
        Code::HeartbeatCooldown => refused(COOLDOWN),
        _ => {}
    }
}

fn refused(why: &'static str) {
    metrics::counter!(metric::HB_RATE_LIMITED, "why" => why).increment(1);
}

/// A chain whose cap has passed.
#[derive(Clone, Debug)]
pub struct DeadChain {
    tenant: String,
    agent: String,
    chain: String,
}

impl Executor {
    /// Chains whose cap has passed, the oldest first.
    pub async fn dead_chains(&self, limit: u64) -> Result<Vec<DeadChain>> {
        let now = self.clock.unix_ms();
        let rows = self.patiently(|| store::dead_chains(&self.ro, now, limit)).await?;
        let named = |row: store::DeadChain| {
            let prefix = format!("{}:", row.tenant);
            let agent = match row.tenant.as_str() {
                "" => row.key.as_str(),
                _ => row.key.strip_prefix(&prefix).unwrap_or(&row.key),
            };
            DeadChain { agent: agent.to_owned(), tenant: row.tenant, chain: row.chain }
        };
        Ok(rows.into_iter().map(named).collect())
    }

    /// Closes one of them by a write like any other: whoever is first closes it, for everybody else there is nothing to do.
    /// True if it was closed here.
    pub async fn bury(&self, dead: &DeadChain, actor: &Actor) -> Result<bool> {
        let mut arguments = Map::new();
        arguments.insert("chain".into(), json!(dead.chain));
        let request = CallRequest {
            principal: Principal { actor: actor.clone(), tenant: dead.tenant.clone() },
            agent: dead.agent.clone(),
            call: Call::BuryChain(BuryChain { chain: dead.chain.clone() }),
            arguments,
            key: None,
            guard: None,
            wording: None,
            capture: None,
        };
        let reply = self.call(&request).await?;
        Ok(reply.body["result"]["closed"] == true)
    }
}
