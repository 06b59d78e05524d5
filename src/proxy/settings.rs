//! What an operator may set of a proxy: how much at once, and how long anything waits.

use serde::{Deserialize, Serialize};

use vctx_core::limits::{PROXY_IN_FLIGHT, PROXY_MS, PROXY_WAITING};

/// How much a proxy takes at once and how long it waits.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Requests that the database works on at once.
    pub in_flight_max: usize,
    /// Requests that wait for their turn; one more is answered 503.
    pub waiting_max: usize,
    /// Longest wait for its turn, in milliseconds.
    pub wait_ms: u64,
    /// Longest wait for the beginning of an answer, in milliseconds.
    pub answer_ms: u64,
    /// Longest wait for a database that does not listen, in milliseconds.
    pub upstream_ms: u64,
    /// Longest body that must be looked into before it goes on, in bytes.
    pub query_bytes_max: usize,
}

impl Settings {
    /// What is wrong with them.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut within = |name: &str, value: u64, (least, most): (u64, u64)| {
            if !(least..=most).contains(&value) {
                faults.push(format!("proxy.{name}: use {least} to {most}"));
            }
        };
        within("in_flight_max", self.in_flight_max as u64, PROXY_IN_FLIGHT);
        within("waiting_max", self.waiting_max as u64, PROXY_WAITING);
        for (name, value) in [
            ("wait_ms", self.wait_ms),
            ("answer_ms", self.answer_ms),
            ("upstream_ms", self.upstream_ms),
        ] {
            within(name, value, PROXY_MS);
        }
        within(
            "query_bytes_max",
            self.query_bytes_max as u64,
            vctx_core::limits::PROXY_QUERY_BYTES,
        );
        faults
    }
}
