//! The thread that updates the segments of views at an interval, and maintains the views that had
//! no recent changes.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::{Code, Error, Result};
use crate::limits::VIEW_RETRY_MS_MAX;
use crate::txn::Resources;

/// The handle of the thread that commits views. Dropping the handle stops the thread after its
/// current batch.
pub(crate) struct Ticker {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

/// The pause before the next attempt to commit a view after a failed commit, and the time of this
/// attempt.
struct Failed {
    pause: Duration,
    again: Instant,
}

impl Ticker {
    /// Starts the thread. If there are views, the first round starts immediately and processes
    /// pending rows that the engine's previous run left.
    pub(crate) fn start(resources: &Arc<Resources>, interval_ms: u64) -> Result<Self> {
        let stop = Arc::new(Stop::default());
        let (resources, seen) = (resources.clone(), stop.clone());
        let interval = Duration::from_millis(interval_ms);
        let catch_up = !resources.views.numbers().is_empty();
        let run = move || {
            let mut failed = BTreeMap::new();
            if catch_up {
                round(&resources, &seen, interval, &mut failed);
            }
            while !seen.wait(interval) {
                round(&resources, &seen, interval, &mut failed);
            }
        };
        let thread =
            std::thread::Builder::new().name("views".into()).spawn(run).map_err(|error| {
                Error::new(Code::SystemError, format!("start the thread for view commits: {error}"))
            })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

/// Commits each view whose next attempt is due.
fn round(
    resources: &Resources,
    stop: &Stop,
    interval: Duration,
    failed: &mut BTreeMap<u64, Failed>,
) {
    let stopped = || stop.is_set();
    let numbers = resources.views.numbers();
    failed.retain(|number, _| numbers.contains(number));
    for number in numbers {
        if stopped() {
            return;
        }
        if failed.get(&number).is_some_and(|failed| Instant::now() < failed.again) {
            continue;
        }
        let drain = || {
            resources.views.drain_number(&*resources.store, number, &stopped)?;
            resources.views.tidy_number(number, &stopped)
        };
        let drained = catch_unwind(AssertUnwindSafe(drain)).unwrap_or_else(|_| {
            Err(Error::new(Code::Internal, "a commit of a view ended in a panic"))
        });
        match drained {
            Ok(()) => {
                failed.remove(&number);
            }
            Err(error) => {
                let longest = Duration::from_millis(VIEW_RETRY_MS_MAX).max(interval);
                let pause = failed.get(&number).map_or(interval, |failed| failed.pause * 2);
                let pause = pause.min(longest);
                let retry_ms = pause.as_millis() as u64;
                tracing::error!(view = number, %error, retry_ms, "a view could not be committed");
                failed.insert(number, Failed { pause, again: Instant::now() + pause });
            }
        }
    }
}

impl Stop {
    fn is_set(&self) -> bool {
        *self.stopped.lock().expect("only moves inside")
    }

    /// Waits until the next round is due. Returns whether the thread must stop.
    fn wait(&self, interval: Duration) -> bool {
        let stopped = self.stopped.lock().expect("only moves inside");
        let waited = self.changed.wait_timeout_while(stopped, interval, |stopped| !*stopped);
        *waited.expect("only moves inside").0
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        *self.stop.stopped.lock().expect("only moves inside") = true;
        self.stop.changed.notify_all();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the views ended in a panic");
        }
    }
}
