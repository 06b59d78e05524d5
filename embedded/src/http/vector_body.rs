//! Definitions of vector indexes: behind a start option as on the real server, checked, kept, never trained.

use crate::error::{Error, Result};
use crate::schema::{Index, IndexKind};
use crate::value::{Object, Value};

use super::index_body::{bad, build, fields, flag, stored_values, texts};

/// Why the index does not answer queries.
const NOT_TRAINED: &str = "arango-embedded keeps the definition and does not train vector indexes";

/// A vector index. Without the start option nothing else is looked at, so that a client can tell the two apart.
pub(super) fn index(body: &Value, enabled: bool) -> Result<Index> {
    if !enabled {
        return Err(bad(
            "vector index feature is not enabled, start the server with --vector-index",
        ));
    }
    let fields = fields(body, 1)?;
    if fields[0].contains("[*]") {
        return Err(bad("vector index cannot be created on an expanded attribute"));
    }
    if flag(body, "unique", false)? {
        return Err(bad("a vector index cannot be unique"));
    }
    let sparse = flag(body, "sparse", false)?;
    let params = params(&body.attribute("params"))?;
    let mut definition = Object::new();
    definition.push_new("estimates", false.into());
    definition.push_new("fields", texts(&fields));
    definition.push_new("params", params);
    if let Some(stored) = stored_values(body)? {
        definition.push_new("storedValues", stored);
    }
    definition.push_new("type", "vector".into());
    definition.push_new("trainingState", "unusable".into());
    definition.push_new("errorMessage", NOT_TRAINED.into());
    let kind = IndexKind::DefinitionOnly("vector".into());
    build(body, kind, Vec::new(), false, sparse, Value::object(definition))
}

/// `params` with defaults (3.12.10: `nLists` may be left out or be an object that scales).
fn params(given: &Value) -> Result<Value> {
    if given.as_object().is_none() {
        return Err(bad("vector index needs an object 'params'"));
    }
    let mut params = Object::new();
    params.push_new("metric", metric(given)?);
    params.push_new("dimension", whole(given, "dimension", None)?);
    match given.attribute("nLists") {
        Value::Null => {}
        lists @ Value::Object(_) => params.push_new("nLists", lists),
        _ => params.push_new("nLists", whole(given, "nLists", None)?),
    }
    params.push_new("defaultNProbe", whole(given, "defaultNProbe", Some(1))?);
    params.push_new("trainingIterations", whole(given, "trainingIterations", Some(25))?);
    params.push_new("numberOfDocsPerCentroid", whole(given, "numberOfDocsPerCentroid", Some(100))?);
    match given.attribute("factory") {
        Value::Null => {}
        factory @ Value::String(_) => params.push_new("factory", factory),
        _ => return Err(bad("'params.factory' must be a string")),
    }
    Ok(Value::object(params))
}

fn metric(given: &Value) -> Result<Value> {
    match given.text_of("metric") {
        Some(metric @ ("cosine" | "l2" | "innerProduct")) => Ok(metric.into()),
        _ => Err(bad("'params.metric' must be cosine, l2 or innerProduct")),
    }
}

fn whole(given: &Value, name: &str, default: Option<i64>) -> Result<Value> {
    let error = || -> Error { bad(format!("'params.{name}' must be a whole number from 1")) };
    match (given.attribute(name), default) {
        (Value::Int(number), _) if number >= 1 => Ok(Value::Int(number)),
        (Value::Null, Some(default)) => Ok(Value::Int(default)),
        _ => Err(error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::parse;

    #[test]
    fn the_feature_is_checked_before_the_definition() {
        let good = r#"{"type":"vector","fields":["v"],"params":{"metric":"cosine","dimension":4,"nLists":2}}"#;
        let table = [
            (false, "{}", Some("--vector-index")),
            (false, good, Some("--vector-index")),
            (true, good, None),
            (true, r#"{"fields":["v"]}"#, Some("'params'")),
            (
                true,
                r#"{"fields":["v"],"params":{"metric":"cosine","dimension":0}}"#,
                Some("dimension"),
            ),
            (
                true,
                r#"{"fields":["v"],"params":{"metric":"manhattan","dimension":4}}"#,
                Some("metric"),
            ),
            (
                true,
                r#"{"fields":["v","w"],"params":{"metric":"l2","dimension":4}}"#,
                Some("fields"),
            ),
            (
                true,
                r#"{"fields":["v"],"params":{"metric":"l2","dimension":4,"nLists":0}}"#,
                Some("nLists"),
            ),
            (true, r#"{"fields":["v"],"params":{"metric":"l2","dimension":4}}"#, None),
        ];
        for (enabled, text, expected) in table {
            let body = parse(text.as_bytes()).expect(text);
            match (index(&body, enabled), expected) {
                (Ok(made), None) => {
                    assert_eq!(made.definition.text_of("trainingState"), Some("unusable"));
                }
                (Err(error), Some(word)) => {
                    assert_eq!((error.status(), error.code.num()), (400, 10), "{text}");
                    assert!(error.message.contains(word), "{text}: {}", error.message);
                }
                (outcome, _) => panic!("{text}: {outcome:?}"),
            }
        }
    }
}
