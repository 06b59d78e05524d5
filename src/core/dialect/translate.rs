//! Translates a tool call of any dialect into a call to this server's tools, and gives the
//! dialect's reply texts for the call.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::offer::Dialect;
use super::{anthropic, memgpt, ues};
use crate::error::{Code, Error, Result};
use crate::policy::{TEXT, Wording};
use crate::text::nearest;
use crate::tools::{Call, Tool};

/// A call to this server's tools, translated from a call of any dialect.
#[derive(Clone, Debug)]
pub struct Translated {
    /// The call to this server's own tool.
    pub call: Call,
    /// The dialect's reply texts; `None` if the caller used this server's own tool name.
    pub wording: Option<Arc<dyn Wording>>,
    /// Whether the call accepts any revision, because the call cannot overwrite a text that the
    /// caller has not seen.
    pub any_revision: bool,
}

impl Translated {
    /// Wraps a call to one of this server's own tools, which needs no translation.
    fn own(call: Call) -> Self {
        Self { call, wording: None, any_revision: false }
    }

    /// Returns the text that this call shows to the user; `None` for a call that shows no text to
    /// the user.
    pub fn user_text(&self) -> Option<&str> {
        self.call.user_text()
    }

    /// Whether an argument of the call asks for a heartbeat.
    pub fn beats(&self) -> bool {
        self.call.beats() || self.wording.as_ref().is_some_and(|wording| wording.beats())
    }
}

impl From<Call> for Translated {
    fn from(call: Call) -> Self {
        Self::own(call)
    }
}

/// Checks that some dialect has a tool with the given name.
pub fn check_tool(name: &str) -> Result<()> {
    match Dialect::ALL.iter().any(|dialect| dialect.names().contains(&name)) {
        true => Ok(()),
        false => Tool::by_name(name).map(drop),
    }
}

/// Translates a call to a tool of the given dialect; a tool of another dialect is an error.
pub fn translate(
    dialect: Dialect,
    name: &str,
    arguments: Map<String, Value>,
) -> Result<Translated> {
    let names = dialect.names();
    if !names.contains(&name) {
        let meant = nearest(name, names.iter().copied());
        let meant = meant.map(|name| format!("did you mean {name}? ")).unwrap_or_default();
        let text = format!("no tool of that name: {meant}use one of {}", names.join(", "));
        return Err(Error::new(Code::ToolNotFound, text).with("tools", names));
    }
    understood(name, arguments)
}

/// Translates a call to a tool of any dialect.
pub fn understood(name: &str, arguments: Map<String, Value>) -> Result<Translated> {
    if name == anthropic::MEMORY {
        return anthropic::understood(arguments);
    }
    let theirs = memgpt::understood(name, arguments.clone());
    match theirs.or_else(|| ues::understood(name, arguments.clone())) {
        Some(translated) => translated,
        None => Tool::by_name(name)?.decode(arguments).map(Translated::own),
    }
}

/// Adds the dialect's reply text to an error that occurred when a call was decoded.
pub(super) fn worded_error(error: Error, wording: &dyn Wording) -> Error {
    let text = wording.refused(&error);
    error.with(TEXT, text)
}

/// Replaces the name of the wrong argument in an error: this server's name is replaced with the
/// dialect's name.
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
