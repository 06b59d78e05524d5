//! A closed loop: some clients, each with one call at a time, until the time or the count is over.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::Fault;

/// Calls of one client in one round at most, so that no queue of an agent comes near its window.
pub(crate) const CALLS_MAX: usize = 30_000;
/// Longest call that is recorded, in nanoseconds: a minute.
const NANOSECONDS_MAX: u64 = 60_000_000_000;

/// One call of a client: does it and tells how long it took; what only prepares is not in that time.
pub(crate) type Operation = Box<dyn FnMut() -> Result<Duration, Fault> + Send>;

/// What was measured, over all rounds.
pub(crate) struct Measured {
    /// Durations in nanoseconds.
    histogram: Histogram<u64>,
    /// Clients at once.
    clients: usize,
    /// Sum of all durations, over all clients.
    busy: Duration,
}

impl Measured {
    /// Nothing yet.
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

    /// Microseconds below which this share of the calls stayed.
    pub(crate) fn micros(&self, quantile: f64) -> f64 {
        self.histogram.value_at_quantile(quantile) as f64 / 1_000.0
    }

    /// Calls.
    pub(crate) fn calls(&self) -> u64 {
        self.histogram.len()
    }

    /// Calls a second: the clients were always busy, so their mean time says it.
    pub(crate) fn rate(&self) -> f64 {
        let busy = self.busy.as_secs_f64();
        if busy > 0.0 { self.calls() as f64 * self.clients as f64 / busy } else { 0.0 }
    }

    /// Runs all clients at once for this time and adds what they measured. The first fault ends it.
    pub(crate) fn run(&mut self, time: Duration, clients: Vec<Operation>) -> Result<(), Fault> {
        assert_eq!(clients.len(), self.clients, "a measure has its number of clients");
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
