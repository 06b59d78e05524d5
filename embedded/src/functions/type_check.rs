//! AQL functions that check types and cast values.

use std::sync::Arc;

use super::Call;
use super::table::{Function, MANY, pure};
use crate::error::Result;
use crate::value::Value;

macro_rules! asks {
    ($name:literal, $test:expr, $help:literal) => {
        pure(
            $name,
            1,
            1,
            |_, a| {
                let test: fn(&Value) -> bool = $test;
                Ok(Value::Bool(test(&a[0])))
            },
            $help,
        )
    };
}

/// The AQL functions that this file implements.
pub(super) const TABLE: &[Function] = &[
    asks!("IS_NULL", Value::is_null, "whether the value is null"),
    asks!("IS_BOOL", |v| matches!(v, Value::Bool(_)), "whether the value is true or false"),
    asks!("IS_NUMBER", Value::is_number, "whether the value is a number"),
    asks!("IS_STRING", |v| v.as_str().is_some(), "whether the value is a text"),
    asks!("IS_ARRAY", |v| v.as_array().is_some(), "whether the value is a list"),
    asks!("IS_LIST", |v| v.as_array().is_some(), "whether the value is a list"),
    asks!("IS_OBJECT", |v| v.as_object().is_some(), "whether the value is an object"),
    asks!("IS_DOCUMENT", |v| v.as_object().is_some(), "whether the value is an object"),
    asks!(
        "IS_DATESTRING",
        |v| v.as_str().is_some_and(|s| super::calendar::parse(s).is_some()),
        "whether the value is a date as text"
    ),
    asks!("IS_KEY", |v| v.as_str().is_some_and(is_key), "whether the value may be a document key"),
    asks!(
        "IS_IPV4",
        |v| v.as_str().is_some_and(|s| ipv4(s).is_some()),
        "whether the value is an IPv4 address"
    ),
    pure("IPV4_TO_NUMBER", 1, 1, ipv4_to_number, "an IPv4 address as a number"),
    pure("IPV4_FROM_NUMBER", 1, 1, ipv4_from_number, "a number as an IPv4 address"),
    pure("TYPENAME", 1, 1, |_, a| Ok(a[0].type_name().into()), "name of the type"),
    pure("TO_BOOL", 1, 1, |_, a| Ok(Value::Bool(a[0].is_true())), "as true or false"),
    pure("TO_NUMBER", 1, 1, |_, a| super::call::number(a[0].to_f64()), "as a number"),
    pure("TO_STRING", 1, 1, |_, a| Ok(text(&a[0])), "as a text"),
    pure("TO_ARRAY", 1, 1, |_, a| Ok(to_array(&a[0])), "as a list"),
    pure("TO_LIST", 1, 1, |_, a| Ok(to_array(&a[0])), "as a list"),
    pure(
        "NOT_NULL",
        1,
        MANY,
        |_, a| Ok(first(a, |v| !v.is_null())),
        "the first argument that is not null",
    ),
    pure(
        "FIRST_LIST",
        1,
        MANY,
        |_, a| Ok(first(a, |v| v.as_array().is_some())),
        "the first argument that is a list",
    ),
    pure(
        "FIRST_DOCUMENT",
        1,
        MANY,
        |_, a| Ok(first(a, |v| v.as_object().is_some())),
        "the first argument that is an object",
    ),
];

/// Maximum length of a document key in bytes.
const KEY_BYTES_MAX: usize = 254;

fn is_key(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"_-:.@()+,=;$!*'%".contains(&b);
    (1..=KEY_BYTES_MAX).contains(&text.len()) && text.bytes().all(good)
}

fn text(value: &Value) -> Value {
    match value {
        Value::String(s) => Value::String(Arc::clone(s)),
        other => other.to_text().into_owned().into(),
    }
}

fn to_array(value: &Value) -> Value {
    match value {
        Value::Null => Value::array(Vec::new()),
        Value::Array(_) => value.clone(),
        Value::Object(o) => Value::array(o.iter().map(|(_, v)| v.clone()).collect()),
        other => Value::array(vec![other.clone()]),
    }
}

fn first(a: &[Value], good: fn(&Value) -> bool) -> Value {
    a.iter().find(|v| good(v)).cloned().unwrap_or_default()
}

/// Parses an IPv4 address: four decimal numbers without leading zeros.
fn ipv4(text: &str) -> Option<u32> {
    text.parse::<std::net::Ipv4Addr>().ok().map(u32::from)
}

fn ipv4_to_number(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    match a[0].as_str().and_then(ipv4) {
        Some(n) => Ok(Value::Int(i64::from(n))),
        None => call.mistyped(),
    }
}

fn ipv4_from_number(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    match u32::try_from(a[0].to_i64()) {
        Ok(n) if a[0].is_number() => Ok(std::net::Ipv4Addr::from(n).to_string().into()),
        _ => call.mistyped(),
    }
}
