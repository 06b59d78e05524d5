//! Finds the time (day, month or year) that a question names, and compares a message's day with
//! this time.

use super::days::Day;
use super::words::month;

/// Number of days after a day named in a question during which messages may still speak of that
/// day.
const JUST_AFTER_DAYS: u32 = 3;
/// Value of `MomentMatch::day` for a message from the days just after the named day; a message from
/// the named day itself has the value 1.
const JUST_AFTER: f64 = 0.5;
/// Words after which "may" is read as the month instead of the verb.
const BEFORE_MAY: [&str; 6] = ["in", "of", "during", "since", "until", "last"];

/// The months, years and days that a question names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    months: Vec<u32>,
    years: Vec<u32>,
    days: Vec<u32>,
}

/// How well the day of a message agrees with the time that a question names; each field is from 0
/// (no) to 1 (yes).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct MomentMatch {
    /// 1 for a message from the named day, [`JUST_AFTER`] for a message from the days just after,
    /// else 0.
    pub(super) day: f64,
    /// Whether the message's day is in the named month.
    pub(super) month: f64,
    /// Whether the message's day is in the month after the named month.
    pub(super) after: f64,
    /// Whether the message's day is in the named year; always 0 if the question names a month.
    pub(super) year: f64,
}

impl Moment {
    /// Parses the time from the lower-case words of a question; returns `None` if the words contain
    /// neither a month nor a year.
    pub(super) fn read(words: &[String]) -> Option<Self> {
        let at = |place: usize| words.get(place).map(String::as_str);
        let before = |place: usize| place.checked_sub(1).and_then(at);
        let is_month = |place: usize| match at(place) {
            Some("may") => {
                let beside = [before(place), at(place + 1)].into_iter().flatten();
                beside.clone().any(|word| number(word).is_some())
                    || before(place).is_some_and(|word| BEFORE_MAY.contains(&word))
            }
            Some(word) => month(word).is_some(),
            None => false,
        };
        let mut found = Self { months: Vec::new(), years: Vec::new(), days: Vec::new() };
        for (place, word) in words.iter().enumerate() {
            if is_month(place) {
                found.months.extend(month(word));
            } else if let Some(number) = number(word) {
                let beside = is_month(place + 1) || (place > 0 && is_month(place - 1));
                match number {
                    1900..2100 if word.len() == 4 => found.years.push(number),
                    1..=31 if beside => found.days.push(number),
                    _ => {}
                }
            }
        }
        (!found.months.is_empty() || !found.years.is_empty()).then_some(found)
    }

    /// Compares a message's day with the time that the question names.
    pub(super) fn compare(&self, on: Day) -> MomentMatch {
        let one = |holds: bool| if holds { 1.0 } else { 0.0 };
        let in_year = |year: u32| self.years.is_empty() || self.years.contains(&year);
        let in_month = |month: u32, year: u32| self.months.contains(&month) && in_year(year);
        let within = in_month(on.month, on.year);
        let (month_before, its_year) =
            if on.month == 1 { (12, on.year - 1) } else { (on.month - 1, on.year) };
        let on_day = self.days.contains(&on.day);
        let soon = self
            .days
            .iter()
            .any(|day| (1..=JUST_AFTER_DAYS).contains(&on.day.saturating_sub(*day)));
        MomentMatch {
            day: one(within) * if on_day { 1.0 } else { one(soon) * JUST_AFTER },
            month: one(within),
            after: one(!within && in_month(month_before, its_year)),
            year: one(self.months.is_empty() && in_year(on.year)),
        }
    }
}

/// Parses a number, with or without an ordinal ending: `8` and `8th` both give 8.
fn number(word: &str) -> Option<u32> {
    super::days::ordinal(word).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Moment> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        Moment::read(&words)
    }

    #[test]
    fn months_years_and_days_are_read_from_a_question() {
        for (text, wanted) in [
            ("what did ida paint in july 2023", Some((vec![7], vec![2023], vec![]))),
            ("what happened on 8 may 2023", Some((vec![5], vec![2023], vec![8]))),
            ("what happened on march 3rd", Some((vec![3], vec![], vec![3]))),
            ("what may ida paint", None),
            ("who came in may", Some((vec![5], vec![], vec![]))),
            ("what was it in 2022", Some((vec![], vec![2022], vec![]))),
            ("how many of 12 boats", None),
        ] {
            let wanted = wanted.map(|(months, years, days)| Moment { months, years, days });
            assert_eq!(read(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_day_lies_in_it_behind_it_or_elsewhere() {
        let day = |year, month, day| Day { year, month, day };
        let said = |text, on| {
            let said = read(text).expect("it names a time").compare(on);
            [said.day, said.month, said.after, said.year]
        };
        for (text, on, wanted) in [
            ("on 8 may 2023", day(2023, 5, 8), [1.0, 1.0, 0.0, 0.0]),
            ("on 8 may 2023", day(2023, 5, 11), [0.5, 1.0, 0.0, 0.0]),
            ("on 8 may 2023", day(2023, 5, 7), [0.0, 1.0, 0.0, 0.0]),
            ("on 8 may 2023", day(2022, 5, 8), [0.0; 4]),
            ("in december 2023", day(2024, 1, 2), [0.0, 0.0, 1.0, 0.0]),
            ("in 2023", day(2023, 1, 2), [0.0, 0.0, 0.0, 1.0]),
        ] {
            assert_eq!(said(text, on), wanted, "{text} {on:?}");
        }
    }
}
