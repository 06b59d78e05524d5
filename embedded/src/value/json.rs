//! Writes values as JSON text.

use std::{fmt, io};

use super::encoded::Encoded;
use super::number::write_double;
use super::{Object, Value};

/// The destination to which JSON text is written: a string or bytes. If the destination is bytes,
/// texts of stored documents are appended without another check for UTF-8.
pub trait Sink {
    /// Appends a text.
    fn put(&mut self, text: &str);
    /// Appends formatted text.
    fn put_format(&mut self, arguments: fmt::Arguments<'_>);
    /// Appends a stored object as JSON text.
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

/// Appends an integer, given by its sign and its absolute value.
pub(crate) fn write_integer(negative: bool, size: u64, out: &mut impl Sink) {
    // A u64 has at most twenty digits.
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

/// Number of bytes that are compared together. Every supported processor has registers of at least
/// this number of bytes.
const CHUNK: usize = 16;

fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Returns the position of the first byte at or after `from` that must be escaped in a string
/// literal.
fn special(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<CHUNK>) {
        // The loop over the chunk has no early exit, so that the compiler can compare all its bytes
        // at once.
        if chunk.iter().fold(false, |any, byte| any | is_special(*byte)) {
            break;
        }
        at += CHUNK;
    }
    bytes[at..].iter().position(|byte| is_special(*byte)).map(|more| at + more)
}

/// Returns the short escape (such as `\n`) of a byte that must be escaped, or an empty text if
/// there is none.
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

/// Appends the content of a JSON string literal, without quotes.
pub(crate) fn write_escaped(text: &str, out: &mut impl Sink) {
    let mut plain_from = 0;
    while let Some(at) = special(text.as_bytes(), plain_from) {
        out.put(&text[plain_from..at]);
        put_escape(text.as_bytes()[at], out);
        plain_from = at + 1;
    }
    out.put(&text[plain_from..]);
}

/// Appends the content of a JSON string literal, for bytes that are known to be valid UTF-8.
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
    /// Returns the value as JSON text.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        write_text(self, &mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Code;
    use crate::value::json_reader::{HIGH_ALONE, JSON_DEPTH_MAX, parse};

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
