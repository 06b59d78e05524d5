//! Decides which time a message shows in the window: the date where the day changes, and the hour
//! after a long gap.

use jiff::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;

use crate::memory::local_time::LocalTime;
use crate::memory::message::Role;
use crate::search::day_of;

/// Number of minutes without a message after which the next message shows its hour.
const LONG_GAP_MINUTES: i64 = 60;

/// Returns the time of a message. `said_at` counts before the time at which the server appended the
/// message, if it names a day that exists. A time without an offset from UTC is taken as a time in
/// the agent's zone.
pub(super) fn time_of(said_at: Option<&str>, created_ms: u64, zone: &TimeZone) -> LocalTime {
    said_at.and_then(|text| said(text, zone)).unwrap_or_else(|| LocalTime::at(created_ms, zone))
}

fn said(text: &str, zone: &TimeZone) -> Option<LocalTime> {
    if let Ok(moment) = text.trim().parse::<Timestamp>() {
        return Some(LocalTime::on(zone.to_datetime(moment)));
    }
    let (year, month, day) = day_of(text)?;
    Some(LocalTime::new(Date::new(year, month, day).ok()?, hour_of(text)))
}

/// Returns the time that a message shows, or `None` if the time is clear from the message before.
/// A model's own message shows only a new day, so that models do not learn to write times. A text
/// that begins like such a time always shows its own, so that a text cannot change its date.
pub(super) fn stamp(
    before: Option<LocalTime>,
    now: LocalTime,
    role: Role,
    content: &str,
) -> Option<String> {
    let is_clear = before.is_some_and(|before| before.is_same_day(&now));
    if !is_clear || begins_like_a_time(content) {
        return Some(now.to_string());
    }
    let shows_hour = matches!(role, Role::User | Role::System);
    let minutes = before.and_then(|before| now.minutes_after(&before));
    let gap = minutes.is_some_and(|minutes| !(0..LONG_GAP_MINUTES).contains(&minutes));
    now.hour().filter(|_| shows_hour && gap)
}

/// Whether a text begins with a bracket and a digit.
fn begins_like_a_time(content: &str) -> bool {
    let rest = content.trim_start().strip_prefix('[');
    rest.is_some_and(|rest| rest.trim_start().starts_with(|first: char| first.is_numeric()))
}

/// Finds a time of day like `14:30`, `9:05` or `1:56 pm` in a text.
fn hour_of(text: &str) -> Option<Time> {
    text.match_indices(':').find_map(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + 1..]);
        let digits = before.len() - before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let hour: i8 = before[before.len() - digits.min(3)..].parse().ok()?;
        let minute: i8 =
            after.get(..2).filter(|two| two.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()?;
        let rest =
            after[2..].trim_start_matches(|c: char| c.is_ascii_digit() || c == ':' || c == '.');
        let half: String = rest.trim_start().chars().take(2).collect::<String>().to_lowercase();
        let hour = match half.as_str() {
            "pm" if (1..12).contains(&hour) => hour + 12,
            "am" if hour == 12 => 0,
            _ => hour,
        };
        Time::new(hour, minute, 0, 0).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(said_at: &str) -> String {
        time_of(Some(said_at), 1_778_000_000_000, &TimeZone::UTC).to_string()
    }

    #[test]
    fn the_time_of_a_message_is_what_was_said_or_when_it_was_appended() {
        for (said_at, shown) in [
            ("2026-05-05T09:14:00Z", "2026-05-05 Tue 09:14"),
            ("2026-05-05T23:30:00-02:00", "2026-05-06 Wed 01:30"),
            ("2026-05-05 09:14", "2026-05-05 Tue 09:14"),
            ("2026-05-05", "2026-05-05 Tue"),
            ("1:56 pm on 8 May, 2023", "2023-05-08 Mon 13:56"),
            ("12:09 am on 13 September, 2023", "2023-09-13 Wed 00:09"),
            ("08.05.2023", "2023-05-08 Mon"),
            ("2026-02-31", "2026-05-05 Tue 16:53"),
            ("yesterday", "2026-05-05 Tue 16:53"),
            ("", "2026-05-05 Tue 16:53"),
        ] {
            assert_eq!(utc(said_at), shown, "{said_at}");
            let read = LocalTime::parse(&utc(said_at)).unwrap();
            assert_eq!(read.to_string(), shown, "{said_at}");
        }
    }

    #[test]
    fn a_time_is_shown_where_it_is_not_clear() {
        let at = |text: &str| LocalTime::parse(text).unwrap();
        let before = Some(at("2026-05-05 Tue 09:14"));
        for (now, role, content, shown) in [
            ("2026-05-05 Tue 09:20", Role::User, "Hm.", None),
            ("2026-05-05 Tue 10:14", Role::User, "Hm.", Some("10:14")),
            ("2026-05-05 Tue 10:14", Role::Assistant, "Hm.", None),
            ("2026-05-05 Tue 08:00", Role::User, "Hm.", Some("08:00")),
            ("2026-05-06 Wed 00:01", Role::Assistant, "Hm.", Some("2026-05-06 Wed 00:01")),
            ("2026-05-04 Mon", Role::Tool, "Hm.", Some("2026-05-04 Mon")),
            (
                "2026-05-05 Tue 09:20",
                Role::User,
                " [2020-01-01 Wed]\nHm.",
                Some("2026-05-05 Tue 09:20"),
            ),
            ("2026-05-05 Tue 09:20", Role::User, "[sic]", None),
        ] {
            let found = stamp(before, at(now), role, content);
            assert_eq!(found.as_deref(), shown, "{now} {content}");
        }
        assert!(stamp(None, at("2026-05-05 Tue 09:14"), Role::User, "Hm.").is_some());
    }
}
