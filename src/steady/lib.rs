//! A wall clock that follows a jump of the system clock only if the jump lasts.
//!
//! Leases, schedules and expiry times compare the wall clock with stored times. If the system clock
//! shows a wrong time for a minute, a lease of an hour must not last for days, and rows that are
//! kept for a week must not be removed. The server and the embedded engine therefore read this
//! clock. A process that starts while the system clock is wrong begins with the wrong time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Largest deviation of the system clock from the expected time, in milliseconds, that counts as a
/// correction. The expected time is the last trusted reading plus the time elapsed since then. The
/// clock follows corrections immediately. A time service corrects the system clock in smaller steps
/// than this.
const CORRECTION_MS_MAX: u64 = 10_000;

/// Time that a jump must last before the clock follows it, in milliseconds.
const JUMP_LASTS_MS: u64 = 600_000;

/// The clock of this process.
static CLOCK: Mutex<Option<SteadyClock>> = Mutex::new(None);

/// Returns the milliseconds since 1970-01-01 UTC. Logs a warning when the system clock jumps, when
/// it jumps back, and when this clock follows a jump.
pub fn unix_ms() -> u64 {
    #[allow(clippy::disallowed_methods, reason = "this file is the clock")]
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let reading = {
        let mut clock = CLOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let (wall_ms, elapsed_ms) = (milliseconds(wall), elapsed_ms());
        clock.get_or_insert_with(|| SteadyClock::new(wall_ms, elapsed_ms)).read(wall_ms, elapsed_ms)
    };
    match reading.jump {
        Some(Jump::Ignored { by_ms }) => tracing::warn!(
            by_ms,
            "the system clock jumped: the jump is ignored unless it lasts for ten minutes"
        ),
        Some(Jump::Followed { by_ms }) => {
            tracing::warn!(by_ms, "the jump of the system clock lasts: times now follow it");
        }
        Some(Jump::Over) => tracing::warn!("the system clock jumped back to the expected time"),
        None => {}
    }
    reading.unix_ms
}

/// Returns the time since the machine was started, in milliseconds. The time in suspend counts too,
/// so that the clock does not see a jump when the machine wakes up.
fn elapsed_ms() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Derives a steady time from readings of the system clock and of a clock that never jumps.
#[derive(Debug)]
struct SteadyClock {
    /// The last trusted reading of the system clock, in milliseconds since 1970.
    wall_ms: u64,
    /// The elapsed time at that reading, in milliseconds.
    elapsed_ms: u64,
    /// The jump that is ignored at the moment: its size, and the elapsed time when it was noticed.
    ignored: Option<(i64, u64)>,
    /// The last returned time, in milliseconds since 1970. If a correction sets the system clock
    /// back, this time is returned again until the system clock has passed it.
    last_ms: u64,
}

/// One reading of a [`SteadyClock`].
#[derive(Debug, PartialEq, Eq)]
struct Reading {
    unix_ms: u64,
    /// A change of the system clock that this reading noticed.
    jump: Option<Jump>,
}

#[derive(Debug, PartialEq, Eq)]
enum Jump {
    /// The system clock jumped; the jump is ignored for now.
    Ignored { by_ms: i64 },
    /// The jump has lasted long enough; the clock follows it.
    Followed { by_ms: i64 },
    /// The system clock shows the expected time again.
    Over,
}

impl SteadyClock {
    fn new(wall_ms: u64, elapsed_ms: u64) -> Self {
        Self { wall_ms, elapsed_ms, ignored: None, last_ms: 0 }
    }

    fn read(&mut self, wall_ms: u64, elapsed_ms: u64) -> Reading {
        let expected_ms = self.wall_ms + elapsed_ms.saturating_sub(self.elapsed_ms);
        let by_ms = wall_ms.cast_signed().saturating_sub(expected_ms.cast_signed());
        let (trusted, jump) = match self.ignored {
            _ if by_ms.unsigned_abs() <= CORRECTION_MS_MAX => {
                (true, self.ignored.is_some().then_some(Jump::Over))
            }
            Some((size, since)) if size.abs_diff(by_ms) <= CORRECTION_MS_MAX => {
                let lasts = elapsed_ms.saturating_sub(since) >= JUMP_LASTS_MS;
                (lasts, lasts.then_some(Jump::Followed { by_ms }))
            }
            _ => {
                self.ignored = Some((by_ms, elapsed_ms));
                (false, Some(Jump::Ignored { by_ms }))
            }
        };
        if trusted {
            (self.wall_ms, self.elapsed_ms, self.ignored) = (wall_ms, elapsed_ms, None);
        }
        if matches!(jump, Some(Jump::Followed { .. })) {
            self.last_ms = 0;
        }
        self.last_ms = self.last_ms.max(if trusted { wall_ms } else { expected_ms });
        Reading { unix_ms: self.last_ms, jump }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_800_000_000_000;
    const DAY: u64 = 86_400_000;

    fn steady(clock: &mut SteadyClock, wall_ms: u64, elapsed_ms: u64, expected_ms: u64) {
        assert_eq!(
            clock.read(wall_ms, elapsed_ms),
            Reading { unix_ms: expected_ms, jump: None },
            "{elapsed_ms}"
        );
    }

    fn begun() -> SteadyClock {
        let mut clock = SteadyClock::new(START, 50);
        steady(&mut clock, START, 50, START);
        clock
    }

    #[test]
    fn corrections_are_followed_and_never_move_the_time_back() {
        let mut clock = begun();
        steady(&mut clock, START + 1_000, 1_050, START + 1_000);
        steady(&mut clock, START + 11_000, 2_050, START + 11_000);
        steady(&mut clock, START + 3_000, 3_050, START + 11_000);
        steady(&mut clock, START + 12_500, 12_550, START + 12_500);
    }

    #[test]
    fn a_jump_that_ends_changes_no_time() {
        for by in [8 * DAY.cast_signed(), -8 * DAY.cast_signed()] {
            let mut clock = begun();
            let wrong = START.saturating_add_signed(by);
            let noticed = clock.read(wrong + 100, 150);
            assert_eq!(noticed.unix_ms, START + 100);
            assert_eq!(noticed.jump, Some(Jump::Ignored { by_ms: by }));
            steady(&mut clock, wrong + 40_000, 40_050, START + 40_000);
            let over = clock.read(START + 41_000, 41_050);
            assert_eq!(over, Reading { unix_ms: START + 41_000, jump: Some(Jump::Over) });
            steady(&mut clock, START + 42_000, 42_050, START + 42_000);
        }
    }

    #[test]
    fn a_jump_that_lasts_is_followed() {
        for by in [3 * DAY.cast_signed(), -3 * DAY.cast_signed()] {
            let mut clock = begun();
            let moved = START.saturating_add_signed(by);
            assert!(clock.read(moved, 50).jump.is_some());
            let before = JUMP_LASTS_MS - 1;
            steady(&mut clock, moved + before, 50 + before, START + before);
            let followed = clock.read(moved + JUMP_LASTS_MS, 50 + JUMP_LASTS_MS);
            assert_eq!(followed.unix_ms, moved + JUMP_LASTS_MS);
            assert_eq!(followed.jump, Some(Jump::Followed { by_ms: by }));
            steady(&mut clock, moved + JUMP_LASTS_MS + 7, 57 + JUMP_LASTS_MS, {
                moved + JUMP_LASTS_MS + 7
            });
        }
    }

    #[test]
    fn a_second_jump_must_last_on_its_own() {
        let mut clock = begun();
        assert!(clock.read(START + DAY, 50).jump.is_some());
        let late = 50 + JUMP_LASTS_MS;
        let second = clock.read(START + 2 * DAY + JUMP_LASTS_MS, late);
        assert_eq!(second.unix_ms, START + JUMP_LASTS_MS);
        assert!(matches!(second.jump, Some(Jump::Ignored { .. })));
    }

    #[test]
    fn waking_up_is_no_jump() {
        let mut clock = begun();
        steady(&mut clock, START + DAY, DAY + 50, START + DAY);
    }

    #[test]
    fn this_machine_has_both_clocks() {
        let first = unix_ms();
        assert!(first > 1_700_000_000_000, "{first}");
        assert!(unix_ms() >= first);
    }
}
