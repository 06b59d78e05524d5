//! Parses dates in the forms of other dialects. A search of another dialect includes the end of its
//! range of dates; a search of this server's own tools excludes the end.

use crate::clock::{iso8601, unix_ms_of};
use crate::error::{Error, Result};

const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;

/// Returns the first moment of the day, minute or second that the text names.
pub(super) fn start(field: &str, text: &str) -> Result<String> {
    span(field, text).map(|(at, _)| iso8601(at))
}

/// Returns the first moment after the day, minute or second that the text names.
pub(super) fn end(field: &str, text: &str) -> Result<String> {
    span(field, text).map(|(at, length)| iso8601(at + length))
}

/// Returns the start and the length, in milliseconds, of the day, minute or second that the text
/// names.
fn span(field: &str, text: &str) -> Result<(u64, u64)> {
    let fault = || Error::argument(field, "use YYYY-MM-DD or YYYY-MM-DDTHH:MM (UTC)");
    let text = text.trim_end_matches('Z');
    let (rest, length) = match text.len() {
        10 => ("T00:00:00.000Z", DAY_MS),
        16 => (":00.000Z", MINUTE_MS),
        19 => (".000Z", 1000),
        _ => return Err(fault()),
    };
    let whole = format!("{}{rest}", text.replacen(' ', "T", 1));
    unix_ms_of(&whole).map(|at| (at, length)).ok_or_else(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_has_a_start_and_an_end() {
        for (text, from, to) in [
            ("2024-01-15", "2024-01-15T00:00:00.000Z", "2024-01-16T00:00:00.000Z"),
            ("2024-02-28", "2024-02-28T00:00:00.000Z", "2024-02-29T00:00:00.000Z"),
            ("2023-12-31", "2023-12-31T00:00:00.000Z", "2024-01-01T00:00:00.000Z"),
            ("2000-02-29", "2000-02-29T00:00:00.000Z", "2000-03-01T00:00:00.000Z"),
            ("1970-01-01", "1970-01-01T00:00:00.000Z", "1970-01-02T00:00:00.000Z"),
            ("2024-01-15T14:30", "2024-01-15T14:30:00.000Z", "2024-01-15T14:31:00.000Z"),
            ("2024-01-15T23:59:59Z", "2024-01-15T23:59:59.000Z", "2024-01-16T00:00:00.000Z"),
        ] {
            assert_eq!(start("f", text).unwrap(), from, "{text}");
            assert_eq!(end("f", text).unwrap(), to, "{text}");
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
            "2024-01-15T23:59:60",
            "2024-01-15T14:30é",
        ] {
            assert!(start("f", text).is_err(), "{text}");
        }
    }
}
