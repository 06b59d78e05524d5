//! Renders and records prompts, records how they ended, rebuilds and lists past prompts, and renews
//! run leases.

use serde_json::{Map, Value, json};

use super::contexts::ContextOfPrompt;
use super::executor::Executor;
use super::kernel::no_agent;
use super::request::{CallRequest, Reply, page_limit};
use crate::executor::limits::QUEUE_ROWS_MAX;
use crate::store::{self, ExpiredRun};
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::PROMPTS_PAGE;
use vctx_core::memory::model_api::ModelApi;
use vctx_core::memory::prompt::{Prompt, PromptEnd, RenderedPrompt, SentPrompt};
use vctx_core::memory::receipt::{canonical_json, sha256};
use vctx_core::model_api::{ModelRequest, check_options};
use vctx_core::policy::safe_estimate;
use vctx_core::proof::{Replayed, Stored, replay};
use vctx_core::text::EarlierTiktoken;
use vctx_core::tools::{HoldRun, RecordAnswer, RecordPrompt};
use vctx_core::trust::{Principal, Scope, admit};
use vctx_core::window::{Section, assemble, tokens};

/// Maximum number of expired runs that one search returns; later searches find the remaining runs.
const RUNS_EXPIRED_MAX: u64 = 256;

/// A request to a model before its prompt is recorded.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The run that this request begins, or whose lease it renews.
    pub hold: HoldRun,
    /// Name of the model.
    pub model: String,
    /// API in whose form the request is sent.
    pub api: ModelApi,
    /// Schemas of the offered tools, in the format of chat completions.
    pub tools: Vec<Value>,
    /// The context that the prompt shows, if one was to be built.
    pub context: Option<ContextOfPrompt>,
    /// All fields of the request to the model except `model`, `messages` and `tools`, in the format
    /// of chat completions.
    pub options: Map<String, Value>,
}

/// A recorded prompt, ready to be sent.
#[derive(Clone, Debug)]
pub struct Prompted {
    /// Sequence number of the prompt.
    pub turn: u64,
    /// The JSON text of the request to the model.
    pub request: String,
    /// Revision of the core that the prompt shows.
    pub core_rev: String,
    /// Tokens of the prompt by the server's count, including tools.
    pub token_estimate: u64,
    /// Number of tokens that the model counts for every 1000 tokens of the server's count, if
    /// known.
    pub factor_permille: u64,
    /// The product of `token_estimate` and `factor_permille` / 1000, but at least `token_estimate`.
    pub safe_estimate: u64,
    /// Whether an earlier call with the same key recorded the prompt; `request` is then that call's
    /// text.
    pub replayed: bool,
    /// How the prompt ended, if it has ended.
    pub end: Option<PromptEnd>,
}

/// Fields of a request to a model that have their own arguments, and are therefore refused in
/// `options`.
const NAMED: [&str; 3] = ["model", "messages", "tools"];

impl Executor {
    /// Renders the window, builds the request to the model and records the prompt; this begins the
    /// run or renews its lease. If an earlier call used the same idempotency key, returns the
    /// request to the model that this earlier call built, even if the memory has changed.
    pub async fn prompt(
        &self,
        principal: &Principal,
        agent: &str,
        key: &str,
        ask: &Ask,
    ) -> Result<Prompted> {
        admit(principal, agent)?;
        if let Some(name) = NAMED.iter().find(|name| ask.options.contains_key(**name)) {
            return Err(Error::argument(
                &format!("options.{name}"),
                "has an argument of its own: use that",
            ));
        }
        check_options(ask.api, &ask.options)?;
        let (scope, mut core, queue) = self.queued(principal, agent).await?;
        if let Some(clock) = &mut core.window_clock {
            clock.set(self.kernel.clock.unix_ms());
        }
        let context = ask.context.clone().filter(|context| {
            // The queue may have grown since the context was built.
            tokens(&core).occupancy + context.tokens() <= core.token_budget.max
        });
        if let Some(shown) = context.as_ref().and_then(|context| context.shown.clone()) {
            core.context.get_or_insert_default().shown = Some(shown);
        }
        let window = assemble(&core, &queue);
        let tools = (!ask.tools.is_empty()).then(|| Value::Array(ask.tools.clone()));
        let counter = self.kernel.counters.of(core.encoding);
        let offered = tools.as_ref().map_or(0, |tools| counter.count(&canonical_json(tools)));
        let request = ModelRequest {
            model: &ask.model,
            messages: &window.messages,
            tools: (!ask.tools.is_empty()).then_some(&ask.tools[..]),
            options: &ask.options,
        };
        let request = request.text(ask.api);
        let core_rev = core.rev.clone();
        let rendered = RenderedPrompt {
            version: core.version,
            core_rev: core.rev.clone(),
            head_seq: core.queue.head_seq,
            next_seq: core.queue.next_seq,
            chain: core.chain.clone(),
            summary_rev: core.queue_head_summary.revision,
            open_calls: core.open_calls.clone(),
            notices: core.notices.clone(),
            encoding: core.encoding,
            form: core.form,
            now: core.window_clock.as_ref().and_then(|clock| clock.now.clone()),
            clock: core.window_clock.clone(),
            opened_on: core.queue.opened_on.clone(),
            fillers: queue
                .iter()
                .filter(|message| message.filler(core.form).is_some())
                .map(|message| message.seq)
                .collect(),
            policy: core.token_budget,
            offered: core.offered().clone(),
            pack: context.as_ref().and_then(|one| one.shown.as_ref()).map(|one| one.digest.clone()),
            messages_digest: window.manifest["messages_digest"].as_str().unwrap_or_default().into(),
            context_digest: window.context_digest.clone(),
            // Counts the tokens of this request's tools instead of the tokens of the tools recorded
            // in the core.
            token_estimate: window.tokens.without(&[Section::Tools]) + offered,
        };
        let sent = SentPrompt {
            model: ask.model.clone(),
            api: ask.api,
            tools: None,
            options: canonical_json(&Value::Object(ask.options.clone())),
            request_digest: sha256(&request),
            options_forgotten_at: None,
            notices_forgotten_at: None,
        };
        let call = RecordPrompt {
            hold: ask.hold.clone(),
            window: rendered,
            sent,
            tools: ask.tools.clone(),
            context: context.map(|context| context.recorded),
        };
        // The request hash covers only the run. Within the run, the idempotency key alone
        // identifies the prompt, so a repeated call finds the prompt even if the window has
        // changed.
        let arguments = [("run", json!(ask.hold.run))];
        let whose = (principal.clone(), agent.to_owned());
        let put = CallRequest::internal(whose, call, arguments);
        let body = self.call(&CallRequest { key: Some(key.to_owned()), ..put }).await?.body;
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

    /// Returns the prompt that an earlier call recorded.
    async fn asked_before(&self, scope: &Scope, turn: u64) -> Result<Prompted> {
        let (prompt, replayed) = self.replayed(scope, turn).await?;
        if prompt.end.is_none() && !replayed.is_exact() {
            return Err(Error::new(
                Code::Internal,
                format!(
                    "prompt {turn} waits for its answer and cannot be rebuilt: see `vctx replay`"
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

    /// Records the end of a prompt, with the assistant's message if there is one.
    pub async fn answered(
        &self,
        principal: &Principal,
        agent: &str,
        key: &str,
        answer: RecordAnswer,
    ) -> Result<Reply> {
        let arguments = [("run", json!(answer.run)), ("turn", json!(answer.turn))];
        let whose = (principal.clone(), agent.to_owned());
        let request = CallRequest::internal(whose, answer, arguments);
        self.call(&CallRequest { key: Some(key.to_owned()), ..request }).await
    }

    /// Returns the runs with an expired lease, the oldest first.
    pub async fn expired_runs(&self) -> Result<Vec<ExpiredRun>> {
        let now = self.kernel.clock.unix_ms();
        self.kernel.read(|ro| store::expired_runs(ro, now, RUNS_EXPIRED_MAX)).await
    }

    /// Rebuilds a past prompt from the stored rows.
    pub(super) async fn replayed(&self, scope: &Scope, turn: u64) -> Result<(Prompt, Replayed)> {
        let loaded = self
            .kernel
            .read(|ro| store::load_prompt(ro, scope, turn, QUEUE_ROWS_MAX))
            .await?
            .ok_or_else(no_agent)?;
        let core = loaded.core.ok_or_else(no_agent)?;
        let prompt = loaded.prompt.ok_or_else(|| {
            Error::new(
                Code::PromptNotFound,
                format!("no prompt {turn}: the agent has {}", core.turns),
            )
            .with("turns", core.turns)
        })?;
        let counter = self.kernel.counters.of(prompt.window.encoding);
        let replayed = replay(Stored {
            core: &core,
            prompt: &prompt,
            texts: loaded.texts.as_ref(),
            tools: loaded.tools.as_ref(),
            pack: loaded.pack.as_ref(),
            packed: &loaded.packed,
            queue: &loaded.queue,
            counter: &**counter,
            earlier: &EarlierTiktoken::new(prompt.window.encoding),
        });
        Ok((prompt, replayed))
    }

    /// Returns the core revision that a prompt showed.
    pub async fn shown_revision(
        &self,
        principal: &Principal,
        agent: &str,
        turn: u64,
    ) -> Result<String> {
        let (prompt, _) = self.replayed(&admit(principal, agent)?, turn).await?;
        Ok(prompt.window.core_rev)
    }

    /// Returns a past prompt as it was sent, and lists its parts that were removed or changed
    /// since.
    pub async fn replay_prompt(
        &self,
        principal: &Principal,
        agent: &str,
        turn: u64,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let (prompt, mut found) = self.replayed(&scope, turn).await?;
        found.differs.extend(self.prompt_contradicts(&prompt).await?);
        Ok(
            json!({"agent": scope.agent(), "turn": turn, "exact": found.is_exact(), "request": found.request,
            "request_bytes": found.request.len(), "gone": found.gone, "differs": found.differs,
            "tokens": found.window.tokens, "manifest": found.window.manifest, "prompt": public_prompt(&prompt)}),
        )
    }

    /// Returns a page of an agent's prompts, and the turn with which the next page begins.
    pub async fn prompts(
        &self,
        principal: &Principal,
        agent: &str,
        from_turn: u64,
        limit: Option<u64>,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let limit = page_limit(limit, PROMPTS_PAGE)?;
        let loaded = self.kernel.read(|ro| store::prompts(ro, &scope, from_turn, limit)).await?;
        let (core, rows) = loaded.ok_or_else(no_agent)?;
        let full = rows.len() as u64 == limit;
        let next_turn = rows.last().filter(|_| full).map(|row| row.turn + 1);
        let prompts: Vec<Value> = rows.iter().map(public_prompt).collect();
        Ok(
            json!({"agent": scope.agent(), "turns": core.turns, "run": core.run, "learned": core.learned,
            "prompts": prompts, "next_turn": next_turn}),
        )
    }
}

/// Returns a prompt's row in the API format: without the database key, and with the options as an
/// object.
fn public_prompt(prompt: &Prompt) -> Value {
    let mut told = json!(prompt);
    if let Some(map) = told.as_object_mut() {
        map.remove("_key");
        let options = serde_json::from_str::<Value>(&prompt.sent.options).unwrap_or_default();
        map.insert("options".into(), options);
        map.insert("waits".into(), prompt.end.is_none().into());
    }
    told
}
