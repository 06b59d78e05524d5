//! One inference: room in the window, the prompt on record, the model asked, its answer on record; what goes wrong becomes a message or an end.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::processor::lease;
use super::records::Said;
use super::request::RunEvent;
use super::seen::Seen;
use super::toolbox::Toolbox;
use super::walk::Walk;
use crate::executor::Ask;
use crate::models::chat::{ChatClass, ChatFault, ChatRequest, Completion, Delta, Finish};
use vctx_base::clock;
use vctx_core::error::{Error, Result};
use vctx_core::limits::{
    RUN_ANSWER_TOKENS_MIN, RUN_LEASE_MS, RUN_PAGE_TOKENS, RUN_RENEW_MS, RUN_ROOM_TRIES_MAX,
};
use vctx_core::memory::TokenCounter;
use vctx_core::memory::core::Core;
use vctx_core::memory::run::{RunReason, ToolCall, Usage};
use vctx_core::memory::tokens::message_cost;
use vctx_core::policy::turn::{Cut, settled};
use vctx_core::policy::{factor_permille, safe_estimate, summary_tokens_max, tokens};
use vctx_core::tools::{RecordAnswer, Tool, decode};

/// What an inference came to.
pub(super) enum Inference {
    /// An answer, on record.
    Answer(Said),
    /// No answer that can be understood: a message says so, and the model is asked again.
    Fault,
    /// The run ends without an answer.
    End(RunReason),
    /// The run ends with the part of an answer that was told already.
    Partial(Said, RunReason),
}

/// A prompt that fits and is on record.
struct Ready {
    request: ChatRequest,
    /// Its number among all of the agent.
    turn: u64,
    counter: Arc<dyn TokenCounter>,
    /// Most tokens of the answer.
    tokens_max: u64,
    /// Tokens of what is sent, as they are estimated.
    sent: u64,
}

/// What the window has room for.
struct Room {
    /// Tokens that an answer may take.
    free: u64,
    /// Whether they are enough for one.
    holds_answer: bool,
    /// Whether a page of results would reach the flush threshold.
    wants_page: bool,
}

/// What came back.
enum Came {
    /// An answer, whole or cut at its most tokens; the text is what was told.
    Completion(Completion, String),
    /// None.
    Fault(ChatFault, String),
    /// Whoever asked went away.
    Cancelled,
}

impl Walk<'_> {
    /// Asks the model once; again with a smaller window where its context is smaller than was thought.
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
                Came::Cancelled => {
                    self.give_up(n, &ready, "cancelled").await?;
                    return Ok(Inference::End(RunReason::Cancelled));
                }
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

    /// The prompt of the window as it is, with room made where an answer or the page of a search would have none. `smaller`: how often the
    /// model found it too long; each time half of the queue goes. None if there is no room to be had.
    async fn ready(&mut self, n: u64, toolbox: &Toolbox, smaller: u32) -> Result<Option<Ready>> {
        let mut wants_less = smaller > 0;
        for attempt in 0..=RUN_ROOM_TRIES_MAX {
            let (who, agent) = (&self.request.principal, &self.request.agent);
            let (core, _) = self.processor.executor.peek(who, agent, "").await?;
            let room = self.room(&core, toolbox);
            let wants_page = room.wants_page && attempt == 0;
            if room.holds_answer && !wants_less && !wants_page {
                return self.prompted(n, toolbox, smaller, &core, room.free).await.map(Some);
            }
            let made = match attempt < RUN_ROOM_TRIES_MAX {
                true => {
                    let what = format!("room/{n}/{smaller}/{attempt}");
                    self.make_room(&core, wants_less, &what).await?
                }
                false => false,
            };
            if !made && room.holds_answer && !wants_less {
                return self.prompted(n, toolbox, smaller, &core, room.free).await.map(Some);
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
        let sent = now.occupancy - now.tools + toolbox.tokens;
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

    /// Puts the prompt on record.
    async fn prompted(
        &mut self,
        n: u64,
        toolbox: &Toolbox,
        smaller: u32,
        core: &Core,
        free: u64,
    ) -> Result<Ready> {
        let tokens_max = self.tokens_max(free);
        let ask = Ask {
            hold: lease(self.request, self.owner),
            model: self.model.model().to_owned(),
            tools: toolbox.schemas.clone(),
            options: self.options(tokens_max),
        };
        let what = format!("ask/{n}/{smaller}");
        let prompt = self.processor.record_prompt(self.request, self.owner, &what, ask).await?;
        self.held = clock::now();
        self.seen = Seen::window(prompt.core_rev);
        Ok(Ready {
            request: ChatRequest { body: prompt.request },
            turn: prompt.turn,
            counter: self.processor.executor.counter(core.encoding),
            tokens_max,
            sent: prompt.token_estimate,
        })
    }

    /// Evicts as far as is needed; false if nothing that is worth it can go.
    async fn make_room(&mut self, core: &Core, wants_less: bool, what: &str) -> Result<bool> {
        let Some(target) = target_of(core, wants_less) else { return Ok(false) };
        let arguments = Map::from_iter([("target_tokens".to_owned(), Value::from(target))]);
        let call = decode(Tool::EvictFifo, arguments.clone())?;
        // A key of its own for each try: how much is to go depends on what is there.
        let key = self.request.key_of(&format!("{what}/{}", core.version));
        let (processor, request) = (self.processor, self.request);
        let evicted = processor.call(request, call, arguments, Some(key));
        let body = self.held(evicted).await?;
        Ok(body["result"]["evicted_count"].as_u64().unwrap_or(0) > 0)
    }

    /// Waits for something that may take long, with the lease renewed meanwhile; both go on side by side, since a write may wait for the
    /// agent's turn that the other has.
    pub(super) async fn held<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::pin!(work);
        // The first tick of a plain interval comes with the timer's next millisecond: each call would wait for it.
        let period = Duration::from_millis(RUN_RENEW_MS);
        let mut renewal = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
        loop {
            tokio::select! {
                biased;
                outcome = &mut work => return outcome,
                _ = renewal.tick() => {}
            }
            let renewed = self.processor.hold(self.request, self.owner);
            tokio::pin!(renewed);
            tokio::select! {
                biased;
                outcome = &mut work => return outcome,
                renewed = &mut renewed => renewed?,
            }
            self.held = clock::now();
        }
    }

    /// Most tokens of the answer: what is free, no more than configured or asked for.
    fn tokens_max(&self, free: u64) -> u64 {
        let settings = &self.processor.settings;
        let asked = ["max_tokens", "max_completion_tokens"]
            .iter()
            .filter_map(|name| self.request.options.get(*name).and_then(Value::as_u64))
            .min();
        free.min(asked.unwrap_or(settings.max_tokens)).max(1)
    }

    /// Everything of the request but messages and tools.
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

    /// Sends, and tells what comes; renews the lease meanwhile.
    async fn exchange(&mut self, ready: &Ready) -> Result<Came> {
        // Bounded by what the model may answer: CHAT_ANSWER_BYTES_MAX.
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
            // The other end lives as long as this exchange.
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
                            return Ok(Came::Cancelled);
                        }
                    }
                    outcome = &mut asked => break outcome,
                    () = events.closed() => return Ok(Came::Cancelled),
                    _ = renewal.tick() => self.renew().await?,
                }
            }
        };
        while let Ok(event) = take.try_recv() {
            if !self.tell(event).await {
                return Ok(Came::Cancelled);
            }
        }
        let (text, is_full) = (cut.text().to_owned(), cut.is_full());
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

    /// Puts an answer on record, or a message that it was none.
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
                "Of the calls of the last answer the first {made} were made, {dropped} were not: make them again, fewer at a time."
            );
            let key = self.request.key_of(&format!("dropped/{n}"));
            self.processor.append_notice(self.request, key, &text).await?;
        }
        Ok(Inference::Answer(said))
    }

    /// What follows from a fault of the model.
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
            // What was told is what was said.
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
    ) -> Result<Option<Said>> {
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
        // An end without an answer leaves the place of the answer free.
        let key = match is_empty {
            true => format!("ended/{n}/{}", ready.turn),
            false => format!("answer/{n}"),
        };
        self.processor.record_answer(self.request, &key, answer).await
    }

    /// Ends a prompt that has no answer.
    async fn give_up(&self, n: u64, ready: &Ready, why: &str) -> Result<()> {
        self.record(n, ready, String::new(), Vec::new(), why, None).await.map(drop)
    }

    /// A message of the runtime in the place of an answer.
    async fn note(&self, n: u64, text: &str) -> Result<Inference> {
        let key = self.request.key_of(&format!("fault/{n}"));
        self.processor.append_notice(self.request, key, text).await?;
        Ok(Inference::Fault)
    }

    /// Adds what the provider counted, or what is estimated where it did not.
    fn count(&mut self, ready: &Ready, usage: Option<Usage>, text: &str, calls: &[ToolCall]) {
        let usage = usage.unwrap_or_else(|| {
            let message = json!({"role": "assistant", "content": text});
            let said = message_cost(&*ready.counter, &message);
            let called: u64 = calls.iter().map(|one| ready.counter.count(&one.arguments)).sum();
            Usage { prompt: ready.sent, completion: said + called }
        });
        self.usage = self.usage.plus(usage);
    }

    /// Renews the lease where its time is half over.
    pub(super) async fn renew(&mut self) -> Result<()> {
        if self.held.elapsed() < Duration::from_millis(RUN_LEASE_MS / 2) {
            return Ok(());
        }
        self.processor.hold(self.request, self.owner).await?;
        self.held = clock::now();
        Ok(())
    }
}

/// Occupancy to evict down to: so that a page of results fits below the flush threshold, or to half of the queue. What was said last stays
/// in view, since it is what the model is asked about: none if nothing else could go.
fn target_of(core: &Core, wants_less: bool) -> Option<u64> {
    let (now, window) = (tokens(core), core.context_window);
    let page = RUN_PAGE_TOKENS.min(window / 4);
    // An eviction sets the largest summary aside.
    let stays = now.occupancy - now.fifo - now.summary + summary_tokens_max(window);
    let wanted = match wants_less {
        true => now.occupancy - now.fifo / 2,
        false => core.token_budget.flush.saturating_sub(page),
    };
    let least = if wants_less { window / 16 } else { page };
    Some(wanted.max(stays + least)).filter(|target| *target < now.occupancy)
}

/// Fields of a request that the run itself fills.
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
