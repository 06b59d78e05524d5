//! AQL's casts: truth, numbers, texts, sizes.

use std::borrow::Cow;

use super::number::{double_to_string, parse_number};
use super::{Object, Value};

/// What a value costs in memory beside its content, in bytes (enum, reference count, allocation).
const VALUE_BYTES: usize = 32;

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

    /// `TO_NUMBER`: null and false are 0, true is 1, numeric texts are read, `[x]` is x, `[]` 0; what is no number is `None`.
    pub fn to_number(&self) -> Option<Value> {
        match self {
            Self::Null | Self::Bool(false) => Some(Self::Int(0)),
            Self::Bool(true) => Some(Self::Int(1)),
            Self::Int(_) | Self::UInt(_) | Self::Double(_) => Some(self.clone()),
            Self::String(s) => {
                let text = s.trim();
                if text.is_empty() { Some(Self::Int(0)) } else { numeric_text(text) }
            }
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

    /// The integer of a cast to number, cut off towards zero and to the 64-bit range.
    pub fn to_i64(&self) -> i64 {
        match self.to_number() {
            Some(Self::Int(i)) => i,
            Some(Self::UInt(_)) => i64::MAX,
            Some(Self::Double(x)) => x as i64,
            _ => 0,
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
        self.iter().map(|(n, v)| n.len() + VALUE_BYTES + v.size_bytes()).sum()
    }
}

/// Digits, sign, point and exponent only: no `inf`, no `nan`, no `+`.
fn numeric_text(text: &str) -> Option<Value> {
    let good = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if good { parse_number(text) } else { None }
}
