//! A call under any known name becomes one of ours, with the way in which its caller is told what came of it.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::offer::Dialect;
use super::{anthropic, memgpt};
use crate::error::{Code, Error, Result};
use crate::policy::{TEXT, Wording};
use crate::tools::{Call, Tool, decode};

/// A call as it is understood.
#[derive(Clone, Debug)]
pub struct Translated {
    /// What is asked, in our words.
    pub call: Call,
    /// How the caller is told; none for our own names.
    pub wording: Option<Arc<dyn Wording>>,
    /// Whether no revision has to hold, whatever the caller builds on: nothing that it has not seen can be overwritten.
    pub any_revision: bool,
}

impl Translated {
    /// One of our own calls.
    fn own(call: Call) -> Self {
        Self { call, wording: None, any_revision: false }
    }

    /// What the user is shown by this call; none by a call that only concerns the memory.
    pub fn shown(&self) -> Option<&str> {
        match &self.call {
            Call::Say(say) => Some(&say.message),
            _ => None,
        }
    }

    /// Whether the caller asks to be called again at once, by an argument of the call itself.
    pub fn beats(&self) -> bool {
        let asked = match &self.call {
            Call::SearchRecall(search) => search.heartbeat,
            Call::SearchArchival(search) => search.heartbeat,
            Call::RecallDates(search) => search.heartbeat,
            _ => false,
        };
        asked || self.wording.as_ref().is_some_and(|wording| wording.beats())
    }
}

impl From<Call> for Translated {
    fn from(call: Call) -> Self {
        Self::own(call)
    }
}

/// Whether a call of that name is known in some dialect.
pub fn check_tool(name: &str) -> Result<()> {
    match Dialect::ALL.iter().any(|dialect| dialect.names().contains(&name)) {
        true => Ok(()),
        false => Tool::named(name).map(drop),
    }
}

/// Understands a call of a dialect; names of others are not known there.
pub fn translate(
    dialect: Dialect,
    name: &str,
    arguments: Map<String, Value>,
) -> Result<Translated> {
    let names = dialect.names();
    if !names.contains(&name) {
        let text = format!("no tool of that name: use one of {}", names.join(", "));
        return Err(Error::new(Code::ToolNotFound, text).with("tools", names));
    }
    understood(name, arguments)
}

/// Understands a call under any name of any dialect.
pub fn understood(name: &str, arguments: Map<String, Value>) -> Result<Translated> {
    if name == anthropic::MEMORY {
        return anthropic::understood(arguments);
    }
    match memgpt::understood(name, arguments.clone()) {
        Some(translated) => translated,
        None => decode(Tool::named(name)?, arguments).map(Translated::own),
    }
}

/// The same error, told to a caller whose call was not even understood.
pub(super) fn told(error: Error, wording: &dyn Wording) -> Error {
    let text = wording.refused(&error);
    error.with(TEXT, text)
}

/// The same error about an argument that our own call has under another name.
pub(super) fn renamed(mut error: Error, names: &[(&str, &str)]) -> Error {
    let field = error.fields.get("field").and_then(Value::as_str).map(str::to_owned);
    if let Some((ours, theirs)) = names.iter().find(|(ours, _)| Some(*ours) == field.as_deref()) {
        if let Some(rest) = error.message.strip_prefix(ours) {
            error.message = format!("{theirs}{rest}");
        }
        error.fields.insert("field".into(), (*theirs).into());
    }
    error
}
