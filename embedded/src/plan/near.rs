//! Checks those requirements of vector searches that the syntax tree shows and the finished plan
//! does not show.

use crate::compat::Release;
use crate::error::{Code, Error};
use crate::schema::Metric;
use crate::syntax::{Body, Expr, Statement};

/// Returns error 1554 with the reason why a query cannot use a vector index.
pub(super) fn not_applied(why: &str) -> Error {
    let text = Code::QueryVectorSearchNotApplied.text();
    Error::new(Code::QueryVectorSearchNotApplied, format!("{text}: {why}"))
}

/// Whether every sort by nearness has a form that a search in a vector index can replace. Such a
/// sort has one sort key, at most one `FILTER` before it (none in older releases), and a `LIMIT`
/// directly after it. The rule `use_vector_index` checks the other requirements on the plan's
/// nodes. A call such as `APPROX_NEAR_COSINE()` that no index answers fails at run time.
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

/// Whether an expression is a nearness call (such as `APPROX_NEAR_COSINE`), or a variable with the
/// value of such a call.
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
