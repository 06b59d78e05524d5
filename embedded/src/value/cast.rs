//! AQL's casts: truth, numbers, texts, sizes.

use std::borrow::Cow;

use super::number::double_to_string;
use super::{Object, Value};

/// What a value costs in memory beside its content, in bytes (enum, reference count, allocation).
pub(crate) const VALUE_BYTES: usize = 32;

impl Value {
    /// AQL truth: null, false, 0 and "" are false, all else is true (empty arrays and objects too).
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

    /// Whether this is any number.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::UInt(_) | Self::Double(_))
    }

    /// The cast to number: null and false are 0, true is 1, numeric texts are read as doubles, `[x]` is x, `[]` 0; what is no
    /// number is `None`.
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

    /// `TO_STRING`: null is "", numbers and bools as printed, arrays and objects as JSON.
    pub fn to_text(&self) -> Cow<'_, str> {
        match self {
            Self::Null => Cow::Borrowed(""),
            Self::String(s) => Cow::Borrowed(s),
            Self::Double(x) => Cow::Owned(double_to_string(*x)),
            other => Cow::Owned(other.to_json()),
        }
    }

    /// The double of a cast to number; what is no number counts as 0.
    pub fn to_f64(&self) -> f64 {
        self.to_number().and_then(|n| n.as_f64()).unwrap_or(0.0)
    }

    /// The integer of a cast, cut off towards zero and to the 64-bit range; of a text the digits it begins with count.
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

    /// A finite double as a value; `None` for NaN and infinities.
    pub fn finite(x: f64) -> Option<Value> {
        x.is_finite().then_some(Self::Double(x))
    }

    /// About how many bytes the value holds (shared parts counted each time).
    pub fn size_bytes(&self) -> usize {
        VALUE_BYTES
            + match self {
                Self::String(s) => s.len(),
                Self::Array(items) => items.iter().map(Value::size_bytes).sum(),
                Self::Object(object) => object.size_bytes(),
                _ => 0,
            }
    }

    /// AQL's name of the type.
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

/// What the C library takes for space in front of a number.
const SPACE: [char; 6] = [' ', '\t', '\n', '\u{b}', '\u{c}', '\r'];

/// A text as a double, as `strtod` reads it: decimal or hexadecimal, with a sign, space around; space alone is 0.
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

/// From here on a double is no longer every integer.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The integer that a text begins with, behind space; none if it begins otherwise or is too large.
pub fn leading_integer(text: &str) -> Option<i64> {
    let text = text.trim_start_matches(SPACE);
    let signed = usize::from(text.starts_with(['-', '+']));
    let digits = text[signed..].bytes().take_while(u8::is_ascii_digit).count();
    text[..signed + digits].parse().ok()
}
