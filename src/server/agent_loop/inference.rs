//! Runs one inference of a model: makes room in the window, and records the prompt and the model's
//! answer.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::processor::lease;
use super::records::ModelAnswer;
use super::request::RunEvent;
use super::revisions::KnownRevisions;
use super::toolbox::Toolbox;
use super::walk::Walk;
use crate::agent_loop::limits::RUN_LEASE_MS;
use crate::executor::{Ask, ContextOfPrompt};
use crate::models::chat::{ChatClass, ChatFault, ChatRequest, Completion, Delta, Finish};
use vctx_base::clock;
use vctx_core::error::{Error, Result};
use vctx_core::limits::PAGE_TOKENS_MAX;
use vctx_core::memory::TokenCounter;
use vctx_core::memory::core::Core;
use vctx_core::memory::run::{RunReason, ToolCall, Usage};
use vctx_core::memory::tokens::message_cost;
use vctx_core::policy::turn::{Cut, settled};
use vctx_core::policy::{factor_permille, safe_estimate};
use vctx_core::tools::{RecordAnswer, Tool};
use vctx_core::window::{Section, summary_tokens_max, tokens};

/// Pause between two renewals of the run's lease during an inference, in milliseconds.
const RUN_RENEW_MS: u64 = 2_000;
/// Maximum number of evictions before one inference.
const RUN_ROOM_TRIES_MAX: u32 = 3;
/// Tokens that a run with memory tools keeps free below the flush threshold: enough for a page of
/// search results, for the call that requests the page, and for the overhead of messages.
const RUN_PAGE_TOKENS: u64 = PAGE_TOKENS_MAX + 256;
/// Minimum number of tokens for a model's answer; if the window has less room, messages are evicted
/// first.
const RUN_ANSWER_TOKENS_MIN: u64 = 256;

/// The result of an inference.
pub(super) enum Inference {
    /// The model's answer, which is recorded.
    Answer(ModelAnswer),
    /// No usable answer: a system message reports the fault, and the run asks the model again.
    Fault,
    /// The run ends without an answer.
    End(RunReason),
    /// The caller already received a part of the answer; the run ends with this part.
    Partial(ModelAnswer, RunReason),
}

/// A recorded prompt that fits in the window, ready to be sent.
struct Ready {
    request: ChatRequest,
    /// Sequence number of the prompt in the agent's log of prompts.
    turn: u64,
    counter: Arc<dyn TokenCounter>,
    /// Maximum number of tokens of the answer.
    tokens_max: u64,
    /// Estimated tokens of the request to the model.
    sent: u64,
}

/// Free room in the window.
struct Room {
    /// Tokens of the window that are free for an answer.
    free: u64,
    /// Whether the free tokens suffice for an answer.
    holds_answer: bool,
    /// Whether a page of search results would fill the window to the flush threshold.
    wants_page: bool,
}

/// The outcome of a request to the model.
enum Came {
    /// A model's answer, complete or truncated at the token limit, with the text that was already
    /// sent to the caller.
    Completion(Completion, String),
    /// A fault of the model, with the text that was already sent to the caller.
    Fault(ChatFault, String),
    /// The caller disconnected after the given text was sent.
    Cancelled(String),
}

impl Walk<'_> {
    /// Asks the model; asks again with fewer messages if the model's context is smaller than
    /// expected.
    pub(super) async fn ask(&mut self, n: u64, toolbox: &Toolbox) -> Result<Inference> {
        let mut smaller = 0;
        loop {
            let Some(ready) = self.ready(n, toolbox, smaller).await? else {
                if smaller == 0 {
                    return Ok(Inference::End(RunReason::Tokens));
                }
                self.fault = Some(ChatClass::Overflow.text().to_owned());
                return Ok(Inference::End(RunReason::ModelFailed));
            };
            match self.exchange(&ready).await? {
                Came::Cancelled(told) => return self.cancelled(n, &ready, told).await,
                Came::Completion(completion, told) => {
                    return self.understood(n, &ready, completion, told).await;
                }
                Came::Fault(fault, _)
                    if fault.class == ChatClass::Overflow && smaller < RUN_ROOM_TRIES_MAX =>
                {
                    self.give_up(n, &ready, fault.class.text()).await?;
                    smaller += 1;
                }
                Came::Fault(fault, told) => return self.failed(n, &ready, fault, told).await,
            }
        }
    }

    /// Builds the prompt of the window, with room for an answer and a page of search results.
    /// `smaller` counts how often the model refused the prompt as too long; each refusal evicts
    /// half of the queue. Returns `None` if no room can be made.
    async fn ready(&mut self, n: u64, toolbox: &Toolbox, smaller: u32) -> Result<Option<Ready>> {
        let mut wants_less = smaller > 0;
        for attempt in 0..=RUN_ROOM_TRIES_MAX {
            let (who, agent) = (&self.request.principal, &self.request.agent);
            let (core, _) = self.processor.executor.peek(who, agent, "").await?;
            self.processor.executor.check_outbound(&core)?;
            let room = self.room(&core, toolbox);
            let wants_page = room.wants_page && attempt == 0;
            if room.holds_answer && !wants_less && !wants_page {
                return self
                    .prompted((n, smaller, true), toolbox, &core, room.free)
                    .await
                    .map(Some);
            }
            let made = match attempt < RUN_ROOM_TRIES_MAX {
                true => {
                    let what = format!("room/{n}/{smaller}/{attempt}");
                    self.make_room(&core, wants_less, &what).await?
                }
                false => false,
            };
            if !made && room.holds_answer && !wants_less {
                return self
                    .prompted((n, smaller, true), toolbox, &core, room.free)
                    .await
                    .map(Some);
            }
            if !made {
                break;
            }
            wants_less = false;
        }
        Ok(None)
    }

    fn room(&self, core: &Core, toolbox: &Toolbox) -> Room {
        let now = tokens(core);
        let sent = now.without(&[Section::Tools]) + toolbox.tokens;
        let factor = factor_permille(&core.learned, self.model.model());
        let free = core.context_window.saturating_sub(safe_estimate(sent, factor));
        let least = RUN_ANSWER_TOKENS_MIN.min(core.context_window / 8);
        let page = RUN_PAGE_TOKENS.min(core.context_window / 4);
        let before_flush = core.token_budget.flush.saturating_sub(sent);
        Room {
            free,
            holds_answer: free >= least,
            wants_page: toolbox.has_own() && before_flush < page,
        }
    }

    /// Records the prompt before the prompt is sent, with a context for its question. If there is
    /// too little room for the context, messages are evicted first, once.
    async fn prompted(
        &mut self,
        (n, smaller, is_first): (u64, u32, bool),
        toolbox: &Toolbox,
        core: &Core,
        free: u64,
    ) -> Result<Ready> {
        let settings = &self.processor.settings.context;
        let reserve = core.context_window * settings.slots.reserve / 100;
        let answer = self.tokens_max(free).min(reserve);
        let engineer = self.request.engineer.or(core.engineer).unwrap_or(settings.engineer);
        let (who, agent) = (&self.request.principal, &self.request.agent);
        let room = free.saturating_sub(answer);
        // A context that would have too little room is built first, to see whether it is needed.
        let least = settings.documents_min.min(core.context_window / 8);
        let wanted = room.max(least);
        let context =
            self.processor.executor.context_for(who, agent, (core, engineer), wanted).await?;
        let shown = context.as_ref().map_or(0, ContextOfPrompt::tokens);
        if shown > room && is_first {
            let what = format!("context/{n}/{smaller}");
            let target = context_target(core, reserve + least);
            if self.evict(core, target, &what).await? {
                let (who, agent) = (&self.request.principal, &self.request.agent);
                let (core, _) = self.processor.executor.peek(who, agent, "").await?;
                let free = self.room(&core, toolbox).free;
                return Box::pin(self.prompted((n, smaller, false), toolbox, &core, free)).await;
            }
        }
        let context = context.filter(|context| context.tokens() <= room);
        let shown = context.as_ref().map_or(0, ContextOfPrompt::tokens);
        let tokens_max = self.tokens_max(free.saturating_sub(shown));
        let ask = Ask {
            context,
            hold: lease(self.request, self.owner),
            model: self.model.model().to_owned(),
            api: self.model.api(),
            tools: toolbox.schemas.clone(),
            options: self.options(tokens_max),
        };
        let what = format!("ask/{n}/{smaller}");
        let prompt = self.processor.record_prompt(self.request, self.owner, &what, ask).await?;
        self.held = clock::now();
        self.seen = KnownRevisions::window(prompt.core_rev);
        Ok(Ready {
            request: ChatRequest { body: prompt.request },
            turn: prompt.turn,
            counter: self.processor.executor.counter(core.encoding),
            tokens_max,
            sent: prompt.token_estimate,
        })
    }

    /// Evicts messages until the window has enough room; returns `false` if no message can be
    /// evicted.
    async fn make_room(&mut self, core: &Core, wants_less: bool, what: &str) -> Result<bool> {
        self.evict(core, target_of(core, wants_less), what).await
    }

    /// Evicts messages down to a number of tokens of the whole window; returns `false` if none was
    /// evicted.
    async fn evict(&mut self, core: &Core, target: Option<u64>, what: &str) -> Result<bool> {
        let Some(target) = target else { return Ok(false) };
        let arguments = Map::from_iter([("target_tokens".to_owned(), Value::from(target))]);
        let call = Tool::EvictFifo.decode(arguments.clone())?;
        // The idempotency key contains the core's version, since the eviction depends on the core's
        // state.
        let key = self.request.key_of(&format!("{what}/{}", core.version));
        let (processor, request) = (self.processor, self.request);
        let evicted = processor.call(request, call, arguments, Some(key));
        let body = self.with_lease(evicted).await?;
        Ok(body["result"]["evicted_count"].as_u64().unwrap_or(0) > 0)
    }

    /// Runs slow work and renews the run's lease meanwhile, since a write may first have to wait
    /// for other writes to the agent.
    pub(super) async fn with_lease<T>(
        &mut self,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        tokio::pin!(work);
        // The first renewal comes after one period. A plain `interval` ticks immediately, so each
        // call of this function would begin by renewing the lease.
        let period = Duration::from_millis(RUN_RENEW_MS);
        let mut renewal = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
        loop {
            tokio::select! {
                biased;
                outcome = &mut work => return outcome,
                _ = renewal.tick() => {}
            }
            let renewed = self.processor.hold(self.request, self.owner, None);
            tokio::pin!(renewed);
            tokio::select! {
                biased;
                outcome = &mut work => return outcome,
                renewed = &mut renewed => renewed?,
            }
            self.held = clock::now();
        }
    }

    /// Returns the maximum number of tokens of the answer: the requested limit, or the configured
    /// limit if none was requested, but not more than the free tokens of the window.
    fn tokens_max(&self, free: u64) -> u64 {
        let settings = &self.processor.settings;
        let asked = ["max_tokens", "max_completion_tokens"]
            .iter()
            .filter_map(|name| self.request.options.get(*name).and_then(Value::as_u64))
            .min();
        free.min(asked.unwrap_or(settings.max_tokens)).max(1)
    }

    /// Returns all fields of the request to the model except messages and tools.
    fn options(&self, tokens_max: u64) -> Map<String, Value> {
        let mut options = self.model.options();
        for (name, value) in &self.request.options {
            if !OWN_FIELDS.contains(&name.as_str()) {
                options.insert(name.clone(), value.clone());
            }
        }
        options.insert(self.processor.settings.max_tokens_field.clone(), tokens_max.into());
        options
    }

    /// Sends the request to the model, forwards the pieces of the answer, and renews the run's
    /// lease meanwhile.
    async fn exchange(&mut self, ready: &Ready) -> Result<Came> {
        // This channel has no limit of its own; the length limit of an answer
        // (`CHAT_ANSWER_BYTES_MAX`) bounds it.
        let (give, mut take) = mpsc::unbounded_channel::<RunEvent>();
        let mut cut = Cut::new(&*ready.counter, ready.tokens_max);
        let mut on_delta = |delta: Delta| {
            let event = match delta {
                Delta::Waiting { ms, why } => RunEvent::Waiting { ms, why: why.into() },
                Delta::Text(piece) => match cut.push(&piece) {
                    Some(text) if !text.is_empty() => RunEvent::Text { text },
                    Some(_) | None => return flow(cut.is_full()),
                },
            };
            // The receiver lives as long as this exchange with the model, so the send cannot fail.
            drop(give.send(event));
            flow(cut.is_full())
        };
        let outcome = {
            let (model, events) = (self.model, self.events);
            let asked = model.complete(&ready.request, &mut on_delta);
            tokio::pin!(asked);
            let mut renewal = tokio::time::interval(Duration::from_millis(RUN_RENEW_MS));
            loop {
                tokio::select! {
                    biased;
                    Some(event) = take.recv() => {
                        if !self.tell(event).await {
                            break None;
                        }
                    }
                    outcome = &mut asked => break Some(outcome),
                    () = events.closed() => break None,
                    _ = renewal.tick() => self.renew().await?,
                }
            }
        };
        let (text, is_full) = (cut.text().to_owned(), cut.is_full());
        let Some(outcome) = outcome else { return Ok(Came::Cancelled(text)) };
        while let Ok(event) = take.try_recv() {
            if !self.tell(event).await {
                return Ok(Came::Cancelled(text));
            }
        }
        Ok(match outcome {
            Ok(mut completion) => {
                if is_full {
                    completion.finish = Finish::Length;
                }
                Came::Completion(completion, text)
            }
            Err(fault) => Came::Fault(fault, text),
        })
    }

    /// Records an answer. If the answer is empty or some of its calls were dropped, appends a
    /// system message that says so.
    async fn understood(
        &mut self,
        n: u64,
        ready: &Ready,
        completion: Completion,
        told: String,
    ) -> Result<Inference> {
        let (asked, dropped) = settled(completion.tool_calls, n, &*ready.counter, ready.tokens_max);
        let calls: Vec<ToolCall> = asked.into_iter().map(|one| one.call).collect();
        self.count(ready, completion.usage, &told, &calls);
        let finish = completion.finish.text();
        let made = calls.len();
        let said = self.record(n, ready, told, calls, finish, completion.usage).await?;
        let Some(said) = said else {
            return self.note(n, "The last answer was empty: say something, or call a tool.").await;
        };
        if dropped > 0 {
            let text = format!(
                "Of the calls of the last answer the first {made} were made and {dropped} were dropped: make the dropped calls again, fewer at a time."
            );
            let key = self.request.key_of(&format!("dropped/{n}"));
            self.processor.append_notice(self.request, key, &text).await?;
        }
        Ok(Inference::Answer(said))
    }

    /// Ends a run whose caller disconnected. Text that the user has read is recorded as the answer.
    async fn cancelled(&mut self, n: u64, ready: &Ready, told: String) -> Result<Inference> {
        let why = RunReason::Cancelled.text();
        if told.is_empty() || !self.request.is_read {
            self.give_up(n, ready, why).await?;
            return Ok(Inference::End(RunReason::Cancelled));
        }
        self.count(ready, None, &told, &[]);
        let said = self.record(n, ready, told, Vec::new(), why, None).await?;
        Ok(match said {
            Some(said) => Inference::Partial(said, RunReason::Cancelled),
            None => Inference::End(RunReason::Cancelled),
        })
    }

    /// Handles a model's fault: the run ends with the text that the caller already received, asks
    /// the model again, or ends without an answer.
    async fn failed(
        &mut self,
        n: u64,
        ready: &Ready,
        fault: ChatFault,
        told: String,
    ) -> Result<Inference> {
        let class = fault.class;
        tracing::warn!(
            class = class.text(),
            error = Error::from(fault).chain(),
            "the model gave no answer"
        );
        if !told.is_empty() {
            // The text that the caller received before the fault is recorded as the answer.
            self.count(ready, None, &told, &[]);
            self.fault = Some(class.text().to_owned());
            let said = self.record(n, ready, told, Vec::new(), class.text(), None).await?;
            return Ok(match said {
                Some(said) => Inference::Partial(said, RunReason::ModelFailed),
                None => Inference::End(RunReason::ModelFailed),
            });
        }
        self.give_up(n, ready, class.text()).await?;
        match class {
            ChatClass::Rubbish => {
                self.note(n, "The last answer could not be understood: answer again.").await
            }
            ChatClass::Overflow
            | ChatClass::RateLimited
            | ChatClass::Unavailable
            | ChatClass::Cut
            | ChatClass::Late
            | ChatClass::Refused => {
                self.fault = Some(class.text().to_owned());
                Ok(Inference::End(RunReason::ModelFailed))
            }
        }
    }

    async fn record(
        &self,
        n: u64,
        ready: &Ready,
        content: String,
        tool_calls: Vec<ToolCall>,
        finish: &str,
        usage: Option<Usage>,
    ) -> Result<Option<ModelAnswer>> {
        let answer = RecordAnswer {
            run: self.request.key.clone(),
            owner: self.owner.to_owned(),
            turn: ready.turn,
            content,
            tool_calls,
            finish: finish.to_owned(),
            usage,
        };
        let is_empty = answer.content.is_empty() && answer.tool_calls.is_empty();
        // An empty answer is recorded under another idempotency key, so that a later answer of this
        // turn can still use the key for answers.
        let key = match is_empty {
            true => format!("ended/{n}/{}", ready.turn),
            false => format!("answer/{n}"),
        };
        self.processor.record_answer(self.request, &key, answer).await
    }

    /// Records that a prompt ended without an answer.
    async fn give_up(&self, n: u64, ready: &Ready, why: &str) -> Result<()> {
        self.record(n, ready, String::new(), Vec::new(), why, None).await.map(drop)
    }

    /// Appends a system message about a fault in place of an answer.
    async fn note(&self, n: u64, text: &str) -> Result<Inference> {
        let key = self.request.key_of(&format!("fault/{n}"));
        self.processor.append_notice(self.request, key, text).await?;
        Ok(Inference::Fault)
    }

    /// Adds an inference's tokens to the run's usage: the provider's count, or an estimate if the
    /// provider counted none.
    fn count(&mut self, ready: &Ready, usage: Option<Usage>, text: &str, calls: &[ToolCall]) {
        let usage = usage.unwrap_or_else(|| {
            let message = json!({"role": "assistant", "content": text});
            let said = message_cost(&*ready.counter, &message);
            let called: u64 = calls.iter().map(|one| ready.counter.count(&one.arguments)).sum();
            Usage { prompt: ready.sent, completion: said + called }
        });
        self.usage = self.usage.plus(usage);
    }

    /// Renews the run's lease once half of the lease period is over.
    pub(super) async fn renew(&mut self) -> Result<()> {
        if self.held.elapsed() < Duration::from_millis(RUN_LEASE_MS / 2) {
            return Ok(());
        }
        self.processor.hold(self.request, self.owner, None).await?;
        self.held = clock::now();
        Ok(())
    }
}

/// Returns the eviction target: the window's occupancy, in tokens, after the eviction. The target
/// leaves room for a page of search results; with `wants_less`, it is lower than the current
/// occupancy by half of the queue. The newest message stays in the queue, since the model must
/// answer it. Returns `None` if no message except the newest can be evicted.
fn target_of(core: &Core, wants_less: bool) -> Option<u64> {
    let (now, window) = (tokens(core), core.context_window);
    let page = RUN_PAGE_TOKENS.min(window / 4);
    // The target leaves room for the largest summary that the eviction may write.
    let stays = now.without(&[Section::Queue, Section::Summary]) + summary_tokens_max(window);
    let wanted = match wants_less {
        true => now.occupancy - now[Section::Queue] / 2,
        // Down to the target, as a flush, so that not every later prompt evicts again.
        false => core.token_budget.flush.saturating_sub(page).min(core.token_budget.target),
    };
    let least = if wants_less { window / 16 } else { page };
    Some(wanted.max(stays + least)).filter(|target| *target < now.occupancy)
}

/// Returns the number of tokens of the window that leaves `room` for a context and the answer, if
/// an eviction can reach it.
fn context_target(core: &Core, room: u64) -> Option<u64> {
    let (now, window) = (tokens(core), core.context_window);
    let stays = now.without(&[Section::Queue, Section::Summary]) + summary_tokens_max(window);
    let wanted = window.saturating_sub(room);
    let wanted = wanted.min(core.token_budget.target.max(stays));
    Some(wanted).filter(|target| (stays..now.occupancy).contains(target))
}

/// Fields of a request to the model that the run sets itself; the caller's values for them are
/// ignored.
const OWN_FIELDS: [&str; 7] = [
    "messages",
    "tools",
    "model",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
];

fn flow(is_full: bool) -> ControlFlow<()> {
    if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}
