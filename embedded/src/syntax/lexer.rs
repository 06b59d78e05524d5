//! Splits a query text into tokens, and handles quotes, comments and all number formats.

use std::sync::Arc;

use super::token::{Kind, SIGNS, Token, Word};
use crate::error::{Code, Error, Result};
use crate::value::{Value, parse_number};

/// Returns the tokens of a query text; the last token is [`Kind::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token>> {
    let mut lexer = Lexer { text, at: 0 };
    let mut out = Vec::with_capacity(text.len() / 4 + 1);
    loop {
        lexer.skip_space()?;
        let start = lexer.at;
        let kind = lexer.token()?;
        let end = kind == Kind::End;
        out.push(Token { kind, start });
        if end {
            return Ok(out);
        }
    }
}

/// Returns error 1501 for a byte offset, with the message `what near '…' at position L:C`. Lines
/// and columns are counted from 1, columns in characters.
pub(super) fn fault(text: &str, at: usize, what: &str) -> Error {
    let before = &text[..at.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    let near: String = text[at.min(text.len())..].chars().take(NEAR_CHARS_MAX).collect();
    let dots =
        if text[at.min(text.len())..].chars().nth(NEAR_CHARS_MAX).is_some() { "..." } else { "" };
    Error::new(Code::QueryParse, format!("{what} near '{near}{dots}' at position {line}:{column}"))
}

/// Maximum number of characters of the query text in an error message.
const NEAR_CHARS_MAX: usize = 32;

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self) -> Option<u8> {
        self.byte(0)
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn fail<T>(&self, at: usize, what: &str) -> Result<T> {
        Err(fault(self.text, at, what))
    }

    fn skip_space(&mut self) -> Result<()> {
        loop {
            match (self.peek(), self.byte(1)) {
                (Some(b' ' | b'\t' | b'\n' | b'\r'), _) => self.at += 1,
                (Some(b'/'), Some(b'/')) => {
                    self.at += self.rest().find('\n').unwrap_or(self.rest().len());
                }
                (Some(b'/'), Some(b'*')) => match self.rest()[2..].find("*/") {
                    Some(length) => self.at += length + 4,
                    None => {
                        return self.fail(self.at, "unexpected unterminated multi-line comment");
                    }
                },
                _ => return Ok(()),
            }
        }
    }

    fn token(&mut self) -> Result<Kind> {
        let start = self.at;
        let Some(first) = self.rest().chars().next() else { return Ok(Kind::End) };
        match first {
            '"' | '\'' => Ok(Kind::Text(self.quoted(first, "string literal")?)),
            '`' | '´' => {
                let name = self.quoted(first, "identifier")?;
                if name.is_empty() {
                    return self.fail(start, "syntax error, unexpected empty identifier");
                }
                Ok(Kind::QuotedName(name))
            }
            '0'..='9' => self.number(),
            '.' if self.byte(1).is_some_and(|b| b.is_ascii_digit()) => self.number(),
            '@' => self.bind(),
            'a'..='z' | 'A'..='Z' | '_' | '$' => {
                let name = self.name();
                Ok(match Word::of(name) {
                    Some(word) => Kind::Word(word),
                    None => Kind::Name(Arc::from(name)),
                })
            }
            _ => match SIGNS.iter().find(|s| self.rest().starts_with(**s)) {
                Some(sign) => {
                    self.at += sign.len();
                    Ok(Kind::Sign(sign))
                }
                None => self.fail(start, "syntax error, unexpected invalid token"),
            },
        }
    }

    fn name(&mut self) -> &str {
        let start = self.at;
        while self.peek().is_some_and(|b| {
            b.is_ascii_alphanumeric() || b == b'_' || (b == b'$' && self.at == start)
        }) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn bind(&mut self) -> Result<Kind> {
        let start = self.at;
        self.at += 1;
        let collection = self.peek() == Some(b'@');
        if collection {
            self.at += 1;
        }
        let good_start = self.peek().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !good_start {
            return self.fail(start, "syntax error, unexpected invalid token");
        }
        let name = self.name();
        if name.bytes().all(|b| b == b'_') {
            return self.fail(start, "syntax error, unexpected invalid token");
        }
        let name = Arc::from(name);
        Ok(if collection { Kind::CollectionBind(name) } else { Kind::Bind(name) })
    }

    fn digits(&mut self, good: fn(&u8) -> bool) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|b| good(&b)) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<Kind> {
        let start = self.at;
        for (prefix, radix) in [("0x", 16), ("0X", 16), ("0b", 2), ("0B", 2)] {
            if self.rest().starts_with(prefix) {
                return self.radix_number(radix);
            }
        }
        let whole = self.digits(u8::is_ascii_digit);
        if whole > 1 && self.text.as_bytes()[start] == b'0' {
            return self.fail(start, "syntax error, unexpected integer number with leading zero");
        }
        // `1..5` is a range, not a number with a decimal point.
        if self.peek() == Some(b'.') && self.byte(1).is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
            self.digits(u8::is_ascii_digit);
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(self.byte(1), Some(b'+' | b'-')));
            if self.byte(1 + sign).is_some_and(|b| b.is_ascii_digit()) {
                self.at += 1 + sign;
                self.digits(u8::is_ascii_digit);
            }
        }
        if self.peek().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_') {
            return self.fail(self.at, "syntax error, unexpected identifier");
        }
        match parse_number(&self.text[start..self.at]) {
            Some(value) => Ok(Kind::Number(value)),
            // A number out of range is represented as infinity; the planner replaces it by null
            // with a warning.
            None => Ok(Kind::Number(Value::Double(f64::INFINITY))),
        }
    }

    fn radix_number(&mut self, radix: u32) -> Result<Kind> {
        let start = self.at;
        self.at += 2;
        let from = self.at;
        self.digits(u8::is_ascii_alphanumeric);
        let digits = &self.text[from..self.at];
        let most = if radix == 2 { u32::BITS } else { u32::BITS / 4 } as usize;
        match u64::from_str_radix(digits, radix) {
            Ok(number) if digits.len() <= most => Ok(Kind::Number(Value::from(number))),
            _ => self.fail(start, "unexpected malformed number"),
        }
    }

    fn quoted(&mut self, quote: char, what: &str) -> Result<Arc<str>> {
        let start = self.at;
        self.at += quote.len_utf8();
        let mut out = String::new();
        loop {
            let Some(next) = self.rest().chars().next() else {
                return self.fail(start, &format!("unexpected unterminated {what}"));
            };
            self.at += next.len_utf8();
            if next == quote {
                return Ok(Arc::from(out));
            }
            if next == '\\' {
                self.escape(&mut out)?;
            } else {
                out.push(next);
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<()> {
        let Some(next) = self.rest().chars().next() else { return Ok(()) };
        self.at += next.len_utf8();
        out.push(match next {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.unicode_escape(out),
            other => other,
        });
        Ok(())
    }

    fn unicode_escape(&mut self, out: &mut String) -> Result<()> {
        let start = self.at;
        let Some(unit) = self.hex_unit() else {
            return self.fail(start, "unexpected malformed \\u escape");
        };
        let high = (0xd800..0xdc00).contains(&unit);
        let mut code = unit;
        if high && self.rest().starts_with("\\u") {
            self.at += 2;
            if let Some(low) = self.hex_unit().filter(|u| (0xdc00..0xe000).contains(u)) {
                code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            }
        }
        match char::from_u32(code) {
            Some(c) => out.push(c),
            None => return self.fail(start, "unexpected lone surrogate"),
        }
        Ok(())
    }

    fn hex_unit(&mut self) -> Option<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let unit = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        self.at += 4;
        Some(unit)
    }
}
