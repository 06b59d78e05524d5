//! AQL's casts of values to bools, numbers and texts, and the approximate size of values in memory.

use std::borrow::Cow;

use super::number::double_to_string;
use super::{Object, Value};

/// Approximate memory of a value without its content, in bytes (enum, reference counts and
/// allocation).
pub(crate) const VALUE_BYTES: usize = 32;

impl Value {
    /// Converts a value to a bool as AQL does: null, false, 0 and "" are false, and all other
    /// values are true.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Bool(b) => *b,
            Self::Int(i) => *i != 0,
            Self::UInt(u) => *u != 0,
            Self::Double(x) => *x != 0.0,
            Self::String(s) => !s.is_empty(),
            Self::Array(_) | Self::Object(_) => true,
        }
    }

    /// Whether the value is a number.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::UInt(_) | Self::Double(_))
    }

    /// Casts a value to a number: null, false and `[]` are 0, true is 1, a numeric text is its
    /// number, and `[x]` is the cast of x. Returns `None` for all other values.
    pub fn to_number(&self) -> Option<Value> {
        match self {
            Self::Null | Self::Bool(false) => Some(Self::Int(0)),
            Self::Bool(true) => Some(Self::Int(1)),
            Self::Int(_) | Self::UInt(_) | Self::Double(_) => Some(self.clone()),
            Self::String(s) => numeric_text(s),
            Self::Array(items) => match items.as_slice() {
                [] => Some(Self::Int(0)),
                [one] => one.to_number(),
                _ => None,
            },
            Self::Object(_) => None,
        }
    }

    /// Casts a value to a text as `TO_STRING` does: null becomes "", and all other values except
    /// texts become JSON text.
    pub fn to_text(&self) -> Cow<'_, str> {
        match self {
            Self::Null => Cow::Borrowed(""),
            Self::String(s) => Cow::Borrowed(s),
            Self::Double(x) => Cow::Owned(double_to_string(*x)),
            other => Cow::Owned(other.to_json()),
        }
    }

    /// Casts a value to a double. The result is 0 if the value has no cast to a number.
    pub fn to_f64(&self) -> f64 {
        self.to_number().and_then(|n| n.as_f64()).unwrap_or(0.0)
    }

    /// Casts a value to an integer. A double is truncated towards zero and limited to the 64-bit
    /// range; of a text, the integer at its beginning is used.
    pub fn to_i64(&self) -> i64 {
        match self {
            Self::Bool(flag) => i64::from(*flag),
            Self::Int(i) => *i,
            Self::UInt(_) => i64::MAX,
            Self::Double(x) => *x as i64,
            Self::String(text) => leading_integer(text).unwrap_or(0),
            Self::Array(items) => match items.as_slice() {
                [one] => one.to_i64(),
                _ => 0,
            },
            Self::Null | Self::Object(_) => 0,
        }
    }

    /// Converts a finite double to a value, or returns `None` for NaN and infinities.
    pub fn finite(x: f64) -> Option<Value> {
        x.is_finite().then_some(Self::Double(x))
    }

    /// Returns the approximate size of the value in bytes; a part that occurs several times counts
    /// each time.
    pub fn size_bytes(&self) -> usize {
        VALUE_BYTES
            + match self {
                Self::String(s) => s.len(),
                Self::Array(items) => items.iter().map(Value::size_bytes).sum(),
                Self::Object(object) => object.size_bytes(),
                _ => 0,
            }
    }

    /// Returns [`Value::size_bytes`] if this size is at most `max`; otherwise, returns any number
    /// above `max`.
    pub fn size_bytes_up_to(&self, max: usize) -> usize {
        let mut size = VALUE_BYTES;
        match self {
            Self::String(s) => size += s.len(),
            Self::Array(items) => {
                for item in items.iter() {
                    if size > max {
                        break;
                    }
                    size += item.size_bytes_up_to(max - size);
                }
            }
            Self::Object(object) => match object.form() {
                Some(form) => size += form.size_bytes(),
                None => {
                    for (name, value) in object.iter() {
                        if size > max {
                            break;
                        }
                        size += name.len() + VALUE_BYTES;
                        size += value.size_bytes_up_to(max.saturating_sub(size));
                    }
                }
            },
            _ => {}
        }
        size
    }

    /// Returns AQL's name of the value's type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::UInt(_) | Self::Double(_) => "number",
            Self::String(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }
}

impl Object {
    fn size_bytes(&self) -> usize {
        match self.form() {
            Some(form) => form.size_bytes(),
            None => self.iter().map(|(n, v)| n.len() + VALUE_BYTES + v.size_bytes()).sum(),
        }
    }
}

/// The whitespace that the C library skips before a number.
const SPACE: [char; 6] = [' ', '\t', '\n', '\u{b}', '\u{c}', '\r'];

/// Converts a text to a number as `strtod` does: decimal or hexadecimal, with an optional sign and
/// surrounding whitespace. A blank text is 0. Returns `None` for any other text.
fn numeric_text(text: &str) -> Option<Value> {
    let text = text.trim_matches(SPACE);
    if text.is_empty() {
        return Some(Value::Int(0));
    }
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let size = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with('+'))? as f64,
        None => {
            let good = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
                && digits.bytes().all(|b| b.is_ascii_digit() || b"eE.+-".contains(&b));
            digits.parse().ok().filter(|x: &f64| good && x.is_finite())?
        }
    };
    let exact = sign * size;
    let whole = exact.fract() == 0.0 && exact.abs() < EXACT_MAX && exact != 0.0
        || size == 0.0 && sign > 0.0;
    Some(if whole { Value::Int(exact as i64) } else { Value::Double(exact) })
}

/// 2^53, from which on doubles cannot represent every integer.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Returns the integer at the beginning of a text, after any whitespace. Returns `None` if the text
/// begins with no integer or if the integer is too large.
pub fn leading_integer(text: &str) -> Option<i64> {
    let text = text.trim_start_matches(SPACE);
    let signed = usize::from(text.starts_with(['-', '+']));
    let digits = text[signed..].bytes().take_while(u8::is_ascii_digit).count();
    text[..signed + digits].parse().ok()
}
