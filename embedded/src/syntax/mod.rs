//! Converts AQL text to a syntax tree and back; names are not resolved.

mod ast;
mod lexer;
mod mentions;
mod parser;
mod primary;
mod print;
mod statements;
mod token;
mod tree;

pub use ast::*;
pub use mentions::Mentions;
pub use parser::{QUERY_BYTES_MAX, parse};
pub use print::print;
pub use tree::tree;

#[cfg(test)]
mod tests;
