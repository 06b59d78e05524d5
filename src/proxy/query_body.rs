//! Checks the body of a query on the read-only socket: it must be a JSON object without repeated
//! attributes, and all attributes must be known to be harmless. Limits the query's memory and time.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::aql::ReadOnlyTexts;
use super::refusal::{Reason, Refusal};
use super::settings::Settings;
use vctx_core::memory::strict_json::StrictJson;

/// Allowed attributes of a query body.
const ATTRIBUTES: &[&str] =
    &["batchSize", "bindVars", "cache", "count", "memoryLimit", "options", "query", "ttl"];
/// Allowed options of a query. They change the query's plan or the reported details, but not the
/// query's effect.
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

/// Attributes of a query body and of its options that the proxy sets.
const MEMORY: &str = "memoryLimit";
const OPTIONS_OBJECT: &str = "options";
const RUNTIME: &str = "maxRuntime";

/// Returns an accepted body with limits of the query's memory and run time. The limits in the body
/// are kept; if the body has no limit or a larger limit than the proxy, it gets the proxy's limit.
/// The other attributes and options stay as the client sent them.
pub(super) fn limited(bytes: &Bytes, settings: &Settings) -> Result<Bytes, Refusal> {
    let garbled = |_| Refusal::of(Reason::Body, "the body is not JSON");
    let mut body: BTreeMap<String, &RawValue> = serde_json::from_slice(bytes).map_err(garbled)?;
    let given =
        |name: &str| body.get(name).and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
    let bytes_max = memory(given(MEMORY).as_ref(), settings);
    let mut options = match given(OPTIONS_OBJECT) {
        Some(Value::Object(options)) => options,
        _ => Map::new(),
    };
    let seconds = options.get(RUNTIME).and_then(Value::as_f64).filter(|given| *given > 0.0);
    let most = settings.query_ms as f64 / 1_000.0;
    options.insert(RUNTIME.into(), seconds.map_or(most, |given| given.min(most)).into());
    if let Some(given) = options.get(MEMORY) {
        let given = memory(Some(given), settings);
        options.insert(MEMORY.into(), given.into());
    }
    let raw = |value: Value| RawValue::from_string(value.to_string()).map_err(garbled);
    let (bytes_max, options) = (raw(bytes_max.into())?, raw(options.into())?);
    body.insert(MEMORY.into(), &bytes_max);
    body.insert(OPTIONS_OBJECT.into(), &options);
    serde_json::to_vec(&body).map(Bytes::from).map_err(garbled)
}

/// Returns a memory limit in bytes that is not larger than the proxy's limit.
fn memory(given: Option<&Value>, settings: &Settings) -> u64 {
    let given = given.and_then(Value::as_u64).filter(|given| *given > 0);
    given.map_or(settings.query_memory_bytes, |given| given.min(settings.query_memory_bytes))
}

/// Accepts a request body if its query only reads.
pub(super) fn check(bytes: &[u8], texts: &ReadOnlyTexts) -> Result<(), Refusal> {
    let refuse = |text: &str| Err(Refusal::of(Reason::Body, text));
    let body = match serde_json::from_slice(bytes) {
        Ok(StrictJson(Value::Object(body))) => body,
        Ok(_) => return refuse("the body is not a JSON object"),
        Err(e) if e.is_data() => return refuse("the body names an attribute twice"),
        Err(_) => return refuse("the body is not JSON"),
    };
    if body.keys().any(|name| !ATTRIBUTES.contains(&name.as_str())) {
        return Err(unknown("attribute of a query", ATTRIBUTES));
    }
    check_options(&body)?;
    match body.get("query") {
        Some(Value::String(text)) => texts.check(text),
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
    fn a_query_is_limited_and_stays_as_it_was_sent_otherwise() {
        let settings = Settings {
            in_flight_max: 1,
            waiting_max: 1,
            wait_ms: 1_000,
            answer_ms: 1_000,
            upstream_ms: 1_000,
            query_bytes_max: 1_024,
            query_memory_bytes: 1_000,
            query_ms: 2_500,
        };
        for (given, expected) in [
            (
                r#"{"query": "RETURN @a", "bindVars": {"b": 1.0, "a": 123456789012345678901234567890}}"#,
                r#"{"bindVars":{"b": 1.0, "a": 123456789012345678901234567890},"memoryLimit":1000,"options":{"maxRuntime":2.5},"query":"RETURN @a"}"#,
            ),
            (
                r#"{"memoryLimit": 10, "query": "RETURN 1", "options": {"maxRuntime": 1, "memoryLimit": 9000}}"#,
                r#"{"memoryLimit":10,"options":{"maxRuntime":1.0,"memoryLimit":1000},"query":"RETURN 1"}"#,
            ),
            (
                r#"{"memoryLimit": 0, "query": "RETURN 1", "options": {"maxRuntime": 0}}"#,
                r#"{"memoryLimit":1000,"options":{"maxRuntime":2.5},"query":"RETURN 1"}"#,
            ),
            (
                r#"{"memoryLimit": "many", "query": "RETURN 1", "options": {"maxRuntime": 1e300}}"#,
                r#"{"memoryLimit":1000,"options":{"maxRuntime":2.5},"query":"RETURN 1"}"#,
            ),
        ] {
            let bytes = Bytes::from(given);
            let limited = limited(&bytes, &settings).expect(given);
            assert_eq!(std::str::from_utf8(&limited), Ok(expected));
        }
    }

    #[test]
    fn a_body_says_one_thing_once_or_is_refused() {
        let texts = ReadOnlyTexts::default();
        let reason = |text: &str| check(text.as_bytes(), &texts).err().map(|r| r.reason);
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
            check(b"{\"query\": \"RETURN '\xff'\"}", &texts).err().map(|r| r.reason),
            Some(Reason::Body)
        );
        assert_eq!(reason(r#"{"query": "REMOVE 'a' IN c"}"#), Some(Reason::Writes));
        assert_eq!(reason(r#"{"query": "\u0052EMOVE 'a' IN c"}"#), Some(Reason::Writes));
    }
}
