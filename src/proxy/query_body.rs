//! The body of a query on the socket for reads: a JSON object of attributes that are known to carry no code, each once.

use serde_json::{Map, Value};

use super::aql::Known;
use super::refusal::{Reason, Refusal};
use vctx_core::memory::plain::Plain;

/// Attributes of a query beside its text.
const ATTRIBUTES: &[&str] =
    &["batchSize", "bindVars", "cache", "count", "memoryLimit", "options", "query", "ttl"];
/// Its options: how it is planned and told of, not what it does.
const OPTIONS: &[&str] = &[
    "allPlans",
    "allowRetry",
    "cache",
    "failOnWarning",
    "fillBlockCache",
    "fullCount",
    "maxNumberOfPlans",
    "maxPlans",
    "maxRuntime",
    "maxWarningCount",
    "memoryLimit",
    "optimizer",
    "profile",
    "stream",
    "usePlanCache",
];

/// Passes a body whose query only reads.
pub(super) fn check(bytes: &[u8], known: &Known) -> Result<(), Refusal> {
    let refuse = |text: &str| Err(Refusal::of(Reason::Body, text));
    let body = match serde_json::from_slice(bytes) {
        Ok(Plain(Value::Object(body))) => body,
        Ok(_) => return refuse("the body is not a JSON object"),
        Err(e) if e.is_data() => return refuse("the body names an attribute twice"),
        Err(_) => return refuse("the body is not JSON"),
    };
    if body.keys().any(|name| !ATTRIBUTES.contains(&name.as_str())) {
        return Err(unknown("attribute of a query", ATTRIBUTES));
    }
    check_options(&body)?;
    match body.get("query") {
        Some(Value::String(text)) => known.check(text),
        _ => refuse("the body has no text in `query`"),
    }
}

fn check_options(body: &Map<String, Value>) -> Result<(), Refusal> {
    let options = match body.get("options") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(options)) => options,
        Some(_) => return Err(Refusal::of(Reason::Body, "`options` is not a JSON object")),
    };
    match options.keys().all(|name| OPTIONS.contains(&name.as_str())) {
        true => Ok(()),
        false => Err(unknown("option of a query", OPTIONS)),
    }
}

fn unknown(what: &str, known: &[&str]) -> Refusal {
    let known = known.join(", ");
    Refusal::of(Reason::Body, format!("the body has an unknown {what}; known are {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_says_one_thing_once_or_is_refused() {
        let known = Known::default();
        let reason = |text: &str| check(text.as_bytes(), &known).err().map(|r| r.reason);
        assert_eq!(reason(r#"{"query": "RETURN @a", "bindVars": {"a": 1}, "batchSize": 5}"#), None);
        assert_eq!(reason(r#"{"query": "RETURN 1", "options": {"fullCount": true}}"#), None);
        for text in [
            "",
            "[]",
            "{}",
            "null",
            r#"{"query": 1}"#,
            r#"{"query": "RETURN 1"} {"query": "REMOVE 'a' IN c"}"#,
            r#"{"query": "RETURN 1", "query": "REMOVE 'a' IN c"}"#,
            r#"{"query": "RETURN 1", "\u0071uery": "REMOVE 'a' IN c"}"#,
            r#"{"query": "RETURN 1", "Query": "REMOVE 'a' IN c"}"#,
            r#"{"query": "RETURN 1", "action": "function () {}"}"#,
            r#"{"query": "RETURN 1", "options": {"intermediateCommitCount": 1}}"#,
            r#"{"query": "RETURN 1", "options": []}"#,
            r#"{"query": "RETURN 1", "bindVars": {"a": 1, "a": 2}}"#,
            "{\"query\": \"RETURN 1\", // \n}",
            "\u{feff}{\"query\": \"RETURN 1\"}",
            "{\"query\": \"RETURN \\ud800\"}",
        ] {
            assert_eq!(reason(text), Some(Reason::Body), "{text}");
        }
        assert_eq!(
            check(b"{\"query\": \"RETURN '\xff'\"}", &known).err().map(|r| r.reason),
            Some(Reason::Body)
        );
        assert_eq!(reason(r#"{"query": "REMOVE 'a' IN c"}"#), Some(Reason::Writes));
        assert_eq!(reason(r#"{"query": "\u0052EMOVE 'a' IN c"}"#), Some(Reason::Writes));
    }
}
