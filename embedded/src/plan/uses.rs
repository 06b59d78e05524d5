//! Finds the attributes of a loop's documents that a plan uses, so that a loop whose index contains
//! them need not read documents.

use super::expr_tree::attribute_path;
use super::node::{Node, Plan, WriteKind};
use crate::expr::{Expr, Register};
use crate::schema::IndexKind;

/// Maximum number of attributes that a loop reads instead of the whole document (`maxProjections`).
pub(super) const PROJECTIONS_MAX: usize = 5;

/// The attributes of a loop's documents that a plan uses.
pub(super) struct Used {
    out: Register,
    /// Whether the whole document is used.
    pub whole: bool,
    /// The document's used attributes, without duplicates.
    pub paths: Vec<Vec<String>>,
}

impl Used {
    /// Creates a value without used attributes, for the documents in the register `out`.
    pub(super) fn new(out: Register) -> Self {
        Self { out, whole: false, paths: Vec::new() }
    }

    fn add(&mut self, path: Vec<String>) {
        if !self.paths.contains(&path) {
            self.paths.push(path);
        }
    }

    /// Adds the document attributes that an expression uses.
    pub(super) fn read(&mut self, expr: &Expr) {
        let mut inside = 0;
        let mut found = Vec::new();
        let (out, whole) = (self.out, &mut self.whole);
        expr.walk(&mut |e| {
            if inside > 0 {
                // This path is skipped, because it is the beginning of a path that is already
                // recorded.
                inside -= 1;
                return;
            }
            match (e, attribute_path(e)) {
                (_, Some((register, path))) if register == out => {
                    inside = path.len();
                    found.push(path);
                }
                (Expr::Register(register), _) if *register == out => *whole = true,
                _ => {}
            }
        });
        found.into_iter().for_each(|path| self.add(path));
    }

    fn node(&mut self, node: &Node) {
        // A modification uses only the key of the document that it removes or changes.
        let key = match node {
            Node::Write(write) if write.options.ignore_revs => match &write.kind {
                WriteKind::Remove { key } => Some(key),
                WriteKind::Change { key, patch: Some(_), .. } => Some(key),
                _ => None,
            },
            _ => None,
        };
        for expression in node.expressions() {
            let by_key = key.is_some_and(|key| std::ptr::eq(key, expression));
            match expression {
                Expr::Register(register) if by_key && *register == self.out => {
                    self.add(vec!["_key".to_owned()]);
                }
                other => self.read(other),
            }
        }
        // A view's search condition may use the document, but `expressions` does not return this
        // condition.
        self.whole |= matches!(node, Node::EnumerateView { .. });
    }
}

/// Returns the attributes of a loop's documents that the plan uses outside of the filters listed in
/// `beside`. Returns `None` if the whole document or too many attributes are used.
pub(super) fn attributes(plan: &Plan, out: Register, beside: &[&Expr]) -> Option<Vec<Vec<String>>> {
    let mut used = Used::new(out);
    let pipelines = std::iter::once(&plan.root).chain(&plan.subqueries);
    for node in pipelines.flat_map(|pipeline| &pipeline.nodes) {
        let is_beside = matches!(node, Node::Filter(condition) if beside.iter().any(|b| std::ptr::eq(*b, condition)));
        if !is_beside {
            used.node(node);
        }
    }
    (!used.whole && used.paths.len() <= PROJECTIONS_MAX).then_some(used.paths)
}

/// Records in [`Plan::covered`] the loops that need not read documents, because their index
/// contains all used attributes or only the key is used.
pub(super) fn note_covered(plan: &mut Plan) {
    let pipelines = std::iter::once(&plan.root).chain(&plan.subqueries);
    let mut covered = Vec::new();
    for node in pipelines.flat_map(|pipeline| &pipeline.nodes) {
        let (out, fields) = match node {
            Node::EnumerateCollection { out, .. } => (*out, None),
            Node::Index { out, lookup, .. } => (*out, Some(lookup)),
            _ => continue,
        };
        let Some(paths) = attributes(plan, out, &[]) else { continue };
        let is_key = |path: &Vec<String>| path.len() == 1 && matches!(&*path[0], "_key" | "_id");
        let holds = |path: &Vec<String>| match fields {
            Some(lookup) if lookup.index.kind == IndexKind::Primary => is_key(path),
            Some(lookup) => lookup.index.fields.contains(path),
            None => is_key(path),
        };
        let counts = fields.is_some() || !paths.is_empty();
        if counts && paths.iter().all(holds) {
            covered.push(out);
        }
    }
    plan.covered = covered;
}
