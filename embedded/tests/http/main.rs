//! The HTTP front over a real socket: statuses and error numbers of ArangoDB 3.12.

mod cluster;
mod collections;
mod documents;
#[cfg(feature = "full-tests")]
mod drivers;
mod fuzz;
mod graphs;
mod hostile;
mod inserts;
#[cfg(not(feature = "conformance"))]
mod left_out;
mod permissions;
mod queries;
#[path = "../../src/random.rs"]
mod random;
mod read_only;
#[cfg(feature = "full-tests")]
mod recorded;
mod scenarios;
mod serve;
#[cfg(feature = "conformance")]
mod services;
mod transactions;
mod transport;
mod trust;
mod vectors;
mod views;
#[allow(dead_code, reason = "the scenarios use more of it")]
mod wire;
