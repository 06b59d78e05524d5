//! Sums, extremes and spreads of lists; null items do not count.

use super::Call;
use super::table::{Function, pure};
use crate::error::{Code, Result};
use crate::value::{Value, compare};

/// The functions of this file.
pub(super) const TABLE: &[Function] = &[
    pure("MIN", 1, 1, |c, a| extreme(c, a, false), "smallest item"),
    pure("MAX", 1, 1, |c, a| extreme(c, a, true), "largest item"),
    pure("SUM", 1, 1, |c, a| over(c, a, |n| Some(sum(n))), "sum of the items"),
    pure(
        "PRODUCT",
        1,
        1,
        |c, a| over(c, a, |n| Some(n.iter().map(Value::to_f64).product())),
        "product of the items",
    ),
    pure("AVERAGE", 1, 1, |c, a| over(c, a, mean), "arithmetic mean"),
    pure("AVG", 1, 1, |c, a| over(c, a, mean), "arithmetic mean"),
    pure("MEDIAN", 1, 1, |c, a| over(c, a, |n| percentile_of(n, 50.0, true)), "middle item"),
    pure("PERCENTILE", 2, 3, percentile, "item below which a part of the list lies"),
    pure(
        "VARIANCE_POPULATION",
        1,
        1,
        |c, a| over(c, a, |n| variance(n, 0)),
        "mean squared deviation",
    ),
    pure("VARIANCE", 1, 1, |c, a| over(c, a, |n| variance(n, 0)), "mean squared deviation"),
    pure(
        "VARIANCE_SAMPLE",
        1,
        1,
        |c, a| over(c, a, |n| variance(n, 1)),
        "squared deviation of a sample",
    ),
    pure(
        "STDDEV_POPULATION",
        1,
        1,
        |c, a| over(c, a, |n| variance(n, 0).map(f64::sqrt)),
        "standard deviation",
    ),
    pure(
        "STDDEV",
        1,
        1,
        |c, a| over(c, a, |n| variance(n, 0).map(f64::sqrt)),
        "standard deviation",
    ),
    pure(
        "STDDEV_SAMPLE",
        1,
        1,
        |c, a| over(c, a, |n| variance(n, 1).map(f64::sqrt)),
        "deviation of a sample",
    ),
];

fn extreme(call: &mut Call<'_>, a: &[Value], largest: bool) -> Result<Value> {
    let Some(items) = a[0].as_array() else { return call.mistyped() };
    let items = items.iter().filter(|v| !v.is_null());
    let found = if largest {
        items.max_by(|x, y| compare(x, y))
    } else {
        items.min_by(|x, y| compare(x, y))
    };
    Ok(found.cloned().unwrap_or_default())
}

/// Runs over the items that are not null; anything but numbers gives null and warning 1561.
fn over(call: &mut Call<'_>, a: &[Value], run: fn(&[Value]) -> Option<f64>) -> Result<Value> {
    let Some(items) = a[0].as_array() else { return call.mistyped() };
    let numbers: Vec<Value> = items.iter().filter(|v| !v.is_null()).cloned().collect();
    if !numbers.iter().all(Value::is_number) {
        return call
            .warn(Code::QueryInvalidArithmeticValue, Code::QueryInvalidArithmeticValue.text());
    }
    match run(&numbers) {
        Some(x) => call.number(x),
        None => Ok(Value::Null),
    }
}

fn sum(numbers: &[Value]) -> f64 {
    numbers.iter().map(Value::to_f64).sum()
}

fn mean(numbers: &[Value]) -> Option<f64> {
    (!numbers.is_empty()).then(|| sum(numbers) / numbers.len() as f64)
}

/// `less` is 1 for a sample.
fn variance(numbers: &[Value], less: usize) -> Option<f64> {
    let mean = mean(numbers)?;
    if numbers.len() <= less {
        return None;
    }
    let squares: f64 = numbers.iter().map(|v| (v.to_f64() - mean).powi(2)).sum();
    Some(squares / (numbers.len() - less) as f64)
}

fn percentile_of(numbers: &[Value], percent: f64, interpolate: bool) -> Option<f64> {
    let mut line: Vec<f64> = numbers.iter().map(Value::to_f64).collect();
    line.sort_by(f64::total_cmp);
    let length = line.len() as f64;
    if line.is_empty() {
        return None;
    }
    if percent == 50.0 && interpolate {
        let middle = line.len() / 2;
        return Some(if line.len() % 2 == 1 {
            line[middle]
        } else {
            f64::midpoint(line[middle - 1], line[middle])
        });
    }
    if !interpolate {
        let at = (percent / 100.0 * length).ceil() as usize;
        return Some(line[at.clamp(1, line.len()) - 1]);
    }
    let at = percent * (length + 1.0) / 100.0;
    let below = at.floor() as usize;
    if below < 1 {
        return Some(line[0]);
    }
    if below >= line.len() {
        return line.last().copied();
    }
    Some(line[below - 1] + (at - at.floor()) * (line[below] - line[below - 1]))
}

fn percentile(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let interpolate = a.get(2).and_then(Value::as_str) == Some("interpolation");
    let (Some(items), Some(percent)) = (a[0].as_array(), a[1].as_f64()) else {
        return call.mistyped();
    };
    if !(percent > 0.0 && percent <= 100.0) {
        return call.mistyped();
    }
    let numbers: Vec<Value> = items.iter().filter(|v| !v.is_null()).cloned().collect();
    if !numbers.iter().all(Value::is_number) {
        return call
            .warn(Code::QueryInvalidArithmeticValue, Code::QueryInvalidArithmeticValue.text());
    }
    match percentile_of(&numbers, percent, interpolate) {
        Some(x) => call.number(x),
        None => Ok(Value::Null),
    }
}
