//! Control, chance, and the facts of the server.

use std::hash::{BuildHasher, Hasher, RandomState};

use super::Call;
use super::table::{Function, live, pure};
use crate::error::{Code, Error, Result};
use crate::value::Value;

/// The functions of this file.
pub(super) const TABLE: &[Function] = &[
    live("FAIL", 0, 1, fail, "ends the query with error 1569"),
    live("ASSERT", 2, 2, assert, "ends the query unless a condition holds"),
    live("WARN", 2, 2, warn, "a warning unless a condition holds"),
    live("NOOPT", 1, 1, |_, a| Ok(a[0].clone()), "the value, evaluated at run time"),
    live("NOEVAL", 1, 1, |_, a| Ok(a[0].clone()), "the value, evaluated at run time"),
    live("PASSTHRU", 1, 1, |_, a| Ok(a[0].clone()), "the value, evaluated at run time"),
    pure("VERSION", 0, 0, |_, _| Ok(VERSION.into()), "version of the server that is imitated"),
];

/// The version of ArangoDB whose answers the engine gives.
const VERSION: &str = "3.12.10";

fn reason(a: &[Value], at: usize) -> String {
    a.get(at).map_or_else(String::new, |v| v.to_text().into_owned())
}

fn fail(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    Err(Error::new(Code::QueryFailCalled, format!("FAIL({}) called", reason(a, 0))))
}

fn assert(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    if a[0].is_true() {
        Ok(Value::Bool(true))
    } else {
        Err(Error::new(Code::QueryFailCalled, reason(a, 1)))
    }
}

fn warn(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    if a[0].is_true() {
        return Ok(Value::Bool(true));
    }
    call.warnings.raise(Code::QueryFailCalled, reason(a, 1))?;
    Ok(Value::Bool(false))
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
