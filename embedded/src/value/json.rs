//! JSON text to values and back; integers stay exact, a repeated attribute name keeps the last value.

use std::sync::Arc;
use std::{fmt, io};

use super::encoded::Encoded;
use super::names::shared;
use super::number::{parse_number, write_double};
use super::{Object, Value};
use crate::error::{Code, Error, Result};

/// Nesting that a JSON text may have (VelocyPack has no such limit; ours keeps the stack bounded).
pub const JSON_DEPTH_MAX: usize = 200;

const LOW_ALONE: &str = "Unexpected \\uXXXX escape sequence (low surrogate without high surrogate)";
const HIGH_ALONE: &str =
    "Unexpected \\uXXXX escape sequence (high surrogate without low surrogate)";

/// Reads one JSON value; 600 on anything else, in the words of ArangoDB's parser.
pub fn parse(text: &[u8]) -> Result<Value> {
    let text = std::str::from_utf8(text).map_err(|_| broken("Invalid UTF-8 sequence"))?;
    let mut reader = Reader { text, at: 0 };
    reader.space();
    let value = reader.value(0)?;
    reader.space();
    if reader.at < text.len() {
        return Err(broken("Expecting EOF"));
    }
    Ok(value)
}

/// What JSON text is appended to: a string, or bytes, into which stored texts go without being checked again.
pub trait Sink {
    /// Appends a text.
    fn put(&mut self, text: &str);
    /// Appends what a format says.
    fn put_format(&mut self, arguments: fmt::Arguments<'_>);
    /// Appends a stored object.
    fn put_form(&mut self, form: &dyn Encoded);
}

impl Sink for String {
    fn put(&mut self, text: &str) {
        self.push_str(text);
    }

    fn put_format(&mut self, arguments: fmt::Arguments<'_>) {
        fmt::Write::write_fmt(self, arguments).expect("a string takes all");
    }

    fn put_form(&mut self, form: &dyn Encoded) {
        let mut text = Vec::new();
        form.write_json(&mut text);
        self.push_str(
            std::str::from_utf8(&text).expect("stored texts were checked when they were read"),
        );
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes());
    }

    fn put_format(&mut self, arguments: fmt::Arguments<'_>) {
        io::Write::write_fmt(self, arguments).expect("a vector takes all");
    }

    fn put_form(&mut self, form: &dyn Encoded) {
        form.write_json(self);
    }
}

/// Appends a value as JSON text to a string or to bytes.
pub fn write_text(value: &Value, out: &mut impl Sink) {
    match value {
        Value::Null => out.put("null"),
        Value::Bool(true) => out.put("true"),
        Value::Bool(false) => out.put("false"),
        Value::Int(i) => write_integer(*i < 0, i.unsigned_abs(), out),
        Value::UInt(u) => write_integer(false, *u, out),
        Value::Double(x) => write_double(*x, out),
        Value::String(s) => write_string(s, out),
        Value::Array(items) => {
            out.put("[");
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.put(",");
                }
                write_text(item, out);
            }
            out.put("]");
        }
        Value::Object(object) => match object.form() {
            Some(form) => out.put_form(form),
            None => write_object(object, out),
        },
    }
}

fn write_object(object: &Object, out: &mut impl Sink) {
    out.put("{");
    for (i, (name, item)) in object.iter().enumerate() {
        out.put(if i > 0 { ",\"" } else { "\"" });
        write_escaped(name, out);
        out.put("\":");
        write_text(item, out);
    }
    out.put("}");
}

/// Appends an integer by its sign and size.
pub(crate) fn write_integer(negative: bool, size: u64, out: &mut impl Sink) {
    // Twenty digits hold every u64.
    let mut digits = [b'0'; 20];
    let mut start = digits.len();
    let mut rest = size;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if negative {
        out.put("-");
    }
    out.put(std::str::from_utf8(&digits[start..]).expect("digits are ASCII"));
}

/// Appends a text as a JSON string literal.
pub fn write_string(text: &str, out: &mut impl Sink) {
    out.put("\"");
    write_escaped(text, out);
    out.put("\"");
}

/// Bytes that are looked at together: so many fit a register of every processor.
const CHUNK: usize = 16;

fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Place of the first byte from `from` on that a string literal cannot hold as it is.
fn special(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<CHUNK>) {
        // Without an early end, so that it becomes a few comparisons of whole registers.
        if chunk.iter().fold(false, |any, byte| any | is_special(*byte)) {
            break;
        }
        at += CHUNK;
    }
    bytes[at..].iter().position(|byte| is_special(*byte)).map(|more| at + more)
}

/// How a byte that [`special`] found stands in a string literal; empty for those that have no short form.
fn escape(byte: u8) -> &'static str {
    match byte {
        b'"' => "\\\"",
        b'\\' => "\\\\",
        b'\n' => "\\n",
        b'\r' => "\\r",
        b'\t' => "\\t",
        0x08 => "\\b",
        0x0c => "\\f",
        _ => "",
    }
}

/// Appends what stands between the quotes of a JSON string literal.
pub(crate) fn write_escaped(text: &str, out: &mut impl Sink) {
    let mut plain_from = 0;
    while let Some(at) = special(text.as_bytes(), plain_from) {
        out.put(&text[plain_from..at]);
        put_escape(text.as_bytes()[at], out);
        plain_from = at + 1;
    }
    out.put(&text[plain_from..]);
}

/// Appends what stands between the quotes of a JSON string literal, of a text that is known to be one.
pub(crate) fn write_escaped_bytes(text: &[u8], out: &mut Vec<u8>) {
    let mut plain_from = 0;
    while let Some(at) = special(text, plain_from) {
        out.extend_from_slice(&text[plain_from..at]);
        put_escape(text[at], out);
        plain_from = at + 1;
    }
    out.extend_from_slice(&text[plain_from..]);
}

fn put_escape(byte: u8, out: &mut impl Sink) {
    match escape(byte) {
        "" => out.put_format(format_args!("\\u{byte:04x}")),
        short => out.put(short),
    }
}

impl Value {
    /// The value as JSON text.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        write_text(self, &mut out);
        out
    }
}

fn broken(what: &str) -> Error {
    Error::new(Code::HttpCorruptedJson, format!("VPackError error: {what}"))
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
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

    fn value(&mut self, depth: usize) -> Result<Value> {
        if depth > JSON_DEPTH_MAX {
            return self.fail("Too deep nesting in Array/Object");
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Value::String(self.string()?)),
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
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.peek().is_none() {
            return self.fail("Expecting item or ']'");
        }
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::array(items));
        }
        loop {
            self.space();
            items.push(self.value(depth + 1)?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::array(items));
                }
                _ => return self.fail("Expecting ',' or ']'"),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value> {
        self.at += 1;
        let mut entries = Vec::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::object(Object::new()));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                let first = entries.is_empty() && self.peek().is_none();
                return self.fail(if first {
                    "Expecting item or '}'"
                } else {
                    "Expecting '\"' or '}'"
                });
            }
            let name = self.name()?;
            self.space();
            if self.peek() != Some(b':') {
                return self.fail("Expecting ':'");
            }
            self.at += 1;
            self.space();
            entries.push((name, self.value(depth + 1)?));
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::object(Object::from_entries(entries)));
                }
                _ => return self.fail("Expecting ',' or '}'"),
            }
        }
    }

    /// An attribute name; those without escapes are shared.
    fn name(&mut self) -> Result<Arc<str>> {
        let from = self.at + 1;
        let rest = &self.text.as_bytes()[from..];
        match rest.iter().position(|b| matches!(b, b'"' | b'\\' | 0..0x20)) {
            Some(length) if rest[length] == b'"' => {
                self.at = from + length + 1;
                Ok(shared(&self.text[from..from + length]))
            }
            _ => self.string(),
        }
    }

    fn string(&mut self) -> Result<Arc<str>> {
        self.at += 1;
        let from = self.at;
        loop {
            match self.peek() {
                Some(b'"') => {
                    let text = Arc::from(&self.text[from..self.at]);
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => return self.escaped_string(from),
                Some(0..0x20) => return self.fail("Unexpected control character"),
                Some(_) => self.at += 1,
                None => return self.fail("Unfinished string"),
            }
        }
    }

    fn escaped_string(&mut self, from: usize) -> Result<Arc<str>> {
        let mut out = String::with_capacity(self.rest_of_string(from));
        out.push_str(&self.text[from..self.at]);
        let mut plain_from = self.at;
        loop {
            match self.peek() {
                Some(b'"') => {
                    out.push_str(&self.text[plain_from..self.at]);
                    self.at += 1;
                    return Ok(Arc::from(out));
                }
                Some(b'\\') => {
                    out.push_str(&self.text[plain_from..self.at]);
                    self.at += 1;
                    out.push(self.escape()?);
                    plain_from = self.at;
                }
                Some(0..0x20) => return self.fail("Unexpected control character"),
                Some(_) => self.at += 1,
                None => return self.fail("Unfinished string"),
            }
        }
    }

    /// Bytes to the quote that closes the string begun at `from`: what it takes at most without its escapes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_texts_come_back() {
        for (text, back) in [
            ("null", "null"),
            (" [1, 2.50 ,-3e2, 18446744073709551615]", "[1,2.5,-300,18446744073709551615]"),
            (
                r#"{"a":{"b":[]},"c":"\u00e9\ud83d\ude00\n\u0001"}"#,
                "{\"a\":{\"b\":[]},\"c\":\"é😀\\n\\u0001\"}",
            ),
            (r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#),
            ("9223372036854775807", "9223372036854775807"),
        ] {
            let value = parse(text.as_bytes()).expect(text);
            assert_eq!(value.to_json(), back);
            assert_eq!(parse(back.as_bytes()).expect(back).to_json(), back);
        }
    }

    #[test]
    fn bad_texts_are_refused() {
        let deep = "[".repeat(JSON_DEPTH_MAX + 2);
        for (text, said) in [
            ("", "Expecting item"),
            ("nul", "null expected"),
            ("01", "Expecting EOF"),
            ("1.", "Incomplete number"),
            ("1e", "Incomplete number"),
            ("-", "Incomplete number"),
            ("a", "Expecting digit"),
            ("[", "Expecting item or ']'"),
            ("[1,]", "Expecting digit"),
            ("[1 2]", "Expecting ',' or ']'"),
            ("{", "Expecting item or '}'"),
            ("{\"a\"}", "Expecting ':'"),
            ("{a:1}", "Expecting '\"' or '}'"),
            ("{\"a\":1,}", "Expecting '\"' or '}'"),
            ("{\"a\":1", "Expecting ',' or '}'"),
            ("\"\\x\"", "Invalid escape sequence"),
            ("\"\\ud800\"", HIGH_ALONE),
            ("\"\n\"", "Unexpected control character"),
            ("1 2", "Expecting EOF"),
            ("1e999", "Number out of range"),
            ("\"abc", "Unfinished string"),
            (&deep, "Too deep nesting in Array/Object"),
        ] {
            let error = parse(text.as_bytes()).expect_err(text);
            assert_eq!(error.code, Code::HttpCorruptedJson);
            assert_eq!(error.message, format!("VPackError error: {said}"), "{text}");
        }
        assert!(parse(&[b'"', 0xff, b'"']).is_err());
    }
}
