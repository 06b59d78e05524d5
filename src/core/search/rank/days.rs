//! Parses the calendar day from a message's time, which clients write in different formats.

use super::words::{month, plain, word_ranges};

/// A calendar day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Day {
    pub(super) year: u32,
    /// 1 to 12.
    pub(super) month: u32,
    /// 1 to 31.
    pub(super) day: u32,
}

/// Number of months in a year.
const MONTHS_OF_YEAR: u32 = 12;

/// Finds a date like `2023-05-08…`, `8 May, 2023`, `May-08-2024`, `08.05.2023` or `5/8/2023` in any
/// text. If the year is last and both other numbers can be months, the separator decides which
/// number is the month. With full stops, the day is first; with other separators, the month is
/// first.
pub(super) fn day(text: &str) -> Option<Day> {
    let mut numbers: Vec<u32> = Vec::new();
    let mut named = None;
    for range in word_ranges(text) {
        for part in text[range].split(['.', '_', 'T']) {
            let part = plain(part);
            if let Some(found) = month(&part) {
                named = Some(found);
            } else if let Ok(number) = ordinal(&part).parse::<u32>() {
                numbers.push(number);
            }
        }
    }
    let year_at = numbers.iter().position(|n| (1900..2200).contains(n))?;
    let year = numbers[year_at];
    let found = |month: u32, day: u32| {
        let is_day = (1..=MONTHS_OF_YEAR).contains(&month) && (1..=31).contains(&day);
        is_day.then_some(Day { year, month, day })
    };
    if let Some(month) = named {
        // The day is the last number before the year. If no number is before the year, the day is
        // the first number after the year. Numbers of hours and minutes are further away from the
        // year than the number of the day is.
        let before = year_at.checked_sub(1).map(|at| numbers[at]);
        let behind = numbers.get(year_at + 1).copied();
        return before.or(behind).and_then(|day| found(month, day));
    }
    match year_at {
        0 => found(*numbers.get(1)?, *numbers.get(2)?),
        1 => None,
        at => {
            let (first, second) = (numbers[at - 2], numbers[at - 1]);
            let is_day_first = first > MONTHS_OF_YEAR
                || (second <= MONTHS_OF_YEAR && text.contains(&format!(".{year}")));
            if is_day_first { found(second, first) } else { found(first, second) }
        }
    }
}

/// Finds a date in any text, as year, month and day. The day may not exist in its month.
pub fn day_of(text: &str) -> Option<(i16, i8, i8)> {
    let Day { year, month, day } = day(text)?;
    Some((year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?))
}

/// Removes an ordinal ending, so that `8th` gives `8`.
pub(super) fn ordinal(text: &str) -> &str {
    ["st", "nd", "rd", "th"].iter().find_map(|end| text.strip_suffix(end)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_found_in_the_ways_that_clients_write_times() {
        let on = |year, month, day| Some(Day { year, month, day });
        let may = on(2023, 5, 8);
        for (text, wanted) in [
            ("2023-05-08T13:56:00Z", may),
            ("2023-05-08", may),
            ("1:56 pm on 8 May, 2023", may),
            ("May-08-2023", may),
            ("Monday, May 8th 2023", may),
            ("05.08.2023, 19:23:11", on(2023, 8, 5)),
            ("5/8/2023", may),
            ("29.12.2023, 19:23:11", on(2023, 12, 29)),
            ("3 Sept 2024", on(2024, 9, 3)),
            ("3 jun 2024", on(2024, 6, 3)),
            ("12/29/2023", on(2023, 12, 29)),
            ("29/12/2023", on(2023, 12, 29)),
            ("yesterday", None),
            ("13:05", None),
            ("", None),
        ] {
            assert_eq!(day(text), wanted, "{text}");
        }
    }
}
