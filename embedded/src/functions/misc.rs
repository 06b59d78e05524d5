//! AQL functions for control (such as calls and assertions), random numbers, and facts about the
//! server.

use super::Call;
use super::calendar::Moment;
use super::table::{DATA, Function, MANY, arity, function, live, pure, refused};
use crate::error::{Code, Error, Result};
use crate::value::{Object, Value};

/// The AQL functions that this file implements.
pub(super) const TABLE: &[Function] = &[
    live("FAIL", 0, 1, fail, "ends the query with error 1569"),
    live("ASSERT", 2, 2, assert, "ends the query unless a condition holds"),
    live("WARN", 2, 2, warn, "raises a warning unless a condition holds"),
    live("NOOPT", 1, 1, |_, a| Ok(a[0].clone()), "the value, evaluated at run time"),
    live("NOEVAL", 1, 1, |_, a| Ok(a[0].clone()), "the value, evaluated at run time"),
    pure("PASSTHRU", 1, 1, |_, a| Ok(a[0].clone()), "the value"),
    live("CALL", 1, MANY, |c, a| called(c, &a[0], &a[1..]), "calls the function with a given name"),
    live("APPLY", 1, 2, apply, "calls the function with a given name, with a list of arguments"),
    pure("MIN_MATCH", 2, MANY, min_match, "whether at least a given number of conditions hold"),
    pure("BOOST", 2, 2, |_, a| Ok(a[0].clone()), "the value itself; in a SEARCH, sets a weight"),
    pure(
        "ANALYZER",
        2,
        2,
        |_, a| Ok(a[0].clone()),
        "the value itself; in a SEARCH, sets an analyzer",
    ),
    pure("IS_SAME_COLLECTION", 2, 2, same_collection, "whether an id belongs to a collection"),
    live(
        "CHECK_DOCUMENT",
        1,
        1,
        |_, a| Ok(Value::Bool(a[0].as_object().is_some())),
        "a good object",
    ),
    pure("DECODE_REV", 1, 1, decode_rev, "time and count of a revision"),
];

fn fail(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let reason = a.first().and_then(Value::as_str).unwrap_or("FAIL() called");
    Err(Error::new(Code::QueryFailCalled, reason))
}

fn assert(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    match a[1].as_str() {
        None => call.mistyped(),
        Some(_) if a[0].is_true() => Ok(Value::Bool(true)),
        Some(reason) => Err(Error::new(Code::QueryUserAssert, reason)),
    }
}

fn warn(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(reason) = a[1].as_str() else { return call.mistyped() };
    if !a[0].is_true() {
        call.warn(Code::QueryUserWarn, reason)?;
    }
    Ok(Value::Bool(a[0].is_true()))
}

/// Calls a function of the table by its computed name (CALL, APPLY). Functions that need data
/// cannot be called this way.
fn called(call: &mut Call<'_>, name: &Value, arguments: &[Value]) -> Result<Value> {
    let Some(name) = name.as_str() else { return Err(call.fails()) };
    let name = name.to_uppercase();
    if name.contains("::") {
        return Err(Error::unsupported(format!("user-defined function '{name}()'")));
    }
    let Some(function) = function(&name) else {
        if refused(&name) || DATA.contains(&name.as_str()) {
            return Err(Error::unsupported(format!("function {name}() by a computed name")));
        }
        let message = format!("usage of unknown function '{name}()'");
        return Err(Error::new(Code::QueryFunctionNameUnknown, message));
    };
    arity(&name, arguments.len(), function.min, function.max)?;
    (function.run)(&mut Call { name: function.name, warnings: call.warnings }, arguments)
}

fn apply(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    match (&a[0], a.get(1)) {
        (name @ Value::String(_), None) => called(call, name, &[]),
        (name @ Value::String(_), Some(Value::Array(arguments))) => called(call, name, arguments),
        (Value::String(_), Some(_)) => call.mistyped(),
        _ => Err(call.fails()),
    }
}

fn min_match(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    match a {
        [conditions @ .., least] if least.is_number() => {
            let found = conditions.iter().filter(|c| c.is_true()).count();
            Ok(Value::Bool(found as i64 >= least.to_i64()))
        }
        _ => call.mistyped(),
    }
}

/// Returns the collection in an id or in a document's `_id`. A text that is not an id counts as the
/// name of a collection.
fn collection_of(value: &Value) -> Option<&str> {
    let text = value.as_str().or_else(|| value.text_of("_id"))?;
    text.split('/').next().filter(|name| !name.is_empty())
}

fn same_collection(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    match (collection_of(&a[0]), collection_of(&a[1])) {
        (Some(left), Some(right)) => Ok(Value::Bool(left == right)),
        _ => call.mistyped(),
    }
}

/// The 64 digits of revision texts, six bits each (ArangoDB's source: `HybridLogicalClock`).
const REVISION_DIGITS: &[u8; 64] =
    b"-_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// Maximum number of digits of a revision.
const REVISION_DIGITS_MAX: usize = 11;
/// Number of low bits of a revision that hold a counter; the bits above hold milliseconds.
const COUNT_BITS: u32 = 20;

fn decode_rev(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let digit = |b: u8| REVISION_DIGITS.iter().position(|digit| *digit == b);
    let number = a[0]
        .as_str()
        .filter(|text| text.len() <= REVISION_DIGITS_MAX)
        .and_then(|text| text.bytes().try_fold(0_u64, |n, b| Some(n << 6 | digit(b)? as u64)));
    let Some(number) = number.filter(|n| *n > 0) else { return call.mistyped() };
    let mut out = Object::new();
    out.insert("date", Moment::of((number >> COUNT_BITS) as i64).iso().into());
    out.insert("count", Value::from(number & ((1 << COUNT_BITS) - 1)));
    Ok(Value::object(out))
}

/// Random bytes from the operating system.
fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(Code::SystemError, format!("no random bytes: {error}")))?;
    Ok(bytes)
}

/// Random bits from the operating system.
pub(super) fn random() -> Result<u64> {
    random_bytes().map(u64::from_ne_bytes)
}

/// A random UUID (version 4).
pub(crate) fn random_uuid() -> Result<String> {
    let mut bytes = random_bytes::<16>()?;
    bytes[6] = bytes[6] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    let hex = |range: std::ops::Range<usize>| {
        bytes[range].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    Ok(format!("{}-{}-{}-{}-{}", hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16)))
}
