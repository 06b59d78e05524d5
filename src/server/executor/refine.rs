//! Keeps the evictions whose summaries a model may write again, and runs the calls that do so.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use super::executor::Executor;
use super::request::{CallRequest, whose};
use vctx_base::clock::iso8601;
use vctx_base::metric;
use vctx_core::error::{Code, Result};
use vctx_core::memory::change::{Change, Refinable};
use vctx_core::policy::DEGRADED;
use vctx_core::tools::RefineSummary;
use vctx_core::trust::Actor;

/// Maximum number of agents whose summaries wait for a model. The summary of another agent stays as
/// the local summariser made it, until the agent's next eviction.
const REFINES_MAX: usize = 256;

/// The evictions that wait for a model, at most one of each agent.
#[derive(Default)]
pub(super) struct Refines {
    waiting: Mutex<WaitingRefines>,
    added: Notify,
}

#[derive(Default)]
struct WaitingRefines {
    by_agent: HashMap<String, AgentRefine>,
    /// Agents of which no call is under way, oldest first.
    order: VecDeque<String>,
}

struct AgentRefine {
    tenant: String,
    of: Refinable,
    is_running: bool,
}

/// An eviction of an agent whose summary a model may write again.
#[derive(Clone, Debug)]
pub struct DueRefine {
    tenant: String,
    key: String,
    of: Refinable,
}

impl Refines {
    /// Adds the eviction of a change. If an earlier eviction of the agent still waits or is under
    /// way, a model summarises both.
    pub(super) fn add(&self, change: &Change) {
        let Some(of) = &change.refinable else { return };
        let (key, tenant) = (change.after.key.clone(), change.after.tenant.clone());
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = &mut *waiting;
        if let Some(known) = waiting.by_agent.get_mut(&key) {
            let (previous, first_seq) = (known.of.previous.clone(), known.of.first_seq);
            known.of = match known.of.forgotten == of.forgotten {
                true => Refinable { previous, first_seq, ..of.clone() },
                false => of.clone(),
            };
            return;
        }
        if waiting.by_agent.len() >= REFINES_MAX {
            count("dropped");
            return;
        }
        let one = AgentRefine { tenant, of: of.clone(), is_running: false };
        waiting.by_agent.insert(key.clone(), one);
        waiting.order.push_back(key);
        self.added.notify_one();
    }

    fn take(&self) -> Option<DueRefine> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let key = waiting.order.pop_front()?;
        let one = waiting.by_agent.get_mut(&key)?;
        one.is_running = true;
        Some(DueRefine { tenant: one.tenant.clone(), key, of: one.of.clone() })
    }

    /// Ends the work on an eviction; an eviction that came meanwhile waits next.
    fn end(&self, due: &DueRefine) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = &mut *waiting;
        let Some(one) = waiting.by_agent.get_mut(&due.key) else { return };
        if one.of == due.of {
            waiting.by_agent.remove(&due.key);
        } else if std::mem::take(&mut one.is_running) {
            waiting.order.push_back(due.key.clone());
            self.added.notify_one();
        }
    }
}

/// The state of the summary model, as its last answer shows it.
#[derive(Default)]
pub(super) struct SummaryHealth {
    failing: Mutex<Option<Value>>,
}

impl SummaryHealth {
    /// Notes the outcome of a summary that a model was asked for.
    pub(super) fn note(&self, details: &Map<String, Value>, now_ms: u64) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let reason = details.get(DEGRADED).and_then(Value::as_str);
        if let Some(reason) = reason {
            let before = failing.as_ref().and_then(|known| known["reason"].as_str());
            if before != Some(reason) {
                tracing::warn!(reason, "summary model failed; the local summary stands");
            }
            *failing = Some(json!({"reason": reason, "at": iso8601(now_ms)}));
        } else if details.get("by").is_some_and(|by| by == "model") && failing.take().is_some() {
            tracing::info!("the summary model works again");
        }
        metrics::gauge!(metric::SUMMARY_DEGRADED).set(if failing.is_some() { 1.0 } else { 0.0 });
    }

    /// Returns the reason and the time of the last failure; `None` if the model worked since then.
    pub(super) fn told(&self) -> Option<Value> {
        let failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        failing.as_ref().map(|failure| json!({"summary_model": failure}))
    }
}

impl Executor {
    /// Whether a model writes summaries.
    pub fn refines(&self) -> bool {
        self.kernel.model.is_some()
    }

    /// Returns the next eviction whose summary a model may write again; waits for it up to a time.
    pub async fn due_refine(&self, wait: Duration) -> Option<DueRefine> {
        if let Some(due) = self.refines.take() {
            return Some(due);
        }
        // After the time, the caller asks again.
        drop(tokio::time::timeout(wait, self.refines.added.notified()).await);
        self.refines.take()
    }

    /// Lets a model write a summary again. The local summary stands if no answer is usable, or if
    /// the summary has changed meanwhile.
    pub async fn refine(&self, due: DueRefine, actor: &Actor) {
        let whose = whose(actor, &due.tenant, &due.key);
        let arguments = [("revision", due.of.revision.into())];
        let request = CallRequest::internal(whose, RefineSummary { of: due.of.clone() }, arguments);
        let outcome: Result<Value> = self.call(&request).await.map(|reply| reply.body);
        match outcome {
            Ok(body) if body["result"]["wrote"] == true => count("written"),
            Ok(body) if body["result"][DEGRADED].is_string() => count("refused"),
            Ok(_) => count("outdated"),
            Err(error) => {
                count("failed");
                if !matches!(error.code, Code::AgentNotFound | Code::Conflict | Code::AgentMoving) {
                    tracing::debug!(error = error.chain(), "a summary was not written again");
                }
            }
        }
        self.refines.end(&due);
    }
}

fn count(outcome: &'static str) {
    metrics::counter!(metric::SUMMARIES_REFINED, "outcome" => outcome).increment(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refinable(revision: u64, first_seq: u64) -> Refinable {
        Refinable {
            previous: format!("before {revision}"),
            revision,
            forgotten: 0,
            first_seq,
            last_seq: first_seq + 9,
            batch_id: format!("b{revision}"),
        }
    }

    fn add(refines: &Refines, key: &str, of: Refinable) {
        let mut waiting = refines.waiting.lock().unwrap();
        let tenant = String::new();
        waiting.by_agent.insert(key.into(), AgentRefine { tenant, of, is_running: false });
        waiting.order.push_back(key.into());
    }

    #[test]
    fn an_agent_has_one_call_at_a_time_and_a_later_eviction_waits_for_it() {
        let refines = Refines::default();
        add(&refines, "ada", refinable(1, 1));
        let first = refines.take().expect("the first eviction");
        assert!(refines.take().is_none());
        refines.waiting.lock().unwrap().by_agent.get_mut("ada").unwrap().of = refinable(2, 1);
        assert!(refines.take().is_none(), "the first call still runs");
        refines.end(&first);
        let second = refines.take().expect("the second eviction");
        assert_eq!(second.of.revision, 2);
        refines.end(&second);
        assert!(refines.waiting.lock().unwrap().by_agent.is_empty());
    }

    #[test]
    fn a_failure_is_told_until_the_next_success() {
        let health = SummaryHealth::default();
        let details = |value: Value| value.as_object().cloned().unwrap_or_default();
        health.note(&details(json!({"degraded": "empty"})), 0);
        let told = health.told().expect("a failure");
        assert_eq!(told["summary_model"]["reason"], "empty");
        assert_eq!(told["summary_model"]["at"], "1970-01-01T00:00:00.000Z");
        health.note(&details(json!({"by": "local"})), 1);
        assert!(health.told().is_some(), "the model was not asked");
        health.note(&details(json!({"by": "model"})), 2);
        assert!(health.told().is_none());
    }
}
