//! `condense_text`: condenses a text into sentences of its own. Another dialect offers it.

use serde_json::{Map, json};

use super::spec::{Access, Command, Spec};
use crate::context::{extract, read_summary, summariser};
use crate::error::{Error, Result};
use crate::memory::model_role::ModelRole;
use crate::policy::{Ctx, Step, Stop};

/// Maximum length of a text, in bytes: about 2,000 sentences, which are compared with each other.
const TEXT_BYTES_MAX: usize = 128 * 1024;
/// Minimum, default and maximum number of tokens of a condensed text.
const CONDENSED_TOKENS: (u64, u64, u64) = (16, 256, 16_384);

/// A text to condense.
#[derive(Clone, Debug)]
pub struct CondenseText {
    /// The text.
    pub text: String,
    /// Maximum number of tokens; `None` for the default.
    pub tokens_max: Option<u64>,
    /// Whether only sentences of the text are wanted.
    pub is_verbatim: bool,
    /// Whether other words are wanted, so that an answer without a model is `degraded`.
    pub needs_model: bool,
}

impl Command for CondenseText {
    const SPEC: Spec = Spec::tool("condense_text", Access::Read);

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let tokens_max = self.tokens_max.unwrap_or(CONDENSED_TOKENS.1);
        let counter = ctx.around.counter;
        let mut result = Map::new();
        let has_model = ctx.around.roles.has(ModelRole::Summariser) && !self.is_verbatim;
        if has_model {
            let answer = ctx.answers.of_model(0, || summariser(&self.text, tokens_max))?;
            let summary = answer.and_then(read_summary);
            if let Some(summary) = summary.filter(|text| counter.count(text) <= tokens_max) {
                result.insert("text".into(), summary.into());
                result.insert("tokens".into(), counter.count(summary).into());
                result.insert("tokens_before".into(), counter.count(&self.text).into());
                return Ok(Step::Read(result));
            }
        }
        if has_model || self.needs_model {
            result.insert("degraded".into(), ModelRole::Summariser.text().into());
        }
        let condensed = extract(&self.text, tokens_max, ctx.around.counter);
        result.insert("text".into(), condensed.text.into());
        result.insert("spans".into(), json!(condensed.spans));
        result.insert("tokens".into(), condensed.tokens.into());
        result.insert("tokens_before".into(), ctx.around.counter.count(&self.text).into());
        Ok(Step::Read(result))
    }
}

impl CondenseText {
    /// Checks the arguments beyond their types; an error names the argument.
    pub fn checked(self) -> Result<Self> {
        if self.text.trim().is_empty() {
            return Err(Error::argument("text", "is empty: give a text"));
        }
        if self.text.len() > TEXT_BYTES_MAX {
            let text = format!("longer than {TEXT_BYTES_MAX} bytes: condense it part by part");
            return Err(Error::argument("text", text));
        }
        let (least, _, most) = CONDENSED_TOKENS;
        if self.tokens_max.is_some_and(|tokens| !(least..=most).contains(&tokens)) {
            return Err(Error::argument("tokens_max", format!("use {least} to {most}")));
        }
        Ok(self)
    }
}
