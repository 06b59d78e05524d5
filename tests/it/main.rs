//! Tests the server's promises with real processes, real sockets and real SIGKILLs; one module for
//! each promise.

#![allow(
    clippy::disallowed_methods,
    reason = "tests look at the clock and the environment themselves"
)]

mod chance;
mod count;
mod database;
mod features;
mod home;
mod honest;
mod isolation_cases;
mod keeper;
mod killer;
mod liar;
mod line;
mod misuse;
mod model;
mod needs;
mod outbound;
mod outside;
#[path = "../core/policy/provider.rs"]
mod provider;
mod proxy;
mod scripted;
mod shape;
mod standin;
mod storm;
mod strace;
mod talk;
#[path = "../house/tree.rs"]
mod tree;
mod truths;
mod wire;

mod archival;
mod archival_crash;
mod bad_input;
mod captured;
mod cells;
mod changes;
mod chaos;
#[cfg(feature = "full-tests")]
mod chaos_still;
mod cites;
mod clients;
mod config_show;
mod conservation;
mod contract;
mod contradicted;
mod conveyance;
mod crash;
mod demo;
mod demo_conversation;
mod described;
mod dialects;
mod disguised;
mod doctor;
mod doctor_lies;
mod documents;
mod doubled;
mod drift;
mod dropin;
mod durability;
mod embedder;
mod eval;
mod exported;
mod faults;
mod filters;
mod fixtures;
mod fleet;
mod forgotten;
mod fuzz;
mod fuzzed;
mod gone;
mod graph;
mod heartbeat;
mod hosted;
mod identifiers;
mod import;
mod isolation;
mod isolation_vectors;
mod labels;
mod leases;
mod ledger;
mod load;
mod matched;
mod mcp;
mod mcp_cached;
mod mcp_socket;
mod memories;
#[cfg(feature = "full-tests")]
mod memory_bounds;
mod month;
mod named_documents;
mod no_network;
mod one_effect;
mod one_transaction;
mod paired;
mod plans;
mod planted;
mod processor;
mod proof;
mod proxying;
mod proxying_faults;
mod races;
mod reach;
mod readme;
mod recall;
mod recall_queue;
mod refined;
mod reindex;
mod releases;
mod renewed;
mod repeats;
mod report;
mod retention;
mod serving;
mod setup;
mod signed;
mod steps;
mod strict;
mod tainted;
mod tamper;
mod ticks;
mod told;
mod tour;
mod trace_context;
mod traces;
mod trips;
mod uploads;
mod vectors;
mod withheld;
mod witnessed;
mod writable;
