//! Executes requests that are not tools: creates and shows agents, renders the window, and lists
//! messages and events.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::executor::Executor;
use super::kernel::patience;
use super::moving::elsewhere;
use super::paged::paged;
use super::refusals::Refused;
use super::request::page_limit;
use super::users::check_user;
use crate::executor::limits::ATTEMPTS_MAX;
use crate::store::{self, Created, Fault, Listed};
use vctx_base::clock::{self, iso8601};
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::HISTORY_PAGE;
use vctx_core::memory::Labels;
use vctx_core::memory::core::Core;
use vctx_core::memory::event::{Event, EventType, in_present_form, without_names};
use vctx_core::tools::{NewAgent, new_core};
use vctx_core::trust::{Principal, Scope, admit, local_key, numbered};
use vctx_core::window::{assemble, narrow_window, tokens};

/// Number of messages in the first step of a page of `/messages`.
const MESSAGES_STEP: u64 = 32;
/// Number of versions in the first step of a page of `/history`.
const VERSIONS_STEP: u64 = 2;
/// Default and largest value of `limit` in requests of `/messages`.
pub(crate) const MESSAGES_PAGE: (u64, u64) = (100, 1_000);
/// Default, smallest and largest value of `limit` in requests of `/events`. All events of one
/// timestamp are on one page; a timestamp has only a few events.
pub(crate) const EVENTS_PAGE: (u64, u64, u64) = (200, 64, 1_000);
/// Default and largest value of `limit` in requests of `/sessions`.
pub(crate) const SESSIONS_PAGE: (u64, u64) = (100, 1_000);
/// Default and largest value of `limit` in requests of `/v1/agents`.
pub(crate) const AGENTS_PAGE: (u64, u64) = (1_000, 10_000);

/// The agents of a person.
pub(super) struct UserAgents {
    /// Their names.
    pub(super) names: Vec<String>,
    /// Whether there are more agents.
    pub(super) has_more: bool,
}

impl Executor {
    /// Creates an agent. A repeated request changes nothing; a request with other settings for an
    /// existing name is refused. Returns `true` if this call created the agent.
    pub async fn create(
        &self,
        principal: &Principal,
        agent: &str,
        body: NewAgent,
    ) -> Result<(bool, Value)> {
        let scope = admit(principal, agent)?;
        let body = body.checked()?;
        let counter = self.kernel.counters.of(body.encoding);
        let mut core = new_core(&scope, &body, &**counter, self.kernel.clock.unix_ms())?;
        core.heartbeat.limits = self.heartbeat;
        let mut tries = 0;
        loop {
            if let Some(rev) = self.made(&scope, &core, principal).await? {
                core.rev = rev;
                return Ok((true, self.state_of(&scope, &core)));
            }
            let found = match self.kernel.fresh(&scope, &[], patience()).await {
                Ok((found, _)) => found,
                // The name exists but has no core: an import has reserved it.
                Err(error) if error.code == Code::AgentNotFound => {
                    self.wait_for_place(&scope, &mut tries).await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            return match body.describes(&found) {
                true => Ok((false, self.state_of(&scope, &found))),
                false => Err(exists(&found)),
            };
        }
    }

    /// Writes a new agent and returns its revision, or `None` if the name is taken.
    pub(super) async fn made(
        &self,
        scope: &Scope,
        core: &Core,
        principal: &Principal,
    ) -> Result<Option<String>> {
        let mut core = Core { salt: self.kernel.ids.salt(), ..core.clone() };
        core.hold_texts(None);
        let core = &core;
        let event = creation(core, principal);
        self.room_for(scope).await?;
        self.directory.register(&self.kernel, scope).await?;
        let (rw, place) = (&self.kernel.rw, self.directory.place.as_str());
        // If another call creates the same agent, this call waits for that call's result.
        match self.kernel.contended(|| store::create(rw, scope, core, &event, place)).await? {
            Created::Made(rev) => {
                self.quota.add(scope.tenant());
                self.kernel.cores.put(Arc::new(Core { rev: rev.clone(), ..core.clone() }));
                Ok(Some(rev))
            }
            Created::Taken => Ok(None),
            Created::Forgotten => Err(forgotten()),
            Created::Elsewhere => Err(elsewhere()),
        }
    }

    /// Frees the name of an agent if an interrupted import has reserved it. Fails if the import is
    /// still running.
    async fn wait_for_place(&self, scope: &Scope, tries: &mut u32) -> Result<()> {
        *tries += 1;
        if *tries <= ATTEMPTS_MAX && self.transfers().freed(scope).await? {
            return Ok(());
        }
        let text = "an agent of that name is being imported: try again after the import";
        Err(Error::new(Code::Conflict, text))
    }

    /// Returns an agent's state.
    pub async fn state(&self, principal: &Principal, agent: &str) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let (core, _) = self.kernel.fresh(&scope, &[], patience()).await?;
        Ok(self.state_of(&scope, &core))
    }

    /// Returns a page of the agents of the caller's tenant by name, after the agent `after` (empty:
    /// from the first agent). `next` in the answer is the `after` of the next page; null after the
    /// last agent.
    pub async fn agents(
        &self,
        principal: &Principal,
        user: Option<&str>,
        after: &str,
        limit: Option<u64>,
    ) -> Result<Value> {
        let limit = page_limit(limit, AGENTS_PAGE)?;
        user.map_or(Ok(()), check_user)?;
        let after = match after {
            "" => String::new(),
            agent => admit(principal, agent)?.key().to_owned(),
        };
        let tenant = &principal.tenant;
        let rows = self.kernel.read(|ro| store::list(ro, tenant, user, &after, limit)).await?;
        let full = rows.len() as u64 == limit;
        let agents: Vec<Value> = rows
            .into_iter()
            .map(|row| {
                let mut map = match row {
                    Value::Object(map) => map,
                    _ => Map::new(),
                };
                let key = map.remove("_key").unwrap_or_default();
                let key = local_key(&principal.tenant, key.as_str().unwrap_or_default());
                let names = map.remove("names").unwrap_or_default();
                let newest = names.as_array().and_then(|names| names.last()?.as_str());
                let name = newest.unwrap_or(numbered(key).0);
                map.insert("agent".into(), name.into());
                if name != key {
                    map.insert("key".into(), key.into());
                }
                Value::Object(map)
            })
            .collect();
        let key = |last: &Value| last.get("key").unwrap_or(&last["agent"]).clone();
        let next = agents.last().filter(|_| full).map_or(Value::Null, key);
        Ok(json!({"agents": agents, "next": next}))
    }

    /// Returns the names of the agents of a person, at most `limit`.
    pub(super) async fn agents_of_user(
        &self,
        principal: &Principal,
        user: &str,
        after: &str,
        limit: u64,
    ) -> Result<UserAgents> {
        let listed = self.agents(principal, Some(user), after, Some(limit)).await?;
        let name =
            |row: &Value| row.get("key").unwrap_or(&row["agent"]).as_str().map(str::to_owned);
        let rows = listed["agents"].as_array().map(Vec::as_slice).unwrap_or_default();
        let names = rows.iter().filter_map(name).collect();
        Ok(UserAgents { names, has_more: !listed["next"].is_null() })
    }

    /// Returns an agent's state, with the retention limits if there are any.
    pub(super) fn state_of(&self, scope: &Scope, core: &Core) -> Value {
        let mut told = state(scope, core);
        let (first, incarnation) = numbered(scope.local_key());
        if incarnation > 1 {
            told["incarnation"] = incarnation.into();
        }
        if !core.names.is_empty() {
            let given = core.names.iter().map(String::as_str);
            let first = Some(first).filter(|first| !given.clone().any(|name| name == *first));
            told["names"] = first.into_iter().chain(given).collect();
        }
        if let Some(source) = &core.cloned {
            let from = local_key(scope.tenant(), &source.from);
            told["cloned"] = json!({"from": from, "n": source.n, "hash": source.hash});
        }
        if let Some(branch) = &core.branch {
            told["branch"] = json!(branch);
        }
        if let Some(user) = &core.user {
            told["user"] = user.as_str().into();
        }
        if let Some(warning) = narrow_window(core) {
            told["warnings"] = json!([warning]);
        }
        if let Some(recall_ttl_s) = self.retention.recall_ttl_s() {
            let before = self.retention.before(self.kernel.clock.unix_ms());
            told["retention"] = json!({"recall_ttl_s": recall_ttl_s, "before": before});
        }
        if let Some(degraded) = self.summary_health.told() {
            told["degraded"] = degraded;
        }
        told
    }

    /// Returns the rendered window with its receipt. With `prove`, the receipt contains the proof
    /// of a signed head of the agent's ledger that covers the window.
    pub async fn context(&self, principal: &Principal, agent: &str, prove: bool) -> Result<Value> {
        let (scope, core, queue) = self.queued(principal, agent).await?;
        let window = assemble(&core, &queue);
        let mut receipt = json!({"agent": scope.agent(), "_rev": core.rev,
            "context_window": core.context_window, "messages": window.messages,
            "tokens": window.tokens, "manifest": window.manifest,
            "context_digest": window.context_digest});
        if prove {
            receipt["signed"] = json!(self.signed_head(&scope).await?);
        }
        Ok(receipt)
    }

    /// Returns one page of the messages in an agent's log, or of one session of it. `originals`
    /// tells whether messages in quarantine have their texts, as a caller needs who compares the
    /// texts with their digests.
    pub async fn messages(
        &self,
        principal: &Principal,
        agent: &str,
        session: Option<&str>,
        (from_seq, limit): (u64, Option<u64>),
        originals: bool,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let limit = page_limit(limit, MESSAGES_PAGE)?;
        session.map_or(Ok(()), |session| check_session("session", session))?;
        let (core, _) = self.kernel.fresh(&scope, &[], patience()).await?;
        let measure = |row: &Listed| (row.message.seq, row.message.content.len());
        let scope = &scope;
        let read =
            |from, count| self.kernel.read(move |ro| store::page(ro, scope, session, from, count));
        let page = paged(from_seq, limit, MESSAGES_STEP, measure, read).await?;
        let messages: Vec<Value> = page
            .rows
            .into_iter()
            .map(|row| {
                let mut map = match originals {
                    true => row.message.public(),
                    false => self.taint.shown_message(&core, &row.message),
                };
                // A message may be newer than the loaded core, or evicted since the core was
                // loaded, so the message's own row also decides whether it is in the queue.
                let queued = row.message.kind.queued()
                    && row.message.seq >= core.queue.head_seq
                    && !row.logged
                    && (row.message.forgotten_at.is_none() || row.message.frame_tokens > 0);
                map.insert("in_queue".into(), queued.into());
                map.insert("logged".into(), row.logged.into());
                map.insert("evicted_batch_id".into(), json!(row.evicted_batch_id));
                Value::Object(map)
            })
            .collect();
        Ok(json!({"messages": messages, "next_seq": page.next}))
    }

    /// Returns a page of an agent's sessions by name, with the number of their messages.
    pub async fn sessions(
        &self,
        principal: &Principal,
        agent: &str,
        after: &str,
        limit: Option<u64>,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let limit = page_limit(limit, SESSIONS_PAGE)?;
        if !after.is_empty() {
            check_session("after", after)?;
        }
        self.kernel.fresh(&scope, &[], patience()).await?;
        let read = |ro| store::sessions(ro, &scope, after, limit + 1);
        let mut sessions = self.kernel.read(read).await?;
        let has_more = sessions.len() as u64 > limit;
        sessions.truncate(limit as usize);
        let last = sessions.last().filter(|_| has_more);
        let next = last.map_or(Value::Null, |last| last["session"].clone());
        Ok(json!({"agent": scope.agent(), "sessions": sessions, "next": next}))
    }

    /// Returns a page of the versions of an agent's core, and the version with which the next page
    /// begins. Each version has the core's texts as they were after one change.
    pub async fn history(
        &self,
        principal: &Principal,
        agent: &str,
        from_version: u64,
        limit: Option<u64>,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let limit = page_limit(limit, HISTORY_PAGE)?;
        let (core, _) = self.kernel.fresh(&scope, &[], patience()).await?;
        let measure = |row: &Value| (row["version"].as_u64().unwrap_or(0), text_bytes(row));
        let read = |from, count| {
            let scope = &scope;
            self.kernel.read(move |ro| store::versions(ro, scope, from, count))
        };
        let page = paged(from_version, limit, VERSIONS_STEP, measure, read).await?;
        Ok(json!({
            "agent": scope.agent(), "_rev": core.rev, "version": core.version,
            "versions": page.rows, "next_version": page.next
        }))
    }

    /// Returns a page of an agent's events from a timestamp, and the timestamp with which the next
    /// page begins.
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
        self.kernel.fresh(&scope, &[], patience()).await?;
        let mut rows = self.kernel.read(|ro| store::events(ro, &scope, from_ts, limit + 1)).await?;
        rows.iter_mut().for_each(in_present_form);
        let next_ts = cut_between_moments(&mut rows, limit)?;
        Ok(json!({"events": rows, "next_ts": next_ts}))
    }

    /// Records a refused call as an event; the memory stays unchanged. Many refusals in a short
    /// time become few events: each event also counts the unrecorded refusals before it.
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
        let mut details = without_names(scope.key(), &error.fields);
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
            ts: iso8601(self.kernel.clock.unix_ms()),
        };
        store::note(&self.kernel.rw, &scope, &event).await.map_err(Error::from)
    }

    /// Checks that both database sockets answer and that the database accepts writes. Returns the
    /// vector index's state.
    pub async fn ready(&self) -> Result<Value> {
        self.kernel.ro.ping().await?;
        self.kernel.rw.ping().await?;
        self.kernel.rw.takes_writes().await.map_err(not_writable)?;
        let index = store::serving_index(&self.kernel.ro).await?;
        if index.id.is_none() || self.archive.is_unchecked() {
            self.archive.nudge();
        }
        let index = self.archive.report(&index);
        let embedder = json!(self.kernel.embedders.fingerprint());
        let mut report =
            json!({"vector_index": index, "embedder": embedder, "models": self.models_told()});
        if let Some(degraded) = self.summary_health.told() {
            report["degraded"] = degraded;
        }
        if let Some(checkpoints) = self.kernel.checkpoints.as_ref().filter(|all| all.has_witness())
        {
            report["witness"] = checkpoints.witness_told();
        }
        Ok(report)
    }
}

/// Refuses a name that no session can have; `field` names the argument.
fn check_session(field: &str, session: &str) -> Result<()> {
    let labels = Labels { session: Some(session.to_owned()), ..Labels::default() };
    labels.check("session").map_err(|error| error.with("field", field))
}

fn not_writable(fault: Fault) -> Error {
    if !fault.refuses_writes() {
        return fault.into();
    }
    let text = "the database takes no writes (its disk, its licence, or a write concern): see its log and give it room; the embedded engine takes \
                them again after its next start";
    Error::new(Code::StoreUnavailable, text).caused_by(fault)
}

/// Ends a page between two timestamps, so that all events of one timestamp stay together. Returns
/// the timestamp with which the next page begins.
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
    let text = "the agent of this name was forgotten: choose another name";
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
    let mut told = json!({
        "agent": scope.agent(), "agent_id": core.sealed_as(), "_rev": core.rev, "version": core.version, "context_window": core.context_window,
        "encoding": core.encoding, "form": core.form, "outbound": core.outbound(), "spending": core.spending(),
        "zone": core.window_clock.as_ref().map(|clock| &clock.zone), "system": core.system.content, "token_budget": core.token_budget,
        "working_blocks": core.working_blocks, "blocks": core.working_blocks, "queue": core.queue,
        "summary": core.queue_head_summary, "budget": core.token_budget, "notices": core.notices, "tools": core.offered(), "chain": core.chain,
        "counters": core.counters, "heartbeat": core.heartbeat, "archived": core.archived, "expired": core.expired, "forgotten": core.forgotten, "turns": core.turns, "run": core.run, "asked": core.asked, "learned": core.learned, "tokens": tokens(core), "created_at": core.created_at, "updated_at": core.updated_at,
    });
    if let Some(engineer) = core.engineer {
        told["engineer"] = json!(engineer);
    }
    told
}

/// Returns the length of all texts in a value, in bytes.
fn text_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(text_bytes).sum(),
        Value::Object(fields) => fields.values().map(text_bytes).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
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
