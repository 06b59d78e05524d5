//! What a query may cost: bytes of rows it holds, and time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Code, Error, Result};

/// Bytes of rows that a query may hold when it sets no limit of its own.
pub const QUERY_BYTES_MAX: u64 = 1 << 30;
/// Rows between two looks at the clock.
const ROWS_PER_LOOK: u32 = 256;
/// Longest run time that is counted, in seconds.
const RUNTIME_S_MAX: f64 = 1e9;

/// Longest `SLEEP()` in seconds.
const SLEEP_S_MAX: f64 = 3600.0;
/// Time between two looks of a `SLEEP()`.
const SLEEP_STEP: Duration = Duration::from_millis(5);

/// Counts what a query holds and how long it runs.
#[derive(Debug)]
pub struct Budget {
    bytes_max: u64,
    bytes: u64,
    peak: u64,
    deadline: Option<Instant>,
    kill: Option<Arc<AtomicBool>>,
    rows: u32,
}

impl Budget {
    /// `memory_limit` in bytes and `max_runtime_s` in seconds; 0 means the engine's own limit and no deadline. Setting `kill`
    /// ends the query too.
    pub fn new(memory_limit: u64, max_runtime_s: f64, kill: Option<Arc<AtomicBool>>) -> Self {
        let bytes_max =
            if memory_limit == 0 { QUERY_BYTES_MAX } else { memory_limit.min(QUERY_BYTES_MAX) };
        let deadline = (max_runtime_s > 0.0)
            .then(|| Instant::now() + Duration::from_secs_f64(max_runtime_s.min(RUNTIME_S_MAX)));
        Self { bytes_max, bytes: 0, peak: 0, deadline, kill, rows: 0 }
    }

    /// Takes bytes; 32 when there are too many.
    pub fn hold(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes as u64;
        self.peak = self.peak.max(self.bytes);
        if self.bytes > self.bytes_max {
            return Err(Error::new(
                Code::ResourceLimit,
                "query would use more memory than allowed",
            ));
        }
        Ok(())
    }

    /// What is held now, to come back to with [`Budget::release_to`].
    pub fn held(&self) -> u64 {
        self.bytes
    }

    /// Gives back all that was taken since.
    pub fn release_to(&mut self, held: u64) {
        self.bytes = self.bytes.min(held);
    }

    /// Gives so much back; what others took since stays counted.
    pub fn let_go(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// The most that was ever held.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// Counts a row; 1500 when the time is over.
    pub fn row(&mut self) -> Result<()> {
        self.rows = self.rows.wrapping_add(1);
        if self.rows.is_multiple_of(ROWS_PER_LOOK) {
            self.look()?;
        }
        Ok(())
    }

    /// Does nothing for so many seconds (at most `SLEEP_S_MAX`), and looks at the clock meanwhile.
    pub fn sleep(&self, seconds: f64) -> Result<()> {
        let end = Instant::now() + Duration::from_secs_f64(seconds.min(SLEEP_S_MAX));
        loop {
            self.look()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(SLEEP_STEP));
        }
    }

    /// 1500 when the time is over or somebody killed the query.
    pub fn look(&self) -> Result<()> {
        let killed = self.kill.as_ref().is_some_and(|kill| kill.load(Ordering::Relaxed));
        if killed || self.deadline.is_some_and(|end| Instant::now() > end) {
            return Err(Error::of(Code::QueryKilled));
        }
        Ok(())
    }
}
