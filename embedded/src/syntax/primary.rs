//! Parses the operands of expressions: literals, names, calls and bracketed expressions.

use super::ast::{Expr, Key, Name};
use super::parser::Parser;
use super::token::{Kind, Word};
use crate::error::Result;
use crate::value::Value;

impl Parser<'_> {
    /// Parses a constant, a name, a bind parameter, a call, or an expression in brackets.
    pub(super) fn primary(&mut self) -> Result<Expr> {
        self.height = 1;
        let literal = |p: &mut Self, value| {
            p.advance();
            Ok(Expr::Literal(value))
        };
        match self.peek().clone() {
            Kind::Word(Word::Null) => literal(self, Value::Null),
            Kind::Word(Word::True) => literal(self, Value::Bool(true)),
            Kind::Word(Word::False) => literal(self, Value::Bool(false)),
            Kind::Number(value) => literal(self, value),
            Kind::Text(text) => literal(self, Value::String(text)),
            Kind::Bind(name) => {
                self.advance();
                Ok(Expr::Bind(name))
            }
            Kind::CollectionBind(name) => {
                self.advance();
                Ok(Expr::CollectionBind(name))
            }
            Kind::Word(Word::Like) if *self.peek_at(1) == Kind::Sign("(") => {
                self.advance();
                self.call("LIKE".to_owned())
            }
            Kind::Name(name) if matches!(self.peek_at(1), Kind::Sign("(" | "::")) => {
                self.advance();
                self.call(name.to_uppercase())
            }
            Kind::Name(name) | Kind::QuotedName(name) => {
                self.advance();
                Ok(Expr::Name(name))
            }
            Kind::Sign("(") => self.parenthesis(),
            Kind::Sign("[") => self.array(),
            Kind::Sign("{") => self.object(),
            _ => self.unexpected(""),
        }
    }

    fn call(&mut self, mut name: String) -> Result<Expr> {
        while self.sign("::") {
            name = format!("{name}::{}", self.name()?.to_uppercase());
        }
        self.expect_sign("(")?;
        let arguments = self.list(")", false)?;
        Ok(Expr::Call(Name::from(name), arguments))
    }

    /// Parses comma-separated expressions up to and including the closing bracket.
    fn list(&mut self, close: &'static str, trailing_comma: bool) -> Result<Vec<Expr>> {
        let mut items = Vec::new();
        let mut height = 0;
        while !self.sign(close) {
            if !items.is_empty() {
                self.expect_sign(",")?;
                if trailing_comma && self.sign(close) {
                    break;
                }
            }
            items.push(if close == ")" && self.starts_statement() {
                Expr::Subquery(Box::new(self.body()?))
            } else {
                self.expression()?
            });
            height = height.max(self.height);
        }
        self.grow(height)?;
        Ok(items)
    }

    fn parenthesis(&mut self) -> Result<Expr> {
        self.advance();
        let inner = if self.starts_statement() {
            Expr::Subquery(Box::new(self.body()?))
        } else {
            self.expression()?
        };
        self.expect_sign(")")?;
        Ok(match inner {
            Expr::Expansion(_) => Expr::Group(Box::new(inner)),
            other => other,
        })
    }

    fn array(&mut self) -> Result<Expr> {
        self.advance();
        let items = self.list("]", true)?;
        Ok(Expr::Array(items))
    }

    /// Parses an object literal.
    pub(super) fn object(&mut self) -> Result<Expr> {
        self.expect_sign("{")?;
        let mut entries = Vec::new();
        let mut height = 0;
        while !self.sign("}") {
            if !entries.is_empty() {
                self.expect_sign(",")?;
                if self.sign("}") {
                    break;
                }
            }
            entries.push(self.object_entry()?);
            height = height.max(self.height);
        }
        self.grow(height)?;
        Ok(Expr::Object(entries))
    }

    fn object_entry(&mut self) -> Result<(Key, Expr)> {
        let key = match self.peek().clone() {
            Kind::Name(name) | Kind::QuotedName(name) => {
                self.advance();
                if *self.peek() != Kind::Sign(":") {
                    self.height = 1;
                    return Ok((Key::Name(name.clone()), Expr::Name(name)));
                }
                Key::Name(name)
            }
            Kind::Text(text) => {
                self.advance();
                Key::Name(text)
            }
            Kind::Bind(name) => {
                self.advance();
                Key::Bind(name)
            }
            Kind::Sign("[") => {
                self.advance();
                let name = self.expression()?;
                self.expect_sign("]")?;
                Key::Computed(Box::new(name))
            }
            _ => return self.unexpected("expecting identifier or '}'"),
        };
        let key_height = self.height;
        self.expect_sign(":")?;
        let value = self.expression()?;
        self.height = self.height.max(key_height);
        Ok((key, value))
    }
}
