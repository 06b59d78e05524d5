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

/// Two lists of equal length, read as vectors.
struct Pairs<'a> {
    left: &'a [Value],
    right: &'a [Value],
}

impl<'a> Pairs<'a> {
    /// Returns `None` unless both values are lists of numbers of equal length.
    fn of(left: &'a Value, right: &'a Value) -> Option<Self> {
        let (left, right) = (left.as_array()?, right.as_array()?);
        let are_numbers = |list: &[Value]| list.iter().all(|one| one.as_f64().is_some());
        let fit = left.len() == right.len() && are_numbers(left) && are_numbers(right);
        fit.then_some(Self { left, right })
    }

    /// Returns the numbers at each place, without a copy of the lists: an exact search compares
    /// thousands of vectors.
    fn numbers(&self) -> impl Iterator<Item = (f64, f64)> {
        let number = |one: &Value| one.as_f64().unwrap_or_default();
        self.left.iter().zip(self.right).map(move |(x, y)| (number(x), number(y)))
    }
}

/// A similarity or distance of two vectors; `None` if it is not defined for them.
type Measure = fn(&Pairs<'_>) -> Option<f64>;

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
    match Pairs::of(x, y) {
        Some(pairs) => match measure(&pairs) {
            Some(found) => number(found),
            None => call.caution(Code::QueryInvalidArithmeticValue),
        },
        None => call.mistyped(),
    }
}

fn cosine(pairs: &Pairs<'_>) -> Option<f64> {
    let (mut product, mut left, mut right) = (0.0, 0.0, 0.0);
    for (x, y) in pairs.numbers() {
        product += x * y;
        left += x * x;
        right += y * y;
    }
    let size = f64::sqrt(left) * f64::sqrt(right);
    (size != 0.0).then(|| (product / size).clamp(-1.0, 1.0))
}

fn manhattan(pairs: &Pairs<'_>) -> Option<f64> {
    Some(pairs.numbers().map(|(x, y)| (x - y).abs()).sum())
}

fn euclid(pairs: &Pairs<'_>) -> Option<f64> {
    Some(pairs.numbers().map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt())
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
    if let Some(x) = a[0].as_f64() {
        return number(one(x));
    }
    let items: Option<Vec<f64>> =
        a[0].as_array().unwrap_or_default().iter().map(Value::as_f64).collect();
    match items {
        Some(items) => Ok(Value::array(
            items.into_iter().map(|x| Value::finite(one(x)).unwrap_or_default()).collect(),
        )),
        None => call.mistyped(),
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
