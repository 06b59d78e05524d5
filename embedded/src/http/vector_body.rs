//! Definitions of vector indexes: behind a start option as on the real server, checked, with all defaults.

use crate::error::{Error, Result};
use crate::schema::{Index, IndexKind, Metric, VectorParams};
use crate::value::{Object, Value};

use super::index_body::{bad, build, fields, flag, paths, stored_values, texts};
use super::reply::object;

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
    // How many threads train it is not the definition's; here it is always one.
    whole(body, "parallelism", Some(2))?;
    let (params, shown) = params(&body.attribute("params"))?;
    let mut definition = Object::new();
    definition.push_new("estimates", false.into());
    definition.push_new("fields", texts(&fields));
    definition.push_new("params", shown);
    if let Some(stored) = stored_values(body)? {
        definition.push_new("storedValues", stored);
    }
    definition.push_new("type", "vector".into());
    let kind = IndexKind::Vector(params);
    build(body, kind, paths(&fields), false, sparse, Value::object(definition))
}

/// `params` with defaults. What only 3.12.10 has for `nLists` (nothing at all, an object that scales) and Faiss factories
/// are refused by name.
fn params(given: &Value) -> Result<(VectorParams, Value)> {
    if given.as_object().is_none() {
        return Err(bad("vector index needs an object 'params'"));
    }
    let metric = metric(given)?;
    let dimension = whole(given, "dimension", None)?;
    if matches!(given.attribute("nLists"), Value::Null | Value::Object(_)) {
        return Err(Error::unsupported("a vector index whose 'params.nLists' is no number"));
    }
    match given.attribute("factory") {
        Value::Null => {}
        Value::String(_) => return Err(Error::unsupported("'params.factory' of a vector index")),
        _ => return Err(bad("'params.factory' must be a string")),
    }
    let params = VectorParams {
        metric,
        dimension,
        lists: whole(given, "nLists", None)?,
        default_probes: whole(given, "defaultNProbe", Some(1))?,
        training_rounds: whole(given, "trainingIterations", Some(25))?,
        documents_per_list: whole(given, "numberOfDocsPerCentroid", Some(100))?,
    };
    let shown = object! {
        "metric" => metric.name(),
        "dimension" => u64::from(dimension),
        "nLists" => u64::from(params.lists),
        "defaultNProbe" => u64::from(params.default_probes),
        "trainingIterations" => u64::from(params.training_rounds),
        "numberOfDocsPerCentroid" => u64::from(params.documents_per_list),
    };
    Ok((params, shown))
}

fn metric(given: &Value) -> Result<Metric> {
    let name = given.text_of("metric");
    let known = Metric::ALL.into_iter().find(|metric| Some(metric.name()) == name);
    known.ok_or_else(|| bad("'params.metric' must be cosine, l2 or innerProduct"))
}

fn whole(given: &Value, name: &str, default: Option<u32>) -> Result<u32> {
    let number = match (given.attribute(name), default) {
        (Value::Int(number), _) => u32::try_from(number).ok(),
        (Value::Null, default) => default,
        _ => None,
    };
    let wrong = || bad(format!("'{name}' of a vector index must be a whole number from 1"));
    number.filter(|number| *number >= 1).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::parse;

    #[test]
    fn what_is_not_built_is_refused_by_name() {
        for more in [
            r#""x":1"#,
            r#""nLists":{"strategy":"autoSqrt"}"#,
            r#""nLists":2,"factory":"IVF2,Flat""#,
        ] {
            let text =
                format!(r#"{{"fields":["v"],"params":{{"metric":"l2","dimension":4,{more}}}}}"#);
            let error = index(&parse(text.as_bytes()).unwrap(), true).unwrap_err();
            assert_eq!((error.status(), error.code.num()), (501, 9), "{text}");
        }
    }

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
        ];
        for (enabled, text, expected) in table {
            let body = parse(text.as_bytes()).expect(text);
            match (index(&body, enabled), expected) {
                (Ok(made), None) => {
                    assert_eq!(
                        made.definition.attribute("params").text_of("metric"),
                        Some("cosine")
                    );
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
