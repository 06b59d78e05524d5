//! Compiled expressions over a row of registers; they know no plan and no data, only a host that does.

mod arithmetic;
mod eval;
mod expr;
mod fold;
mod print;

pub use eval::{Host, Row, eval, truth};
pub use expr::{DataCall, Expansion, Expr, ObjectKey, Quantifier, Question, Register};
pub use fold::{fold, known};
pub use print::print;
