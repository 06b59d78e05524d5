//! Defines the trait of the wall clock, and the text form of times. The clock that reads the system
//! time is in the folder `src/base`.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};

/// The start of Unix time, in UTC.
const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// Source of the wall time that rows record as `created_at`.
pub trait Clock: Send + Sync {
    /// Returns the milliseconds since 1970-01-01 UTC.
    fn unix_ms(&self) -> u64;
}

/// A clock that moves only when a test sets it.
#[derive(Debug, Default)]
pub struct SetClock(AtomicU64);

impl SetClock {
    /// Returns a clock that shows the given time.
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

/// Formats a time as `YYYY-MM-DDTHH:MM:SS.mmmZ`, the form of every `created_at`. A time after the
/// year 9999 becomes the last millisecond of that year, because a fifth digit would break the
/// alphabetical order of times.
pub fn iso8601(unix_ms: u64) -> String {
    let since = SignedDuration::from_millis(i64::try_from(unix_ms).unwrap_or(i64::MAX));
    format!("{:.3}Z", EPOCH.saturating_add(since))
}

/// Parses a time in exactly the form of [`iso8601`] into milliseconds since 1970. Returns `None`
/// for any other form and for a day that does not exist.
pub fn unix_ms_of(text: &str) -> Option<u64> {
    let time: DateTime = text.strip_suffix('Z')?.parse().ok()?;
    let ms = u64::try_from(time.duration_since(EPOCH).as_millis()).ok()?;
    (iso8601(ms) == text).then_some(ms)
}
