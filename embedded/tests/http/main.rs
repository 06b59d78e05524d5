//! The HTTP front over a real socket: statuses and error numbers as the facts about ArangoDB 3.12 state them.

mod cluster;
mod collections;
mod documents;
#[cfg(feature = "full-tests")]
mod drivers;
mod fuzz;
mod graphs;
mod hostile;
mod inserts;
mod permissions;
mod queries;
mod read_only;
#[cfg(feature = "full-tests")]
mod recorded;
mod scenarios;
mod serve;
mod services;
mod transactions;
mod transport;
mod trust;
mod vectors;
mod views;
#[allow(dead_code, reason = "the scenarios use more of it")]
mod wire;
