//! Bit functions over numbers of up to 32 bits.

use crate::error::Result;
use crate::functions::Call;
use crate::functions::string::count;
use crate::functions::table::{Function, pure};
use crate::value::Value;

/// The AQL functions that this file implements.
pub(crate) const TABLE: &[Function] = &[
    pure("BIT_AND", 1, 2, |c, a| join(c, a, |x, y| x & y), "bits in all"),
    pure("BIT_OR", 1, 2, |c, a| join(c, a, |x, y| x | y), "bits in any"),
    pure(
        "BIT_XOR",
        1,
        2,
        |c, a| join(c, a, |x, y| x ^ y),
        "bits that are set in an odd number of operands",
    ),
    pure("BIT_NEGATE", 2, 2, |c, a| shaped(c, a, |n, width, _| !n & low(width)), "bits turned"),
    pure("BIT_TEST", 2, 2, test, "whether a bit is set"),
    pure("BIT_POPCOUNT", 1, 1, popcount, "number of bits set"),
    pure(
        "BIT_SHIFT_LEFT",
        3,
        3,
        |c, a| shaped(c, a, |n, by, width| (n << by) & low(width)),
        "bits moved to the left",
    ),
    pure(
        "BIT_SHIFT_RIGHT",
        3,
        3,
        |c, a| shaped(c, a, |n, by, width| (n >> by) & low(width)),
        "bits moved to the right",
    ),
    pure("BIT_CONSTRUCT", 1, 1, construct, "a number from the positions of its bits"),
    pure("BIT_DECONSTRUCT", 1, 1, deconstruct, "positions of the bits that are set in a number"),
    pure("BIT_TO_STRING", 2, 2, to_string, "a number as binary digits"),
    pure("BIT_FROM_STRING", 1, 1, from_string, "binary digits as a number"),
];

/// Maximum number of bits of an operand (ArangoDB's limit).
const BITS_MAX: u64 = 32;

/// A mask of the lowest `width` bits.
fn low(width: u64) -> u64 {
    (1 << width) - 1
}

/// Converts a value to an integer from 0 to 2^32 - 1, dropping the fraction.
fn operand(value: &Value) -> Option<u64> {
    let x = value.as_f64().filter(|x| *x >= 0.0)?;
    Some(x as u64).filter(|n| *n <= u64::from(u32::MAX))
}

/// Reads an argument that is a bit count.
fn width(value: Option<&Value>) -> Option<u64> {
    operand(value?).filter(|n| *n <= BITS_MAX)
}

fn join(call: &mut Call<'_>, a: &[Value], join: fn(u64, u64) -> u64) -> Result<Value> {
    let items: Vec<&Value> = match a {
        [Value::Array(items)] => items.iter().filter(|v| !v.is_null()).collect(),
        [x, y] => vec![x, y],
        _ => return call.mistyped(),
    };
    match items.into_iter().map(operand).collect::<Option<Vec<u64>>>() {
        Some(items) => Ok(items.into_iter().reduce(join).map_or(Value::Null, Value::from)),
        None => call.mistyped(),
    }
}

/// Reads the arguments: a number, a bit count and optionally a second bit count.
fn shaped(call: &mut Call<'_>, a: &[Value], run: fn(u64, u64, u64) -> u64) -> Result<Value> {
    match (operand(&a[0]), width(a.get(1)), width(a.get(2).or(a.get(1)))) {
        (Some(n), Some(x), Some(y)) => Ok(Value::from(run(n, x, y))),
        _ => call.mistyped(),
    }
}

fn test(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    match (operand(&a[0]), width(a.get(1))) {
        (Some(n), Some(at)) if at < BITS_MAX => Ok(Value::Bool(n >> at & 1 == 1)),
        _ => call.mistyped(),
    }
}

fn popcount(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    match operand(&a[0]) {
        Some(n) => Ok(count(n.count_ones() as usize)),
        None => call.mistyped(),
    }
}

fn construct(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(items) = a[0].as_array() else { return call.mistyped() };
    let mut out = 0;
    for item in items {
        match operand(item).filter(|at| *at < BITS_MAX) {
            Some(at) => out |= 1_u64 << at,
            None => return call.mistyped(),
        }
    }
    Ok(Value::from(out))
}

fn deconstruct(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(n) = operand(&a[0]) else { return call.mistyped() };
    Ok(Value::array((0..BITS_MAX).filter(|at| n >> at & 1 == 1).map(Value::from).collect()))
}

fn to_string(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    match (operand(&a[0]), width(a.get(1))) {
        (Some(n), Some(width)) => {
            let digit = |at: u64| if n >> at & 1 == 1 { '1' } else { '0' };
            Ok((0..width).rev().map(digit).collect::<String>().into())
        }
        _ => call.mistyped(),
    }
}

fn from_string(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let good = |s: &&str| s.len() as u64 <= BITS_MAX && s.bytes().all(|b| matches!(b, b'0' | b'1'));
    match a[0].as_str().filter(good) {
        Some(digits) => Ok(Value::from(digits.bytes().fold(0, |n, b| n << 1 | u64::from(b & 1)))),
        None => call.mistyped(),
    }
}
