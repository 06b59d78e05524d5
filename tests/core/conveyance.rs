//! Tests of Conveyance: events, inputs, terms and report.

mod events;
mod formula;
mod inputs;
mod report;
mod times;
