//! The time that a question names, and whether something was said then: on the day or just after, in the month, the month after, the year.

use super::days::Day;
use super::words::month;

/// Days behind the one that is named in which people still speak of it.
const JUST_AFTER_DAYS: u32 = 3;
/// What was said in those counts half.
const JUST_AFTER: f64 = 0.5;
/// Words before "may" that make it a month.
const BEFORE_MAY: [&str; 6] = ["in", "of", "during", "since", "until", "last"];

/// The time that a question names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    months: Vec<u32>,
    years: Vec<u32>,
    days: Vec<u32>,
}

/// How something that was said lies to it; each 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Said {
    /// That day, or just after.
    pub(super) day: f64,
    /// That month.
    pub(super) month: f64,
    /// The month after.
    pub(super) after: f64,
    /// That year, where no month is named.
    pub(super) year: f64,
}

impl Moment {
    /// Reads the words of a question, in lower case; none where it names neither month nor year.
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

    /// How a day lies to it.
    pub(super) fn said(&self, on: Day) -> Said {
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
        Said {
            day: one(within) * if on_day { 1.0 } else { one(soon) * JUST_AFTER },
            month: one(within),
            after: one(!within && in_month(month_before, its_year)),
            year: one(self.months.is_empty() && in_year(on.year)),
        }
    }
}

/// `8`, `8th` as 8.
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
            let said = read(text).expect("it names a time").said(on);
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
