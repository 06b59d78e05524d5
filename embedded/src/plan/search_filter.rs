//! What a SEARCH asks that no index can answer: it is looked at document by document, behind the loop.

use super::node::{Node, Search};
use super::scope::Builder;
use super::search::{Context, PARTS_MAX};
use crate::error::{Code, Error, Result};
use crate::expr::{Expr, Register};
use crate::syntax::{self, Binary, Unary};

impl Builder<'_> {
    /// A condition as what the segments answer and what has to be looked at in each document they find. The server does so
    /// with every condition that asks more of a document than a path and a value; the parts of an AND can be told apart,
    /// those of an OR or a NOT only if all of them are of one kind (501).
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

    /// Whether the segments cannot answer a part, but a look at the document can.
    fn unanswered(&mut self, part: &syntax::Expr, context: &Context) -> Result<bool> {
        match self.search(part, context, None) {
            Ok(_) => Ok(false),
            Err(error) => self.looked_at(part, context, &error),
        }
    }

    /// A value that a SEARCH may compare with: nothing of the document; subqueries are answered before the loop.
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

    /// Whether a subquery of an expression may look at a variable.
    fn asks_inside(&self, value: &Expr, variable: Register) -> bool {
        value.subqueries().into_iter().any(|number| {
            self.plan.subqueries[number].nodes.iter().any(|node| {
                let asks = |inner: &&Expr| {
                    inner.registers().contains(&variable) || self.asks_inside(inner, variable)
                };
                // What a view's condition uses is not told.
                matches!(node, Node::EnumerateView { .. }) || node.expressions().iter().any(asks)
            })
        })
    }
}

/// The parts of a chain of ANDs.
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
