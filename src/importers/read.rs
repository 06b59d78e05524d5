//! Reading of foreign files: JSON with its place in every fault, and attributes that must be known or be left on purpose.

use std::path::Path;

use serde_json::{Map, Value};

use super::plan::Plan;
use vctx_cli::args;
use vctx_cli::exit::Failure;
use vctx_core::limits::{IMPORT_FILE_BYTES_MAX, IMPORT_ITEMS_MAX};

/// What the caller chose among what a file holds.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// The agent or user to take.
    pub(super) only: Option<String>,
    /// Attributes and files to do without.
    pub(super) leave: Vec<String>,
}

impl Choice {
    /// Whether something of that name is to be left.
    pub(super) fn leaves(&self, name: &str) -> bool {
        self.leave.iter().any(|left| left == name)
    }

    /// Checks that nothing in an object is unknown: empty values say nothing, named ones are left and told.
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

/// The whole file as text.
pub(super) fn text_of(path: &Path) -> Result<String, Failure> {
    args::file(path, IMPORT_FILE_BYTES_MAX)
}

/// A file as JSON.
pub(super) fn json_of(path: &Path, text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text)
        .map_err(|error| Failure::data(format!("{} is not JSON: {error}", path.display())))
}

/// A file of one JSON object per line, with the number of each line.
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

/// A text that must be there.
pub(super) fn text<'a>(
    object: &'a Map<String, Value>,
    name: &str,
    place: &str,
) -> Result<&'a str, Failure> {
    let found = object.get(name).and_then(Value::as_str);
    found.ok_or_else(|| Failure::data(format!("{place}: `{name}` must be a text")))
}

/// A text that may be there.
pub(super) fn maybe(object: &Map<String, Value>, name: &str) -> Option<String> {
    object.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A list of objects; none where the attribute is absent or null.
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

/// A file that holds more than an import takes.
pub(super) fn too_many(place: &str) -> Failure {
    Failure::data(format!("{place} holds more than {IMPORT_ITEMS_MAX} things: split it"))
}

/// Whether a value says nothing.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// How many things a value is.
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
