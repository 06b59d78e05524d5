//! Requires a justification for tainted text that enters the core, because every prompt contains
//! the core.

use serde_json::json;

use super::Draft;
use crate::error::{Code, Error, Result};
use crate::memory::core::BlockTaint;
use crate::memory::event::named;
use crate::memory::message::Role;
use crate::memory::receipt::sha256;
use crate::policy::question::{Answers, Question};
use crate::policy::step::Stop;
use crate::trust::{TaintMode, rules_of, shares_letters, shares_run, shows_outside};

/// A text that a call writes into a block.
#[derive(Clone, Copy, Debug)]
pub struct Promotion<'a> {
    /// Id of the block.
    pub block_id: &'a str,
    /// The text that the call writes into the block.
    pub piece: &'a str,
    /// The block's text before the call.
    pub before: &'a str,
    /// The block's text after the call.
    pub after: &'a str,
    /// The caller's reason why tainted text belongs in the core, if given.
    pub justification: Option<&'a str>,
}

/// Error text for a caller whose tainted text is refused.
const REFUSED: &str = "tainted text, by the rules in `rules` or because it repeats text from outside in view (`shared`): write it in your own words, \
    or say in one sentence why it belongs into the core, as `justification` (of store_core: in its policy); a tool without one does not take it";

impl Draft<'_> {
    /// Checks a text that enters the core. The taint rules are applied to the written text and to
    /// the whole block, and the text is compared with all text from outside in the queue.
    /// A tainted text without a justification is refused; with a justification, the function
    /// returns the taint mark for the block.
    pub fn promote(
        &mut self,
        text: Promotion<'_>,
        answers: &Answers,
    ) -> Result<Option<BlockTaint>, Stop> {
        if self.around.taint == TaintMode::Off || text.piece.is_empty() {
            return Ok(None);
        }
        let mut rules = rules_of(text.piece);
        let stood = rules_of(text.before);
        let whole = rules_of(text.after);
        let new = whole.into_iter().filter(|rule| !stood.contains(rule));
        let new: Vec<&str> = new.filter(|rule| !rules.contains(rule)).collect();
        rules.extend(new);
        let mut shared = false;
        let head_seq = self.before.queue.head_seq;
        if self.before.queue.tainted_seq.max(self.before.queue.outside_seq) >= head_seq {
            let queue = answers.queue(|| Question::Queue { head_seq })?;
            let outside = || queue.iter().filter(|m| shows_outside(m)).map(|m| m.content.as_str());
            // What the user said, and what the core has already, does not come from outside alone.
            let own = queue.iter().filter(|m| m.role == Role::User && !shows_outside(m));
            let own = own.map(|m| m.content.as_str());
            let core = self.before.working_blocks.iter().map(|block| block.content.as_str());
            let known: Vec<&str> = own.chain(core).chain([text.before]).collect();
            shared = shares_run(text.piece, outside(), &known.join("\n\n"))
                || shares_letters(text.piece, outside(), known.into_iter());
        }
        if rules.is_empty() && !shared {
            return Ok(None);
        }
        let Some(justification) = text.justification else {
            return Err(Error::new(Code::TaintedContent, REFUSED)
                .with("block_id", text.block_id)
                .with("rules", rules)
                .with("shared", shared)
                .into());
        };
        let told = json!({"block": named(&self.after.agent_id, text.block_id), "rules": rules, "shared": shared,
            "chars": justification.chars().count(), "digest": sha256(justification)});
        self.let_in("justification", told);
        let rules = rules.into_iter().map(str::to_owned).collect();
        let justification = justification.to_owned();
        Ok(Some(BlockTaint { rules, shared, justification }))
    }
}
