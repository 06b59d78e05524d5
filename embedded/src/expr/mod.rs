//! Compiled expressions over a row of registers. Expressions access plans and data only through a
//! host.

mod arithmetic;
mod eval;
mod expr;
mod fold;
mod memory;
mod print;
mod room;

pub use eval::{Host, Row, eval, truth};
pub use expr::{DataCall, Expansion, Expr, ObjectKey, Quantifier, Question, Register};
pub use fold::{fold, known};
pub use memory::Memory;
pub use print::print;
pub use room::{Room, Share};
