//! Text becomes thought: a syntax tree, a schema and the shaping binds become a plan; rules improve it.

mod build;
mod compile;
mod explain;
mod expr_tree;
mod near;
mod node;
mod options;
mod rule_names;
mod rules;
mod scope;
mod search;
mod search_filter;
mod shown;
mod shown_groups;
mod shown_loops;
mod shown_nodes;
mod traversal;
mod uses;
mod window;

pub use build::plan;
pub use explain::explain;
pub use node::{
    Aggregate, BestRows, Bounds, Collect, Followed, Hint, Into, Lookup, NearVector, Node, Order,
    Pipeline, Place, Plan, Quantity, ScorerKind, Search, SearchCall, Traversal, UniqueVertices,
    Used, UsedView, ViewScorer, ViewSource, Window, Write, WriteKind,
};
pub use rule_names::RULES;
pub use rules::writes;
pub use shown::{Showing, shown, trail};
pub use traversal::{invalid_start, names_no_vertex};
pub use window::shifted;
