//! Settings of a proxy for operators: number of concurrent requests, and time limits.

use serde::{Deserialize, Serialize};

/// Minimum and maximum of `proxy.in_flight_max`. For comparison, the embedded engine has 128
/// threads for requests; arangod has a configured number of threads.
const PROXY_IN_FLIGHT: (u64, u64) = (1, 4_096);
/// Minimum and maximum of `proxy.waiting_max`.
const PROXY_WAITING: (u64, u64) = (0, 65_536);
/// Minimum and maximum of a proxy's time limits, in milliseconds.
const PROXY_MS: (u64, u64) = (10, 600_000);
/// Minimum and maximum of `proxy.query_bytes_max`.
const PROXY_QUERY_BYTES: (u64, u64) = (1_024, 128 * 1024 * 1024);

/// Minimum and maximum of `proxy.query_memory_bytes`.
const PROXY_QUERY_MEMORY_BYTES: (u64, u64) = (1 << 20, 1 << 40);

/// Limits of a proxy on concurrent requests and on waiting times.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Maximum number of concurrent requests to the database.
    pub in_flight_max: usize,
    /// Maximum number of requests that wait for a permit; any further request gets the status 503.
    pub waiting_max: usize,
    /// Maximum time that a request waits for a permit, in milliseconds.
    pub wait_ms: u64,
    /// Maximum time until the first byte of an answer arrives, in milliseconds.
    pub answer_ms: u64,
    /// Maximum time that a request waits for a database that does not listen, in milliseconds.
    pub upstream_ms: u64,
    /// Maximum size in bytes of a body that the proxy must check before it forwards the body.
    pub query_bytes_max: usize,
    /// Maximum memory of a query on the read-only socket, in bytes.
    pub query_memory_bytes: u64,
    /// Maximum run time of a query on the read-only socket, in milliseconds.
    pub query_ms: u64,
}

impl Settings {
    /// Returns descriptions of the invalid settings.
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
            ("query_ms", self.query_ms),
        ] {
            within(name, value, PROXY_MS);
        }
        within("query_bytes_max", self.query_bytes_max as u64, PROXY_QUERY_BYTES);
        within("query_memory_bytes", self.query_memory_bytes, PROXY_QUERY_MEMORY_BYTES);
        faults
    }
}
