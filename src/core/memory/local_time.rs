//! Times on the wall clock of an agent's zone.

use std::fmt;
use std::sync::OnceLock;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{TimeZone, TimeZoneDatabase};

/// Name of the zone of a new agent.
pub const UTC: &str = "UTC";

/// Returns the time zone with a name of the IANA database; `None` if there is no such zone. The
/// database is a part of the program.
pub fn zone_of(name: &str) -> Option<TimeZone> {
    static BUNDLED: OnceLock<TimeZoneDatabase> = OnceLock::new();
    if name == UTC {
        return Some(TimeZone::UTC);
    }
    BUNDLED.get_or_init(TimeZoneDatabase::bundled).get(name).ok()
}

/// The time of a message on the wall clock of the agent's zone. The text form is
/// `2026-05-05 Tue 09:14`, or `2026-05-05 Tue` if only the day is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    date: Date,
    time: Option<Time>,
}

impl LocalTime {
    /// Returns a day, and a time of the day if it is known.
    pub fn new(date: Date, time: Option<Time>) -> Self {
        Self { date, time }
    }

    /// Returns a moment of the server's clock in a zone.
    pub fn at(unix_ms: u64, zone: &TimeZone) -> Self {
        let ms = i64::try_from(unix_ms).unwrap_or(i64::MAX);
        Self::on(zone.to_datetime(Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX)))
    }

    /// Returns a date and time of a zone.
    pub fn on(moment: DateTime) -> Self {
        Self { date: moment.date(), time: Some(moment.time()) }
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Self> {
        let date: Date = text.get(..10)?.parse().ok()?;
        let time = text.get(15..).and_then(|time| format!("{time}:00").parse().ok());
        Some(Self { date, time })
    }

    /// Returns the day.
    pub fn date(&self) -> Date {
        self.date
    }

    /// Returns the text form of the day alone.
    pub fn day(&self) -> String {
        format!("{} {}", self.date, &format!("{:?}", self.date.weekday())[..3])
    }

    /// Returns the text form with an hour; a day whose hour is not known begins at 00:00.
    pub fn with_hour(&self) -> String {
        format!("{} {}", self.day(), self.hour().as_deref().unwrap_or("00:00"))
    }

    /// Whether both times are on the same day.
    pub fn is_same_day(&self, other: &Self) -> bool {
        self.date == other.date
    }

    /// Returns the time of the day, as `09:14`.
    pub fn hour(&self) -> Option<String> {
        self.time.map(|time| format!("{:02}:{:02}", time.hour(), time.minute()))
    }

    /// Returns the minutes from an earlier time of the same day to this time, negative if this time
    /// is the earlier one; `None` if a time of day is not known.
    pub fn minutes_after(&self, before: &Self) -> Option<i64> {
        let minutes = |time: Time| i64::from(time.hour()) * 60 + i64::from(time.minute());
        Some(minutes(self.time?) - minutes(before.time?))
    }
}

impl fmt::Display for LocalTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.day())?;
        self.hour().map_or(Ok(()), |hour| write!(formatter, " {hour}"))
    }
}
