//! Text becomes thought: a syntax tree, a schema and the shaping binds become a plan; rules improve it.

mod build;
mod compile;
mod explain;
mod near;
mod node;
mod options;
mod rules;
mod scope;

pub use build::plan;
pub use explain::explain;
pub use node::{
    Aggregate, Collect, Hint, Into, Lookup, NearVector, Node, Pipeline, Plan, Used, Write,
    WriteKind,
};
pub use rules::writes;
