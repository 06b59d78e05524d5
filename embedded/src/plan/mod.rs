//! Text becomes thought: a syntax tree, a schema and the shaping binds become a plan; rules improve it.

mod build;
mod compile;
mod explain;
mod node;
mod options;
mod rules;
mod scope;
mod search;

pub use build::plan;
pub use explain::explain;
pub use node::{
    Aggregate, Collect, Hint, Into, Lookup, Node, Pipeline, Place, Plan, Quantity, ScorerKind,
    Search, SearchCall, Used, UsedView, ViewScorer, Write, WriteKind,
};
pub use rules::writes;
