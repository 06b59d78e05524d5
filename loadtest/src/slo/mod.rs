//! Service levels under an open loop: calls arrive at a fixed rate whether or not the ones before are answered, while writers run.

pub(crate) mod corpus;
mod open_loop;
mod report;
mod run;
mod scenario;
mod server;
mod vectors;

pub(crate) use run::run;
