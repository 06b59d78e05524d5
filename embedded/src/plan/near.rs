//! The shape of a vector search as the text has it: what later steps cannot see any more is asked here.

use crate::compat::Release;
use crate::error::{Code, Error, Result};
use crate::schema::Metric;
use crate::syntax::{Body, Expr, Statement};

/// Error 1554 with its reason.
pub(super) fn not_applied(why: &str) -> Error {
    let text = Code::QueryVectorSearchNotApplied.text();
    Error::new(Code::QueryVectorSearchNotApplied, format!("{text}: {why}"))
}

/// 1554 for a sort by nearness with another key beside it, more than one `FILTER` before it, or no `LIMIT` right behind
/// it; whatever else is wrong with it shows in the nodes.
pub(super) fn check_text(body: &Body, release: Release) -> Result<()> {
    for (at, statement) in body.statements.iter().enumerate() {
        let Statement::Sort(keys) = statement else { continue };
        let before = &body.statements[..at];
        if !keys.iter().any(|(key, _)| is_near(key, before)) {
            continue;
        }
        if keys.len() != 1 {
            return Err(not_applied("the nearness has to be the only sort key"));
        }
        if !matches!(body.statements.get(at + 1), Some(Statement::Limit { .. })) {
            return Err(not_applied("LIMIT has to follow the SORT"));
        }
        let since = before.iter().rposition(|s| matches!(s, Statement::For { .. })).unwrap_or(0);
        let filters = before[since..].iter().filter(|s| matches!(s, Statement::Filter(_)));
        match filters.count() {
            0 => {}
            1 if release.vector_filter() => {}
            1 => return Err(not_applied("there may be no FILTER before 3.12.6")),
            _ => return Err(not_applied("there may be one FILTER at most")),
        }
    }
    Ok(())
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
