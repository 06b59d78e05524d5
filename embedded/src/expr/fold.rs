//! Constant folding: replaces an expression over constants by its value, and records the
//! expression's warnings once.

use super::eval::{Host, eval};
use super::expr::{DataCall, Expr, ObjectKey, Quantifier};
use super::memory::Memory;
use crate::error::{Code, Error, Result};
use crate::functions::Warnings;
use crate::syntax::Binary;
use crate::value::Value;

/// Maximum size of a folded value in bytes; a larger value is computed when the query runs.
const FOLDED_BYTES_MAX: usize = 64 * 1024;

/// Folds an expression whose operands are already folded, and records its warnings. Returns an
/// error if a call with constant arguments fails.
pub fn fold(expr: Expr, warnings: &mut Vec<(Code, String)>) -> Result<Expr> {
    if let Expr::Ternary(condition, yes, no) = expr {
        return Ok(match (*condition, yes) {
            (Expr::Const(value), Some(yes)) => *if value.is_true() { yes } else { no },
            (Expr::Const(value), None) => {
                if value.is_true() {
                    Expr::Const(value)
                } else {
                    *no
                }
            }
            (condition, yes) => Expr::Ternary(Box::new(condition), yes, no),
        });
    }
    if !foldable(&expr) {
        return Ok(expr);
    }
    let mut host = NoHost(Warnings::default(), Memory::of_an_expression());
    match eval(&expr, &mut Vec::new(), &[], &mut host) {
        Ok(value) if value.size_bytes() <= FOLDED_BYTES_MAX => {
            warnings.append(&mut host.0.kept);
            Ok(Expr::Const(value))
        }
        Err(error) if matches!(expr, Expr::Call(..)) => Err(error),
        _ => Ok(expr),
    }
}

/// Returns the value of an expression over constants and bind parameters, or `None` for any other
/// expression and for an error. Also returns `None` for a range, which is never expanded to a list
/// here.
pub fn known(expr: &Expr, binds: &[Value]) -> Option<Value> {
    if matches!(expr, Expr::Binary(Binary::Range, ..)) || !expr.is_free() {
        return None;
    }
    let warnings = Warnings { max: 0, ..Warnings::default() };
    let mut host = NoHost(warnings, Memory::of_an_expression());
    eval(expr, &mut vec![Value::Null; items_of_expansions(expr)], binds, &mut host).ok()
}

/// Returns the minimum length of a row for the expression: the row needs a register for the current
/// item of each expansion (`[*]`) and each question (`[?]`). An expansion writes this register even
/// if no part of the expression reads it.
fn items_of_expansions(expr: &Expr) -> usize {
    let mut length = 0;
    expr.walk(&mut |part| match part {
        Expr::Expansion(expansion) => length = length.max(expansion.current + 1),
        Expr::Question(question) => length = length.max(question.current + 1),
        _ => {}
    });
    length
}

fn foldable(expr: &Expr) -> bool {
    let constant = |e: &Expr| matches!(e, Expr::Const(_));
    match expr {
        Expr::Attribute(base, _) | Expr::Not(base) | Expr::Negate(base) | Expr::Number(base) => {
            constant(base)
        }
        Expr::Binary(Binary::Range, ..) => false,
        Expr::Index(a, b) | Expr::Binary(_, a, b) => constant(a) && constant(b),
        Expr::Quantified(quantifier, _, a, b) => {
            let count = match &**quantifier {
                Quantifier::AtLeast(n) | Quantifier::Exactly(n) => constant(n),
                _ => true,
            };
            count && constant(a) && constant(b)
        }
        Expr::Array(items) => items.iter().all(constant),
        Expr::Object(entries) => {
            entries.iter().all(|(key, value)| matches!(key, ObjectKey::Name(_)) && constant(value))
        }
        Expr::Call(function, arguments) => function.foldable && arguments.iter().all(constant),
        _ => false,
    }
}

/// The host for constant expressions. It refuses all calls that read data, because constant
/// expressions contain none.
struct NoHost(Warnings, Memory);

impl Host for NoHost {
    fn warnings(&mut self) -> &mut Warnings {
        &mut self.0
    }

    fn memory(&mut self) -> &mut Memory {
        &mut self.1
    }

    fn subquery(&mut self, _: usize, _: &mut Vec<Value>) -> Result<Value> {
        Err(Error::of(Code::Internal))
    }

    fn data(&mut self, _: DataCall, _: &[Value]) -> Result<Value> {
        Err(Error::of(Code::Internal))
    }
}
