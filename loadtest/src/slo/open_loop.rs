//! Starts calls on a fixed timetable. Measures the duration of a call from the time at which the
//! call was due, so that the duration includes the wait of calls that were due during a stall
//! (coordinated omission).

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::Fault;

/// Longest recorded duration, in microseconds: two minutes.
const MICROSECONDS_MAX: u64 = 120_000_000;
/// Maximum delay with which a call may start; a longer delay ends the run, because the machine
/// cannot reach the call rate.
const LATE_MAX: Duration = Duration::from_secs(30);
/// Maximum number of calls in the timetable of one run.
const ARRIVALS_MAX: u64 = 5_000_000;
/// Maximum number of failed calls that the report describes; the report counts all of them.
const FAULTS_SHOWN: usize = 3;

/// A function that makes the call with the given number in the timetable.
pub(crate) type Sender = Box<dyn FnMut(u64) -> Result<(), Fault> + Send>;

/// The measured results of all calls of one timetable.
pub(crate) struct Outcome {
    /// Durations from the due time of a call to the answer, in microseconds.
    pub(crate) due: Histogram<u64>,
    /// Durations from the sending of a call to its answer, in microseconds. A closed loop would
    /// measure these durations.
    pub(crate) sent: Histogram<u64>,
    /// Number of calls that failed.
    pub(crate) failed: u64,
    /// Descriptions of the first failed calls.
    pub(crate) faults: Vec<String>,
    /// Number of due calls per second, and number of completed calls per second.
    pub(crate) rate: (f64, f64),
    /// Whether the run ended early because calls started too late.
    pub(crate) overrun: bool,
}

impl Outcome {
    /// Returns a quantile of the durations from due time to answer, in milliseconds.
    pub(crate) fn milliseconds(&self, quantile: f64) -> f64 {
        self.due.value_at_quantile(quantile) as f64 / 1_000.0
    }

    /// Returns the number of answered calls.
    pub(crate) fn answered(&self) -> u64 {
        self.due.len()
    }
}

struct Shared {
    next: AtomicU64,
    arrivals: u64,
    began: Instant,
    gap: Duration,
    overrun: AtomicU64,
    faults: Mutex<Vec<String>>,
}

struct Part {
    due: Histogram<u64>,
    sent: Histogram<u64>,
    failed: u64,
}

/// Runs a timetable of `rate` calls per second, distributed over all senders.
pub(crate) fn run(rate: f64, time: Duration, senders: Vec<Sender>) -> Result<Outcome, Fault> {
    let arrivals = (rate * time.as_secs_f64()).ceil() as u64;
    if arrivals == 0 || arrivals > ARRIVALS_MAX {
        return Err(format!("{arrivals} arrivals: use 1 to {ARRIVALS_MAX}").into());
    }
    let shared = Shared {
        next: AtomicU64::new(0),
        arrivals,
        began: Instant::now(),
        gap: Duration::from_secs_f64(1.0 / rate),
        overrun: AtomicU64::new(0),
        faults: Mutex::new(Vec::new()),
    };
    let parts = thread::scope(|scope| {
        let shared = &shared;
        let running: Vec<_> =
            senders.into_iter().map(|sender| scope.spawn(move || one(shared, sender))).collect();
        running
            .into_iter()
            .map(|sender| Ok(sender.join().map_err(|_| "a sender panicked")?))
            .collect::<Result<Vec<Part>, Fault>>()
    })?;
    let took = shared.began.elapsed().as_secs_f64();
    let (mut due, mut sent, mut failed) = (histogram(), histogram(), 0);
    for part in parts {
        due.add(part.due).expect("all have the same bounds");
        sent.add(part.sent).expect("all have the same bounds");
        failed += part.failed;
    }
    let done = due.len() as f64 / took.max(f64::MIN_POSITIVE);
    let overrun = shared.overrun.load(Ordering::Relaxed) > 0;
    let faults = shared.faults.into_inner().map_err(|_| "a sender panicked")?;
    Ok(Outcome { due, sent, failed, faults, rate: (rate, done), overrun })
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MICROSECONDS_MAX, 3).expect("the bounds are in order")
}

fn one(shared: &Shared, mut sender: Sender) -> Part {
    let mut part = Part { due: histogram(), sent: histogram(), failed: 0 };
    loop {
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        if number >= shared.arrivals || shared.overrun.load(Ordering::Relaxed) > 0 {
            return part;
        }
        let due = shared.began + shared.gap.mul_f64(number as f64);
        let now = Instant::now();
        if let Some(wait) = due.checked_duration_since(now) {
            thread::sleep(wait);
        } else if now - due > LATE_MAX {
            shared.overrun.store(1, Ordering::Relaxed);
            return part;
        }
        let sent = Instant::now();
        match sender(number) {
            Ok(()) => {
                let micros = |since: Instant| since.elapsed().as_micros().max(1) as u64;
                part.due.saturating_record(micros(due.min(sent)));
                part.sent.saturating_record(micros(sent));
            }
            Err(fault) => {
                part.failed += 1;
                let mut faults =
                    shared.faults.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if faults.len() < FAULTS_SHOWN {
                    faults.push(fault.to_string());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_after_a_stall_are_timed_from_when_they_were_due() {
        let sender: Sender = Box::new(|number| {
            if number == 0 {
                thread::sleep(Duration::from_millis(200));
            }
            Ok(())
        });
        let outcome = run(100.0, Duration::from_millis(300), vec![sender]).unwrap();
        assert_eq!((outcome.answered(), outcome.failed, outcome.overrun), (30, 0, false));
        // Calls that were due during a stall of the server had to wait for the end of the stall.
        // Durations from the time of sending do not contain this wait.
        let waited = outcome.due.count_between(20_000, MICROSECONDS_MAX);
        let slow = outcome.sent.count_between(20_000, MICROSECONDS_MAX);
        assert!(waited > slow, "{waited} {slow}");
    }

    #[test]
    fn faults_are_counted_and_the_first_are_kept() {
        let sender: Sender = Box::new(|number| match number % 2 {
            0 => Err(format!("no {number}").into()),
            _ => Ok(()),
        });
        let outcome = run(1_000.0, Duration::from_millis(10), vec![sender]).unwrap();
        assert_eq!((outcome.failed, outcome.answered()), (5, 5));
        assert_eq!(outcome.faults, ["no 0", "no 2", "no 4"]);
        assert!(run(0.0, Duration::from_secs(1), Vec::new()).is_err());
    }
}
