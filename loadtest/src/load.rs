//! A closed loop: each client makes one call at a time, until a duration or a number of calls is
//! reached.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::Fault;

/// Maximum number of calls of one client in one round. With at most this number, no agent's queue
/// fills the window.
pub(crate) const CALLS_MAX: usize = 30_000;
/// Longest recorded duration, in nanoseconds: a minute.
const NANOSECONDS_MAX: u64 = 60_000_000_000;

/// A function that makes one call, and returns the call's duration without the time of its
/// preparation.
pub(crate) type Operation = Box<dyn FnMut() -> Result<Duration, Fault> + Send>;

/// Durations of the calls over all rounds.
pub(crate) struct Measured {
    /// Durations of the calls, in nanoseconds.
    histogram: Histogram<u64>,
    /// Number of parallel clients.
    clients: usize,
    /// Sum of the durations of all calls of all clients.
    busy: Duration,
}

impl Measured {
    /// Creates a `Measured` without any call, for the given number of clients.
    pub(crate) fn new(clients: usize) -> Self {
        let histogram =
            Histogram::new_with_bounds(1, NANOSECONDS_MAX, 3).expect("the bounds are in order");
        Self { histogram, clients, busy: Duration::ZERO }
    }

    fn record(&mut self, took: Duration) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(NANOSECONDS_MAX);
        self.histogram.saturating_record(nanoseconds.max(1));
        self.busy += took;
    }

    /// Returns a quantile of the call durations, in microseconds.
    pub(crate) fn micros(&self, quantile: f64) -> f64 {
        self.histogram.value_at_quantile(quantile) as f64 / 1_000.0
    }

    /// Returns the number of calls.
    pub(crate) fn calls(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the number of calls per second, over all clients. The clients were always busy, so
    /// the rate follows from the mean duration of a call.
    pub(crate) fn rate(&self) -> f64 {
        let busy = self.busy.as_secs_f64();
        if busy > 0.0 { self.calls() as f64 * self.clients as f64 / busy } else { 0.0 }
    }

    /// Runs all clients in parallel for the given time, and records the durations of their calls.
    /// The first failed call ends the measurement.
    pub(crate) fn run(&mut self, time: Duration, clients: Vec<Operation>) -> Result<(), Fault> {
        assert_eq!(clients.len(), self.clients, "one operation for each client");
        let start = Barrier::new(clients.len());
        let parts = thread::scope(|scope| {
            let start = &start;
            let running: Vec<_> = clients
                .into_iter()
                .map(|client| scope.spawn(move || one(client, time, start)))
                .collect();
            running
                .into_iter()
                .map(|client| client.join().map_err(|_| "a client panicked")?)
                .collect::<Result<Vec<Self>, Fault>>()
        })?;
        for part in parts {
            self.histogram.add(part.histogram).expect("all have the same bounds");
            self.busy += part.busy;
        }
        Ok(())
    }
}

fn one(mut client: Operation, time: Duration, start: &Barrier) -> Result<Measured, Fault> {
    let mut measured = Measured::new(1);
    start.wait();
    let until = Instant::now() + time;
    for _ in 0..CALLS_MAX {
        measured.record(client()?);
        if Instant::now() >= until {
            break;
        }
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_run_until_the_time_is_over_and_are_counted() {
        let mut measured = Measured::new(2);
        let client = || -> Operation { Box::new(|| Ok(Duration::from_micros(100))) };
        measured.run(Duration::from_millis(5), vec![client(), client()]).unwrap();
        assert!(measured.calls() >= 2 && measured.calls() <= 2 * CALLS_MAX as u64);
        assert!((measured.micros(0.5) - 100.0).abs() < 1.0);
        assert!((measured.rate() - 20_000.0).abs() < 200.0, "{}", measured.rate());
    }

    #[test]
    fn a_fault_ends_the_load() {
        let client: Operation = Box::new(|| Err("refused".into()));
        let fault = Measured::new(1).run(Duration::from_secs(1), vec![client]).unwrap_err();
        assert_eq!(fault.to_string(), "refused");
    }
}
