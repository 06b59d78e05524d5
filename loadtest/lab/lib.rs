//! The laboratory: demo, benchmarks, a scripted model and an HTML report. The vctx server does not
//! depend on this crate.

pub mod demo;
pub mod eval;
pub mod report;
pub mod scripted_model;
