//! One inference: room in the window, the prompt on record, the model asked, its answer on record; what goes wrong becomes a message or an end.

use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::records::{Answered, Prompt, Said};
use super::request::RunEvent;
use super::toolbox::Toolbox;
use super::walk::Walk;
use crate::clock;
use crate::error::{Code, Error, Result};
use crate::limits::{RUN_ANSWER_TOKENS_MIN, RUN_LEASE_MS, RUN_RENEW_MS, RUN_ROOM_TRIES_MAX};
use crate::memory::TokenCounter;
use crate::memory::core::Core;
use crate::memory::run::{RunReason, Usage};
use crate::memory::tokens::message_cost;
use crate::models::chat::{ChatClass, ChatFault, ChatRequest, Completion, Delta, Finish};
use crate::policy::tokens;
use crate::policy::turn::{Cut, settled};
use crate::tools::{Tool, decode};

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

/// A request that fits.
struct Ready {
    request: ChatRequest,
    counter: std::sync::Arc<dyn TokenCounter>,
    /// Most tokens of the answer.
    tokens_max: u64,
    /// Tokens of what is sent, as they are estimated.
    sent: u64,
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
                return Ok(Inference::End(RunReason::Tokens));
            };
            self.renew().await?;
            let bytes = ready.request.body.as_bytes();
            self.processor.record_prompt(self.request, &Prompt { n, bytes }).await?;
            match self.exchange(&ready).await? {
                Came::Cancelled => return Ok(Inference::End(RunReason::Cancelled)),
                Came::Completion(completion, told) => {
                    return self.understood(n, &ready, completion, told).await;
                }
                Came::Fault(fault, _)
                    if fault.class == ChatClass::Overflow && smaller < RUN_ROOM_TRIES_MAX =>
                {
                    smaller += 1;
                }
                Came::Fault(fault, told) => return self.failed(n, &ready, fault, told).await,
            }
        }
    }

    /// The request for the window as it is, with room made where an answer would have none. `smaller`: how often the model found it too
    /// long; each time half of what is there goes. None if there is no room to be had.
    async fn ready(&mut self, n: u64, toolbox: &Toolbox, smaller: u32) -> Result<Option<Ready>> {
        let mut wants_less = smaller > 0;
        for attempt in 0..=RUN_ROOM_TRIES_MAX {
            let (who, agent) = (&self.request.principal, &self.request.agent);
            let (core, window) = self.processor.executor.window(who, agent).await?;
            let counter = self.processor.executor.counter(core.encoding);
            let (occupancy, shown) = (tokens(&core).occupancy, toolbox.tokens(&*counter));
            let sent = occupancy + shown;
            let free = core.context_window.saturating_sub(sent);
            let least = RUN_ANSWER_TOKENS_MIN.min(core.context_window / 8);
            if free >= least && !wants_less {
                let tokens_max = self.tokens_max(free);
                let options = self.options(tokens_max);
                let mut body = options;
                body.insert("model".into(), self.model.model().into());
                body.insert("messages".into(), Value::Array(window.messages));
                if !toolbox.schemas.is_empty() {
                    body.insert("tools".into(), Value::Array(toolbox.schemas.clone()));
                }
                let request = ChatRequest { body: Value::Object(body).to_string() };
                return Ok(Some(Ready { request, counter, tokens_max, sent }));
            }
            if attempt == RUN_ROOM_TRIES_MAX {
                break;
            }
            self.make_room(&core, shown, wants_less, &format!("room/{n}/{smaller}/{attempt}"))
                .await?;
            wants_less = false;
        }
        Ok(None)
    }

    /// Evicts down to where schemas and an answer have room too, or to half of what is there.
    async fn make_room(&self, core: &Core, shown: u64, wants_less: bool, what: &str) -> Result<()> {
        let occupancy = tokens(core).occupancy;
        let target = match wants_less {
            true => occupancy / 2,
            false => core.token_budget.target.saturating_sub(shown).min(occupancy / 2),
        };
        let arguments = Map::from_iter([("target_tokens".to_owned(), Value::from(target.max(1)))]);
        let call = decode(Tool::EvictFifo, arguments.clone())?;
        // A key of its own for each try: how much is to go depends on what is there.
        let key = self.request.key_of(&format!("{what}/{}", core.version));
        self.processor.call(self.request, call, arguments, Some(key)).await.map(drop)
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
            if !KEPT_FIELDS.contains(&name.as_str()) {
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
        let counter = &*ready.counter;
        let (calls, dropped) = settled(completion.tool_calls, n, counter, ready.tokens_max);
        self.count(
            ready,
            completion.usage,
            &told,
            &calls.iter().map(|one| &one.call.arguments).collect::<Vec<_>>(),
        );
        if told.is_empty() && calls.is_empty() {
            let text = "The last answer was empty: say something, or call a tool.";
            return self.note(n, text).await;
        }
        let calls = calls.into_iter().map(|one| one.call).collect();
        let answer =
            Answered { content: told, calls, finish: completion.finish, usage: completion.usage };
        let said = match self.processor.record_answer(self.request, n, &answer).await {
            Ok(said) => said,
            Err(error) if error.code == Code::TokenBudgetExceeded => {
                return self
                    .note(n, "The last answer was too long for the window: say less.")
                    .await;
            }
            Err(error) => return Err(error),
        };
        if dropped > 0 {
            let text = format!(
                "Of the last answer's calls the first {} were made and {dropped} were not: make them again, fewer at a time.",
                said.calls.len()
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
            let (finish, usage) = (Finish::Length, None);
            let answer = Answered { content: told, calls: Vec::new(), finish, usage };
            let said = self.processor.record_answer(self.request, n, &answer).await?;
            return Ok(Inference::Partial(said, RunReason::ModelFailed));
        }
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

    /// A message of the runtime in the place of an answer.
    async fn note(&self, n: u64, text: &str) -> Result<Inference> {
        let key = self.request.key_of(&format!("fault/{n}"));
        self.processor.append_notice(self.request, key, text).await?;
        Ok(Inference::Fault)
    }

    /// Adds what the provider counted, or what is estimated where it did not.
    fn count(&mut self, ready: &Ready, usage: Option<Usage>, text: &str, arguments: &[&String]) {
        let usage = usage.unwrap_or_else(|| {
            let message = json!({"role": "assistant", "content": text});
            let said = message_cost(&*ready.counter, &message);
            let called: u64 = arguments.iter().map(|text| ready.counter.count(text)).sum();
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

/// Fields of a request that the run itself fills.
const KEPT_FIELDS: [&str; 7] = [
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
