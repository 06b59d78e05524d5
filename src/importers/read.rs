//! Reads files of other systems.
//!
//! If a file is not valid JSON, the error gives the position of the mistake. The import refuses an
//! object with an unknown attribute unless the user chose to skip this attribute.

use std::path::Path;

use serde_json::{Map, Value};

use super::plan::Plan;
use crate::limits::IMPORT_ITEMS_MAX;
use vctx_cli::args;
use vctx_cli::exit::Failure;

/// Maximum size of an imported file, in bytes.
const IMPORT_FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The user's choice of which contents of a file to import.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// Name or id of the agent or user to import.
    pub(super) only: Option<String>,
    /// Names of attributes and files that the import is to skip.
    pub(super) leave: Vec<String>,
}

impl Choice {
    /// Whether an attribute or file with this name is to be skipped.
    pub(super) fn leaves(&self, name: &str) -> bool {
        self.leave.iter().any(|left| left == name)
    }

    /// Checks that an object has no unknown attribute. Attributes with empty values are ignored,
    /// and attributes that the user chose to skip are reported.
    pub(super) fn check(
        &self,
        object: &Map<String, Value>,
        known: &[&str],
        place: &str,
        plan: &mut Plan,
    ) -> Result<(), Failure> {
        for (name, value) in object {
            if known.contains(&name.as_str()) || is_empty(value) {
                continue;
            }
            if !self.leaves(name) {
                return Err(Failure::data(format!("{place}: the attribute `{name}` is not known"))
                    .next(format!("--leave {name} imports the rest without it")));
            }
            plan.left(format!("`{name}`"), count(value), "left by --leave");
        }
        Ok(())
    }
}

/// Reads a whole file as text.
pub(super) fn text_of(path: &Path) -> Result<String, Failure> {
    args::file(path, IMPORT_FILE_BYTES_MAX)
}

/// Parses the text of a file as JSON.
pub(super) fn json_of(path: &Path, text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text)
        .map_err(|error| Failure::data(format!("{} is not JSON: {error}", path.display())))
}

/// Parses the text of a file with one JSON object per line; returns each object with its line
/// number.
pub(super) fn lines_of(
    path: &Path,
    text: &str,
) -> Result<Vec<(usize, Map<String, Value>)>, Failure> {
    let mut rows = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = || format!("{} line {}", path.display(), at + 1);
        let value: Value = serde_json::from_str(line)
            .map_err(|error| Failure::data(format!("{} is not JSON: {error}", place())))?;
        let Value::Object(object) = value else {
            return Err(Failure::data(format!("{} is no JSON object", place())));
        };
        rows.push((at + 1, object));
        if rows.len() > IMPORT_ITEMS_MAX {
            return Err(too_many(&path.display().to_string()));
        }
    }
    Ok(rows)
}

/// Returns a required text attribute.
pub(super) fn text<'a>(
    object: &'a Map<String, Value>,
    name: &str,
    place: &str,
) -> Result<&'a str, Failure> {
    let found = object.get(name).and_then(Value::as_str);
    found.ok_or_else(|| Failure::data(format!("{place}: `{name}` must be a text")))
}

/// Returns an optional text attribute.
pub(super) fn maybe(object: &Map<String, Value>, name: &str) -> Option<String> {
    object.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Returns an attribute that is a list of objects; empty if the attribute is absent or null.
pub(super) fn objects<'a>(
    object: &'a Map<String, Value>,
    name: &str,
    place: &str,
) -> Result<Vec<&'a Map<String, Value>>, Failure> {
    let list = match object.get(name) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(Failure::data(format!("{place}: `{name}` must be a list"))),
    };
    let rows = list.iter().enumerate().map(|(at, row)| {
        row.as_object()
            .ok_or_else(|| Failure::data(format!("{place}: {name}[{at}] is no JSON object")))
    });
    rows.collect()
}

/// Returns the error for a file with more items than an import accepts.
pub(super) fn too_many(place: &str) -> Failure {
    Failure::data(format!("{place} holds more than {IMPORT_ITEMS_MAX} items: split the file"))
}

/// Whether a JSON value is empty.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// Returns the number of items in a JSON value, for the report of skipped items.
pub(super) fn count(value: &Value) -> u64 {
    match value {
        Value::Array(list) => list.len() as u64,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Limits;
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_known_is_refused_by_name_unless_it_is_left() {
        let object = json!({"a": 1, "b": null, "c": [], "d": [1, 2]});
        let object = object.as_object().unwrap();
        let mut plan = Plan::new(Limits { block_bytes_max: 1 });
        let refused = Choice::default().check(object, &["a"], "here", &mut plan).unwrap_err();
        assert_eq!(refused.message, "here: the attribute `d` is not known");
        let choice = Choice { only: None, leave: vec!["d".into()] };
        choice.check(object, &["a"], "here", &mut plan).unwrap();
        assert_eq!((plan.left[0].what.as_str(), plan.left[0].items), ("`d`", 2));
    }

    #[test]
    fn a_line_that_is_no_object_is_named() {
        let path = Path::new("f.jsonl");
        let fault = |text| lines_of(path, text).unwrap_err().message;
        assert!(fault("{}\n\n[1]").starts_with("f.jsonl line 3 is no JSON object"));
        assert!(fault("{}\n{a").starts_with("f.jsonl line 2 is not JSON"));
        assert_eq!(lines_of(path, "{}\n\n{}\n").unwrap().len(), 2);
    }
}
