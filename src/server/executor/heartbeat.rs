//! Records the metrics of heartbeats, and ends abandoned chains of heartbeats.

use serde_json::{Value, json};

use super::executor::Executor;
use super::request::{CallRequest, whose};
use crate::store::{self, DeadChain};
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::change::Change;
use vctx_core::memory::event::EventType;
use vctx_core::tools::BuryChain;
use vctx_core::trust::Actor;

/// Values of the metric label `why` of `vctx_hb_rate_limited_total`.
const RATE: &str = "rate";
const COOLDOWN: &str = "cooldown";

/// Records the metrics of the heartbeats in a change.
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
            | EventType::Audit => {}
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

/// Counts a call that was refused because a heartbeat must wait.
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

impl Executor {
    /// Returns the chains of heartbeats that are past their time limit, the oldest first.
    pub async fn dead_chains(&self, limit: u64) -> Result<Vec<DeadChain>> {
        let now = self.kernel.clock.unix_ms();
        self.kernel.read(|ro| store::dead_chains(ro, now, limit)).await
    }

    /// Ends a chain of heartbeats that is past its time limit, by an ordinary write. Returns `true`
    /// if this server ended the chain, and `false` if another server was faster.
    pub async fn bury(&self, dead: &DeadChain, actor: &Actor) -> Result<bool> {
        let request = CallRequest::internal(
            whose(actor, &dead.tenant, &dead.key),
            BuryChain { chain: dead.chain.clone() },
            [("chain", json!(dead.chain))],
        );
        let reply = self.call(&request).await?;
        Ok(reply.body["result"]["closed"] == true)
    }
}
