//! Wall time as an argument, and its written form; the machine's clock is in `base`.

use std::sync::atomic::{AtomicU64, Ordering};

/// Wall time for records.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970-01-01 UTC.
    fn unix_ms(&self) -> u64;
}

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub struct SetClock(AtomicU64);

impl SetClock {
    /// A clock at the given time.
    pub fn at(unix_ms: u64) -> Self {
        Self(AtomicU64::new(unix_ms))
    }

    /// Moves the clock.
    pub fn set(&self, unix_ms: u64) {
        self.0.store(unix_ms, Ordering::SeqCst);
    }
}

impl Clock for SetClock {
    fn unix_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// `YYYY-MM-DDTHH:MM:SS.mmmZ`, the form of every `created_at` (days to civil date after Howard Hinnant's algorithm).
pub fn iso8601(unix_ms: u64) -> String {
    let (days, in_day) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (seconds, millis) = (in_day / 1000, in_day % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Milliseconds since 1970 of a moment in the form of [`iso8601`]; none where there is no such day (the same algorithm the other way round).
pub fn unix_ms_of(text: &str) -> Option<u64> {
    let part = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let (hour, minute, second) = (part(11, 13)?, part(14, 16)?, part(17, 19)?);
    if year < 1970 || !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    let shifted_year = year - u64::from(month <= 2);
    let (era, year_of_era) = (shifted_year / 400, shifted_year % 400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * 146_097 + day_of_era).checked_sub(719_468)?;
    let seconds = (days * 24 + hour) * 3_600 + minute * 60 + second;
    let ms = seconds * 1_000 + part(20, 23)?;
    (iso8601(ms) == text).then_some(ms)
}

/// The whole seconds since 1970 of a moment in that form; none where it is in another one.
pub fn seconds_of(iso: &str) -> Option<u64> {
    let number = |from: usize, to: usize| iso.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    // Years begin in March here, so that a leap day ends one.
    let year = year.checked_sub(u64::from(month <= 2))?;
    let shifted_month = (month + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + day.checked_sub(1)?;
    let day_of_era = (year % 400) * 365 + (year % 400) / 4 - (year % 400) / 100 + day_of_year;
    let days = ((year / 400) * 146_097 + day_of_era).checked_sub(719_468)?;
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::{iso8601, seconds_of, unix_ms_of};

    #[test]
    fn what_is_no_day_is_no_moment() {
        for text in ["2026-02-30T00:00:00.000Z", "2026-13-01T00:00:00.000Z", "2026-01-01", ""] {
            assert_eq!(unix_ms_of(text), None, "{text}");
        }
    }

    #[test]
    fn known_moments_print_as_known() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_123, "2000-02-29T00:00:00.123Z"),
            (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso8601(ms), text);
            assert_eq!(unix_ms_of(text), Some(ms));
            assert_eq!(seconds_of(text), Some(ms / 1_000));
        }
        for text in [
            "",
            "1970",
            "x970-01-01T00:00:00.000Z",
            "0000-01-01T00:00:00.000Z",
            "1970-01-00T00:00:00.000Z",
        ] {
            assert_eq!(seconds_of(text), None, "{text}");
        }
    }
}
