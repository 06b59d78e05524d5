//! The targets of the fuzzer: each takes any bytes, and panics if the program breaks a promise.
//!
//! `tests/it/fuzzed.rs` calls the targets with the inputs below `corpus`.

use std::panic::Location;

use arango_embedded::encode::{decode_value, encode_ordered, encode_value, successor};
use arango_embedded::query::parse_only;
use arango_embedded::value::{Value as Stored, compare, parse};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use serde_json::{Map, Value};
use vctx_core::dialect::understood;
use vctx_core::error::Error;
use vctx_core::memory::archive::{manifest_key, part_key, passage_key};
use vctx_core::memory::block_path::{MemoryPath, path_of, place_of};
use vctx_core::memory::export::Checker;
use vctx_core::memory::schedule::schedule_key;
use vctx_core::search::PageToken;
use vctx_core::trust::check_name;
use vctx_server::http::{Query, envelope, object_of};

/// The newest schema of an export that the target `import` reads.
const SCHEMA: u64 = 1_000;

/// Checks that a refusal names no text without end, and that a wrong argument has a name.
#[track_caller]
fn check_refusal(error: &Error) {
    let place = Location::caller();
    assert!(error.code.status() < 500, "{place}: {error}");
    assert!(error.message.len() < 8_192, "{place}: a message of {} bytes", error.message.len());
    if error.code.text() == "INVALID_ARGUMENT" {
        assert!(error.fields.get("field").is_some_and(Value::is_string), "{place}: {error}");
    }
}

/// Parses a query; its printed form is a query too, and stays as it is.
pub fn aql(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(body) = arango_embedded::syntax::parse(text) else { return };
    let printed = arango_embedded::syntax::print(&body);
    let again = arango_embedded::syntax::parse(&printed);
    let again = again.unwrap_or_else(|error| panic!("{printed}: {error:?}"));
    assert_eq!(arango_embedded::syntax::print(&again), printed);
    parse_only(text).expect("a query that is parsed once is parsed twice");
}

/// Reads a request: a line with path and query, lines of headers, an empty line, and a body.
pub fn http(input: &[u8]) {
    let split = input.windows(2).position(|two| two == b"\n\n");
    let (head, body) = split.map_or((input, &[][..]), |at| (&input[..at], &input[at + 2..]));
    let mut lines = head.split(|byte| *byte == b'\n');
    let uri = lines.next().and_then(|line| Uri::try_from(line).ok()).unwrap_or_default();
    let mut headers = HeaderMap::new();
    for line in lines.take(64) {
        let at = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(at + 1..).unwrap_or_default();
        if let (Ok(name), Ok(value)) =
            (HeaderName::try_from(&line[..at]), HeaderValue::from_bytes(value))
        {
            headers.append(name, value);
        }
    }
    match Query::parse(uri.query(), "from_seq and limit, or after") {
        Ok(query) => {
            let _ = (
                query.first("from_seq").map_err(|error| check_refusal(&error)),
                query.text("after"),
            );
            let _ = query.number("limit").map_err(|error| check_refusal(&error));
        }
        Err(error) => check_refusal(&error),
    }
    for name in uri.path().split('/') {
        let _ = check_name("agent", name).map_err(|error| check_refusal(&error));
    }
    let mut arguments = match object_of(body) {
        Ok(arguments) => arguments,
        Err(error) => return check_refusal(&error),
    };
    let _ = envelope(&headers, &mut arguments).map_err(|error| check_refusal(&error));
    call(uri.path().rsplit('/').next().unwrap_or_default(), arguments);
}

/// Decodes a call of a tool: a line with the tool's name, and its arguments.
pub fn tools(input: &[u8]) {
    let at = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let Ok(name) = std::str::from_utf8(&input[..at]) else { return };
    let arguments = serde_json::from_slice(input.get(at + 1..).unwrap_or_default());
    call(name, arguments.unwrap_or_default());
}

fn call(name: &str, arguments: Map<String, Value>) {
    match understood(name, arguments.clone()) {
        Ok(call) => {
            let again = understood(name, arguments).expect("a call is understood twice");
            assert_eq!(call.call.name(), again.call.name());
            let _ = (call.user_text(), call.beats(), call.call.writes(), call.call.depends());
        }
        Err(error) => check_refusal(&error),
    }
}

/// Checks the lines of an export; a refusal names the line.
pub fn import(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut checker = Checker::new(SCHEMA);
    for (number, line) in text.lines().enumerate() {
        if let Err(why) = checker.line(line) {
            assert!(why.starts_with(&format!("line {} ", number + 1)), "{why}");
            return;
        }
    }
    if let Ok(plan) = checker.finish() {
        let _ = (plan.held_back().count(), plan.answer());
    }
}

/// Parses a page token; a token that is accepted has one spelling.
pub fn page_token(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match PageToken::parse(text) {
        Ok(token) => assert_eq!(token.to_string(), text),
        Err(error) => check_refusal(&error),
    }
}

/// Encodes values and keys: two JSON values or names, which a line end separates.
pub fn keys(input: &[u8]) {
    let at = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (one, other) = (&input[..at], input.get(at + 1..).unwrap_or_default());
    if let (Ok(one), Ok(other)) = (parse(one), parse(other)) {
        ordered(&one, &other);
    }
    // Bytes that were not encoded here are refused or read, but never break the reader.
    if let Ok(value) = decode_value(input) {
        let again = decode_value(&encode_value(&value)).expect("an encoded value is readable");
        assert_eq!(format!("{again:?}"), format!("{value:?}"));
    }
    assert!(successor(one.to_vec()).is_none_or(|end| one < end.as_slice()));
    let (Ok(one), Ok(other)) = (std::str::from_utf8(one), std::str::from_utf8(other)) else {
        return;
    };
    names(one, other);
}

fn ordered(one: &Stored, other: &Stored) {
    let key = |value: &Stored| {
        let mut key = Vec::new();
        encode_ordered(value, &mut key);
        key
    };
    assert_eq!(key(one).cmp(&key(other)), compare(one, other), "{one:?} {other:?}");
    let back = decode_value(&encode_value(one)).expect("an encoded value is readable");
    assert_eq!(format!("{back:?}"), format!("{one:?}"));
    let (mut longer, key) = (key(one), key(one));
    longer.push(0xFF);
    assert!(successor(key).is_none_or(|end| longer < end));
}

/// Checks that different names have different keys, and that a key is a key of ArangoDB.
fn names(one: &str, other: &str) {
    let is_key = |key: &str| {
        let known = |b: u8| b.is_ascii_alphanumeric() || b"_-:.@()+,=;$!*'%".contains(&b);
        assert!(!key.is_empty() && key.len() <= 254 && key.bytes().all(known), "{key}");
    };
    if check_name("agent", one).is_ok() {
        let of =
            [manifest_key(one, other), passage_key(one, other, other), part_key(one, other, 3)];
        of.iter().for_each(|key| is_key(key));
        if check_name("name", other).is_ok() {
            is_key(&schedule_key(one, other));
            assert_eq!(schedule_key(one, other) == schedule_key(other, one), one == other);
        }
    }
    // The server refuses control characters in a document's name, which separate the parts of a key.
    let is_plain = |text: &str| !text.chars().any(char::is_control);
    if one != other && is_plain(one) && is_plain(other) {
        assert_ne!(manifest_key("ada", one), manifest_key("ada", other));
        assert_ne!(passage_key("ada", one, other), passage_key("ada", other, one));
    }
    if let Ok(MemoryPath::Named(id)) = place_of(one) {
        check_name("block_id", &id).unwrap_or_else(|error| panic!("{one}: {error}"));
        let path = path_of(&id);
        let again = place_of(&path);
        assert!(matches!(&again, Ok(MemoryPath::Named(same)) if *same == id), "{one}: {path}");
    }
}
