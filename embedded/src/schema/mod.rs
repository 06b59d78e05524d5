//! Plain definitions of what a database holds; loaded by the catalog, read by the planner; no behaviour.

mod definitions;

pub use definitions::{
    Analyzer, Collection, CollectionKind, Database, EdgeDefinition, Graph, Index, IndexKind,
    KeyGenerator, KeyOptions, Metric, Scaling, Sharding, Validation, ValidationLevel, VectorParams,
    View,
};
