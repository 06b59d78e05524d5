//! AQL functions for sums, extremes and variances of lists; null items are ignored.

use super::Call;
use super::call::number;
use super::table::{Function, pure};
use crate::error::{Code, Result};
use crate::value::{Value, compare};

/// The AQL functions that this file implements.
pub(super) const TABLE: &[Function] = &[
    pure("MIN", 1, 1, |c, a| extreme(c, a, false), "smallest item"),
    pure("MAX", 1, 1, |c, a| extreme(c, a, true), "largest item"),
    pure("SUM", 1, 1, |c, a| total(c, a, |n| n.iter().sum()), "sum of the items"),
    pure("PRODUCT", 1, 1, |c, a| total(c, a, |n| n.iter().product()), "product of the items"),
    pure("AVERAGE", 1, 1, average, "arithmetic mean"),
    pure("AVG", 1, 1, average, "arithmetic mean"),
    pure("MEDIAN", 1, 1, |c, a| spread(c, a, median), "middle item"),
    pure("PERCENTILE", 2, 3, percentile, "value below which a given percentage of the items lies"),
    pure("VARIANCE_POPULATION", 1, 1, |c, a| spread(c, a, variance), "mean squared deviation"),
    pure("VARIANCE", 1, 1, |c, a| spread(c, a, variance), "mean squared deviation"),
    pure("VARIANCE_SAMPLE", 1, 1, |c, a| spread(c, a, sample), "variance of a sample"),
    pure(
        "STDDEV_POPULATION",
        1,
        1,
        |c, a| spread(c, a, |n| variance(n).map(f64::sqrt)),
        "standard deviation",
    ),
    pure("STDDEV", 1, 1, |c, a| spread(c, a, |n| variance(n).map(f64::sqrt)), "standard deviation"),
    pure(
        "STDDEV_SAMPLE",
        1,
        1,
        |c, a| spread(c, a, |n| sample(n).map(f64::sqrt)),
        "deviation of a sample",
    ),
];

fn extreme(call: &mut Call<'_>, a: &[Value], largest: bool) -> Result<Value> {
    let Some(items) = a[0].as_array() else { return call.no_list() };
    let items = items.iter().filter(|v| !v.is_null());
    let found = if largest {
        items.max_by(|x, y| compare(x, y))
    } else {
        items.min_by(|x, y| compare(x, y))
    };
    Ok(found.cloned().unwrap_or_default())
}

/// Returns the items that are not null, as numbers; `None` if one of them is not a number.
fn numbers(items: &[Value]) -> Option<Vec<f64>> {
    items.iter().filter(|v| !v.is_null()).map(Value::as_f64).collect()
}

/// Applies `run` to the items. Returns null without a warning if an item is not a number, and 0 for
/// an infinite result.
fn total(call: &mut Call<'_>, a: &[Value], run: fn(&[f64]) -> f64) -> Result<Value> {
    let Some(items) = a[0].as_array() else { return call.no_list() };
    Ok(numbers(items).map_or(Value::Null, |n| Value::finite(run(&n)).unwrap_or(Value::Int(0))))
}

fn average(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    match a[0].as_array().and_then(numbers) {
        Some(items) => number(items.iter().sum::<f64>() / items.len() as f64),
        None => call.no_list(),
    }
}

/// Applies `run` to the items. Returns null with warning 1561 if an item is not a number.
fn spread(call: &mut Call<'_>, a: &[Value], run: fn(&[f64]) -> Option<f64>) -> Result<Value> {
    let Some(items) = a[0].as_array() else { return call.no_list() };
    match numbers(items) {
        Some(items) => run(&items).map_or(Ok(Value::Null), number),
        None => call.caution(Code::QueryInvalidArithmeticValue),
    }
}

/// Sum of the squared deviations from the mean, computed by Welford's method, which gives the same
/// last digits as ArangoDB.
fn deviations(numbers: &[f64]) -> f64 {
    let (mut mean, mut sum) = (0.0, 0.0);
    for (at, x) in numbers.iter().enumerate() {
        let delta = x - mean;
        mean += delta / (at + 1) as f64;
        sum += delta * (x - mean);
    }
    sum
}

fn variance(numbers: &[f64]) -> Option<f64> {
    (!numbers.is_empty()).then(|| deviations(numbers) / numbers.len() as f64)
}

fn sample(numbers: &[f64]) -> Option<f64> {
    (numbers.len() > 1).then(|| deviations(numbers) / (numbers.len() - 1) as f64)
}

fn line(numbers: &[f64]) -> Vec<f64> {
    let mut line = numbers.to_vec();
    line.sort_by(f64::total_cmp);
    line
}

fn median(numbers: &[f64]) -> Option<f64> {
    let line = line(numbers);
    let middle = line.len() / 2;
    let upper = line.get(middle)?;
    Some(if line.len() % 2 == 1 { *upper } else { (line[middle - 1] + upper) / 2.0 })
}

/// Evaluates PERCENTILE, by nearest rank or by interpolation between neighbours. The percentage may
/// be from 0 to 100, as in 3.12.6 and later.
fn percentile(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(items) = a[0].as_array() else { return call.no_list() };
    let Some(percent) = a[1].as_f64().filter(|p| (0.0..=100.0).contains(p)) else {
        return call.mistyped();
    };
    let interpolate = match a.get(2).map(Value::as_str) {
        None | Some(Some("rank")) => false,
        Some(Some("interpolation")) => true,
        Some(_) => return call.mistyped(),
    };
    let Some(items) = numbers(items) else {
        return call.caution(Code::QueryInvalidArithmeticValue);
    };
    let line = line(&items);
    let (Some(first), Some(last)) = (line.first(), line.last()) else { return Ok(Value::Null) };
    let length = line.len() as f64;
    let at = percent * (if interpolate { length + 1.0 } else { length }) / 100.0;
    let below = if interpolate { at.floor() } else { at.ceil() };
    number(if below >= length {
        *last
    } else if below <= 0.0 {
        *first
    } else {
        let low = line[below as usize - 1];
        if interpolate { (at - below) * (line[below as usize] - low) + low } else { low }
    })
}
