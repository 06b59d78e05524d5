//! AQL date functions. Dates are milliseconds or ISO texts, in UTC unless a time zone is given.

use jiff::tz::TimeZone;

use super::Call;
use super::calendar::{MS_MAX, MS_MIN, Moment, days_in_month, is_leap, parse};
use super::table::{Function, live, pure};
use super::zone::{about, is_utc, names, to_local, to_utc, zone};
use crate::error::Result;
use crate::value::{Object, Value};

macro_rules! part {
    ($name:literal, $most:literal, $f:expr, $help:literal) => {
        pure(
            $name,
            1,
            $most,
            |c, a| {
                let f: fn(Moment) -> Value = $f;
                let Some(ms) = time(c, &a[0])? else { return Ok(Value::Null) };
                let Some(ms) = localized(c, a.get(1), ms)? else { return Ok(Value::Null) };
                Ok(f(Moment::of(ms)))
            },
            $help,
        )
    };
}

/// The AQL functions that this file implements.
pub(super) const TABLE: &[Function] = &[
    live("DATE_NOW", 0, 0, |_, _| Ok(Value::Int(now_ms())), "milliseconds since 1970"),
    pure("DATE_TIMESTAMP", 1, 7, timestamp, "milliseconds from 1970 to a date"),
    pure("DATE_ISO8601", 1, 7, iso8601, "a date as ISO text"),
    part!("DATE_YEAR", 2, |m| Value::Int(m.year), "year"),
    part!("DATE_MONTH", 2, |m| Value::Int(m.month), "month from 1"),
    part!("DATE_DAY", 2, |m| Value::Int(m.day), "day of the month"),
    part!("DATE_HOUR", 2, |m| Value::Int(m.hour), "hour"),
    part!("DATE_MINUTE", 2, |m| Value::Int(m.minute), "minute"),
    part!("DATE_SECOND", 1, |m| Value::Int(m.second), "second"),
    part!("DATE_MILLISECOND", 1, |m| Value::Int(m.millisecond), "millisecond"),
    part!("DATE_DAYOFWEEK", 2, |m| Value::Int(m.day_of_week()), "day of the week; Sunday is 0"),
    part!("DATE_DAYOFYEAR", 2, |m| Value::Int(m.day_of_year()), "day of the year from 1"),
    part!("DATE_ISOWEEK", 2, |m| Value::Int(m.iso_week().0), "ISO week"),
    part!("DATE_ISOWEEKYEAR", 2, iso_week_year, "ISO week and its year"),
    part!("DATE_QUARTER", 2, |m| Value::Int((m.month + 2) / 3), "quarter from 1"),
    part!(
        "DATE_LEAPYEAR",
        2,
        |m| Value::Bool(is_leap(m.year)),
        "whether the date's year has 366 days"
    ),
    part!(
        "DATE_DAYS_IN_MONTH",
        2,
        |m| Value::Int(days_in_month(m.year, m.month)),
        "days of its month"
    ),
    pure("DATE_ADD", 2, 4, |c, a| shift(c, a, 1), "a later date"),
    pure("DATE_SUBTRACT", 2, 4, |c, a| shift(c, a, -1), "an earlier date"),
    pure("DATE_DIFF", 3, 6, difference, "time between two dates"),
    pure("DATE_COMPARE", 3, 6, compare, "whether two dates agree in some parts"),
    pure("DATE_TRUNC", 2, 3, truncate, "start of a unit"),
    pure("DATE_ROUND", 3, 4, round, "a date rounded to a multiple of some units"),
    pure("DATE_FORMAT", 2, 3, format_date, "a date as text, in a format with placeholders"),
    pure("DATE_UTCTOLOCAL", 2, 3, utc_to_local, "a date as local time"),
    pure("DATE_LOCALTOUTC", 2, 3, local_to_utc, "a local time as a date"),
    pure("DATE_TIMEZONE", 0, 0, |_, _| Ok("Etc/UTC".into()), "time zone of the server"),
    pure("DATE_TIMEZONES", 0, 0, |_, _| Ok(Value::array(names())), "names of all time zones"),
];

/// The current time in milliseconds since 1970.
fn now_ms() -> i64 {
    i64::try_from(steady_clock::unix_ms()).unwrap_or(i64::MAX)
}

/// Converts a date, given as a number or a text, to milliseconds since 1970; `None` after a
/// warning.
fn time(call: &mut Call<'_>, value: &Value) -> Result<Option<i64>> {
    let ms = match value {
        Value::String(s) => parse(s),
        v if v.is_number() => Some(v.to_i64()).filter(|ms| (MS_MIN..=MS_MAX).contains(ms)),
        _ => {
            call.mistyped()?;
            return Ok(None);
        }
    };
    if ms.is_none() {
        call.bad_date()?;
    }
    Ok(ms)
}

/// Returns the time zone that an argument names; `None` after a warning.
fn zoned(call: &mut Call<'_>, value: &Value) -> Result<Option<TimeZone>> {
    match value {
        Value::String(name) => zone(name).map(Some),
        _ => {
            call.mistyped()?;
            Ok(None)
        }
    }
}

/// Converts UTC milliseconds to local milliseconds if a time zone is given; `None` after a warning.
fn localized(call: &mut Call<'_>, name: Option<&Value>, ms: i64) -> Result<Option<i64>> {
    let Some(name) = name else { return Ok(Some(ms)) };
    Ok(zoned(call, name)?.map(|zone| to_local(&zone, ms)))
}

/// Reads a date from one argument, or from three to seven arguments: year, month, day and so on.
/// Parts out of range lead to a later or earlier date.
fn date_argument(call: &mut Call<'_>, a: &[Value]) -> Result<Option<i64>> {
    if let [one] = a {
        return time(call, one);
    }
    if a.len() < 3 || !a.iter().all(|v| v.is_number() || v.as_str().is_some()) {
        call.mistyped()?;
        return Ok(None);
    }
    let at = |i: usize| a.get(i).map_or(0, Value::to_i64);
    let moment = Moment {
        year: at(0),
        month: at(1),
        day: at(2),
        hour: at(3),
        minute: at(4),
        second: at(5),
        millisecond: at(6).min(999),
    };
    let parts = [at(1), at(2), at(3), at(4), at(5), at(6)];
    let good =
        (0..=9999).contains(&moment.year) && parts.iter().all(|n| (0..=PART_MAX).contains(n));
    if !good {
        call.bad_date()?;
    }
    Ok(good.then(|| moment.ms()))
}

/// Maximum value of a part of a date; with a larger part the date is always outside of the
/// calendar.
const PART_MAX: i64 = 1 << 40;

fn timestamp(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    Ok(date_argument(call, a)?.map_or(Value::Null, Value::Int))
}

fn iso8601(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    match date_argument(call, a)? {
        Some(ms) => iso(call, ms),
        None => Ok(Value::Null),
    }
}

/// Returns a date as text; null with a warning outside of the years 0 to 9999.
fn iso(call: &mut Call<'_>, ms: i64) -> Result<Value> {
    if (MS_MIN..=MS_MAX).contains(&ms) {
        return Ok(Moment::of(ms).iso().into());
    }
    call.bad_date()
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

    /// Length of the unit in milliseconds; years and months have their mean length in the Gregorian
    /// calendar.
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

/// Moves a date by a number of units. A fraction of a year is converted to months, and a fraction
/// of a month to days of a 30-day month.
fn add(ms: i64, amount: f64, unit: Unit) -> Option<i64> {
    let (months, rest) = match unit {
        Unit::Year => {
            let months = amount.fract() * 12.0;
            (amount.trunc() * 12.0 + months.trunc(), months.fract() * 30.0 * Unit::Day.ms())
        }
        Unit::Month => (amount.trunc(), amount.fract() * 30.0 * Unit::Day.ms()),
        _ => (0.0, amount * unit.ms()),
    };
    if months.abs() > PART_MAX as f64 || rest.abs() > MS_MAX as f64 * 4.0 {
        return None;
    }
    let mut moment = Moment::of(ms);
    let month = moment.year * 12 + moment.month - 1 + months as i64;
    (moment.year, moment.month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
    Some(moment.ms() + rest as i64)
}

/// Parses a duration such as `P1Y2M3W4DT5H6M7.8S`. Each unit may occur once, in this order, and
/// only seconds may have a fraction.
fn duration(text: &str) -> Option<Vec<(f64, Unit)>> {
    let (mut rest, mut in_time) = (text.strip_prefix('P').filter(|rest| !rest.is_empty())?, false);
    let mut out: Vec<(f64, Unit)> = Vec::new();
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix('T').filter(|_| !in_time) {
            (rest, in_time) = (behind, true);
            continue;
        }
        let length = rest.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | ','))?;
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
        let (whole, fraction) =
            rest[..length].split_once(['.', ',']).unwrap_or((&rest[..length], "0"));
        let good = fraction == "0" || unit == Unit::Second && (1..=3).contains(&fraction.len());
        if !good
            || fraction.contains(['.', ','])
            || out.last().is_some_and(|(_, last)| *last >= unit)
        {
            return None;
        }
        let amount: f64 = whole.parse::<u32>().ok()?.into();
        out.push((amount, unit));
        out.push((format!("{fraction:0<3}").parse().ok()?, Unit::Millisecond));
        if unit != Unit::Second {
            out.pop();
        }
        rest = &rest[length + 1..];
    }
    Some(out)
}

fn shift(call: &mut Call<'_>, a: &[Value], sign: i64) -> Result<Value> {
    let Some(mut ms) = time(call, &a[0])? else { return Ok(Value::Null) };
    let zone = match (&a[1], a) {
        (Value::String(_), [_, _, name]) | (_, [_, _, _, name]) => {
            let Some(zone) = zoned(call, name)? else { return Ok(Value::Null) };
            ms = to_local(&zone, ms);
            Some(zone)
        }
        _ => None,
    };
    let steps = match (&a[1], a.get(2)) {
        (Value::String(text), _) if a.len() < 4 => match duration(text) {
            Some(steps) => steps,
            None => return call.bad_date(),
        },
        (amount, Some(unit @ Value::String(_))) if amount.is_number() => match Unit::of(unit) {
            Some(unit) => vec![(amount.to_f64(), unit)],
            None => return call.bad_date(),
        },
        _ => return call.mistyped(),
    };
    for (amount, unit) in steps {
        match add(ms, amount * sign as f64, unit) {
            Some(moved) => ms = moved,
            None => return call.bad_date(),
        }
    }
    back(call, zone.as_ref(), ms)
}

/// Converts a local time of the zone to UTC and returns it as a date text. Without a zone, the
/// given time is already in UTC.
fn back(call: &mut Call<'_>, zone: Option<&TimeZone>, ms: i64) -> Result<Value> {
    match zone {
        Some(zone) if (MS_MIN..=MS_MAX).contains(&ms) => iso(call, to_utc(zone, ms)?),
        _ => iso(call, ms),
    }
}

/// Converts two dates to the time zones in the arguments; a single zone applies to both dates.
fn both_local(
    call: &mut Call<'_>,
    zones: &[Value],
    dates: (i64, i64),
) -> Result<Option<(i64, i64)>> {
    let left = localized(call, zones.first(), dates.0)?;
    let right = localized(call, zones.get(1).or(zones.first()), dates.1)?;
    Ok(left.zip(right))
}

fn difference(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(from) = time(call, &a[0])? else { return Ok(Value::Null) };
    let Some(to) = time(call, &a[1])? else { return Ok(Value::Null) };
    if a[2].as_str().is_none() {
        return call.mistyped();
    }
    let (as_float, zones) = match a.get(3) {
        Some(Value::Bool(flag)) => (*flag, &a[4..]),
        Some(_) => (false, &a[3..]),
        None => (false, &a[3..]),
    };
    let Some((from, to)) = both_local(call, zones, (from, to))? else { return Ok(Value::Null) };
    let Some(unit) = Unit::of(&a[2]) else { return call.bad_date() };
    let amount = (to - from) as f64 / unit.ms();
    if as_float { super::call::number(amount) } else { Ok(Value::Int(amount.round() as i64)) }
}

fn compare(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(left) = time(call, &a[0])? else { return Ok(Value::Null) };
    let Some(right) = time(call, &a[1])? else { return Ok(Value::Null) };
    let Some(first) = Unit::of(&a[2]) else { return call.mistyped() };
    let (last, zones) = match a.get(3).and_then(Unit::of) {
        Some(unit) => (unit, &a[4..]),
        None => (first, &a[3..]),
    };
    if zones.len() > 2 {
        return call.mistyped();
    }
    let Some((left, right)) = both_local(call, zones, (left, right))? else {
        return Ok(Value::Null);
    };
    let (left, right) = (Moment::of(left), Moment::of(right));
    let agree = |unit: Unit, l: i64, r: i64| !(first <= unit && unit <= last) || l == r;
    // Weeks are not compared, so a range of units that begins with weeks always gives true.
    Ok(Value::Bool(
        first == Unit::Week
            || agree(Unit::Year, left.year, right.year)
                && agree(Unit::Month, left.month, right.month)
                && agree(Unit::Day, left.day, right.day)
                && agree(Unit::Hour, left.hour, right.hour)
                && agree(Unit::Minute, left.minute, right.minute)
                && agree(Unit::Second, left.second, right.second)
                && agree(Unit::Millisecond, left.millisecond, right.millisecond),
    ))
}

fn truncate(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(mut ms) = time(call, &a[0])? else { return Ok(Value::Null) };
    if a[1].as_str().is_none() {
        return call.mistyped();
    }
    let zone = match a.get(2) {
        Some(name) => match zoned(call, name)? {
            Some(zone) => Some(zone),
            None => return Ok(Value::Null),
        },
        None => None,
    };
    ms = zone.as_ref().map_or(ms, |zone| to_local(zone, ms));
    let unit = match Unit::of(&a[1]) {
        None | Some(Unit::Week) => return call.bad_date(),
        Some(unit) => unit,
    };
    let mut m = Moment::of(ms);
    let cut = |part: &mut i64, of: Unit, least: i64| {
        if unit < of {
            *part = least;
        }
    };
    cut(&mut m.month, Unit::Month, 1);
    cut(&mut m.day, Unit::Day, 1);
    cut(&mut m.hour, Unit::Hour, 0);
    cut(&mut m.minute, Unit::Minute, 0);
    cut(&mut m.second, Unit::Second, 0);
    cut(&mut m.millisecond, Unit::Millisecond, 0);
    back(call, zone.as_ref(), m.ms())
}

fn round(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(mut ms) = time(call, &a[0])? else { return Ok(Value::Null) };
    if !a[1].is_number() || a[2].as_str().is_none() {
        return call.mistyped();
    }
    let zone = match a.get(3) {
        Some(name) => match zoned(call, name)? {
            Some(zone) => Some(zone),
            None => return Ok(Value::Null),
        },
        None => None,
    };
    ms = zone.as_ref().map_or(ms, |zone| to_local(zone, ms));
    let plain = a[2].as_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_lowercase()));
    let unit = Unit::of(&a[2]).filter(|unit| *unit >= Unit::Day && plain);
    let slot = unit.and_then(|unit| (unit.ms() as i64).checked_mul(a[1].to_i64()));
    let Some(slot) = slot.filter(|slot| *slot > 0) else { return call.mistyped() };
    // Integer division rounds towards 1970.
    back(call, zone.as_ref(), ms / slot * slot)
}

/// Whether the third argument requests an object; `None` after a warning.
fn detailed(call: &mut Call<'_>, a: &[Value]) -> Result<Option<bool>> {
    match a.get(2) {
        None => Ok(Some(false)),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => {
            call.mistyped()?;
            Ok(None)
        }
    }
}

fn utc_to_local(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(ms) = time(call, &a[0])? else { return Ok(Value::Null) };
    let Some(name) = a[1].as_str() else { return call.mistyped() };
    let Some(detailed) = detailed(call, a)? else { return Ok(Value::Null) };
    let zone = zone(name)?;
    let text = match iso(call, to_local(&zone, ms))? {
        Value::String(text) if !is_utc(&zone, ms) => text.trim_end_matches('Z').into(),
        text => text,
    };
    Ok(if detailed { about("local", text, &zone, ms) } else { text })
}

fn local_to_utc(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(ms) = time(call, &a[0])? else { return Ok(Value::Null) };
    let Some(name) = a[1].as_str() else { return call.mistyped() };
    let Some(detailed) = detailed(call, a)? else { return Ok(Value::Null) };
    let zone = zone(name)?;
    let ms = to_utc(&zone, ms)?;
    let text = iso(call, ms)?;
    Ok(if detailed { about("utc", text, &zone, ms) } else { text })
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

/// The placeholders without `%`. Among placeholders with the same first letter, the longest comes
/// first.
const PLACEHOLDERS: &[&str] = &[
    "yyyyyy", "yyyy", "yy", "y", "mmmm", "mmm", "mm", "m", "dd", "d", "hh", "h", "ii", "i", "ss",
    "s", "fff", "f", "wwww", "www", "w", "xxx", "x", "kk", "k", "l", "q", "a", "t", "z", "%", "&",
];

fn format_date(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(ms) = time(call, &a[0])? else { return Ok(Value::Null) };
    let Some(format) = a[1].as_str() else { return call.mistyped() };
    let Some(ms) = localized(call, a.get(2), ms)? else { return Ok(Value::Null) };
    let moment = Moment::of(ms);
    let mut out = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        // A percent sign without a known placeholder is dropped.
        if let Some(name) = PLACEHOLDERS.iter().find(|p| rest.starts_with(**p)) {
            out.push_str(&placeholder(name, ms, &moment));
            rest = &rest[name.len()..];
        }
    }
    out.push_str(rest);
    Ok(out.into())
}

fn placeholder(name: &str, ms: i64, m: &Moment) -> String {
    match name {
        "yyyyyy" => format!("{}{:06}", if m.year < 0 { '-' } else { '+' }, m.year.abs()),
        // ArangoDB pads the years 9, 99 and 999 with one zero too few.
        "yyyy" => match m.year {
            9 | 99 | 999 => format!("{:03}", m.year),
            year => format!("{year:04}"),
        },
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
