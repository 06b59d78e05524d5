//! The machine's clock: the only place that asks what time it is.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use vctx_core::clock::{Clock, SetClock, iso8601, seconds_of, unix_ms_of};

/// The machine's clock.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix_ms(&self) -> u64 {
        #[allow(clippy::disallowed_methods, reason = "this file is the clock")]
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

/// A monotonic moment, for durations and deadlines.
pub fn now() -> Instant {
    #[allow(clippy::disallowed_methods, reason = "this file is the clock")]
    Instant::now()
}
