//! Everything that is not a tool: making and showing agents, the rendered window, the pages of messages.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::executor::{Executor, patience};
use super::moving::elsewhere;
use super::refusals::Refused;
use crate::store::{self, Created, Fault};
use vctx_base::clock::{self, iso8601};
use vctx_core::context::assemble;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{
    AGENTS_PAGE_MAX, ATTEMPTS_MAX, EVENTS_PAGE, HISTORY_PAGE, MESSAGES_PAGE, QUEUE_ROWS_MAX,
};
use vctx_core::memory::core::Core;
use vctx_core::memory::event::{Event, EventType};
use vctx_core::policy::{Principal, Scope, admit, tokens};
use vctx_core::tools::{NewAgent, new_core};

impl Executor {
    /// Makes an agent; the same body again changes nothing, another one is refused. True means that it was made now.
    pub async fn create(
        &self,
        principal: &Principal,
        agent: &str,
        body: NewAgent,
    ) -> Result<(bool, Value)> {
        let scope = admit(principal, agent)?;
        let body = body.checked()?;
        let counter = self.counters.of(body.encoding);
        let mut core = new_core(&scope, &body, &**counter, self.clock.unix_ms())?;
        core.heartbeat.limits = self.heartbeat;
        let event = creation(&core, principal);
        self.register(&scope).await?;
        let mut faults = 0;
        let deadline = patience();
        loop {
            match store::create(&self.rw, &scope, &core, &event, &self.place).await {
                Ok(Created::Made(rev)) => {
                    let mut core = core;
                    core.rev = rev;
                    return Ok((true, self.state_of(&scope, &core)));
                }
                Ok(Created::Forgotten) => return Err(forgotten()),
                Ok(Created::Elsewhere) => return Err(elsewhere()),
                Ok(Created::Taken) => {
                    let found = match self.fresh(&scope, "", patience()).await {
                        Ok((found, _)) => found,
                        // Something has the place that is no agent: an import.
                        Err(error) if error.code == Code::AgentNotFound => {
                            self.wait_for_place(&scope, &mut faults).await?;
                            continue;
                        }
                        Err(error) => return Err(error),
                    };
                    return if body.describes(&found) {
                        Ok((false, self.state_of(&scope, &found)))
                    } else {
                        Err(exists(&found))
                    };
                }
                // Another creation of the same agent is on its way: its end decides.
                Err(fault) if fault.raced() && faults < ATTEMPTS_MAX => {
                    faults += 1;
                    tokio::time::sleep(Duration::from_millis(1 + self.ids.below(8))).await;
                }
                Err(fault) => self.pause(fault, &mut faults, deadline).await?,
            }
        }
    }

    /// Frees the place of an agent that an import was cut off in.
    async fn wait_for_place(&self, scope: &Scope, tries: &mut u32) -> Result<()> {
        *tries += 1;
        if *tries <= ATTEMPTS_MAX && self.freed(scope).await? {
            return Ok(());
        }
        let text = "an agent of that name is being imported: try again when that is done";
        Err(Error::new(Code::Conflict, text))
    }

    /// An agent's state.
    pub async fn state(&self, principal: &Principal, agent: &str) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let (core, _) = self.fresh(&scope, "", patience()).await?;
        Ok(self.state_of(&scope, &core))
    }

    /// The agents of the caller's tenant.
    pub async fn agents(&self, principal: &Principal) -> Result<Value> {
        let prefix = if principal.tenant.is_empty() {
            String::new()
        } else {
            format!("{}:", principal.tenant)
        };
        let rows =
            self.patiently(|| store::list(&self.ro, &principal.tenant, AGENTS_PAGE_MAX)).await?;
        let agents: Vec<Value> = rows
            .into_iter()
            .map(|row| {
                let mut map = match row {
                    Value::Object(map) => map,
                    _ => Map::new(),
                };
                let key = map.remove("_key").unwrap_or_default();
                let name = key.as_str().and_then(|k| k.strip_prefix(&prefix)).unwrap_or_default();
                map.insert("agent".into(), name.into());
                Value::Object(map)
            })
            .collect();
        Ok(json!({"agents": agents}))
    }

    /// An agent's state, with what the policy of retention lets go where there is one.
    fn state_of(&self, scope: &Scope, core: &Core) -> Value {
        let mut told = state(scope, core);
        if let Some(branch) = &core.branch {
            told["branch"] = json!(branch);
        }
        if let Some(recall_ttl_s) = self.retention.recall_ttl_s() {
            let before = self.retention.before(self.clock.unix_ms());
            told["retention"] = json!({"recall_ttl_s": recall_ttl_s, "before": before});
        }
        told
    }

    /// The rendered window with its receipt.
    pub async fn context(&self, principal: &Principal, agent: &str) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let loaded =
            self.patiently(|| store::load_context(&self.ro, &scope, QUEUE_ROWS_MAX)).await?;
        let Some((core, queue)) = loaded else {
            return Err(Error::new(
                Code::AgentNotFound,
                "no such agent: create it with PUT /v1/agents/{agent}",
            ));
        };
        let window = assemble(&core, &queue);
        Ok(json!({"agent": scope.agent(), "_rev": core.rev, "context_window": core.context_window,
            "messages": window.messages, "tokens": window.tokens, "manifest": window.manifest,
            "context_digest": window.context_digest}))
    }

    /// A page of everything ever appended.
    pub async fn messages(
        &self,
        principal: &Principal,
        agent: &str,
        from_seq: u64,
        limit: Option<u64>,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let (usual, most) = MESSAGES_PAGE;
        let limit = limit.unwrap_or(usual);
        if limit == 0 || limit > most {
            return Err(Error::argument("limit", format!("use 1 to {most}")));
        }
        let (core, _) = self.fresh(&scope, "", patience()).await?;
        let rows = self.patiently(|| store::page(&self.ro, &scope, from_seq, limit)).await?;
        let full = rows.len() as u64 == limit;
        let next_seq = rows.last().filter(|_| full).map(|r| r.message.seq + 1);
        let messages: Vec<Value> = rows
            .into_iter()
            .map(|row| {
                let mut map = row.message.public();
                // A message of this page may be newer than the core, or evicted since; its edge tells.
                let queued = row.message.kind.queued()
                    && row.message.seq >= core.queue.head_seq
                    && !row.logged
                    && row.message.forgotten_at.is_none();
                map.insert("in_queue".into(), queued.into());
                map.insert("logged".into(), row.logged.into());
                map.insert("evicted_batch_id".into(), json!(row.evicted_batch_id));
                Value::Object(map)
            })
            .collect();
        Ok(json!({"messages": messages, "next_seq": next_seq}))
    }

    /// A page of the copies that an agent's texts left whenever one changed, and the version the next page begins with.
    pub async fn history(
        &self,
        principal: &Principal,
        agent: &str,
        from_version: u64,
        limit: Option<u64>,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let (usual, most) = HISTORY_PAGE;
        let limit = limit.unwrap_or(usual);
        if limit == 0 || limit > most {
            return Err(Error::argument("limit", format!("use 1 to {most}")));
        }
        let (core, _) = self.fresh(&scope, "", patience()).await?;
        let rows =
            self.patiently(|| store::versions(&self.ro, &scope, from_version, limit)).await?;
        let full = rows.len() as u64 == limit;
        let last = rows.last().filter(|_| full).and_then(|row| row["version"].as_u64());
        Ok(
            json!({"agent": scope.agent(), "_rev": core.rev, "version": core.version, "versions": rows,
            "next_version": last.map(|version| version + 1)}),
        )
    }

    /// A page of an agent's events from a moment on, and the moment the next page begins with.
    pub async fn events(
        &self,
        principal: &Principal,
        agent: &str,
        from_ts: &str,
        limit: Option<u64>,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let (usual, least, most) = EVENTS_PAGE;
        let limit = limit.unwrap_or(usual);
        if limit < least || limit > most {
            return Err(Error::argument("limit", format!("use {least} to {most}")));
        }
        self.fresh(&scope, "", patience()).await?;
        let mut rows =
            self.patiently(|| store::events(&self.ro, &scope, from_ts, limit + 1)).await?;
        let next_ts = cut_between_moments(&mut rows, limit)?;
        Ok(json!({"events": rows, "next_ts": next_ts}))
    }

    /// Logs a refused call as an event; the memory itself stays as it is. Of a flood of refusals a few are, the last with the sum of those before.
    pub async fn note_refusal(
        &self,
        principal: &Principal,
        agent: &str,
        error: &Error,
    ) -> Result<()> {
        let scope = admit(principal, agent)?;
        let told = |name: &str| error.fields.get(name).and_then(Value::as_u64).unwrap_or(0);
        let one = Refused {
            calls: 1,
            offered_chunks: told("offered_chunks"),
            refused_chunks: told("refused_chunks"),
        };
        let code = error.code.text();
        let Some(sum) = self.refusals.count(scope.key(), code, one, clock::now()) else {
            return Ok(());
        };
        let mut details = error.fields.clone();
        details.insert("code".into(), code.into());
        if sum.calls > 1 {
            details.insert("calls".into(), sum.calls.into());
        }
        if sum.calls > 1 && sum.offered_chunks > 0 {
            details.insert("offered_chunks".into(), sum.offered_chunks.into());
            details.insert("refused_chunks".into(), sum.refused_chunks.into());
        }
        let event = Event {
            kind: EventType::Error,
            details,
            agent_id: scope.key().to_owned(),
            ts: iso8601(self.clock.unix_ms()),
        };
        store::note(&self.rw, &scope, &event).await.map_err(Error::from)
    }

    /// Whether both sockets answer, and what is worth knowing beside that.
    pub async fn ready(&self) -> Result<Value> {
        self.ro.ping().await?;
        self.rw.ping().await?;
        self.rw.takes_writes().await.map_err(not_writable)?;
        let index = store::serving_index(&self.ro).await?;
        if index.id.is_none() || self.archive.unsettled() {
            self.archive.nudge();
        }
        Ok(json!({"vector_index": self.archive.report(&index)}))
    }

    /// Asks the database, and again while it is silent, for as long as a call may take.
    pub(super) async fn patiently<T, F: Future<Output = std::result::Result<T, Fault>>>(
        &self,
        ask: impl Fn() -> F,
    ) -> Result<T> {
        let mut faults = 0;
        let deadline = patience();
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(fault) => self.pause(fault, &mut faults, deadline).await?,
            }
        }
    }
}

fn not_writable(fault: Fault) -> Error {
    if !fault.refuses_writes() {
        return fault.into();
    }
    let text = "the database takes no writes (its disk, its licence, or a write concern): see its log and give it room; the embedded engine takes \
                them again once it is started anew";
    Error::new(Code::StoreUnavailable, text).caused_by(fault)
}

/// Cuts one row more than a page so that no moment is split; gives the moment the next page begins with.
fn cut_between_moments(rows: &mut Vec<Value>, limit: u64) -> Result<Option<String>> {
    if rows.len() as u64 <= limit {
        return Ok(None);
    }
    let moment = |row: &Value| row["ts"].as_str().unwrap_or_default().to_owned();
    let last = rows.last().map(moment).unwrap_or_default();
    rows.retain(|row| moment(row) != last);
    match rows.is_empty() {
        true => Err(Error::new(
            Code::Internal,
            format!("more than {limit} events at {last}: ask for a larger page"),
        )),
        false => Ok(Some(last)),
    }
}

pub(super) fn forgotten() -> Error {
    let text =
        "the agent of this name was forgotten, and the name is not used again: choose another one";
    Error::new(Code::AgentForgotten, text)
}

fn exists(found: &Arc<Core>) -> Error {
    Error::new(
        Code::AgentExists,
        "the agent exists with another window, system text or encoding: change it with PATCH",
    )
    .with("_rev", found.rev.as_str())
    .with("context_window", found.context_window)
}

pub(super) fn creation(core: &Core, principal: &Principal) -> Event {
    let details = json!({"tool": "create_agent", "actor": principal.actor, "tokens_after": tokens(core),
        "version_before": 0, "version_after": core.version, "head_seq": 1, "next_seq": 1,
        "chain_head": core.chain.head, "policy": core.token_budget, "encoding": core.encoding});
    let mut details = details.as_object().cloned().unwrap_or_default();
    if let Some(branch) = &core.branch {
        details.insert("branch".into(), json!(branch));
    }
    Event {
        kind: EventType::Audit,
        details,
        agent_id: core.agent_id.clone(),
        ts: core.updated_at.clone(),
    }
}

fn state(scope: &Scope, core: &Core) -> Value {
    json!({
        "agent": scope.agent(), "agent_id": core.sealed_as(), "_rev": core.rev, "version": core.version, "context_window": core.context_window,
        "encoding": core.encoding, "system": core.system.content, "token_budget": core.token_budget,
        "working_blocks": core.working_blocks, "blocks": core.working_blocks, "queue": core.queue,
        "summary": core.queue_head_summary, "budget": core.token_budget, "notices": core.notices, "tools": core.tools, "chain": core.chain,
        "counters": core.counters, "heartbeat": core.heartbeat, "archived": core.archived, "expired": core.expired, "forgotten": core.forgotten, "turns": core.turns, "run": core.run, "asked": core.asked, "learned": core.learned, "tokens": tokens(core), "created_at": core.created_at, "updated_at": core.updated_at,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::cut_between_moments;

    fn rows(moments: &[&str]) -> Vec<Value> {
        moments.iter().map(|ts| json!({"ts": ts})).collect()
    }

    #[test]
    fn a_page_of_events_ends_between_two_moments() {
        for (moments, left, next) in [
            (&["a", "b"][..], 2, None),
            (&["a", "b", "b"], 1, Some("b")),
            (&["a", "b", "c"], 2, Some("c")),
        ] {
            let mut page = rows(moments);
            let found = cut_between_moments(&mut page, 2).unwrap();
            assert_eq!((page.len(), found.as_deref()), (left, next), "{moments:?}");
        }
        assert!(cut_between_moments(&mut rows(&["a", "a", "a"]), 2).is_err());
    }
}
