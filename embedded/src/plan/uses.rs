//! Which attributes of a loop's documents a plan uses: what an index holds of them need not be read from the document.

use super::expr_tree::attribute_path;
use super::node::{Node, Plan, WriteKind};
use crate::expr::{Expr, Register};
use crate::schema::IndexKind;

/// Attributes of a document that are read apart from it at most (`maxProjections`).
pub(super) const PROJECTIONS_MAX: usize = 5;

/// What of a document is used.
pub(super) struct Used {
    out: Register,
    /// Whether it is used whole.
    pub whole: bool,
    /// Its attributes that are used, each once.
    pub paths: Vec<Vec<String>>,
}

impl Used {
    /// Nothing so far of the documents in that register.
    pub(super) fn new(out: Register) -> Self {
        Self { out, whole: false, paths: Vec::new() }
    }

    fn add(&mut self, path: Vec<String>) {
        if !self.paths.contains(&path) {
            self.paths.push(path);
        }
    }

    /// Adds what an expression uses.
    pub(super) fn read(&mut self, expr: &Expr) {
        let mut inside = 0;
        let mut found = Vec::new();
        let (out, whole) = (self.out, &mut self.whole);
        expr.walk(&mut |e| {
            if inside > 0 {
                // Below a path that is counted already.
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
        // A document that says which one to change is asked for its key.
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
        // What a view's condition uses is not told.
        self.whole |= matches!(node, Node::EnumerateView { .. });
    }
}

/// The attributes by which the documents of a loop are used everywhere but in these filters; none if they are used whole.
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

/// Finds the loops whose index holds all that is used of a document, and those that need no more than its key.
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
