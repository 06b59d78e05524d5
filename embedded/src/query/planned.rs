//! A plan in the hands of others: whether it still holds, and what may be said of it.

use std::sync::Arc;

use super::cache;
use crate::expr::Expr;
use crate::plan::{Node, Plan};
use crate::schema::Database;
use crate::value::{Object, Value};

/// The plan of a prepared query.
#[derive(Clone, Debug)]
pub struct Planned(pub(super) Arc<Plan>);

impl Planned {
    /// Whether both are the same plan, not only of the same text.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether nothing that it was made with has changed.
    pub fn holds(&self, database: &Database) -> bool {
        let binds: Object = self
            .0
            .structural
            .iter()
            .map(|(name, value)| (name.as_str().into(), value.clone()))
            .collect();
        cache::holds(&self.0, database, &binds)
    }

    /// Whether ArangoDB would keep it for `usePlanCache`: no bind but those of collections shapes it, none is a limit,
    /// it has no UPSERT, and nothing is to be warned of.
    pub fn may_be_kept(&self) -> bool {
        let collections_only = self.0.structural.iter().all(|(name, _)| name.starts_with('@'));
        let pipelines = [&self.0.root].into_iter().chain(&self.0.subqueries);
        let plain = |node: &Node| match node {
            Node::Limit { offset, count } => {
                ![offset, count].iter().any(|e| matches!(e, Expr::Bind(_)))
            }
            other => other.type_name() != "UpsertNode",
        };
        collections_only
            && self.0.warnings.is_empty()
            && pipelines.flat_map(|pipeline| &pipeline.nodes).all(plain)
    }

    /// Names of the collections and views it reads or writes.
    pub fn sources(&self) -> Vec<String> {
        let collections = self.0.collections.iter().map(|used| used.collection.name.clone());
        let mut names: Vec<String> =
            collections.chain(self.0.views.iter().map(|used| used.view.name.clone())).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The binds that name collections, with their values.
    pub fn collection_binds(&self) -> Value {
        let mut binds = Object::new();
        for (name, value) in self.0.structural.iter().filter(|(name, _)| name.starts_with('@')) {
            binds.insert(name.as_str(), value.clone());
        }
        Value::object(binds)
    }
}
