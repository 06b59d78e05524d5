//! `vctx eval`: how good the memory is, measured without a model against a running server, through its public tools alone.

mod archive;
mod background;
mod beam;
mod benchmarks;
mod bootstrap;
mod caller;
mod chart;
mod clusters;
mod command;
mod compare;
mod corpus;
mod facts;
mod goals;
mod host;
mod kv;
mod locomo;
mod measures;
mod nq;
mod pages;
mod pairs;
mod progress;
mod recall;
mod renamed;
mod report;
mod seeded;
mod stems;
mod survival;
mod tables;
mod tainted;
mod trained;
mod vectors;

pub use command::{Eval, run};
