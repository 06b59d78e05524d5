//! Encodes the terms of segments as path, then analyzer or type, then token, so that one tantivy
//! field contains the terms of all attributes.

use std::sync::Arc;

use super::analyzer::Analysis;
use crate::encode::encode_ordered;
use crate::value::Value;

/// The byte that ends each name in a path.
const NAME_END: char = '\u{1}';
/// The byte that ends the path in a term. The same byte ends the analyzer or type after the path.
pub(super) const PART_END: char = '\u{0}';
/// The byte that escapes a control byte inside an attribute name.
const ESCAPE: char = '\u{2}';
/// The byte before the name of a type; it distinguishes this name from the name of an analyzer.
const TYPE: char = '\u{1}';

/// One step in an attribute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// An attribute with the given name.
    Name(Arc<str>),
    /// The list item with the given index.
    Item(usize),
}

/// The encoded path at the beginning of terms.
#[derive(Clone, Debug, Default)]
pub(super) struct Path(String);

impl Path {
    /// Returns the encoded form of a path in a query.
    pub(super) fn of(segments: &[Segment]) -> Self {
        segments.iter().fold(Self::default(), |path, segment| match segment {
            Segment::Name(name) => path.with(name),
            Segment::Item(place) => path.item(*place),
        })
    }

    /// Returns the encoded path of a subattribute.
    pub(super) fn with(&self, name: &str) -> Self {
        let mut out = self.0.clone();
        for c in name.chars() {
            if c <= ESCAPE {
                out.push(ESCAPE);
                out.push(char::from(c as u8 + b'0'));
            } else {
                out.push(c);
            }
        }
        out.push(NAME_END);
        Self(out)
    }

    /// Returns the encoded path of a list item, for lists whose positions are indexed.
    pub(super) fn item(&self, place: usize) -> Self {
        // An attribute name never looks like a list item, because in a name a digit follows each
        // escape byte.
        Self(format!("{}{ESCAPE}#{place}{NAME_END}", self.0))
    }

    /// Returns the prefix of the terms that an analyzer makes of texts.
    pub(super) fn analyzed(&self, analysis: &Analysis) -> String {
        format!("{}{PART_END}{}{PART_END}", self.0, analysis.name)
    }

    /// Returns the prefix of the terms with the shapes that a geo analyzer makes.
    pub(super) fn shape(&self, analysis: &Analysis) -> String {
        format!("{}{PART_END}{TYPE}shape {}{PART_END}", self.0, analysis.name)
    }

    /// Returns the prefix of the terms that hold a wildcard analyzer's tokens as a whole, before
    /// the analyzer splits them into n-grams.
    pub(super) fn whole(&self, analysis: &Analysis) -> String {
        format!("{}{PART_END}{TYPE}whole {}{PART_END}", self.0, analysis.name)
    }

    /// Returns the prefix of the terms of one [`Type`].
    pub(super) fn typed(&self, kind: Type) -> String {
        format!("{}{PART_END}{TYPE}{}{PART_END}", self.0, kind.name())
    }
}

/// Types of terms that no analyzer makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// The type of the value null.
    Null,
    /// The type of the values false and true.
    Bool,
    /// The type of numbers.
    Number,
    /// The type of the terms for `EXISTS`, whose tokens are names of value types.
    Stored,
}

impl Type {
    /// Returns the type of a null, bool or number, which becomes one token, or `None` for any other
    /// value.
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(Self::Null),
            Value::Bool(_) => Some(Self::Bool),
            Value::Int(_) | Value::UInt(_) | Value::Double(_) => Some(Self::Number),
            Value::String(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Number => "number",
            Self::Stored => "stored",
        }
    }
}

/// Whether a field prefix is that of numbers.
pub(super) fn holds_numbers(field: &str) -> bool {
    let name = field.strip_suffix(PART_END).and_then(|rest| rest.strip_suffix("number"));
    name.and_then(|rest| rest.strip_suffix(TYPE)).is_some_and(|rest| rest.ends_with(PART_END))
}

/// Converts a null, bool or number to a token. The bytes of tokens sort as the values do.
pub(super) fn token(value: &Value) -> String {
    let mut bytes = Vec::new();
    encode_ordered(value, &mut bytes);
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        for digit in [byte >> 4, byte & 15] {
            out.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
        }
        out
    })
}

/// Returns the number in a token as a double. An integer that no double represents exactly is
/// rounded down.
pub(super) fn number(token: &str) -> Option<f64> {
    let ordered = u64::from_str_radix(token.get(2..18)?, 16).ok()?;
    let bits = if ordered >> 63 == 1 { ordered ^ 1 << 63 } else { !ordered };
    Some(f64::from_bits(bits))
}
