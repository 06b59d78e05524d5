//! Dates as other dialects write them, and the first moment behind one: our searches end before a moment, theirs with one.

use crate::clock::iso8601;
use crate::error::{Error, Result};

const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;

/// The moment at which a date, a minute or a second begins.
pub(super) fn begins(field: &str, text: &str) -> Result<String> {
    moment(field, text).map(|(at, _)| iso8601(at))
}

/// The moment after it is over.
pub(super) fn is_over(field: &str, text: &str) -> Result<String> {
    moment(field, text).map(|(at, lasts)| iso8601(at + lasts))
}

/// When it begins and how long it lasts, in milliseconds.
fn moment(field: &str, text: &str) -> Result<(u64, u64)> {
    let fault = || Error::argument(field, "use YYYY-MM-DD or YYYY-MM-DDTHH:MM (UTC)");
    if !text.is_ascii() {
        return Err(fault());
    }
    let text = text.trim_end_matches('Z');
    let number = |from: usize, to: usize| -> Option<u64> {
        let digits = text.get(from..to).filter(|d| d.bytes().all(|b| b.is_ascii_digit()))?;
        digits.parse().ok()
    };
    let mark = |at: usize, marks: &str| text.get(at..=at).is_some_and(|m| marks.contains(m));
    let date = || {
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let sound = mark(4, "-") && mark(7, "-") && day >= 1 && day <= days_of(year, month)?;
        (sound && year >= 1970).then(|| days_before(year, month, day) * DAY_MS)
    };
    let clock = || {
        let (hour, minute) = (number(11, 13)?, number(14, 16)?);
        let sound = mark(10, "T ") && mark(13, ":") && hour < 24 && minute < 60;
        sound.then_some((hour * 60 + minute) * MINUTE_MS)
    };
    let second = || number(17, 19).filter(|second| mark(16, ":") && *second < 60);
    let day = date().ok_or_else(fault)?;
    match text.len() {
        10 => Ok((day, DAY_MS)),
        16 => Ok((day + clock().ok_or_else(fault)?, MINUTE_MS)),
        19 => Ok((day + clock().ok_or_else(fault)? + second().ok_or_else(fault)? * 1000, 1000)),
        _ => Err(fault()),
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of(year: u64, month: u64) -> Option<u64> {
    match month {
        2 => Some(if is_leap(year) { 29 } else { 28 }),
        4 | 6 | 9 | 11 => Some(30),
        1 | 3 | 5 | 7 | 8 | 10 | 12 => Some(31),
        _ => None,
    }
}

/// Days from 1970-01-01 to a date.
fn days_before(year: u64, month: u64, day: u64) -> u64 {
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leaps(year - 1) - leaps(1969);
    let months: u64 = (1..month).filter_map(|month| days_of(year, month)).sum();
    years + months + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_begins_and_is_over() {
        for (text, from, to) in [
            ("2024-01-15", "2024-01-15T00:00:00.000Z", "2024-01-16T00:00:00.000Z"),
            ("2024-02-28", "2024-02-28T00:00:00.000Z", "2024-02-29T00:00:00.000Z"),
            ("2023-12-31", "2023-12-31T00:00:00.000Z", "2024-01-01T00:00:00.000Z"),
            ("2000-02-29", "2000-02-29T00:00:00.000Z", "2000-03-01T00:00:00.000Z"),
            ("1970-01-01", "1970-01-01T00:00:00.000Z", "1970-01-02T00:00:00.000Z"),
            ("2024-01-15T14:30", "2024-01-15T14:30:00.000Z", "2024-01-15T14:31:00.000Z"),
            ("2024-01-15T23:59:59Z", "2024-01-15T23:59:59.000Z", "2024-01-16T00:00:00.000Z"),
        ] {
            assert_eq!(begins("f", text).unwrap(), from, "{text}");
            assert_eq!(is_over("f", text).unwrap(), to, "{text}");
        }
        for text in [
            "",
            "2024",
            "2024-13-01",
            "2023-02-29",
            "1900-01-01",
            "2024-01-15T24:00",
            "gestern",
            "2024-01-15X14:30",
            "2024-01-+5",
        ] {
            assert!(begins("f", text).is_err(), "{text}");
        }
    }
}
