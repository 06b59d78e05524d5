//! Records the prompts of a run in the core, and the outcome of each prompt.

use serde_json::{Map, Value, json};

use super::Draft;
use crate::clock::iso8601;
use crate::error::{Code, Error, Result};
use crate::memory::Labels;
use crate::memory::change::Part;
use crate::memory::event::{EventType, PROMPT_VARIANCE, named};
use crate::memory::message::{Kind, Role};
use crate::memory::outbound::until_tomorrow;
use crate::memory::pack::{ContextPack, CoreContext};
use crate::memory::prompt::{
    Prompt, PromptEnd, PromptInput, RenderedPrompt, SentPrompt, ToolSet, ended, prompt_key,
};
use crate::memory::run::Usage;
use crate::policy::reconcile::{counted_permille, factor_permille, learn, varies};

/// Number of tool sets whose digests a core remembers, so that a stored set is not written again.
const TOOL_SETS_REMEMBERED: usize = 8;

/// Value of `finish` for a prompt whose answer was lost.
const LOST: &str = "lost";

/// The context that was built for a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptContext {
    /// Position of the message with the question; `None` for a given question.
    pub question_seq: Option<u64>,
    /// The context pack; `None` if the context shows nothing.
    pub pack: Option<ContextPack>,
    /// Cost of the context's message, in tokens; 0 if the context shows nothing.
    pub token_estimate: u64,
}

/// The outcome of a prompt, as reported by the server that sent the prompt.
#[derive(Clone, Debug)]
pub struct Outcome<'a> {
    /// Why the model stopped, or the error of the request.
    pub finish: &'a str,
    /// The provider's token counts.
    pub usage: Option<Usage>,
    /// Seq of the answer to the prompt, if an answer is stored.
    pub answer_seq: Option<u64>,
}

/// Returns the tokens that a prompt took: the provider's count, or the server's count of the prompt
/// if only an answer came; `None` if there was neither.
fn tokens_of(asked: &PromptInput, outcome: &Outcome<'_>) -> Option<u64> {
    let counted = outcome.usage.map(|usage| usage.prompt.saturating_add(usage.completion));
    counted.or(outcome.answer_seq.map(|_| asked.token_estimate))
}

impl Draft<'_> {
    /// Notes the labels of a user's message for the answers of the open run.
    pub(super) fn note_labels(&mut self, kind: Kind, role: Role, meta: &Map<String, Value>) {
        if kind == Kind::Turn
            && role == Role::User
            && let Some(run) = &mut self.after.run
            && let Some(labels) = Labels::of_meta(meta)
        {
            run.labels = labels.stored();
        }
    }

    /// Refuses a prompt of the given cost if the agent would use more tokens today than it may.
    pub fn check_spending(&self, token_estimate: u64) -> Result<()> {
        let (spending, now) = (self.after.spending(), self.around.unix_ms);
        let Some(limit) = spending.limit(self.around.tokens_per_day) else { return Ok(()) };
        let used = spending.on(now);
        if used.saturating_add(token_estimate) <= limit {
            return Ok(());
        }
        let text = format!(
            "{used} of {limit} tokens of this day are used, and the prompt has {token_estimate}: wait until tomorrow (UTC), or raise tokens_per_day of the agent or of [chat]"
        );
        Err(Error::new(Code::SpendingCapped, text)
            .with("used", used)
            .with("limit", limit)
            .with("retry_after_ms", until_tomorrow(now)))
    }

    /// Checks that prompt number `turn` still waits for an answer, and that server `owner` has the
    /// lease of the prompt's run.
    pub fn waits_for(&self, run: &str, owner: &str, turn: u64) -> Result<()> {
        let held =
            self.after.run.as_ref().is_some_and(|open| open.id == run && open.owner == owner);
        if !held {
            let text = "the run is over, or another server drives it: read the agent's state before you continue";
            return Err(Error::new(Code::RunLost, text));
        }
        let waits = self.after.asked.as_ref().filter(|asked| asked.run == run).map(|a| a.turn);
        if waits == Some(turn) {
            return Ok(());
        }
        let text = format!("prompt {turn} no longer waits for an answer");
        Err(Error::new(Code::RunLost, text).with("waits", waits))
    }

    /// Records a prompt before it is sent, and returns the prompt's number. An earlier prompt
    /// without an answer is ended as lost.
    pub fn ask(
        &mut self,
        window: RenderedPrompt,
        sent: SentPrompt,
        tools: Option<ToolSet>,
        context: Option<PromptContext>,
    ) -> u64 {
        self.lose_prompt();
        let at_ms = self.around.unix_ms;
        self.after.turns += 1;
        let turn = self.after.turns;
        let run = self.after.run.as_ref().expect("a prompt is recorded only in an open run");
        self.after.asked = Some(PromptInput {
            turn,
            run: run.id.clone(),
            model: sent.model.clone(),
            token_estimate: window.token_estimate,
            at_ms,
        });
        let prompt = Prompt {
            key: prompt_key(&self.after.agent_id, turn),
            agent_id: self.after.agent_id.clone(),
            turn,
            run: run.id.clone(),
            cause_seq: run.cause_seq,
            owner: run.owner.clone(),
            window,
            factor_permille: factor_permille(&self.after.learned, &sent.model),
            sent,
            created_at: iso8601(at_ms),
            checkpoint: None,
            end: None,
        };
        self.parts.push(Part::Prompt(json!(prompt)));
        if let Some(set) = tools {
            self.keep_tools(set);
        }
        if let Some(context) = context {
            self.keep_context(context);
        }
        turn
    }

    fn keep_tools(&mut self, set: ToolSet) {
        let known = &mut self.after.tool_sets;
        if known.contains(&set.digest) {
            return;
        }
        known.push(set.digest.clone());
        let surplus = known.len().saturating_sub(TOOL_SETS_REMEMBERED);
        known.drain(..surplus);
        self.parts.push(Part::ToolSet(set));
    }

    /// Notes the context of the newest prompt, and stores its pack unless an earlier prompt has
    /// stored it.
    fn keep_context(&mut self, context: PromptContext) {
        let digest = context.pack.as_ref().map(|pack| pack.digest.clone());
        let known = self.before.context.as_ref().and_then(|known| known.pack.as_ref());
        let is_known = known.is_some() && known == digest.as_ref();
        let PromptContext { question_seq, pack, token_estimate } = context;
        self.after.context =
            Some(CoreContext { question_seq, pack: digest, token_estimate, shown: None });
        self.parts.extend(pack.filter(|_| !is_known).map(Part::Pack));
    }

    /// Ends the open prompt, compares the token estimate with the provider's count, and updates the
    /// model's token factor. Returns the attributes to add to the prompt's row.
    pub fn answered(&mut self, outcome: &Outcome<'_>) -> Option<PromptEnd> {
        let asked = self.after.asked.take()?;
        let counted =
            outcome.usage.and_then(|usage| counted_permille(asked.token_estimate, usage.prompt));
        if let Some(counted) = counted {
            learn(&mut self.after.learned, &asked.model, counted, asked.turn);
        }
        if let Some(tokens) = tokens_of(&asked, outcome) {
            let mut spending = self.after.spending();
            spending.add(self.around.unix_ms, tokens);
            self.after.spending = spending.stored();
        }
        let end = PromptEnd {
            finish: outcome.finish.to_owned(),
            answer_seq: outcome.answer_seq,
            usage: outcome.usage,
            counted_permille: counted,
            variance_flag: counted.is_some_and(varies),
            duration_ms: self.around.unix_ms.saturating_sub(asked.at_ms),
            ended_at: iso8601(self.around.unix_ms),
        };
        if end.variance_flag {
            let model = named(&self.after.agent_id, &asked.model);
            let details = json!({"code": PROMPT_VARIANCE, "turn": asked.turn, "model": model, "token_estimate": asked.token_estimate,
                "usage": outcome.usage, "counted_permille": counted,
                "factor_permille": factor_permille(&self.after.learned, &asked.model)});
            self.event(EventType::Error, details);
        }
        self.parts.push(Part::Prompt(ended(&self.after.agent_id, asked.turn, &end)));
        Some(end)
    }

    /// Records that the answer to the open prompt, if any, was lost.
    pub fn lose_prompt(&mut self) {
        self.answered(&Outcome { finish: LOST, usage: None, answer_seq: None });
    }

    /// Returns the seq of the newest message.
    pub fn last_seq(&self) -> u64 {
        self.after.queue.next_seq - 1
    }

    /// Returns the learned token factor of a model as a JSON value for the answer.
    pub fn factor_of(&self, model: &str) -> Value {
        factor_permille(&self.after.learned, model).into()
    }
}
