//! Builds the contexts of prompts: what the memory says on the question of a run, for the prompts
//! of the run.

use super::call::{QUESTIONS_MAX, curious};
use super::executor::Executor;
use crate::store;
use vctx_base::metric;
use vctx_core::error::{Error, Result};
use vctx_core::memory::core::Core;
use vctx_core::memory::engineer::Engineer;
use vctx_core::memory::message::Message;
use vctx_core::memory::pack::{ContextPack, Fate, ShownContext};
use vctx_core::policy::{Answers, Ctx, PromptContext, Stop, Unobserved};
use vctx_core::tools::{BuildContext, BuiltContext, newest_question};
use vctx_core::trust::{Principal, Scope, admit};
use vctx_core::window::shown_context;

/// Tokens below which a context is not worth its frame.
const CONTEXT_TOKENS_MIN: u64 = 64;

/// A context for a prompt.
#[derive(Clone, Debug)]
pub struct ContextOfPrompt {
    /// The context as the prompt's window shows it; `None` if it shows nothing.
    pub shown: Option<ShownContext>,
    /// The context as the prompt records it.
    pub recorded: PromptContext,
}

impl ContextOfPrompt {
    /// Returns the cost of the context in the window, in tokens.
    pub fn tokens(&self) -> u64 {
        self.shown.as_ref().map_or(0, |shown| shown.token_estimate)
    }
}

impl Executor {
    /// Returns the context for a prompt whose question is the newest message of the user. All
    /// prompts with the same question show the same context, as long as it fits. `core` says
    /// whether there is anything to look for, and `room` is the number of tokens that the context
    /// may take. Returns `None` if no context is to be built.
    pub async fn context_for(
        &self,
        principal: &Principal,
        agent: &str,
        (core, engineer): (&Core, Engineer),
        room: u64,
    ) -> Result<Option<ContextOfPrompt>> {
        let is_off = engineer == Engineer::Off || room < CONTEXT_TOKENS_MIN;
        if is_off || !has_more_than_window(core) {
            return Ok(None);
        }
        let (scope, core, queue) = self.queued(principal, agent).await?;
        let Some(asked) = newest_question(&queue).map(|message| message.seq) else {
            return Ok(None);
        };
        if let Some(known) = self.known_context(&scope, &core, asked, room).await? {
            return Ok(Some(known));
        }
        let most = room.min(core.context_window * self.context.slots.documents / 100);
        let always = engineer == Engineer::Always;
        let call = BuildContext {
            tokens_max: Some(most),
            always,
            room: Some(room),
            ..BuildContext::default()
        };
        let built = self.build(&scope, &core, queue, &call).await?;
        let counter = self.kernel.counters.of(core.encoding);
        let pack = built.pack.filter(|_| built.is_needed);
        let question_seq = built.question_seq;
        let shown = pack
            .as_ref()
            .map(|pack| shown_context(&**counter, core.form, pack, question_seq, built.text));
        let token_estimate = shown.as_ref().map_or(0, |shown| shown.token_estimate);
        let recorded = PromptContext { question_seq, pack, token_estimate };
        Ok(Some(ContextOfPrompt { shown, recorded }))
    }

    /// Returns the context that an earlier prompt with the same question showed, if it fits.
    async fn known_context(
        &self,
        scope: &Scope,
        core: &Core,
        asked: u64,
        room: u64,
    ) -> Result<Option<ContextOfPrompt>> {
        let known = core.context.as_ref().filter(|known| known.question_seq == Some(asked));
        let Some(known) = known else { return Ok(None) };
        let Some(digest) = &known.pack else {
            let recorded = PromptContext { question_seq: Some(asked), ..PromptContext::default() };
            return Ok(Some(ContextOfPrompt { shown: None, recorded }));
        };
        let Some(pack) = self.packed(scope, core, digest).await? else { return Ok(None) };
        Ok(Some(pack).filter(|known| known.tokens() <= room))
    }

    /// Returns a stored context pack as a context for a prompt. Returns `None` if the pack is not
    /// stored, or if it shows a message whose text was removed or that is held in quarantine since.
    async fn packed(
        &self,
        scope: &Scope,
        core: &Core,
        digest: &str,
    ) -> Result<Option<ContextOfPrompt>> {
        let loaded = self.kernel.read(|ro| store::load_pack(ro, scope, digest)).await?;
        let Some(pack) = loaded.pack.filter(ContextPack::holds) else { return Ok(None) };
        let Some(content) = pack.content() else { return Ok(None) };
        if loaded.said.iter().any(|message| self.taint.untrusted(core, message).held.is_some()) {
            return Ok(None);
        }
        let message = |seq: u64| loaded.said.iter().find(|message| message.seq == seq);
        let Ok(text) = content.text(message) else { return Ok(None) };
        let counter = self.kernel.counters.of(core.encoding);
        let question_seq = content.question_seq;
        let shown = shown_context(&**counter, core.form, &pack, question_seq, text);
        let token_estimate = shown.token_estimate;
        let recorded = PromptContext { question_seq, pack: Some(pack), token_estimate };
        Ok(Some(ContextOfPrompt { shown: Some(shown), recorded }))
    }

    /// Returns the stored context pack with the given digest, for a prompt.
    pub async fn stored_context(
        &self,
        principal: &Principal,
        agent: &str,
        digest: &str,
    ) -> Result<ContextOfPrompt> {
        let scope = admit(principal, agent)?;
        let (core, _) = self.peek(principal, agent, "").await?;
        self.packed(&scope, &core, digest).await?.ok_or_else(|| {
            let text = "no such context pack, or a text that it shows is gone or in quarantine: build it again";
            Error::argument("pack", text)
        })
    }

    async fn build(
        &self,
        scope: &Scope,
        core: &Core,
        queue: Vec<Message>,
        call: &BuildContext,
    ) -> Result<BuiltContext> {
        let stages = Unobserved;
        let mut answers = Answers { queue: Some(queue), ..Answers::default() };
        for _ in 0..QUESTIONS_MAX {
            let around = self.around_look(scope, core, &stages);
            match call.build(&Ctx { around, core, answers: &answers }) {
                Ok(built) => {
                    count(built.pack.as_ref(), built.degraded);
                    return Ok(built);
                }
                Err(Stop::Fail(error)) => return Err(error),
                Err(Stop::Ask(question)) => {
                    Box::pin(self.answer(*question, &mut answers, scope, core)).await?;
                }
            }
        }
        Err(curious())
    }
}

/// Counts a built context: its texts by fate, its best grade, its tokens, and the step without a
/// usable answer.
pub(super) fn count(pack: Option<&ContextPack>, degraded: Option<&str>) {
    if let Some(step) = degraded {
        metrics::counter!(metric::CONTEXT_DEGRADED, "step" => step.to_owned()).increment(1);
    }
    let Some(content) = pack.and_then(ContextPack::content) else { return };
    metrics::counter!(metric::CONTEXT_TEXTS, "fate" => Fate::Shown.text())
        .increment(content.items.len() as u64);
    for left in &content.left_out {
        metrics::counter!(metric::CONTEXT_TEXTS, "fate" => left.reason.text()).increment(1);
    }
    metrics::histogram!(metric::CONTEXT_TOKENS).record(content.tokens as f64);
    let grades = content.items.iter().filter_map(|item| item.grade.as_f64());
    if let Some(best) = grades.max_by(f64::total_cmp) {
        metrics::histogram!(metric::CONTEXT_GRADE).record(best);
    }
}

/// Whether the memory holds texts that the window does not show.
fn has_more_than_window(core: &Core) -> bool {
    let queue = &core.queue;
    queue.head_seq > 1
        || core.archived.chunks > 0
        || queue.next_seq.saturating_sub(queue.head_seq) > queue.count
}
