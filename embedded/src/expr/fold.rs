//! Constant folding: an expression over constants becomes its value; its warnings are told once.

use super::eval::{Host, eval};
use super::expr::{DataCall, Expr, ObjectKey, Quantifier};
use crate::error::{Code, Error, Result};
use crate::functions::Warnings;
use crate::syntax::Binary;
use crate::value::Value;

/// Values that folding may make, in bytes; larger ones are better made when they are needed.
const FOLDED_BYTES_MAX: usize = 64 * 1024;

/// Folds the top of an expression whose parts are folded already, and notes its warnings. A call that fails with
/// constants fails here.
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
    let mut host = NoHost(Warnings::default());
    match eval(&expr, &mut Vec::new(), &[], &mut host) {
        Ok(value) if value.size_bytes() <= FOLDED_BYTES_MAX => {
            warnings.append(&mut host.0.kept);
            Ok(Expr::Const(value))
        }
        Err(error) if matches!(expr, Expr::Call(..)) => Err(error),
        _ => Ok(expr),
    }
}

/// The value of an expression of constants and binds; none for a range, which is never made whole, and for an error.
pub fn known(expr: &Expr, binds: &[Value]) -> Option<Value> {
    if matches!(expr, Expr::Binary(Binary::Range, ..)) || !expr.is_free() {
        return None;
    }
    let mut host = NoHost(Warnings { max: 0, ..Warnings::default() });
    eval(expr, &mut Vec::new(), binds, &mut host).ok()
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

/// Constants need no host.
struct NoHost(Warnings);

impl Host for NoHost {
    fn warnings(&mut self) -> &mut Warnings {
        &mut self.0
    }

    fn subquery(&mut self, _: usize, _: &mut Vec<Value>) -> Result<Value> {
        Err(Error::of(Code::Internal))
    }

    fn data(&mut self, _: DataCall, _: &[Value]) -> Result<Value> {
        Err(Error::of(Code::Internal))
    }
}
