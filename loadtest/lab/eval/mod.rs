//! `vctx eval`: measures the memory with benchmarks, without a model, through the public tools.

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
mod contexts;
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
mod saved_run;
mod stems;
mod survival;
mod tables;
mod tainted;
mod trained;
mod vectors;

pub use command::{Eval, run};
