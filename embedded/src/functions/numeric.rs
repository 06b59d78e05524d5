//! AQL functions over numbers and vectors.

use super::Call;
use super::call::number;
use super::table::{Function, live, pure};
use crate::error::{Code, Result};
use crate::value::Value;

macro_rules! double {
    ($name:literal, $f:expr, $help:literal) => {
        pure(
            $name,
            1,
            1,
            |_, a| {
                let f: fn(f64) -> f64 = $f;
                number(f(a[0].to_f64()))
            },
            $help,
        )
    };
}

/// The AQL functions that this file implements.
pub(super) const TABLE: &[Function] = &[
    double!("ABS", f64::abs, "without sign"),
    double!("CEIL", f64::ceil, "next integer above"),
    double!("FLOOR", f64::floor, "next integer below"),
    double!("ROUND", |x| (x + 0.5).floor(), "nearest integer, halves up"),
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
    double!("DEGREES", |x| x * (180.0 / std::f64::consts::PI), "radians in degrees"),
    double!("RADIANS", |x| x * (std::f64::consts::PI / 180.0), "degrees in radians"),
    pure("POW", 2, 2, |_, a| number(a[0].to_f64().powf(a[1].to_f64())), "power"),
    pure("ATAN2", 2, 2, |_, a| number(a[0].to_f64().atan2(a[1].to_f64())), "angle of a point"),
    pure("PI", 0, 0, |_, _| Ok(Value::Double(std::f64::consts::PI)), "pi"),
    live("RAND", 0, 0, rand, "random number from 0 to 1"),
    live("RANDOM", 0, 0, rand, "random number from 0 to 1"),
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
        "sum of the absolute differences of two vectors' components",
    ),
    pure("L2_DISTANCE", 2, 2, |c, a| vectors(c, a, euclid), "distance of two vectors"),
    pure(
        "DECAY_GAUSS",
        5,
        5,
        |c, a| decay(c, a, gauss),
        "decreases with the distance from an origin, as a Gaussian curve",
    ),
    pure(
        "DECAY_EXP",
        5,
        5,
        |c, a| decay(c, a, exponential),
        "decreases exponentially with the distance from an origin",
    ),
    pure(
        "DECAY_LINEAR",
        5,
        5,
        |c, a| decay(c, a, linear),
        "decreases linearly with the distance from an origin",
    ),
    pure("IN_RANGE", 5, 5, in_range, "whether a value lies between two others"),
];

fn rand(_: &mut Call<'_>, _: &[Value]) -> Result<Value> {
    number(super::misc::random()? as f64 / 2f64.powi(64))
}

fn vector(value: &Value) -> Option<Vec<f64>> {
    let items = value.as_array()?;
    let mut numbers = Vec::with_capacity(items.len());
    for item in items {
        numbers.push(item.as_f64()?);
    }
    Some(numbers)
}

/// A similarity or distance of two vectors; `None` if it is not defined for them.
type Measure = fn(&[f64], &[f64]) -> Option<f64>;

/// Applies a measure to two vectors, or to one vector and each vector of a list.
fn vectors(call: &mut Call<'_>, a: &[Value], measure: Measure) -> Result<Value> {
    let (Some([left, ..]), Some([right, ..])) = (a[0].as_array(), a[1].as_array()) else {
        return call.mistyped();
    };
    let (list, one) = match (left.as_array(), right.as_array()) {
        (None, None) => return pair(call, &a[0], &a[1], measure),
        (Some(_), _) => (&a[0], &a[1]),
        (None, Some(_)) => (&a[1], &a[0]),
    };
    let mut out = Vec::new();
    for row in list.as_array().unwrap_or_default() {
        let value = pair(call, row, one, measure)?;
        if value.is_null() {
            return Ok(Value::Null);
        }
        out.push(value);
    }
    Ok(Value::array(out))
}

fn pair(call: &mut Call<'_>, x: &Value, y: &Value, measure: Measure) -> Result<Value> {
    match (vector(x), vector(y)) {
        (Some(x), Some(y)) if x.len() == y.len() => match measure(&x, &y) {
            Some(found) => number(found),
            None => call.caution(Code::QueryInvalidArithmeticValue),
        },
        _ => call.mistyped(),
    }
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(a, b)| a * b).sum()
}

fn cosine(x: &[f64], y: &[f64]) -> Option<f64> {
    let size = dot(x, x).sqrt() * dot(y, y).sqrt();
    (size != 0.0).then(|| (dot(x, y) / size).clamp(-1.0, 1.0))
}

fn manhattan(x: &[f64], y: &[f64]) -> Option<f64> {
    Some(x.iter().zip(y).map(|(a, b)| (a - b).abs()).sum())
}

fn euclid(x: &[f64], y: &[f64]) -> Option<f64> {
    Some(x.iter().zip(y).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt())
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

/// Evaluates `DECAY_*(value or list, origin, scale, offset, decay)`.
fn decay(call: &mut Call<'_>, a: &[Value], shape: fn(f64, f64, f64) -> f64) -> Result<Value> {
    let numbers: Option<Vec<f64>> = a[1..].iter().map(Value::as_f64).collect();
    let Some([origin, scale, offset, at_scale]) = numbers.as_deref() else {
        return call.mistyped();
    };
    if a[0].as_array().is_none() && !a[0].is_number() {
        return call.mistyped();
    }
    if *scale <= 0.0 || *offset < 0.0 || *at_scale <= 0.0 || *at_scale >= 1.0 {
        return call.caution(Code::QueryNumberOutOfRange);
    }
    let one = |x: f64| shape(((x - origin).abs() - offset).max(0.0), *scale, *at_scale);
    match (a[0].as_f64(), vector(&a[0])) {
        (Some(x), _) => number(one(x)),
        (None, Some(items)) => Ok(Value::array(
            items.into_iter().map(|x| Value::finite(one(x)).unwrap_or_default()).collect(),
        )),
        (None, None) => call.mistyped(),
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
