//! Converts between milliseconds since 1970, dates of the Gregorian calendar in UTC, and ISO 8601
//! texts.

/// Milliseconds of a day.
pub(super) const DAY_MS: i64 = 86_400_000;
/// First and last millisecond of a valid date (years 0000 to 9999).
pub(super) const MS_MIN: i64 = -62_167_219_200_000;
pub(super) const MS_MAX: i64 = 253_402_300_799_999;

/// The parts of a date and time; month and day count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub year: i64,
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub millisecond: i64,
}

/// Days from 1970-01-01 to a date. A month or day out of range leads to a later or earlier date
/// (Howard Hinnant, "chrono-compatible low-level date algorithms").
pub(super) fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The year, month and day that come a number of days after 1970-01-01.
pub(super) fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

/// Whether a year has 366 days (Gregorian calendar).
pub(super) fn is_leap(year: i64) -> bool {
    (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
}

/// Number of days of a month; months count from 1.
pub(super) fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Moment {
    /// Converts milliseconds since 1970 to a date and time.
    pub(super) fn of(ms: i64) -> Self {
        let (year, month, day) = date_of(ms.div_euclid(DAY_MS));
        let rest = ms.rem_euclid(DAY_MS);
        Self {
            year,
            month,
            day,
            hour: rest / 3_600_000,
            minute: rest / 60_000 % 60,
            second: rest / 1000 % 60,
            millisecond: rest % 1000,
        }
    }

    /// Milliseconds since 1970. A day beyond the end of its month leads into the next month.
    pub(super) fn ms(&self) -> i64 {
        days_of(self.year, self.month, self.day) * DAY_MS
            + self.hour * 3_600_000
            + self.minute * 60_000
            + self.second * 1000
            + self.millisecond
    }

    /// Day of the year; 1 is January 1.
    pub(super) fn day_of_year(&self) -> i64 {
        days_of(self.year, self.month, self.day) - days_of(self.year, 1, 1) + 1
    }

    /// Day of the week; 0 is Sunday.
    pub(super) fn day_of_week(&self) -> i64 {
        (days_of(self.year, self.month, self.day) + 4).rem_euclid(7)
    }

    /// ISO week and the year it belongs to.
    pub(super) fn iso_week(&self) -> (i64, i64) {
        let days = days_of(self.year, self.month, self.day);
        let thursday = days - (self.day_of_week() + 6) % 7 + 3;
        let (year, _, _) = date_of(thursday);
        ((thursday - days_of(year, 1, 1)) / 7 + 1, year)
    }

    /// Formats the date as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
    pub(super) fn iso(&self) -> String {
        let Self { year, month, day, hour, minute, second, millisecond } = self;
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
    }
}

/// Reads the digits at the start of the text; `None` unless there are between `least` and `most`
/// digits.
fn digits(text: &mut &str, least: usize, most: usize) -> Option<i64> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    if !(least..=most).contains(&length) {
        return None;
    }
    let (number, rest) = text.split_at(length);
    *text = rest;
    number.parse().ok()
}

fn eat(text: &mut &str, wanted: &[char]) -> bool {
    match text.strip_prefix(wanted) {
        Some(rest) => {
            *text = rest;
            true
        }
        None => false,
    }
}

/// Reads a number of one or two digits at the start of the text; `None` if it exceeds `most`.
fn two(text: &mut &str, most: i64) -> Option<i64> {
    digits(text, 1, 2).filter(|n| *n <= most)
}

/// Converts an ISO text to milliseconds since 1970: a date, optionally `T` or a space and a time,
/// optionally `Z` or an offset. As in ArangoDB, every month may have 31 days, and the year (at most
/// 9999) may have leading zeros.
pub(super) fn parse(text: &str) -> Option<i64> {
    let space = [' ', '\t', '\r', '\n'];
    let mut rest = text.trim_start_matches(space).trim_end_matches(space);
    eat(&mut rest, &['+']);
    let zeros = rest.bytes().take_while(|b| *b == b'0').count();
    let mut moment = Moment {
        year: digits(&mut rest, 1, zeros.max(1) + 4).filter(|year| *year <= 9999)?,
        month: 1,
        day: 1,
        hour: 0,
        minute: 0,
        second: 0,
        millisecond: 0,
    };
    if eat(&mut rest, &['-']) {
        moment.month = two(&mut rest, 12).filter(|n| *n > 0)?;
        if eat(&mut rest, &['-']) {
            moment.day = two(&mut rest, 31).filter(|n| *n > 0)?;
        }
    }
    if eat(&mut rest, &['T', ' ']) {
        moment.hour = two(&mut rest, 23)?;
        if !eat(&mut rest, &[':']) {
            return None;
        }
        moment.minute = two(&mut rest, 59)?;
        if eat(&mut rest, &[':']) {
            moment.second = two(&mut rest, 59)?;
            if eat(&mut rest, &['.']) {
                moment.millisecond = fraction_ms(&mut rest)?;
            }
        }
    }
    let ms = moment.ms() - offset(&mut rest)?;
    (rest.is_empty() && (MS_MIN..=MS_MAX).contains(&ms)).then_some(ms)
}

fn fraction_ms(rest: &mut &str) -> Option<i64> {
    let length = rest.bytes().take_while(u8::is_ascii_digit).count();
    if length == 0 {
        return None;
    }
    let (number, behind) = rest.split_at(length);
    *rest = behind;
    format!("{number:0<3}")[..3].parse().ok()
}

/// Reads an offset: `Z`, or a sign with hours and minutes; an empty text is 0.
fn offset(rest: &mut &str) -> Option<i64> {
    let sign = match rest.chars().next() {
        Some('+') => 1,
        Some('-') => -1,
        _ => {
            eat(rest, &['Z', 'z']);
            return Some(0);
        }
    };
    *rest = &rest[1..];
    let hours = two(rest, 23)?;
    if !eat(rest, &[':']) {
        return None;
    }
    let minutes = two(rest, 59)?;
    Some(sign * (hours * 3_600_000 + minutes * 60_000))
}
