//! Text becomes thought: a syntax tree, a schema and the shaping binds become a plan; rules improve it.

mod build;
mod compile;
mod explain;
mod near;
mod node;
mod options;
mod rules;
mod scope;
mod traversal;

pub use build::plan;
pub use explain::explain;
pub use node::{
    Aggregate, Collect, Followed, Hint, Into, Lookup, NearVector, Node, Order, Pipeline, Plan,
    Traversal, UniqueVertices, Used, Write, WriteKind,
};
pub use rules::writes;
