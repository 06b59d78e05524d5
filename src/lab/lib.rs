//! The laboratory: demo, benchmarks, a scripted model and a page of figures. Serving needs none of it.

pub mod demo;
pub mod eval;
pub mod report;
pub mod scripted_model;
