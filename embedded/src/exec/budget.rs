//! Limits the memory for rows and values, and the run time, of one query.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Code, Error, Result};
use crate::expr::{Memory, Share};

/// Number of rows between two checks of the clock.
const ROWS_PER_LOOK: u32 = 256;
/// Upper bound of `maxRuntime`, in seconds.
const RUNTIME_S_MAX: f64 = 1e9;

/// Maximum duration of a `SLEEP()` in seconds.
const SLEEP_S_MAX: f64 = 3600.0;
/// Time between two checks during a `SLEEP()`.
const SLEEP_STEP: Duration = Duration::from_millis(5);

/// Counts the memory and run time of a query against its limits.
#[derive(Debug)]
pub struct Budget {
    memory: Memory,
    deadline: Option<Instant>,
    kill: Option<Arc<AtomicBool>>,
    rows: u32,
}

impl Deref for Budget {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        &self.memory
    }
}

impl DerefMut for Budget {
    fn deref_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }
}

impl Budget {
    /// Returns the budget of a query. A `memory_limit` of 0 bytes means the engine's default limit,
    /// and a `max_runtime_s` of 0 seconds means no deadline. Setting `kill` ends the query.
    pub fn new(
        memory_limit: u64,
        max_runtime_s: f64,
        kill: Option<Arc<AtomicBool>>,
        share: Share,
    ) -> Self {
        let deadline = (max_runtime_s > 0.0)
            .then(|| Instant::now() + Duration::from_secs_f64(max_runtime_s.min(RUNTIME_S_MAX)));
        Self { memory: Memory::new(memory_limit).within(share), deadline, kill, rows: 0 }
    }

    /// Counts a row of the query; returns error 1500 after the query's deadline.
    pub fn row(&mut self) -> Result<()> {
        self.rows = self.rows.wrapping_add(1);
        if self.rows.is_multiple_of(ROWS_PER_LOOK) {
            self.look()?;
        }
        Ok(())
    }

    /// Sleeps for some seconds (at most `SLEEP_S_MAX`) and checks the query's deadline during the
    /// sleep.
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

    /// Returns error 1500 if the query was killed or the query's deadline has passed.
    pub fn look(&self) -> Result<()> {
        let killed = self.kill.as_ref().is_some_and(|kill| kill.load(Ordering::Relaxed));
        if killed || self.deadline.is_some_and(|end| Instant::now() > end) {
            return Err(Error::of(Code::QueryKilled));
        }
        Ok(())
    }
}
