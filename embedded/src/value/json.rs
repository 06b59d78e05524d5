//! Values as JSON text.

use super::Value;
use super::number::write_double;

/// Appends a value as JSON text.
pub fn write_json(value: &Value, out: &mut Vec<u8>) {
    let mut text = String::new();
    write_text(value, &mut text);
    out.extend_from_slice(text.as_bytes());
}

/// Appends a value as JSON text to a string.
pub fn write_text(value: &Value, out: &mut String) {
    use std::fmt::Write;
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Int(i) => {
            let _ = write!(out, "{i}");
        }
        Value::UInt(u) => {
            let _ = write!(out, "{u}");
        }
        Value::Double(x) => write_double(*x, out),
        Value::String(s) => write_string(s, out),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_text(item, out);
            }
            out.push(']');
        }
        Value::Object(object) => {
            out.push('{');
            for (i, (name, item)) in object.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(name, out);
                out.push(':');
                write_text(item, out);
            }
            out.push('}');
        }
    }
}

/// Appends a text as a JSON string literal.
pub fn write_string(text: &str, out: &mut String) {
    use std::fmt::Write;
    out.push('"');
    let mut plain_from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x08 => "\\b",
            0x0c => "\\f",
            0..0x20 => "",
            _ => continue,
        };
        out.push_str(&text[plain_from..at]);
        plain_from = at + 1;
        if escape.is_empty() {
            let _ = write!(out, "\\u{byte:04x}");
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(&text[plain_from..]);
    out.push('"');
}

impl Value {
    /// The value as JSON text.
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
