//! Reads the fields of a request one by one. The error for an unknown field names this field.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::limits::NAME_BYTES_MAX;
use crate::memory::Labels;

/// Maximum number of client tools in one request.
const CLIENT_TOOLS_MAX: usize = 128;

/// The fields of an object in a request, and the path to this object.
pub(crate) struct Fields {
    map: Map<String, Value>,
    at: String,
}

impl Fields {
    /// Returns the fields of an object; null counts as absent.
    pub(crate) fn of(value: Value, at: &str) -> Result<Self> {
        match value {
            Value::Object(mut map) => {
                map.retain(|_, value| !value.is_null());
                Ok(Self { map, at: at.to_owned() })
            }
            _ => Err(Error::argument(at, "must be an object")),
        }
    }

    /// Returns the path of a field from the root of the request.
    pub(crate) fn full_name(&self, name: &str) -> String {
        if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) }
    }

    /// Returns an error that names a field of the request.
    pub(crate) fn fault(&self, name: &str, why: impl std::fmt::Display) -> Error {
        Error::argument(&self.full_name(name), why)
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name)
    }

    /// Moves fields to the map `to`. Each pair in `names` has a field's name in the request and its
    /// name in the map.
    pub(crate) fn pass(&mut self, names: &[(&str, &str)], to: &mut Map<String, Value>) {
        for (name, passed) in names {
            to.extend(self.take(name).map(|value| ((*passed).to_owned(), value)));
        }
    }

    /// Removes the named fields from the object and returns them.
    pub(crate) fn taken(&mut self, names: &[&str]) -> Map<String, Value> {
        names.iter().filter_map(|name| Some(((*name).to_owned(), self.take(name)?))).collect()
    }

    /// Takes the fields `user` and `metadata`, which become the labels of the request's messages.
    pub(crate) fn labels(&mut self) -> Result<Labels> {
        let user = self.text("user")?.filter(|user| !user.is_empty());
        let metadata = match self.take("metadata") {
            None => BTreeMap::new(),
            Some(metadata) => serde_json::from_value(metadata)
                .map_err(|_| self.fault("metadata", "must be an object of texts"))?,
        };
        let labels = Labels { user, metadata, ..Labels::default() };
        labels.check(&self.at)?;
        Ok(labels)
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.fault(name, "must be a text")),
        }
    }

    /// Returns the non-empty text of a required field.
    pub(crate) fn required(&mut self, name: &str) -> Result<String> {
        match self.text(name)? {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(self.fault(name, "is missing: give a text")),
        }
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<bool> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(self.fault(name, "must be true or false")),
        }
    }

    pub(crate) fn list(&mut self, name: &str) -> Result<Vec<Value>> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => Ok(list),
            Some(_) => Err(self.fault(name, "must be a list")),
        }
    }

    /// Drops fields of a request that have no effect on this server.
    pub(crate) fn ignore(&mut self, names: &[&str]) {
        for name in names {
            self.map.remove(*name);
        }
    }

    /// Refuses a field that requests an unsupported feature. An empty value is accepted, and so is
    /// a value in `neutral`, which lists the values that leave the feature off.
    pub(crate) fn refuse(&mut self, name: &str, neutral: &[Value], why: &str) -> Result<()> {
        match self.take(name) {
            Some(value) if !neutral.contains(&value) && !is_bare(&value) => {
                Err(self.fault(name, why))
            }
            _ => Ok(()),
        }
    }

    /// Refuses the object if it has a field that was not read.
    pub(crate) fn end(self) -> Result<()> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(name) => Err(self.fault(name, "is unknown: leave it out")),
        }
    }
}

/// Returns whether a value is an empty list or object.
fn is_bare(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
}

/// Returns the text of a message, whose content is a text or a list of parts. The argument `kinds`
/// lists the accepted types of parts, each with the name of its text field.
pub(crate) fn text_of(content: Value, kinds: &[(&str, &str)], at: &str) -> Result<String> {
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
            let why = format!("parts of this kind are not accepted: use {}", known.join(" or "));
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

/// Checks client tools in chat form. All tools must be functions, and no client tool may have a
/// memory tool's name. `named` is the field of the request that has a tool's name.
pub(crate) fn checked_tools(
    tools: &[Value],
    named: &str,
    taken: &dyn Fn(&str) -> bool,
) -> Result<()> {
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
            return Err(Error::argument(&at(named), why));
        }
        if taken(name) {
            let why = "is the name of a memory tool: use another name";
            return Err(Error::argument(&at(named), why));
        }
        if seen.contains(&name) {
            return Err(Error::argument(&at(named), "two tools share this name"));
        }
        seen.push(name);
    }
    Ok(())
}
