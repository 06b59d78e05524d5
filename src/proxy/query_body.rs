//! Checks the bodies of queries and of new transactions.
//!
//! The body of a query on the read-only socket must be a JSON object without repeated attributes,
//! and all attributes must be known to be harmless; its memory and time are limited. On the socket
//! for writes, a body must not write a system collection.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::aql::{ReadOnlyTexts, WritingTexts};
use super::refusal::{Reason, Refusal};
use super::rules::{is_writable, system_write};
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

/// The attributes of a JSON object, each at most once, with values that are not parsed: the bodies
/// of writes are long, and only a few of their values matter here.
struct Attributes<'a>(BTreeMap<String, &'a RawValue>);

impl<'de> Deserialize<'de> for Attributes<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Attributes<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Self::Value, A::Error> {
                let mut found = BTreeMap::new();
                while let Some((name, value)) = pairs.next_entry::<String, &RawValue>()? {
                    if found.insert(name, value).is_some() {
                        return Err(A::Error::custom("a name occurs twice in one object"));
                    }
                }
                Ok(Attributes(found))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

impl<'a> Attributes<'a> {
    fn read(json: &'a [u8]) -> Result<Self, Refusal> {
        serde_json::from_slice(json).map_err(|_| {
            Refusal::of(Reason::Body, "the body is not JSON, or names an attribute twice")
        })
    }

    /// Returns the value of an attribute, if it has the given type.
    fn get<T: Deserialize<'a>>(&self, name: &str) -> Option<T> {
        self.0.get(name).and_then(|value| serde_json::from_str(value.get()).ok())
    }
}

/// Accepts the body of a query if the query writes no system collection.
pub(super) fn check_written(bytes: &[u8], texts: &WritingTexts) -> Result<(), Refusal> {
    let body = Attributes::read(bytes)?;
    let Some(text) = body.get::<String>("query") else {
        return Err(Refusal::of(Reason::Body, "the body has no text in `query`"));
    };
    let binds = texts.check(&text)?;
    if binds.is_empty() {
        return Ok(());
    }
    // Without a value of the bind parameter, the database refuses the query.
    let Some(given) = body.0.get("bindVars") else { return Ok(()) };
    let given = Attributes::read(given.get().as_bytes())?;
    let named = binds.iter().filter(|bind| given.0.contains_key(*bind));
    let mut names = named.map(|bind| given.get::<String>(bind));
    match names.all(|name| name.is_some_and(|name| is_writable(&name))) {
        true => Ok(()),
        false => Err(system_write()),
    }
}

/// Accepts the body of a new stream transaction if it names no system collection.
pub(super) fn check_collections(bytes: &[u8]) -> Result<(), Refusal> {
    let body = Attributes::read(bytes)?;
    let collections = match body.0.get("collections") {
        Some(collections) => Attributes::read(collections.get().as_bytes())?,
        None => return Ok(()),
    };
    let accepted = collections.0.keys().all(|kind| match collections.get::<Value>(kind) {
        Some(Value::String(name)) => is_writable(&name),
        Some(Value::Array(names)) => {
            names.iter().all(|name| name.as_str().is_some_and(is_writable))
        }
        Some(Value::Bool(_)) => true,
        None | Some(Value::Null | Value::Number(_) | Value::Object(_)) => false,
    });
    if accepted { Ok(()) } else { Err(system_write()) }
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
    fn a_body_that_writes_names_no_system_collection() {
        let texts = WritingTexts::default();
        let accepted = |text: &str| check_written(text.as_bytes(), &texts).is_ok();
        for text in [
            r#"{"query": "INSERT @row INTO messages", "bindVars": {"row": {"a": "_b"}}}"#,
            r#"{"query": "INSERT {} INTO @@c", "bindVars": {"@c": "messages", "c": "_graphs"}}"#,
            r#"{"query": "FOR d IN @@from INSERT d INTO @@c", "bindVars": {"@c": "m", "@from": "_g"}}"#,
            r#"{"query": "INSERT {} INTO @@c"}"#,
        ] {
            assert!(accepted(text), "{text}");
        }
        for text in [
            r#"{"query": "INSERT {} INTO _graphs"}"#,
            r#"{"query": "INSERT {} INTO @@c", "bindVars": {"@c": "_graphs"}}"#,
            r#"{"query": "INSERT {} INTO @@c", "bindVars": {"\u0040c": "\u005fgraphs"}}"#,
            r#"{"query": "INSERT {} INTO @@c", "bindVars": {"@c": "17"}}"#,
            r#"{"query": "INSERT {} INTO @@c", "bindVars": {"@c": ["messages"]}}"#,
            r#"{"query": "INSERT {} INTO @@c", "bindVars": {"@c": "messages", "@c": "_graphs"}}"#,
            r#"{"query": "RETURN 1", "query": "INSERT {} INTO _graphs"}"#,
            r#"{"query": "RETURN 1"} {}"#,
            r#"{"query": ["INSERT {} INTO _graphs"]}"#,
            "[]",
        ] {
            assert!(!accepted(text), "{text}");
        }
    }

    #[test]
    fn a_transaction_names_no_system_collection() {
        for (text, expected) in [
            (r#"{"collections": {"write": ["messages", "cites"], "read": "prompts"}}"#, true),
            (r#"{"collections": {"allowImplicit": true, "exclusive": []}}"#, true),
            (r#"{"collections": {"write": ["messages", "_graphs"]}}"#, false),
            (r#"{"collections": {"exclusive": "_graphs"}}"#, false),
            (r#"{"collections": {"read": ["17"]}}"#, false),
            (r#"{"collections": {"write": [], "write": ["_graphs"]}}"#, false),
            (r#"{"collections": {"write": {"a": "_graphs"}}}"#, false),
            (r#"{"collections": ["_graphs"]}"#, false),
        ] {
            assert_eq!(check_collections(text.as_bytes()).is_ok(), expected, "{text}");
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
