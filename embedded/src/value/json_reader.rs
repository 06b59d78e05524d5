//! Parses JSON text to values; integers stay exact, and the last value of a repeated name is used.

use std::borrow::Cow;
use std::sync::Arc;

use super::names::shared;
use super::number::parse_number;
use super::{Object, Value};
use crate::error::{Code, Error, Result};

/// Maximum nesting depth of a JSON text, which limits the use of the stack (VelocyPack has no such
/// limit).
pub const JSON_DEPTH_MAX: usize = 200;

const LOW_ALONE: &str = "Unexpected \\uXXXX escape sequence (low surrogate without high surrogate)";
pub(super) const HIGH_ALONE: &str =
    "Unexpected \\uXXXX escape sequence (high surrogate without low surrogate)";

/// Parses a JSON text. Returns error 600 with the message of ArangoDB's parser for an invalid text.
pub fn parse(text: &[u8]) -> Result<Value> {
    let mut reader = JsonReader::new(text)?;
    let value = reader.value(0)?;
    reader.end()?;
    Ok(value)
}

fn broken(what: &str) -> Error {
    Error::new(Code::HttpCorruptedJson, format!("VPackError error: {what}"))
}

/// A reader of a JSON text, with its current position in the text.
pub(crate) struct JsonReader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> JsonReader<'a> {
    /// Creates a reader at the first value of a text.
    pub(crate) fn new(text: &'a [u8]) -> Result<Self> {
        let text = std::str::from_utf8(text).map_err(|_| broken("Invalid UTF-8 sequence"))?;
        let mut reader = Self { text, at: 0 };
        reader.space();
        Ok(reader)
    }

    /// Returns an error if anything except whitespace follows the value.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.space();
        if self.at < self.text.len() { Err(broken("Expecting EOF")) } else { Ok(()) }
    }

    /// Returns the current position in bytes.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Returns the next byte, if any.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn fail<T>(&self, what: &str) -> Result<T> {
        Err(broken(what))
    }

    /// Reads the next value; `depth` is its nesting depth.
    pub(crate) fn value(&mut self, depth: usize) -> Result<Value> {
        if depth > JSON_DEPTH_MAX {
            return self.fail("Too deep nesting in Array/Object");
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Value::String(Arc::from(self.string()?))),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => self.fail("Expecting digit"),
            None => self.fail("Expecting item"),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value> {
        if !self.text[self.at..].starts_with(word) {
            return self.fail(&format!("{word} expected"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn digits(&mut self) -> usize {
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - from
    }

    fn number(&mut self) -> Result<Value> {
        let from = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1; // nothing but a fraction or an exponent follows a zero
        } else if self.digits() == 0 {
            let end = self.at == self.text.len();
            return self.fail(if end { "Incomplete number" } else { "Expecting digit" });
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return self.fail("Incomplete number");
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return self.fail("Incomplete number");
            }
        }
        parse_number(&self.text[from..self.at]).ok_or_else(|| broken("Number out of range"))
    }

    fn array(&mut self, depth: usize) -> Result<Value> {
        let mut items = Vec::new();
        self.items(|reader| {
            items.push(reader.value(depth + 1)?);
            Ok(())
        })?;
        Ok(Value::array(items))
    }

    /// Reads an array; `item` is called to read each item.
    pub(crate) fn items(&mut self, mut item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.at += 1;
        self.space();
        if self.peek().is_none() {
            return self.fail("Expecting item or ']'");
        }
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.space();
            item(self)?;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return self.fail("Expecting ',' or ']'"),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value> {
        let mut entries = Vec::new();
        self.members(|reader, name| {
            let name = match name {
                Cow::Borrowed(name) => shared(name),
                Cow::Owned(name) => Arc::from(name),
            };
            entries.push((name, reader.value(depth + 1)?));
            Ok(())
        })?;
        Ok(Value::object(Object::from_entries(entries)))
    }

    /// Reads an object; `value` is called with each attribute's name to read its value.
    pub(crate) fn members(
        &mut self,
        mut value: impl FnMut(&mut Self, Cow<'a, str>) -> Result<()>,
    ) -> Result<()> {
        self.at += 1;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        let mut is_first = true;
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                let first = is_first && self.peek().is_none();
                return self.fail(if first {
                    "Expecting item or '}'"
                } else {
                    "Expecting '\"' or '}'"
                });
            }
            is_first = false;
            let name = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return self.fail("Expecting ':'");
            }
            self.at += 1;
            self.space();
            value(self, name)?;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return self.fail("Expecting ',' or '}'"),
            }
        }
    }

    /// Reads a string. A string without escapes is borrowed from the JSON text.
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>> {
        self.at += 1;
        let from = self.at;
        self.at += plain_length(&self.text.as_bytes()[from..]);
        match self.peek() {
            Some(b'"') => {
                let text = &self.text[from..self.at];
                self.at += 1;
                Ok(Cow::Borrowed(text))
            }
            Some(b'\\') => self.escaped_string(from).map(Cow::Owned),
            Some(_) => self.fail("Unexpected control character"),
            None => self.fail("Unfinished string"),
        }
    }

    fn escaped_string(&mut self, from: usize) -> Result<String> {
        let mut out = String::with_capacity(self.rest_of_string(from));
        out.push_str(&self.text[from..self.at]);
        let mut plain_from = self.at;
        loop {
            match self.peek() {
                Some(b'"') => {
                    out.push_str(&self.text[plain_from..self.at]);
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    out.push_str(&self.text[plain_from..self.at]);
                    self.at += 1;
                    out.push(self.escape()?);
                    plain_from = self.at;
                }
                Some(0..0x20) => return self.fail("Unexpected control character"),
                Some(_) => self.at += plain_length(&self.text.as_bytes()[self.at..]),
                None => return self.fail("Unfinished string"),
            }
        }
    }

    /// Returns the number of bytes from `from` to the string's closing quote, which is at least the
    /// length of the unescaped string.
    fn rest_of_string(&self, from: usize) -> usize {
        let rest = &self.text.as_bytes()[from..];
        let mut escaped = false;
        let end = rest.iter().position(|byte| {
            let closes = *byte == b'"' && !escaped;
            escaped = *byte == b'\\' && !escaped;
            closes
        });
        end.unwrap_or(rest.len())
    }

    fn escape(&mut self) -> Result<char> {
        let byte = self.peek();
        self.at += 1;
        Ok(match byte {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let unit = self.hex()?;
                if !(0xd800..0xdc00).contains(&unit) {
                    return char::from_u32(unit).map_or_else(|| self.fail(LOW_ALONE), Ok);
                }
                if !self.text[self.at..].starts_with("\\u") {
                    return self.fail(HIGH_ALONE);
                }
                self.at += 2;
                let low = self.hex()?;
                if !(0xdc00..0xe000).contains(&low) {
                    return self.fail(HIGH_ALONE);
                }
                return char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00))
                    .map_or_else(|| self.fail(HIGH_ALONE), Ok);
            }
            _ => return self.fail("Invalid escape sequence"),
        })
    }

    fn hex(&mut self) -> Result<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let digits = digits.filter(|d| d.iter().all(u8::is_ascii_hexdigit));
        let unit = digits
            .and_then(|d| std::str::from_utf8(d).ok())
            .and_then(|d| u32::from_str_radix(d, 16).ok());
        match unit {
            Some(unit) => {
                self.at += 4;
                Ok(unit)
            }
            None => self.fail("Illegal \\uXXXX escape sequence character"),
        }
    }
}

/// Number of bytes that are compared together. Every supported processor has registers of at least
/// this number of bytes.
const TOGETHER: usize = 16;

/// Returns the number of bytes before the end of a string, its first escape or its first illegal
/// byte.
fn plain_length(bytes: &[u8]) -> usize {
    let ends = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    let (blocks, _) = bytes.as_chunks::<TOGETHER>();
    let has_end = |block: &[u8; TOGETHER]| block.iter().fold(false, |any, byte| any | ends(byte));
    let from = blocks.iter().take_while(|block| !has_end(block)).count() * TOGETHER;
    let rest = &bytes[from..];
    from + rest.iter().position(ends).unwrap_or(rest.len())
}
