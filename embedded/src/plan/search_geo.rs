//! Compiles geo functions in the condition of a SEARCH.

use super::compile::unknown_function;
use super::condition::Search;
use super::scope::Builder;
use super::search::Context;
use crate::error::{Code, Error, Result};
use crate::expr::Expr;
use crate::functions::left_out;
use crate::syntax::{self, Binary, Name};

impl Builder<'_> {
    /// Compiles a comparison of `GEO_DISTANCE` with a bound.
    pub(super) fn distance(
        &mut self,
        expr: &syntax::Expr,
        operator: Binary,
        call: &syntax::Expr,
        bound: &syntax::Expr,
        context: &Context,
        analyzer: Option<&Expr>,
    ) -> Result<Search> {
        let syntax::Expr::Call(name, arguments) = call else {
            return Err(Error::of(Code::Internal));
        };
        if left_out(name) {
            return Err(unknown_function(name));
        }
        match self.geo(name, arguments, Some((operator, bound)), context, analyzer)? {
            Some(search) => Ok(search),
            None => self.comparison_of(expr, context, analyzer),
        }
    }

    /// Compiles a geo function whose first or second argument is a path of the document. Returns
    /// `None` if neither argument is a path.
    pub(super) fn geo(
        &mut self,
        name: &Name,
        arguments: &[syntax::Expr],
        bound: Option<(Binary, &syntax::Expr)>,
        context: &Context,
        analyzer: Option<&Expr>,
    ) -> Result<Option<Search>> {
        let mut at = None;
        for (number, argument) in arguments.iter().take(2).enumerate() {
            if self.is_of(std::slice::from_ref(argument), context)? {
                at = at.or(Some(number));
            }
        }
        let Some(at) = at else { return Ok(None) };
        let allowed =
            [Binary::Less, Binary::LessEqual, Binary::Greater, Binary::GreaterEqual, Binary::Equal];
        if let Some((operator, _)) = bound.filter(|(operator, _)| !allowed.contains(operator)) {
            return Err(Error::unsupported(format!("{name}() with {operator} in SEARCH")));
        }
        let place = self.place(&arguments[at], context, analyzer)?;
        let others = arguments.iter().enumerate().filter(|(number, _)| *number != at);
        let arguments = others.map(|(_, argument)| self.operand(argument, context));
        let arguments = arguments.collect::<Result<_>>()?;
        let bound = bound
            .map(|(operator, bound)| Ok((operator, self.operand(bound, context)?)))
            .transpose()?;
        Ok(Some(Search::Geo { name: Name::clone(name), place, at, arguments, bound }))
    }
}
