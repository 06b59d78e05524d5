//! Prompts: rendered and on record before they are sent, ended by their answers, put together again, listed; and the leases of their runs.

use serde_json::{Map, Value, json};

use super::executor::{Executor, no_agent};
use super::request::{CallRequest, Reply};
use crate::store;
use vctx_core::context::{Replayed, Stored, assemble, replay};
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{PROMPTS_PAGE, QUEUE_ROWS_MAX, RUNS_EXPIRED_MAX};
use vctx_core::memory::prompt::{Prompt, PromptEnd, Rendered, Sent, request_text};
use vctx_core::memory::receipt::{canonical_json, sha256};
use vctx_core::policy::{Principal, Scope, admit, safe_estimate};
use vctx_core::tools::{Call, HoldRun, RecordAnswer, RecordPrompt};

/// What is asked of a model.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The run, opened or renewed by this.
    pub hold: HoldRun,
    /// The model's name.
    pub model: String,
    /// Schemas of the tools that are offered, as they stand in the request.
    pub tools: Vec<Value>,
    /// Everything else in the body, but `model`, `messages` and `tools`.
    pub options: Map<String, Value>,
}

/// A prompt that is on record and may be sent.
#[derive(Clone, Debug)]
pub struct Prompted {
    /// Its number.
    pub turn: u64,
    /// The bytes to send.
    pub request: String,
    /// Revision of the core that was rendered.
    pub core_rev: String,
    /// What it costs by our count, tools included.
    pub token_estimate: u64,
    /// What the model counts for each thousand of our tokens, as far as it is known.
    pub factor_permille: u64,
    /// The estimate by that factor, never below ours.
    pub safe_estimate: u64,
    /// Whether an earlier call under this key recorded it: then these are the bytes of that one.
    pub replayed: bool,
    /// What became of it, if it has ended already.
    pub end: Option<PromptEnd>,
}

/// A run whose lease has passed.
#[derive(Clone, Debug)]
pub struct ExpiredRun {
    /// Tenant of the agent.
    pub tenant: String,
    /// The agent by name.
    pub agent: String,
    /// Key of the run.
    pub run: String,
    /// Seq of the message that began it.
    pub cause_seq: u64,
    /// Last millisecond of its lease.
    pub until_ms: u64,
}

/// Parts of a body that are told by name.
const NAMED: [&str; 3] = ["model", "messages", "tools"];

impl Executor {
    /// Renders the window, makes the request of it and puts it on record, opening or renewing the run. With a key that an earlier call used
    /// it gives the request of that call again, whatever became of the memory since.
    pub async fn prompt(
        &self,
        principal: &Principal,
        agent: &str,
        key: &str,
        ask: &Ask,
    ) -> Result<Prompted> {
        let scope = admit(principal, agent)?;
        if let Some(name) = NAMED.iter().find(|name| ask.options.contains_key(**name)) {
            return Err(Error::argument(&format!("options.{name}"), "is told by its own name"));
        }
        let loaded =
            self.patiently(|| store::load_context(&self.ro, &scope, QUEUE_ROWS_MAX)).await?;
        let (core, queue) = loaded.ok_or_else(no_agent)?;
        let window = assemble(&core, &queue);
        let tools = (!ask.tools.is_empty()).then(|| Value::Array(ask.tools.clone()));
        let counter = self.counters.of(core.encoding);
        let offered = tools.as_ref().map_or(0, |tools| counter.count(&canonical_json(tools)));
        let request = request_text(&ask.model, &window.messages, tools, &ask.options);
        let core_rev = core.rev.clone();
        let rendered = Rendered {
            version: core.version,
            core_rev: core.rev.clone(),
            head_seq: core.queue.head_seq,
            next_seq: core.queue.next_seq,
            chain: core.chain.clone(),
            summary_rev: core.queue_head_summary.revision,
            open_calls: core.open_calls.clone(),
            notices: core.notices.clone(),
            encoding: core.encoding,
            policy: core.token_budget,
            offered: core.tools.clone(),
            messages_digest: window.manifest["messages_digest"].as_str().unwrap_or_default().into(),
            context_digest: window.context_digest.clone(),
            // What is offered now counts, whatever the core was told of it.
            token_estimate: window.tokens.occupancy - window.tokens.tools + offered,
        };
        let sent = Sent {
            model: ask.model.clone(),
            tools: None,
            options: canonical_json(&Value::Object(ask.options.clone())),
            request_digest: sha256(&request),
        };
        let call = RecordPrompt {
            hold: ask.hold.clone(),
            window: rendered,
            sent,
            tools: ask.tools.clone(),
        };
        // What is asked for under a key is the next prompt of this run, whatever is in it.
        let arguments = Map::from_iter([("run".to_owned(), json!(ask.hold.run))]);
        let call = Call::RecordPrompt(Box::new(call));
        let body = self.internal(principal, agent, key, call, arguments).await?.body;
        let result = &body["result"];
        let number = |name: &str| result[name].as_u64().unwrap_or(0);
        if body["replayed"] == true {
            return self.asked_before(&scope, number("turn")).await;
        }
        let (estimate, factor) = (number("token_estimate"), number("factor_permille"));
        Ok(Prompted {
            turn: number("turn"),
            request,
            core_rev,
            token_estimate: estimate,
            factor_permille: factor,
            safe_estimate: safe_estimate(estimate, factor),
            replayed: false,
            end: None,
        })
    }

    /// The prompt that an earlier call recorded.
    async fn asked_before(&self, scope: &Scope, turn: u64) -> Result<Prompted> {
        let (prompt, replayed) = self.replayed(scope, turn).await?;
        if prompt.end.is_none() && !replayed.is_exact() {
            return Err(Error::new(
                Code::Internal,
                format!(
                    "prompt {turn} waits for its answer and cannot be put together again: see `vctx replay`"
                ),
            ));
        }
        let (estimate, factor) = (prompt.window.token_estimate, prompt.factor_permille);
        Ok(Prompted {
            turn,
            request: replayed.request,
            core_rev: prompt.window.core_rev,
            token_estimate: estimate,
            factor_permille: factor,
            safe_estimate: safe_estimate(estimate, factor),
            replayed: true,
            end: prompt.end,
        })
    }

    /// Writes what became of a prompt: the assistant's message, where there is one, and the end of the row.
    pub async fn answered(
        &self,
        principal: &Principal,
        agent: &str,
        key: &str,
        answer: RecordAnswer,
    ) -> Result<Reply> {
        let arguments = Map::from_iter([
            ("run".to_owned(), json!(answer.run)),
            ("turn".to_owned(), json!(answer.turn)),
        ]);
        let call = Call::RecordAnswer(Box::new(answer));
        self.internal(principal, agent, key, call, arguments).await
    }

    async fn internal(
        &self,
        principal: &Principal,
        agent: &str,
        key: &str,
        call: Call,
        arguments: Map<String, Value>,
    ) -> Result<Reply> {
        let request = CallRequest {
            principal: principal.clone(),
            agent: agent.to_owned(),
            call,
            arguments,
            key: Some(key.to_owned()),
            guard: None,
            capture: None,
            wording: None,
        };
        self.call(&request).await
    }

    /// Runs whose lease has passed, the oldest first.
    pub async fn expired_runs(&self) -> Result<Vec<ExpiredRun>> {
        let now = self.clock.unix_ms();
        let rows = self.patiently(|| store::expired_runs(&self.ro, now, RUNS_EXPIRED_MAX)).await?;
        let named = |row: store::ExpiredRun| {
            let prefix = format!("{}:", row.tenant);
            let agent = match row.tenant.as_str() {
                "" => row.key.as_str(),
                _ => row.key.strip_prefix(&prefix).unwrap_or(&row.key),
            };
            ExpiredRun {
                agent: agent.to_owned(),
                tenant: row.tenant,
                run: row.run,
                cause_seq: row.cause_seq,
                until_ms: row.until_ms,
            }
        };
        Ok(rows.into_iter().map(named).collect())
    }

    /// A past prompt put together again.
    pub(super) async fn replayed(&self, scope: &Scope, turn: u64) -> Result<(Prompt, Replayed)> {
        let loaded = self
            .patiently(|| store::load_prompt(&self.ro, scope, turn, QUEUE_ROWS_MAX))
            .await?
            .ok_or_else(no_agent)?;
        let core = loaded.core.ok_or_else(no_agent)?;
        let prompt = loaded.prompt.ok_or_else(|| {
            Error::new(Code::PromptNotFound, format!("no prompt {turn}: there are {}", core.turns))
                .with("turns", core.turns)
        })?;
        let counter = self.counters.of(prompt.window.encoding);
        let replayed = replay(Stored {
            core: &core,
            prompt: &prompt,
            texts: loaded.texts.as_ref(),
            tools: loaded.tools.as_ref(),
            queue: &loaded.queue,
            counter: &**counter,
        });
        Ok((prompt, replayed))
    }

    /// Revision of the core that a prompt showed.
    pub async fn shown_revision(
        &self,
        principal: &Principal,
        agent: &str,
        turn: u64,
    ) -> Result<String> {
        let (prompt, _) = self.replayed(&admit(principal, agent)?, turn).await?;
        Ok(prompt.window.core_rev)
    }

    /// A past prompt as it was sent, with what is gone of it and what is not as it was.
    pub async fn replay_prompt(
        &self,
        principal: &Principal,
        agent: &str,
        turn: u64,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let (prompt, found) = self.replayed(&scope, turn).await?;
        Ok(
            json!({"agent": scope.agent(), "turn": turn, "exact": found.is_exact(), "request": found.request,
            "request_bytes": found.request.len(), "gone": found.gone, "differs": found.differs,
            "tokens": found.window.tokens, "manifest": found.window.manifest, "prompt": shown(&prompt)}),
        )
    }

    /// A page of an agent's prompts, and the turn that the next page begins with.
    pub async fn prompts(
        &self,
        principal: &Principal,
        agent: &str,
        from_turn: u64,
        limit: Option<u64>,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let (usual, most) = PROMPTS_PAGE;
        let limit = limit.unwrap_or(usual);
        if limit == 0 || limit > most {
            return Err(Error::argument("limit", format!("use 1 to {most}")));
        }
        let loaded = self.patiently(|| store::prompts(&self.ro, &scope, from_turn, limit)).await?;
        let (core, rows) = loaded.ok_or_else(no_agent)?;
        let full = rows.len() as u64 == limit;
        let next_turn = rows.last().filter(|_| full).map(|row| row.turn + 1);
        let prompts: Vec<Value> = rows.iter().map(shown).collect();
        Ok(
            json!({"agent": scope.agent(), "turns": core.turns, "run": core.run, "learned": core.learned,
            "prompts": prompts, "next_turn": next_turn}),
        )
    }
}

/// A row as it is told outside: without its database key, its options as an object.
fn shown(prompt: &Prompt) -> Value {
    let mut told = json!(prompt);
    if let Some(map) = told.as_object_mut() {
        map.remove("_key");
        let options = serde_json::from_str::<Value>(&prompt.sent.options).unwrap_or_default();
        map.insert("options".into(), options);
        map.insert("waits".into(), prompt.end.is_none().into());
    }
    told
}
