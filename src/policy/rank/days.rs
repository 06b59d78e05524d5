//! The day on which something was said, read from a time as clients write it.

use super::words::{MONTHS, plain, word_ranges};

/// A day by number: years times 400, months times 32, days, so that days of one calendar compare and differ.
pub(super) type Day = u32;

/// Reads `2023-05-08…`, `8 May, 2023`, `May-08-2024`, `08.05.2023`, `5/8/2023` within any text; none where no day stands. Of two
/// numbers that may be day and month, which one is which does not matter here: equal days stay equal.
pub(super) fn day(text: &str) -> Option<Day> {
    let mut numbers: Vec<u32> = Vec::new();
    let mut month = None;
    for range in word_ranges(text) {
        for part in text[range].split(['.', '_', 'T']) {
            let part = plain(part);
            if let Some(at) = MONTHS.iter().position(|name| *name == part) {
                month = Some(month_number(at));
            } else if let Ok(number) = ordinal(&part).parse::<u32>() {
                numbers.push(number);
            }
        }
    }
    let year_at = numbers.iter().position(|n| (1900..2200).contains(n))?;
    let year = numbers[year_at];
    let pair = |a: u32, b: u32| (1..=31).contains(&a) && (1..=31).contains(&b);
    if let Some(month) = month {
        // The day stands beside the year or the month; hours and minutes of a clock stand further off.
        let before = year_at.checked_sub(1).map(|at| numbers[at]);
        let behind = numbers.get(year_at + 1).copied();
        let day = before.or(behind).filter(|day| (1..=31).contains(day))?;
        return Some(year * 400 + month * 32 + day);
    }
    let (first, second) = match year_at {
        0 => (*numbers.get(1)?, *numbers.get(2)?),
        at if at >= 2 => (numbers[at - 2], numbers[at - 1]),
        _ => return None,
    };
    pair(first, second).then_some(year * 400 + first * 32 + second)
}

fn month_number(at: usize) -> u32 {
    let long = u32::try_from(at).unwrap_or_default();
    match at {
        0..=11 => long + 1,
        // The short names leave out May.
        12..=15 => long - 11,
        16..=19 => long - 10,
        _ => long - 11,
    }
}

/// `8th` as `8`.
fn ordinal(text: &str) -> &str {
    ["st", "nd", "rd", "th"].iter().find_map(|end| text.strip_suffix(end)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_found_in_the_ways_that_clients_write_times() {
        let may = 2023 * 400 + 5 * 32 + 8;
        for (text, wanted) in [
            ("2023-05-08T13:56:00Z", Some(may)),
            ("2023-05-08", Some(may)),
            ("1:56 pm on 8 May, 2023", Some(may)),
            ("May-08-2023", Some(may)),
            ("Monday, May 8th 2023", Some(may)),
            ("05.08.2023, 19:23:11", Some(may)),
            ("5/8/2023", Some(may)),
            ("29.12.2023, 19:23:11", Some(2023 * 400 + 29 * 32 + 12)),
            ("3 Sept 2024", Some(2024 * 400 + 9 * 32 + 3)),
            ("3 jun 2024", Some(2024 * 400 + 6 * 32 + 3)),
            ("yesterday", None),
            ("13:05", None),
            ("", None),
        ] {
            assert_eq!(day(text), wanted, "{text}");
        }
    }
}
