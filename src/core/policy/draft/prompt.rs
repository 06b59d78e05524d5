//! Prompts inside a change: what is asked in a run, and what became of it.

use serde_json::{Value, json};

use super::Draft;
use crate::clock::iso8601;
use crate::error::{Code, Error, Result};
use crate::limits::TOOL_SETS_REMEMBERED;
use crate::memory::event::EventType;
use crate::memory::prompt::{Asked, Prompt, PromptEnd, Rendered, Sent, ToolSet, ended, prompt_key};
use crate::memory::run::Usage;
use crate::policy::reconcile::{counted_permille, factor_permille, learn, varies};

/// `finish` of a prompt whose answer nobody will write any more.
const LOST: &str = "lost";

/// What became of a prompt, as its asker tells it.
#[derive(Clone, Debug)]
pub struct Outcome<'a> {
    /// Why the model stopped, or what went wrong.
    pub finish: &'a str,
    /// The provider's count.
    pub usage: Option<Usage>,
    /// Seq of the answer, if there is one to keep.
    pub answer_seq: Option<u64>,
}

impl Draft<'_> {
    /// The prompt that waits for its answer, if it is the one that is meant, of a run that its asker holds.
    pub fn waits_for(&self, run: &str, owner: &str, turn: u64) -> Result<()> {
        let held =
            self.after.run.as_ref().is_some_and(|open| open.id == run && open.owner == owner);
        if !held {
            let text = "the run is over, or another one holds it: look at the agent's state before going on";
            return Err(Error::new(Code::RunLost, text));
        }
        let waits = self.after.asked.as_ref().filter(|asked| asked.run == run).map(|a| a.turn);
        if waits == Some(turn) {
            return Ok(());
        }
        let text = format!("prompt {turn} waits for no answer any more");
        Err(Error::new(Code::RunLost, text).with("waits", waits))
    }

    /// Records a prompt before it is sent; gives its number. One that waits for its answer is given up.
    pub fn ask(&mut self, window: Rendered, sent: Sent, tools: Option<ToolSet>) -> u64 {
        self.lose_prompt();
        let at_ms = self.around.unix_ms;
        self.after.turns += 1;
        let turn = self.after.turns;
        let run = self.after.run.as_ref().expect("a prompt is asked in a run that is held");
        self.after.asked = Some(Asked {
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
            end: None,
        };
        self.prompts.push(json!(prompt));
        if let Some(set) = tools {
            self.keep_tools(set);
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
        self.tool_sets.push(set);
    }

    /// Ends the prompt that waits: our count beside the provider's, and what is learned of it. Gives the row's end.
    pub fn answered(&mut self, outcome: &Outcome<'_>) -> Option<PromptEnd> {
        let asked = self.after.asked.take()?;
        let counted =
            outcome.usage.and_then(|usage| counted_permille(asked.token_estimate, usage.prompt));
        if let Some(counted) = counted {
            learn(&mut self.after.learned, &asked.model, counted, asked.turn);
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
            let details = json!({"turn": asked.turn, "model": asked.model, "token_estimate": asked.token_estimate,
                "usage": outcome.usage, "counted_permille": counted,
                "factor_permille": factor_permille(&self.after.learned, &asked.model)});
            self.event(EventType::Variance, details);
        }
        self.prompts.push(ended(&self.after.agent_id, asked.turn, &end));
        Some(end)
    }

    /// Gives up the prompt that waits, if one does.
    pub fn lose_prompt(&mut self) {
        self.answered(&Outcome { finish: LOST, usage: None, answer_seq: None });
    }

    /// Seq of the newest message.
    pub fn last_seq(&self) -> u64 {
        self.after.queue.next_seq - 1
    }

    /// What is known of a model's counting, for an answer.
    pub fn factor_of(&self, model: &str) -> Value {
        factor_permille(&self.after.learned, model).into()
    }
}
