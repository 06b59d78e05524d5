//! Numbers and vectors.

use super::Call;
use super::string::count;
use super::table::{Function, live, pure};
use crate::error::Result;
use crate::value::Value;

macro_rules! double {
    ($name:literal, $f:expr, $help:literal) => {
        pure(
            $name,
            1,
            1,
            |c, a| {
                let f: fn(f64) -> f64 = $f;
                c.number(f(a[0].to_f64()))
            },
            $help,
        )
    };
}

/// The functions of this file.
pub(super) const TABLE: &[Function] = &[
    pure("ABS", 1, 1, abs, "without sign"),
    pure("CEIL", 1, 1, |c, a| integral(c, a, f64::ceil), "next integer above"),
    pure("FLOOR", 1, 1, |c, a| integral(c, a, f64::floor), "next integer below"),
    pure("ROUND", 1, 1, |c, a| integral(c, a, |x| (x + 0.5).floor()), "nearest integer, halves up"),
    double!("SQRT", f64::sqrt, "square root"),
    double!("EXP", f64::exp, "e to the power"),
    double!("EXP2", f64::exp2, "2 to the power"),
    double!("LOG", f64::ln, "natural logarithm"),
    double!("LOG2", f64::log2, "logarithm to 2"),
    double!("LOG10", f64::log10, "logarithm to 10"),
    double!("SIN", f64::sin, "sine"),
    double!("COS", f64::cos, "cosine"),
    double!("TAN", f64::tan, "tangent"),
    double!("ASIN", f64::asin, "arc sine"),
    double!("ACOS", f64::acos, "arc cosine"),
    double!("ATAN", f64::atan, "arc tangent"),
    double!("DEGREES", f64::to_degrees, "radians in degrees"),
    double!("RADIANS", f64::to_radians, "degrees in radians"),
    pure("POW", 2, 2, |c, a| c.number(a[0].to_f64().powf(a[1].to_f64())), "power"),
    pure("ATAN2", 2, 2, |c, a| c.number(a[0].to_f64().atan2(a[1].to_f64())), "angle of a point"),
    pure("PI", 0, 0, |_, _| Ok(Value::Double(std::f64::consts::PI)), "pi"),
    live(
        "RAND",
        0,
        0,
        |c, _| c.number(super::misc::random() as f64 / 2f64.powi(64)),
        "random number from 0 to 1",
    ),
    pure("BIT_AND", 1, 2, |c, a| bits(c, a, |x, y| x & y), "bits in all"),
    pure("BIT_OR", 1, 2, |c, a| bits(c, a, |x, y| x | y), "bits in any"),
    pure("BIT_XOR", 1, 2, |c, a| bits(c, a, |x, y| x ^ y), "bits in an odd number"),
    pure("BIT_POPCOUNT", 1, 1, bit_popcount, "number of bits set"),
    pure(
        "COSINE_SIMILARITY",
        2,
        2,
        |c, a| vectors(c, a, cosine),
        "cosine of the angle between two vectors",
    ),
    pure(
        "L1_DISTANCE",
        2,
        2,
        |c, a| vectors(c, a, manhattan),
        "sum of the differences of two vectors",
    ),
    pure("L2_DISTANCE", 2, 2, |c, a| vectors(c, a, euclid), "distance of two vectors"),
    pure("DECAY_GAUSS", 5, 5, |c, a| decay(c, a, gauss), "decreases like a bell from an origin"),
    pure(
        "DECAY_EXP",
        5,
        5,
        |c, a| decay(c, a, exponential),
        "decreases by the same part each step from an origin",
    ),
    pure("DECAY_LINEAR", 5, 5, |c, a| decay(c, a, linear), "decreases evenly from an origin"),
    pure("IN_RANGE", 5, 5, in_range, "whether a value lies between two others"),
];

/// Largest value of the bit functions (32 bits, as the server has it).
const BITS_MAX: i64 = u32::MAX as i64;

fn abs(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    match a[0].to_number() {
        Some(Value::Int(i)) => Ok(Value::from(i.unsigned_abs())),
        _ => call.number(a[0].to_f64().abs()),
    }
}

fn integral(call: &mut Call<'_>, a: &[Value], round: fn(f64) -> f64) -> Result<Value> {
    match a[0].to_number() {
        Some(exact @ (Value::Int(_) | Value::UInt(_))) => Ok(exact),
        _ => call.number(round(a[0].to_f64())),
    }
}

fn bits(call: &mut Call<'_>, a: &[Value], join: fn(i64, i64) -> i64) -> Result<Value> {
    let items = match a {
        [Value::Array(items)] => items.as_slice(),
        _ => a,
    };
    let mut out: Option<i64> = None;
    for item in items.iter().filter(|v| !v.is_null()) {
        let n = item.to_i64();
        if !item.is_number() || !(0..=BITS_MAX).contains(&n) {
            return call.mistyped();
        }
        out = Some(out.map_or(n, |o| join(o, n)));
    }
    Ok(out.map_or(Value::Null, Value::Int))
}

fn bit_popcount(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let n = a[0].to_i64();
    if !a[0].is_number() || !(0..=BITS_MAX).contains(&n) {
        return call.mistyped();
    }
    Ok(count(n.count_ones() as usize))
}

fn vector(value: &Value) -> Option<Vec<f64>> {
    value.as_array()?.iter().map(Value::as_f64).collect()
}

type Measure = fn(&[f64], &[f64]) -> f64;

/// A measure of two vectors, or of one and each of a list.
fn vectors(call: &mut Call<'_>, a: &[Value], measure: Measure) -> Result<Value> {
    let many =
        |v: &Value| v.as_array().is_some_and(|l| l.first().is_some_and(|x| x.as_array().is_some()));
    let (one, list) = match (many(&a[0]), many(&a[1])) {
        (false, false) => return pair(call, &a[0], &a[1], measure),
        (false, true) => (&a[0], &a[1]),
        (true, false) => (&a[1], &a[0]),
        (true, true) => return call.mistyped(),
    };
    let mut out = Vec::new();
    for other in list.as_array().unwrap_or_default() {
        let value = pair(call, one, other, measure)?;
        if value.is_null() {
            return Ok(Value::Null);
        }
        out.push(value);
    }
    Ok(Value::array(out))
}

fn pair(call: &mut Call<'_>, x: &Value, y: &Value, measure: Measure) -> Result<Value> {
    match (vector(x), vector(y)) {
        (Some(x), Some(y)) if x.len() == y.len() => call.number(measure(&x, &y)),
        _ => call.mistyped(),
    }
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(a, b)| a * b).sum()
}

fn cosine(x: &[f64], y: &[f64]) -> f64 {
    let size = (dot(x, x) * dot(y, y)).sqrt();
    (dot(x, y) / size).clamp(-1.0, 1.0)
}

fn manhattan(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(a, b)| (a - b).abs()).sum()
}

fn euclid(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

fn gauss(distance: f64, scale: f64, at_scale: f64) -> f64 {
    let variance = -(scale * scale) / (2.0 * at_scale.ln());
    (-(distance * distance) / (2.0 * variance)).exp()
}

fn exponential(distance: f64, scale: f64, at_scale: f64) -> f64 {
    (at_scale.ln() / scale * distance).exp()
}

fn linear(distance: f64, scale: f64, at_scale: f64) -> f64 {
    let width = scale / (1.0 - at_scale);
    ((width - distance) / width).max(0.0)
}

/// `DECAY_*(value or list, origin, scale, offset, decay)`
fn decay(call: &mut Call<'_>, a: &[Value], shape: fn(f64, f64, f64) -> f64) -> Result<Value> {
    let numbers: Option<Vec<f64>> = a[1..].iter().map(Value::as_f64).collect();
    let Some([origin, scale, offset, at_scale]) = numbers.as_deref() else {
        return call.mistyped();
    };
    if *scale <= 0.0 || *offset < 0.0 || *at_scale <= 0.0 || *at_scale >= 1.0 {
        return call.mistyped();
    }
    let one = |x: f64| shape(((x - origin).abs() - offset).max(0.0), *scale, *at_scale);
    match &a[0] {
        Value::Array(items) => {
            let Some(items) = items.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>() else {
                return call.mistyped();
            };
            Ok(Value::array(items.into_iter().filter_map(|x| Value::finite(one(x))).collect()))
        }
        other => match other.as_f64() {
            Some(x) => call.number(one(x)),
            None => call.mistyped(),
        },
    }
}

fn in_range(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let (Value::Bool(low_in), Value::Bool(high_in)) = (&a[3], &a[4]) else {
        return call.mistyped();
    };
    let (low, high) = (crate::value::compare(&a[0], &a[1]), crate::value::compare(&a[0], &a[2]));
    let above = low.is_gt() || (*low_in && low.is_eq());
    let below = high.is_lt() || (*high_in && high.is_eq());
    Ok(Value::Bool(above && below))
}
