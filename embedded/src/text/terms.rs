//! How terms are written: path, analyzer or type, token. So one field of the segments holds every field of every link.

use std::sync::Arc;

use super::analyzer::Analysis;
use crate::encode::encode_ordered;
use crate::value::Value;

/// Between the names of a path.
const NAME_END: char = '\u{1}';
/// Behind a path, and behind what follows it.
pub(super) const PART_END: char = '\u{0}';
/// In front of a character of a name that is one of these three.
const ESCAPE: char = '\u{2}';
/// In front of the names of types, so that no analyzer is called so.
const TYPE: char = '\u{1}';

/// A step of the path of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// An attribute.
    Name(Arc<str>),
    /// An item of a list.
    Item(usize),
}

/// A path as terms begin with it.
#[derive(Clone, Debug, Default)]
pub(super) struct Path(String);

impl Path {
    /// A path of a query.
    pub(super) fn of(segments: &[Segment]) -> Self {
        segments.iter().fold(Self::default(), |path, segment| match segment {
            Segment::Name(name) => path.with(name),
            Segment::Item(place) => path.item(*place),
        })
    }

    /// The path of an attribute below this one.
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

    /// The path of an item of a list whose places count.
    pub(super) fn item(&self, place: usize) -> Self {
        // No name begins so: behind an escape stands one of three digits.
        Self(format!("{}{ESCAPE}#{place}{NAME_END}", self.0))
    }

    /// What the terms of texts under an analyzer begin with.
    pub(super) fn analyzed(&self, analysis: &Analysis) -> String {
        format!("{}{PART_END}{}{PART_END}", self.0, analysis.name)
    }

    /// What the shapes of a geo analyzer begin with.
    pub(super) fn shape(&self, analysis: &Analysis) -> String {
        format!("{}{PART_END}{TYPE}shape {}{PART_END}", self.0, analysis.name)
    }

    /// What the texts behind the pieces of a wildcard analyzer begin with.
    pub(super) fn whole(&self, analysis: &Analysis) -> String {
        format!("{}{PART_END}{TYPE}whole {}{PART_END}", self.0, analysis.name)
    }

    /// What the terms of values of a type begin with.
    pub(super) fn typed(&self, kind: Type) -> String {
        format!("{}{PART_END}{TYPE}{}{PART_END}", self.0, kind.name())
    }
}

/// Types that no analyzer handles, and the mark of stored values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// Null.
    Null,
    /// False and true.
    Bool,
    /// Numbers.
    Number,
    /// What `EXISTS` looks for; the tokens are names of types.
    Stored,
}

impl Type {
    /// The type of a value that is one token.
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

/// Whether the terms that begin so are those of numbers.
pub(super) fn holds_numbers(field: &str) -> bool {
    let name = field.strip_suffix(PART_END).and_then(|rest| rest.strip_suffix("number"));
    name.and_then(|rest| rest.strip_suffix(TYPE)).is_some_and(|rest| rest.ends_with(PART_END))
}

/// A null, bool or number as a token whose bytes sort as the values do.
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

/// The number that a token of one stands for; of an integer that no double is, the next one below it.
pub(super) fn number(token: &str) -> Option<f64> {
    let ordered = u64::from_str_radix(token.get(2..18)?, 16).ok()?;
    let bits = if ordered >> 63 == 1 { ordered ^ 1 << 63 } else { !ordered };
    Some(f64::from_bits(bits))
}
