//! Reads the machine's clock; no other module reads the time.

use std::time::Instant;

pub use vctx_core::clock::{Clock, SetClock, iso8601, unix_ms_of};

/// The machine's clock, which follows a jump of the system clock only if the jump lasts.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix_ms(&self) -> u64 {
        steady_clock::unix_ms()
    }
}

/// Returns a monotonic time, for durations and deadlines.
pub fn now() -> Instant {
    #[allow(clippy::disallowed_methods, reason = "this file is the clock")]
    Instant::now()
}
