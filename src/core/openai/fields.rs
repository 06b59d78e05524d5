//! The fields of a request, taken one by one: what is left over in the end is refused by name.

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::limits::{CLIENT_TOOLS_MAX, NAME_BYTES_MAX};

/// An object of a request and where it stands.
pub(super) struct Fields {
    map: Map<String, Value>,
    at: String,
}

impl Fields {
    /// The fields of an object; a null is a field that was left out.
    pub(super) fn of(value: Value, at: &str) -> Result<Self> {
        match value {
            Value::Object(mut map) => {
                map.retain(|_, value| !value.is_null());
                Ok(Self { map, at: at.to_owned() })
            }
            _ => Err(Error::argument(at, "must be an object")),
        }
    }

    /// Full name of a field.
    pub(super) fn named(&self, name: &str) -> String {
        if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) }
    }

    /// A fault of a field.
    pub(super) fn fault(&self, name: &str, why: impl std::fmt::Display) -> Error {
        Error::argument(&self.named(name), why)
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name)
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.fault(name, "must be a text")),
        }
    }

    /// A text that must be there and not be empty.
    pub(super) fn required(&mut self, name: &str) -> Result<String> {
        match self.text(name)? {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(self.fault(name, "is missing: give a text")),
        }
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<bool> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(self.fault(name, "must be true or false")),
        }
    }

    pub(super) fn list(&mut self, name: &str) -> Result<Vec<Value>> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => Ok(list),
            Some(_) => Err(self.fault(name, "must be a list")),
        }
    }

    /// Takes fields that change nothing here.
    pub(super) fn ignore(&mut self, names: &[&str]) {
        for name in names {
            self.map.remove(*name);
        }
    }

    /// Refuses a field that asks for what is not done here, unless its value asks for nothing.
    pub(super) fn refuse(&mut self, name: &str, neutral: &[Value], why: &str) -> Result<()> {
        match self.take(name) {
            Some(value) if !neutral.contains(&value) && !is_bare(&value) => {
                Err(self.fault(name, why))
            }
            _ => Ok(()),
        }
    }

    /// Refuses what nobody took.
    pub(super) fn end(self) -> Result<()> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(name) => Err(self.fault(name, "is not known here: leave it out")),
        }
    }
}

/// An empty list or object asks for nothing.
fn is_bare(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
}

/// The text of a message: a text, or a list of parts of the kinds in `kinds`, each with its text under the name beside it.
pub(super) fn text_of(content: Value, kinds: &[(&str, &str)], at: &str) -> Result<String> {
    let parts = match content {
        Value::String(text) => return Ok(text),
        Value::Null => return Ok(String::new()),
        Value::Array(parts) => parts,
        _ => return Err(Error::argument(at, "must be a text or a list of parts")),
    };
    let mut texts = Vec::with_capacity(parts.len());
    for (number, part) in parts.into_iter().enumerate() {
        let mut part = Fields::of(part, &format!("{at}[{number}]"))?;
        let kind = part.required("type")?;
        let Some((_, name)) = kinds.iter().find(|(known, _)| *known == kind) else {
            let known: Vec<&str> = kinds.iter().map(|(kind, _)| *kind).collect();
            let why = format!("parts of this kind are not taken: use {}", known.join(" or "));
            return Err(part.fault("type", why));
        };
        let text = part.text(name)?.ok_or_else(|| part.fault(name, "is missing: give a text"))?;
        part.ignore(&["annotations", "logprobs", "prompt_cache_breakpoint"]);
        part.end()?;
        if !text.is_empty() {
            texts.push(text);
        }
    }
    Ok(texts.join("\n"))
}

/// Checks tools of a client in chat's form: functions only, with names of their own.
pub(super) fn checked_tools(tools: &[Value], taken: &dyn Fn(&str) -> bool) -> Result<()> {
    if tools.len() > CLIENT_TOOLS_MAX {
        return Err(Error::argument("tools", format!("more than {CLIENT_TOOLS_MAX}")));
    }
    let mut seen: Vec<&str> = Vec::with_capacity(tools.len());
    for (number, tool) in tools.iter().enumerate() {
        let at = |name: &str| format!("tools[{number}].{name}");
        if tool["type"] != "function" {
            return Err(Error::argument(&at("type"), "only tools of type function are passed on"));
        }
        let name = tool["function"]["name"].as_str().unwrap_or_default();
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            let why = format!("use 1 to {NAME_BYTES_MAX} bytes");
            return Err(Error::argument(&at("function.name"), why));
        }
        if taken(name) {
            let why = "is the name of a tool of the memory: use another one";
            return Err(Error::argument(&at("function.name"), why));
        }
        if seen.contains(&name) {
            return Err(Error::argument(&at("function.name"), "two tools share this name"));
        }
        seen.push(name);
    }
    Ok(())
}
