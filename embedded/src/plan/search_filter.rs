//! Plans the parts of a SEARCH that no index can answer, as filters after the loop.

use super::condition::Search;
use super::node::Node;
use super::scope::Builder;
use super::search::{Context, PARTS_MAX};
use crate::error::{Code, Error, Result};
use crate::expr::{Expr, Register};
use crate::syntax::{self, Binary, Unary};

impl Builder<'_> {
    /// Splits a search condition into a part that the view's segments answer, and filters that are
    /// computed for each document. The filters are the conditions that do not compare a path with a
    /// value; ArangoDB also computes these for each document. An AND can be split, but an OR or a
    /// NOT that needs both segments and documents is refused with error 9.
    pub(super) fn answered(
        &mut self,
        search: &syntax::Expr,
        context: &Context,
    ) -> Result<(Search, Vec<Expr>)> {
        let mut parts = Vec::new();
        conjuncts(search, &mut parts);
        if parts.len() > PARTS_MAX {
            return Err(Error::of(Code::ResourceLimit));
        }
        let (mut found, mut filters) = (Vec::new(), Vec::new());
        for part in parts {
            match self.search(part, context, None) {
                Ok(search) => found.push(search),
                Err(error) => match self.looked_at(part, context, &error)? {
                    true => filters.push(self.expression(part)?),
                    false => return Err(error),
                },
            }
        }
        let search = if found.len() == 1 { found.remove(0) } else { Search::And(found) };
        Ok((search, filters))
    }

    /// Whether a condition that the segments cannot answer can be computed from the document.
    fn looked_at(&mut self, part: &syntax::Expr, context: &Context, error: &Error) -> Result<bool> {
        if error.code != Code::NotImplemented {
            return Ok(false);
        }
        match part {
            syntax::Expr::Group(inner) | syntax::Expr::Unary(Unary::Not, inner) => {
                self.unanswered(inner, context)
            }
            syntax::Expr::Binary(Binary::And | Binary::Or, a, b) => {
                Ok(self.unanswered(a, context)? && self.unanswered(b, context)?)
            }
            leaf => match self.expression(leaf) {
                Ok(value) => Ok(!self.asks_inside(&value, context.document)),
                Err(error) if error.code == Code::NotImplemented => Ok(false),
                Err(error) => Err(error),
            },
        }
    }

    /// Whether the segments cannot answer a part of a condition, but the part can be computed from
    /// the document.
    fn unanswered(&mut self, part: &syntax::Expr, context: &Context) -> Result<bool> {
        match self.search(part, context, None) {
            Ok(_) => Ok(false),
            Err(error) => self.looked_at(part, context, &error),
        }
    }

    /// Checks a value that a SEARCH compares with attributes: the value must not depend on the
    /// searched document. A value with subqueries is computed before the loop.
    pub(super) fn checked(&mut self, value: Expr, context: &Context) -> Result<Expr> {
        if value.registers().contains(&context.document) {
            return Err(Error::unsupported("computing with attributes of the document in SEARCH"));
        }
        if value.subqueries().is_empty() {
            return Ok(value);
        }
        if context.strict || self.asks_inside(&value, context.document) {
            return Err(Error::unsupported("a subquery in SEARCH that needs the document"));
        }
        let out = self.register("search")?;
        self.hoisted.push(Node::Calculation { value, out });
        Ok(Expr::Register(out))
    }

    /// Whether an expression contains a subquery that may read a variable.
    fn asks_inside(&self, value: &Expr, variable: Register) -> bool {
        value.subqueries().into_iter().any(|number| {
            self.plan.subqueries[number].nodes.iter().any(|node| {
                let asks = |inner: &&Expr| {
                    inner.registers().contains(&variable) || self.asks_inside(inner, variable)
                };
                // A view's search condition may read the variable, but `expressions` does not
                // return this condition.
                matches!(node, Node::EnumerateView { .. }) || node.expressions().iter().any(asks)
            })
        })
    }
}

/// Collects the operands of a chain of ANDs.
fn conjuncts<'a>(expr: &'a syntax::Expr, out: &mut Vec<&'a syntax::Expr>) {
    match expr {
        syntax::Expr::Group(inner) => conjuncts(inner, out),
        syntax::Expr::Binary(Binary::And, a, b) => {
            conjuncts(a, out);
            conjuncts(b, out);
        }
        other => out.push(other),
    }
}

/// Mirrors a comparison operator, because `5 < d.x` means `d.x > 5`.
pub(super) fn mirrored(operator: Binary) -> Result<Binary> {
    Ok(match operator {
        Binary::Less => Binary::Greater,
        Binary::LessEqual => Binary::GreaterEqual,
        Binary::Greater => Binary::Less,
        Binary::GreaterEqual => Binary::LessEqual,
        Binary::Equal | Binary::NotEqual => operator,
        // `value IN d.x` means that an item of the list `d.x` equals the value.
        Binary::In => Binary::Equal,
        Binary::NotIn => Binary::NotEqual,
        other => return Err(Error::unsupported(format!("the operator {other:?} in SEARCH"))),
    })
}
