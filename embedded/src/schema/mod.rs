//! Definitions of databases, collections, indexes and views as plain data types, which the catalog
//! loads and the planner reads.

mod definitions;

pub use definitions::{
    Analyzer, Collection, CollectionKind, Database, EdgeDefinition, Graph, Index, IndexKind,
    KeyGenerator, KeyOptions, Metric, Scaling, Sharding, Validation, ValidationLevel, VectorParams,
    View,
};
