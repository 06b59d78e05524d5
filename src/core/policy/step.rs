//! The input and the outcome of one step of a call. A step is repeated until all its questions are
//! answered.

use serde_json::{Map, Value};

use super::draft::{Draft, Flush, Surroundings};
use super::question::{Answers, Question};
use crate::error::{Error, Result};
use crate::memory::change::Change;
use crate::memory::core::Core;
use crate::memory::message::Message;
use crate::memory::pack::ContextPack;

/// The outcome of a step of a call.
#[derive(Debug)]
pub enum Step {
    /// The result of a call that changes nothing.
    Read(Map<String, Value>),
    /// The result of a call that changes nothing of the memory, and a context pack to store before
    /// the answer.
    Keep(Map<String, Value>, Box<ContextPack>),
    /// A change to write.
    Write(Box<Change>),
    /// The first part of an eviction. This part is written before the rest of the change, and then
    /// the step is computed again.
    Part(Box<Change>),
}

/// The reason why a step of a call ended early.
#[derive(Debug)]
pub enum Stop {
    /// A question must be answered first, and then the step of the call is computed again.
    Ask(Box<Question>),
    /// The call is refused.
    Fail(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Fail(error)
    }
}

impl From<Question> for Stop {
    fn from(question: Question) -> Self {
        Self::Ask(Box::new(question))
    }
}

/// The input of a step of a call.
#[derive(Clone, Copy)]
pub struct Ctx<'a> {
    /// Token counter, time, ids, caller and settings.
    pub around: Surroundings<'a>,
    /// The loaded core of the agent.
    pub core: &'a Core,
    /// The answers to the step's questions so far.
    pub answers: &'a Answers,
}

impl<'a> Ctx<'a> {
    /// Returns the messages of the queue, oldest first.
    pub fn queue(&self) -> Result<&'a [Message], Stop> {
        let head_seq = self.core.queue.head_seq;
        Ok(self.answers.queue(|| Question::Queue { head_seq })?)
    }

    /// Starts a change from the loaded core.
    pub fn draft(&self) -> Draft<'a> {
        Draft::new(self.around, self.core)
    }

    /// Closes a change, and adds an eviction if the window would reach the flush mark. The argument
    /// `result` must be a JSON object.
    pub fn finish(&self, draft: Draft<'a>, result: impl Into<Value>) -> Result<Step, Stop> {
        let result = match result.into() {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        let target = draft.after.token_budget.target;
        let flush = Flush { always: false, target, summarize: true, may_wait: false };
        draft.finish(flush, self.answers, result)
    }
}
