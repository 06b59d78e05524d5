//! The shape of a vector search as the text has it: what later steps cannot see any more is asked here.

use crate::compat::Release;
use crate::error::{Code, Error};
use crate::schema::Metric;
use crate::syntax::{Body, Expr, Statement};

/// Error 1554 with its reason.
pub(super) fn not_applied(why: &str) -> Error {
    let text = Code::QueryVectorSearchNotApplied.text();
    Error::new(Code::QueryVectorSearchNotApplied, format!("{text}: {why}"))
}

/// Whether an index may serve the sorts by nearness of a text: not with another key beside the nearness, more than one
/// `FILTER` before it, or no `LIMIT` right behind it. Whatever else is wrong with them shows in the nodes. What no index
/// serves fails when it runs.
pub(super) fn may_use_index(body: &Body, release: Release) -> bool {
    body.statements.iter().enumerate().all(|(at, statement)| {
        let Statement::Sort(keys) = statement else { return true };
        let before = &body.statements[..at];
        if !keys.iter().any(|(key, _)| is_near(key, before)) {
            return true;
        }
        let since = before.iter().rposition(|s| matches!(s, Statement::For { .. })).unwrap_or(0);
        let filters = before[since..].iter().filter(|s| matches!(s, Statement::Filter(_))).count();
        keys.len() == 1
            && matches!(body.statements.get(at + 1), Some(Statement::Limit { .. }))
            && filters <= usize::from(release.vector_filter())
    })
}

/// Whether an expression is a call that tells nearness, or a variable that holds one.
fn is_near(expr: &Expr, before: &[Statement]) -> bool {
    match expr {
        Expr::Call(name, _) => Metric::ALL.iter().any(|metric| metric.function() == &**name),
        Expr::Name(name) => before.iter().enumerate().any(|(at, statement)| match statement {
            Statement::Let { name: made, value } => made == name && is_near(value, &before[..at]),
            _ => false,
        }),
        _ => false,
    }
}
