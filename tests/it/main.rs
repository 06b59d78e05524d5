//! The promises of the server, shown on real processes, real sockets and real SIGKILLs; one module for each promise.

#![allow(
    clippy::disallowed_methods,
    reason = "tests look at the clock and the environment themselves"
)]

mod chance;
mod count;
mod database;
mod home;
mod line;
mod model;
mod proxy;
mod strace;
mod talk;
mod wire;

mod archival;
mod bad_input;
mod conservation;
mod contract;
mod crash;
mod durability;
mod faults;
mod fuzz;
mod heartbeat;
mod load;
mod mcp;
mod no_network;
mod one_transaction;
mod races;
mod setup;
mod tamper;
mod trips;
