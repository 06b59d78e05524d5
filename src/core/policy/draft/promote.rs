//! Text on its way into the core, which stays in view: what is tainted needs a justification.

use serde_json::json;

use super::Draft;
use crate::error::{Code, Error, Result};
use crate::memory::core::BlockTaint;
use crate::memory::message::{Message, tainted};
use crate::memory::receipt::sha256;
use crate::policy::question::{Answers, Question};
use crate::policy::taint::{TaintMode, rules_of, shares_run};

/// A text on its way into a block.
#[derive(Clone, Copy, Debug)]
pub struct Promotion<'a> {
    /// The block.
    pub block_id: &'a str,
    /// What is written.
    pub piece: &'a str,
    /// The block before.
    pub before: &'a str,
    /// The block as it will be.
    pub after: &'a str,
    /// Why tainted text belongs there, if its writer says so.
    pub justification: Option<&'a str>,
}

/// What comes of it.
#[derive(Debug)]
pub enum Promoted {
    /// The queue must be known first.
    Ask(Question),
    /// It is not tainted.
    Clean,
    /// It is, and its writer says why it belongs there.
    Justified(BlockTaint),
}

/// What a caller is told to do about it.
const REFUSED: &str = "tainted text, by the rules in `rules` or because it repeats tainted text in view (`shared`): write it in your own words, \
    or say in one sentence why it belongs into the core, as `justification` (of store_core: in its policy); a tool without one does not take it";

impl Draft<'_> {
    /// Looks at a text on its way into the core: at what is written, at what the block becomes with it, and at what it repeats of tainted
    /// text in the queue.
    pub fn promote(&mut self, text: Promotion<'_>, answers: &Answers) -> Result<Promoted> {
        if self.around.taint == TaintMode::Off || text.piece.is_empty() {
            return Ok(Promoted::Clean);
        }
        let mut rules = rules_of(text.piece);
        let stood = rules_of(text.before);
        let whole = rules_of(text.after);
        let new = whole.into_iter().filter(|rule| !stood.contains(rule));
        let new: Vec<&str> = new.filter(|rule| !rules.contains(rule)).collect();
        rules.extend(new);
        let mut shared = false;
        let head_seq = self.before.queue.head_seq;
        if self.before.queue.tainted_seq >= head_seq {
            let Some(queue) = &answers.queue else {
                return Ok(Promoted::Ask(Question::Queue { head_seq }));
            };
            let marked = queue.iter().filter(|m: &&Message| !tainted(&m.meta).is_empty());
            shared = shares_run(text.piece, marked.map(|m| m.content.as_str()), text.before);
        }
        if rules.is_empty() && !shared {
            return Ok(Promoted::Clean);
        }
        let Some(justification) = text.justification else {
            return Err(Error::new(Code::TaintedContent, REFUSED)
                .with("block_id", text.block_id)
                .with("rules", rules)
                .with("shared", shared));
        };
        let told = json!({"block_id": text.block_id, "rules": rules, "shared": shared,
            "chars": justification.chars().count(), "digest": sha256(justification)});
        self.let_in("justification", told);
        let rules = rules.into_iter().map(str::to_owned).collect();
        let justification = justification.to_owned();
        Ok(Promoted::Justified(BlockTaint { rules, shared, justification }))
    }
}
