//! Computes the shape of a request to the database: the request without names and values.

use std::collections::BTreeSet;

use arango_embedded::syntax::parse;
use serde_json::Value;

use crate::features::features;
use crate::proxy::Exchange;

/// Fixed words in paths below `/_api/NOUN`; all other segments are names.
const WORDS: &[&str] =
    &["begin", "properties", "count", "database", "current", "user", "vertex", "edge", "write"];
/// Attributes of a request body whose value is an object with member names that vctx chooses.
const NAMED: &[&str] = &["links", "fields"];
/// Attributes of a body whose contents do not belong to the shape.
const CLOSED: &[&str] = &["bindVars", "rule"];
/// Maximum nesting depth of the attributes that belong to the shape of a body.
const DEPTH_MAX: usize = 6;

/// Returns the lines that one request adds to the list of shapes: `HTTP …` and `AQL …`.
pub(crate) fn lines_of(exchange: &Exchange) -> BTreeSet<String> {
    let mut lines = BTreeSet::from([format!("HTTP {}", request(exchange))]);
    lines.extend(exchange.headers.iter().map(|header| format!("HTTP header {header}")));
    if let Some(text) = exchange.request["query"].as_str() {
        let body = parse(text).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
        lines.extend(features(&body).into_iter().map(|feature| format!("AQL {feature}")));
    }
    lines
}

/// Returns a line such as `POST /_db/{}/_api/index?collection={} {fields, name, type=ttl}`.
fn request(exchange: &Exchange) -> String {
    let (path, query) = exchange.path.split_once('?').unwrap_or((&exchange.path, ""));
    let mut shape = format!("{} {}", exchange.method, path_shape(path));
    let mut pairs: Vec<String> =
        query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect();
    pairs.sort();
    if !pairs.is_empty() {
        shape.push_str(&format!("?{}", pairs.join("&")));
    }
    let mut attributes = BTreeSet::new();
    attributes_of(&exchange.request, "", 0, &mut attributes);
    if !attributes.is_empty() {
        let attributes: Vec<String> = attributes.into_iter().collect();
        shape.push_str(&format!(" {{{}}}", attributes.join(", ")));
    }
    if exchange.transaction.is_some() {
        shape.push_str(" in a stream transaction");
    }
    shape
}

fn path_shape(path: &str) -> String {
    let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let noun = segments.iter().position(|s| ["_api", "_admin", "_open"].contains(s));
    let shown = segments.iter().enumerate().map(|(at, segment)| match noun {
        Some(noun) if at > noun + 1 && segments[noun] == "_api" && !WORDS.contains(segment) => "{}",
        Some(noun) if at < noun && at == 1 => "{}",
        _ => segment,
    });
    format!("/{}", shown.collect::<Vec<_>>().join("/"))
}

fn pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, value @ ("true" | "false"))) => format!("{name}={value}"),
        Some((name, _)) => format!("{name}={{}}"),
        None => pair.to_owned(),
    }
}

/// Lists the attributes of a body by path. `type` is listed with its value, because the value
/// determines the meaning of the other attributes.
fn attributes_of(body: &Value, path: &str, depth: usize, found: &mut BTreeSet<String>) {
    let Value::Object(attributes) = body else { return };
    let parent = path.trim_end_matches(['.', ']', '[']).rsplit('.').next().unwrap_or_default();
    for (name, value) in attributes {
        let name = if NAMED.contains(&parent) { "{}" } else { name };
        let here = format!("{path}{name}");
        let inner = match value {
            Value::Array(items) => items.iter().filter(|item| item.is_object()).collect(),
            Value::Object(_) => vec![value],
            _ => Vec::new(),
        };
        if inner.is_empty() || CLOSED.contains(&name) || depth == DEPTH_MAX {
            found.insert(match value {
                Value::String(kind) if name == "type" => format!("{here}={kind}"),
                Value::Number(kind) if name == "type" => format!("{here}={kind}"),
                _ => here,
            });
            continue;
        }
        let lead = if value.is_array() { format!("{here}[].") } else { format!("{here}.") };
        inner.into_iter().for_each(|item| attributes_of(item, &lead, depth + 1, found));
    }
}

#[test]
fn names_and_values_do_not_belong_to_a_shape() {
    let exchange = |method: &str, path: &str, body: &str| Exchange {
        method: method.into(),
        path: path.into(),
        headers: BTreeSet::new(),
        transaction: None,
        request: serde_json::from_str(body).unwrap_or(Value::Null),
        status: None,
        reply: Value::Null,
    };
    for (method, path, body, shape) in [
        ("GET", "/_db/vctx/_api/version?details=true", "", "GET /_db/{}/_api/version?details=true"),
        ("PUT", "/_db/vctx/_api/transaction/123", "", "PUT /_db/{}/_api/transaction/{}"),
        (
            "POST",
            "/_db/vctx/_api/transaction/begin",
            "{\"waitForSync\": true}",
            "POST /_db/{}/_api/transaction/begin {waitForSync}",
        ),
        (
            "PUT",
            "/_db/_system/_api/user/u/database/vctx/*",
            "{\"grant\": \"rw\"}",
            "PUT /_db/{}/_api/user/{}/database/{}/{} {grant}",
        ),
        (
            "POST",
            "/_db/vctx/_api/index?collection=c",
            r#"{"type": "ttl", "fields": ["a"], "params": {"x": 1}}"#,
            "POST /_db/{}/_api/index?collection={} {fields, params.x, type=ttl}",
        ),
        (
            "POST",
            "/_api/view",
            r#"{"links": {"c": {"fields": {"t": {"analyzers": ["a"]}}}}}"#,
            "POST /_api/view {links.{}.fields.{}.analyzers}",
        ),
        (
            "POST",
            "/_api/gharial",
            r#"{"edgeDefinitions": [{"from": ["a"]}]}"#,
            "POST /_api/gharial {edgeDefinitions[].from}",
        ),
        (
            "POST",
            "/_api/cursor",
            r#"{"bindVars": {"a": {"b": 1}}, "query": "RETURN @a"}"#,
            "POST /_api/cursor {bindVars, query}",
        ),
    ] {
        assert_eq!(request(&exchange(method, path, body)), shape);
    }
}
