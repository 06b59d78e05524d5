//! Provides bind values with which each query of the server can run once.
//!
//! Each value comes from the recorded data in `binds.json`, or is guessed from the bind parameter's
//! name.

use serde_json::{Map, Value, json};
use vctx_core::ledger::ITEMS_VERSION;

use super::vectors::{DIMENSION, vector};
use crate::store::{QUERIES, Query};

/// The recorded data for the doctor's queries: `seeds` has documents by collection, and `binds` has
/// bind values by query, writing queries before reading queries.
const SENT: &str = include_str!("binds.json");
/// Placeholder of a vector in the recorded data.
const VECTOR: &str = "$vector";

fn part(name: &str) -> Map<String, Value> {
    let file: Value = serde_json::from_str(SENT).expect("valid JSON, as a test checks");
    file[name].as_object().expect("each part is an object, as a test checks").clone()
}

/// Returns documents of an agent named `doctor`, by collection, so that the doctor's queries find
/// rows.
pub(super) fn seeds(seed: u64) -> Vec<(String, Value)> {
    part("seeds").into_iter().map(|(name, documents)| (name, filled(documents, seed))).collect()
}

/// Returns the queries in the order in which the doctor runs them, each with bind values.
pub(super) fn all(seed: u64) -> Vec<(Query, Value)> {
    let sent = part("binds");
    let known = sent.iter().filter_map(|(name, binds)| {
        QUERIES.iter().find(|query| query.name == name).map(|query| (*query, binds.clone()))
    });
    let unknown = QUERIES.iter().filter(|query| !sent.contains_key(query.name));
    known
        .chain(unknown.map(|query| (*query, json!({}))))
        .map(|(query, binds)| (query, completed(query, binds, seed)))
        .collect()
}

/// Returns exactly the bind values that the query declares; missing values are guessed.
fn completed(query: Query, binds: Value, seed: u64) -> Value {
    let value = |name: String| {
        let value = binds.get(&name).cloned().unwrap_or_else(|| guessed(&name));
        (name, filled(value, seed))
    };
    Value::Object(declared(query.text).into_iter().map(value).collect())
}

/// Returns the names of a query's bind parameters, without repetition.
fn declared(text: &str) -> Vec<String> {
    let spoken = text.lines().filter(|line| !line.starts_with("//"));
    let mut names: Vec<String> = spoken
        .flat_map(|line| line.split('@').skip(1))
        .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
        .filter(|name: &String| !name.is_empty())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Endings of the names of bind parameters whose values are numbers.
const NUMBERS: &[&str] = &[
    "_ms", "_max", "_seq", "_s", "_probe", "_rows", "_version", "_turn", "limit", "fetch",
    "number", "seq", "version", "turn", "part", "offset", "scan", "most", "around", "beside",
    "fan", "reach",
];

/// Returns a value that fits the name of a bind parameter. Some names and endings of names stand
/// for a boolean, a number, a vector or a list; any other name gets a text.
fn guessed(name: &str) -> Value {
    match name {
        "sync" => json!(false),
        "vector" => json!("embedding"),
        "query_vector" => json!(VECTOR),
        "items_version" => json!(ITEMS_VERSION),
        _ if NUMBERS.iter().any(|ending| name.ends_with(ending)) => json!(1),
        _ if name.ends_with('s') => json!([]),
        _ => json!("doctor"),
    }
}

fn filled(value: Value, seed: u64) -> Value {
    match value {
        Value::String(text) if text == VECTOR => json!(vector(seed, DIMENSION)),
        Value::Array(items) => items.into_iter().map(|item| filled(item, seed)).collect(),
        Value::Object(fields) => Value::Object(
            fields.into_iter().map(|(name, value)| (name, filled(value, seed))).collect(),
        ),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_gets_all_of_its_values_and_no_others() {
        let all = all(1);
        assert_eq!(all.len(), QUERIES.len());
        for (query, binds) in &all {
            let given: Vec<&String> = binds.as_object().expect("an object").keys().collect();
            let declared = declared(query.text);
            assert!(declared.iter().all(|name| given.contains(&name)), "{}", query.name);
            assert_eq!(given.len(), declared.len(), "{}", query.name);
            assert!(!binds.to_string().contains(VECTOR), "{}", query.name);
        }
    }

    #[test]
    fn names_of_binds_are_read_off_a_text() {
        let text =
            "// not @this\nFOR d IN @@docs FILTER d.@vector == @b OR d.c == @b RETURN @limit_ms";
        assert_eq!(declared(text), ["b", "docs", "limit_ms", "vector"]);
    }

    #[test]
    fn every_name_of_the_file_is_a_query_or_its_bind() {
        assert!(!seeds(1).is_empty());
        for (name, binds) in part("binds") {
            let query = QUERIES.iter().find(|query| query.name == name);
            let declared = declared(query.unwrap_or_else(|| panic!("{name} is no query")).text);
            for bind in binds.as_object().expect("an object").keys() {
                assert!(declared.contains(bind), "{name} binds no {bind}");
            }
        }
    }
}
