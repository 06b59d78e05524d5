//! The planner, which builds a query plan from a syntax tree, a schema and bind parameters, and
//! improves the plan with optimizer rules.

mod build;
mod collect;
mod compile;
mod condition;
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
mod search_geo;
mod shown;
mod shown_groups;
mod shown_loops;
mod shown_nodes;
mod traversal;
mod uses;
#[cfg(feature = "conformance")]
mod window;

pub use build::plan;
pub use condition::{AttributeRef, Quantity, Search, SearchCall};
pub use explain::explain;
pub use node::{
    Aggregate, BestRows, Bounds, Collect, Followed, Hint, Into, Lookup, NearVector, Node, Order,
    Pipeline, Plan, ScorerKind, Traversal, UniqueVertices, Used, UsedView, ViewScorer, ViewSource,
    Window, Write, WriteKind,
};
pub use rule_names::RULES;
pub use rules::writes;
pub use shown::{PlanView, shown, trail};
pub use traversal::{invalid_start, names_no_vertex};
#[cfg(feature = "conformance")]
pub use window::shifted;
