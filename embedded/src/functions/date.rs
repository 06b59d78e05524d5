//! Dates: milliseconds or ISO texts in, UTC throughout; other time zones are refused by name.

use std::time::{SystemTime, UNIX_EPOCH};

use super::Call;
use super::calendar::{DAY_MS, MS_MAX, MS_MIN, Moment, days_in_month, is_leap, parse};
use super::table::{Function, live, pure};
use crate::error::{Error, Result};
use crate::value::{Object, Value};

macro_rules! part {
    ($name:literal, $f:expr, $help:literal) => {
        pure(
            $name,
            1,
            2,
            |c, a| {
                zone(a.get(1))?;
                let f: fn(Moment) -> Value = $f;
                match ms_of(&a[0]) {
                    Some(ms) => Ok(f(Moment::of(ms))),
                    None => c.bad_date(),
                }
            },
            $help,
        )
    };
}

/// The functions of this file.
pub(super) const TABLE: &[Function] = &[
    live("DATE_NOW", 0, 0, |_, _| Ok(Value::Int(now_ms())), "milliseconds since 1970"),
    pure("DATE_TIMESTAMP", 1, 7, timestamp, "milliseconds since 1970 of a date"),
    pure("DATE_ISO8601", 1, 7, iso8601, "a date as ISO text"),
    part!("DATE_YEAR", |m| Value::Int(m.year), "year"),
    part!("DATE_MONTH", |m| Value::Int(m.month), "month from 1"),
    part!("DATE_DAY", |m| Value::Int(m.day), "day of the month"),
    part!("DATE_HOUR", |m| Value::Int(m.hour), "hour"),
    part!("DATE_MINUTE", |m| Value::Int(m.minute), "minute"),
    part!("DATE_SECOND", |m| Value::Int(m.second), "second"),
    part!("DATE_MILLISECOND", |m| Value::Int(m.millisecond), "millisecond"),
    part!("DATE_DAYOFWEEK", |m| Value::Int(m.day_of_week()), "day of the week from Sunday, 0"),
    part!("DATE_DAYOFYEAR", |m| Value::Int(m.day_of_year()), "day of the year from 1"),
    part!("DATE_ISOWEEK", |m| Value::Int(m.iso_week().0), "ISO week"),
    part!("DATE_ISOWEEKYEAR", iso_week_year, "ISO week and its year"),
    part!("DATE_QUARTER", |m| Value::Int((m.month + 2) / 3), "quarter from 1"),
    part!("DATE_LEAPYEAR", |m| Value::Bool(is_leap(m.year)), "whether its year has 366 days"),
    part!(
        "DATE_DAYS_IN_MONTH",
        |m| Value::Int(days_in_month(m.year, m.month)),
        "days of its month"
    ),
    pure("DATE_ADD", 2, 4, |c, a| shift(c, a, 1), "a later date"),
    pure("DATE_SUBTRACT", 2, 4, |c, a| shift(c, a, -1), "an earlier date"),
    pure("DATE_DIFF", 3, 6, difference, "time between two dates"),
    pure("DATE_COMPARE", 3, 6, compare, "whether two dates agree in some parts"),
    pure("DATE_TRUNC", 2, 3, truncate, "start of a unit"),
    pure("DATE_ROUND", 3, 4, round, "start of a slot of some units"),
    pure("DATE_FORMAT", 2, 3, format_date, "a date as text by placeholders"),
];

/// Now, in milliseconds since 1970.
fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}

/// Milliseconds of a number or a text.
fn ms_of(value: &Value) -> Option<i64> {
    match value {
        Value::String(s) => parse(s),
        v if v.is_number() => Some(v.to_i64()).filter(|ms| (MS_MIN..=MS_MAX).contains(ms)),
        _ => None,
    }
}

/// A time zone argument may only say UTC.
fn zone(value: Option<&Value>) -> Result<()> {
    match value {
        None | Some(Value::Null) => Ok(()),
        Some(v) if matches!(v.as_str(), Some("UTC" | "Etc/UTC" | "GMT" | "Z")) => Ok(()),
        Some(v) => Err(Error::unsupported(format!("time zone {}", v.to_json()))),
    }
}

/// One argument is a date; three to seven are its parts.
fn date_argument(a: &[Value]) -> Option<i64> {
    match a {
        [one] => ms_of(one),
        [_, _] => None,
        parts => {
            let parts: Option<Vec<i64>> = parts
                .iter()
                .map(|v| {
                    (v.is_number() || v.as_str().is_some_and(|s| s.parse::<i64>().is_ok()))
                        .then(|| v.to_i64())
                })
                .collect();
            let parts = parts?;
            let at = |i: usize| parts.get(i).copied().unwrap_or(0);
            let (year, month, day) = (at(0), at(1), at(2));
            let good = (0..=9999).contains(&year)
                && (1..=12).contains(&month)
                && (1..=31).contains(&day)
                && (0..24).contains(&at(3))
                && (0..60).contains(&at(4))
                && (0..60).contains(&at(5))
                && (0..1000).contains(&at(6));
            let moment = Moment {
                year,
                month,
                day,
                hour: at(3),
                minute: at(4),
                second: at(5),
                millisecond: at(6),
            };
            good.then(|| moment.ms())
        }
    }
}

fn timestamp(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    date_argument(a).map_or_else(|| call.bad_date(), |ms| Ok(Value::Int(ms)))
}

fn iso8601(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    date_argument(a).map_or_else(|| call.bad_date(), |ms| Ok(iso(ms)))
}

fn iso(ms: i64) -> Value {
    Moment::of(ms).iso().into()
}

fn iso_week_year(moment: Moment) -> Value {
    let (week, year) = moment.iso_week();
    let mut out = Object::new();
    out.insert("week", Value::Int(week));
    out.insert("year", Value::Int(year));
    Value::object(out)
}

/// Units of time, largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Year,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
}

impl Unit {
    fn of(value: &Value) -> Option<Self> {
        Some(match value.as_str()?.to_ascii_lowercase().as_str() {
            "y" | "year" | "years" => Self::Year,
            "m" | "month" | "months" => Self::Month,
            "w" | "week" | "weeks" => Self::Week,
            "d" | "day" | "days" => Self::Day,
            "h" | "hour" | "hours" => Self::Hour,
            "i" | "minute" | "minutes" => Self::Minute,
            "s" | "second" | "seconds" => Self::Second,
            "f" | "millisecond" | "milliseconds" => Self::Millisecond,
            _ => return None,
        })
    }

    /// Length in milliseconds; years and months by their Gregorian mean.
    fn ms(self) -> f64 {
        match self {
            Self::Year => 365.2425 * 86_400_000.0,
            Self::Month => 365.2425 * 86_400_000.0 / 12.0,
            Self::Week => 604_800_000.0,
            Self::Day => 86_400_000.0,
            Self::Hour => 3_600_000.0,
            Self::Minute => 60_000.0,
            Self::Second => 1000.0,
            Self::Millisecond => 1.0,
        }
    }
}

fn add(ms: i64, amount: f64, unit: Unit) -> Option<i64> {
    let months = match unit {
        Unit::Year => amount.trunc() * 12.0,
        Unit::Month => amount.trunc(),
        _ => {
            let moved = ms as f64 + (amount * unit.ms()).trunc();
            return Some(moved as i64).filter(|ms| (MS_MIN..=MS_MAX).contains(ms));
        }
    };
    let mut moment = Moment::of(ms);
    let month =
        moment.year.checked_mul(12)?.checked_add(moment.month - 1)?.checked_add(months as i64)?;
    if !(-12..=120_000).contains(&month) {
        return None;
    }
    (moment.year, moment.month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
    Some(moment.ms()).filter(|ms| (MS_MIN..=MS_MAX).contains(ms))
}

/// `P1Y2M3W4DT5H6M7.8S` as amounts.
fn duration(text: &str) -> Option<Vec<(f64, Unit)>> {
    let mut rest = text.strip_prefix('P')?;
    let mut in_time = false;
    let mut out = Vec::new();
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix('T') {
            (rest, in_time) = (behind, true);
            continue;
        }
        let length = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let amount: f64 = rest[..length].parse().ok()?;
        let unit = match (rest.as_bytes()[length], in_time) {
            (b'Y', false) => Unit::Year,
            (b'M', false) => Unit::Month,
            (b'W', false) => Unit::Week,
            (b'D', false) => Unit::Day,
            (b'H', true) => Unit::Hour,
            (b'M', true) => Unit::Minute,
            (b'S', true) => Unit::Second,
            _ => return None,
        };
        out.push((amount, unit));
        rest = &rest[length + 1..];
    }
    (!out.is_empty()).then_some(out)
}

fn shift(call: &mut Call<'_>, a: &[Value], sign: i64) -> Result<Value> {
    let Some(mut ms) = ms_of(&a[0]) else { return call.bad_date() };
    let steps = match (&a[1], a.get(2)) {
        (Value::String(text), _) => {
            zone(a.get(2))?;
            let Some(steps) = duration(text) else { return call.bad_date() };
            steps
        }
        (amount, Some(unit)) if amount.is_number() => {
            zone(a.get(3))?;
            let Some(unit) = Unit::of(unit) else { return call.bad_date() };
            vec![(amount.to_f64(), unit)]
        }
        _ => return call.mistyped(),
    };
    for (amount, unit) in steps {
        match add(ms, amount * sign as f64, unit) {
            Some(moved) => ms = moved,
            None => return call.bad_date(),
        }
    }
    Ok(iso(ms))
}

fn difference(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let (Some(from), Some(to)) = (ms_of(&a[0]), ms_of(&a[1])) else { return call.bad_date() };
    let Some(unit) = Unit::of(&a[2]) else { return call.bad_date() };
    let as_float = match a.get(3) {
        Some(Value::Bool(flag)) => *flag,
        other => {
            zone(other)?;
            false
        }
    };
    for zones in a.iter().skip(4) {
        zone(Some(zones))?;
    }
    let amount = (to - from) as f64 / unit.ms();
    if as_float { call.number(amount) } else { Ok(Value::Int(amount.round() as i64)) }
}

fn compare(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let (Some(left), Some(right)) = (ms_of(&a[0]), ms_of(&a[1])) else { return call.bad_date() };
    let Some(first) = Unit::of(&a[2]) else { return call.bad_date() };
    let last = match a.get(3) {
        Some(v) => match Unit::of(v) {
            Some(unit) => unit,
            None => return call.bad_date(),
        },
        None => first,
    };
    let (left, right) = (Moment::of(left), Moment::of(right));
    let within = |unit: Unit| first <= unit && unit <= last;
    let agree = |unit: Unit, l: i64, r: i64| !within(unit) || l == r;
    Ok(Value::Bool(
        agree(Unit::Year, left.year, right.year)
            && agree(Unit::Month, left.month, right.month)
            && (first != Unit::Week || left.iso_week().0 == right.iso_week().0)
            && agree(Unit::Day, left.day, right.day)
            && agree(Unit::Hour, left.hour, right.hour)
            && agree(Unit::Minute, left.minute, right.minute)
            && agree(Unit::Second, left.second, right.second)
            && agree(Unit::Millisecond, left.millisecond, right.millisecond),
    ))
}

fn truncate(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    zone(a.get(2))?;
    let Some(ms) = ms_of(&a[0]) else { return call.bad_date() };
    let Some(unit) = Unit::of(&a[1]) else { return call.bad_date() };
    let mut m = Moment::of(ms);
    if unit == Unit::Week {
        let day = ms.div_euclid(DAY_MS);
        return Ok(iso((day - (m.day_of_week() + 6) % 7) * DAY_MS));
    }
    if unit < Unit::Month {
        m.month = 1;
    }
    if unit < Unit::Day {
        m.day = 1;
    }
    if unit < Unit::Hour {
        m.hour = 0;
    }
    if unit < Unit::Minute {
        m.minute = 0;
    }
    if unit < Unit::Second {
        m.second = 0;
    }
    if unit < Unit::Millisecond {
        m.millisecond = 0;
    }
    Ok(iso(m.ms()))
}

fn round(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    zone(a.get(3))?;
    let Some(ms) = ms_of(&a[0]) else { return call.bad_date() };
    let (Some(amount), Some(unit)) = (a[1].as_f64(), Unit::of(&a[2])) else {
        return call.bad_date();
    };
    let slot = (amount * unit.ms()) as i64;
    if unit < Unit::Day || slot <= 0 {
        return call.bad_date();
    }
    Ok(iso(ms.div_euclid(slot) * slot))
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Placeholders without their `%`, longest first within a letter.
const PLACEHOLDERS: &[&str] = &[
    "yyyyyy", "yyyy", "yy", "y", "mmmm", "mmm", "mm", "m", "dd", "d", "hh", "h", "ii", "i", "ss",
    "s", "fff", "f", "wwww", "www", "w", "xxx", "x", "kk", "k", "l", "q", "a", "t", "z", "%", "&",
];

fn format_date(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    zone(a.get(2))?;
    let Some(ms) = ms_of(&a[0]) else { return call.bad_date() };
    let Some(format) = a[1].as_str() else { return call.mistyped() };
    let moment = Moment::of(ms);
    let mut out = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(name) = PLACEHOLDERS.iter().find(|p| rest.starts_with(**p)) {
            out.push_str(&placeholder(name, ms, &moment));
            rest = &rest[name.len()..];
        } else {
            out.push('%');
        }
    }
    out.push_str(rest);
    Ok(out.into())
}

fn placeholder(name: &str, ms: i64, m: &Moment) -> String {
    match name {
        "yyyyyy" => format!("{}{:06}", if m.year < 0 { '-' } else { '+' }, m.year.abs()),
        "yyyy" => format!("{:04}", m.year),
        "yy" => format!("{:02}", m.year.rem_euclid(100)),
        "y" => m.year.to_string(),
        "mmmm" => MONTHS[(m.month - 1) as usize].to_owned(),
        "mmm" => MONTHS[(m.month - 1) as usize][..3].to_owned(),
        "mm" => format!("{:02}", m.month),
        "m" => m.month.to_string(),
        "dd" => format!("{:02}", m.day),
        "d" => m.day.to_string(),
        "hh" => format!("{:02}", m.hour),
        "h" => m.hour.to_string(),
        "ii" => format!("{:02}", m.minute),
        "i" => m.minute.to_string(),
        "ss" => format!("{:02}", m.second),
        "s" => m.second.to_string(),
        "fff" => format!("{:03}", m.millisecond),
        "f" => m.millisecond.to_string(),
        "wwww" => WEEKDAYS[m.day_of_week() as usize].to_owned(),
        "www" => WEEKDAYS[m.day_of_week() as usize][..3].to_owned(),
        "w" => m.day_of_week().to_string(),
        "xxx" => format!("{:03}", m.day_of_year()),
        "x" => m.day_of_year().to_string(),
        "kk" => format!("{:02}", m.iso_week().0),
        "k" => m.iso_week().0.to_string(),
        "l" => i64::from(is_leap(m.year)).to_string(),
        "q" => ((m.month + 2) / 3).to_string(),
        "a" => days_in_month(m.year, m.month).to_string(),
        "t" => ms.to_string(),
        "z" => m.iso(),
        "%" => "%".to_owned(),
        _ => String::new(),
    }
}
