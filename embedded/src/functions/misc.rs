//! Control, chance, and the facts of the server.

use std::hash::{BuildHasher, Hasher, RandomState};

use super::Call;
use super::calendar::Moment;
use super::table::{DATA, Function, MANY, arity, function, live, pure, refused};
use crate::error::{Code, Error, Result};
use crate::value::{Object, Value};

/// The functions of this file.
pub(super) const TABLE: &[Function] = &[
    live("FAIL", 0, 1, fail, "ends the query with error 1569"),
    live("ASSERT", 2, 2, assert, "ends the query unless a condition holds"),
    live("WARN", 2, 2, warn, "a warning unless a condition holds"),
    live("NOOPT", 1, 1, |_, a| Ok(a[0].clone()), "the value, evaluated at run time"),
    live("NOEVAL", 1, 1, |_, a| Ok(a[0].clone()), "the value, evaluated at run time"),
    pure("PASSTHRU", 1, 1, |_, a| Ok(a[0].clone()), "the value"),
    pure("VERSION", 0, 0, |_, _| Ok(VERSION.into()), "version of the server that is imitated"),
    live("CALL", 1, MANY, |c, a| called(c, &a[0], &a[1..]), "the function of a name"),
    live("APPLY", 1, 2, apply, "the function of a name, arguments as a list"),
    pure("MIN_MATCH", 2, MANY, min_match, "whether some of the conditions hold"),
    pure("BOOST", 2, 2, |_, a| Ok(a[0].clone()), "the value; weight in a SEARCH"),
    pure("ANALYZER", 2, 2, |_, a| Ok(a[0].clone()), "the value; analyzer in a SEARCH"),
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

/// The version of ArangoDB whose answers the engine gives.
const VERSION: &str = "3.12.10";

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

/// Calls a function of the table by its name; those that need data cannot be reached by a computed name.
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

/// Collection of an id, of a document, or the name itself.
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

/// Digits of revisions, six bits each (the server's source: `HybridLogicalClock`).
const REVISION_DIGITS: &[u8; 64] =
    b"-_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// Longest revision in digits.
const REVISION_DIGITS_MAX: usize = 11;
/// Bits of the count behind the milliseconds.
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

/// Random bits: a fresh hasher of the standard library is keyed by the system's randomness.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A random UUID (version 4).
pub(super) fn uuid() -> String {
    let high = (random() & !0xf000) | 0x4000;
    let low = (random() & !(0b11 << 62)) | (0b10 << 62);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}
