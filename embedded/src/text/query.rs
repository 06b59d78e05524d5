//! What a SEARCH asks for once its values are known, and how that becomes terms of the segments.

use std::sync::Arc;

use super::analyzer::Analysis;
use super::geo::GeoTest;
use super::score::Features;
use super::terms::{Path, Segment, Type, token};
use crate::error::{Code, Error, Result};
use crate::functions::like;
use crate::value::Value;

/// A condition over the documents of a view.
#[derive(Clone, Debug)]
pub(crate) enum Query {
    /// Every document.
    All,
    /// No document.
    Nothing,
    /// A field holds a value: a token under its analyzer, or a null, bool or number.
    Equal(Field, Value),
    /// A field holds a value between two bounds (each with whether it belongs to the range) of one type.
    Range(Field, Option<(Value, bool)>, Option<(Value, bool)>),
    /// A field holds a token that begins so.
    Prefix(Field, String),
    /// A field holds a token that looks so (`%`, `_`).
    Like(Field, String),
    /// A field holds a token within a number of edits.
    Near(Field, Edits),
    /// A field holds tokens one behind the other.
    Phrase(Field, Vec<Part>),
    /// A field holds a share of these tokens in their order.
    Ngram(Field, Vec<String>, f32),
    /// A field holds a shape that fulfils a condition.
    Geo(Field, GeoTest),
    /// A field is there: `any`, `string`, `numeric`, `bool`, `null`, or `analyzer:` and a name.
    Exists(Vec<Segment>, String),
    /// All of them.
    And(Vec<Self>),
    /// At least so many of them.
    AtLeast(usize, Vec<Self>),
    /// Not this.
    Not(Box<Self>),
    /// The same with another weight.
    Boost(Box<Self>, f32),
}

/// An attribute path and the analyzer under which its texts are looked at.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// Attribute names.
    pub(crate) path: Vec<Segment>,
    /// The analyzer.
    pub(crate) analysis: Arc<Analysis>,
}

/// A part of a phrase: how many places lie between it and the part before, and what may stand there.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// Places between.
    pub(crate) gap: i64,
    /// Any of these.
    pub(crate) choices: Vec<Choice>,
}

/// What may stand in one place of a phrase.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    /// A token.
    Token(String),
    /// A token that begins so.
    Prefix(String),
    /// A token that looks so.
    Like(String),
    /// A token within a number of edits.
    Near(Edits),
    /// A token between two bounds.
    Range(Option<(String, bool)>, Option<(String, bool)>),
}

/// `LEVENSHTEIN_MATCH`
#[derive(Clone, Debug)]
pub(crate) struct Edits {
    /// The token it is compared with.
    pub(crate) target: String,
    /// How many edits are allowed.
    pub(crate) distance: usize,
    /// Whether two swapped neighbours are one edit.
    pub(crate) transpositions: bool,
    /// Tokens taken at most, the nearest first; 0 is all.
    pub(crate) terms_max: usize,
    /// What the token must begin with; the target follows it.
    pub(crate) prefix: String,
}

/// Terms of one field: what they begin with, and which of them are meant.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    /// What all terms of the field begin with.
    pub(super) field: String,
    /// What counts when they are scored; None if they are not.
    pub(super) features: Option<Features>,
    /// Which of them.
    pub(super) tokens: Tokens,
}

/// Numbers of one field between two bounds, each with whether it belongs to them.
#[derive(Clone, Debug)]
pub(super) struct Between {
    /// What all terms of the field begin with.
    pub(super) field: String,
    lower: Option<(f64, bool)>,
    upper: Option<(f64, bool)>,
}

/// Some tokens.
#[derive(Clone, Debug)]
pub(super) enum Tokens {
    /// One.
    One(String),
    /// Those from a lower to an upper bound.
    Range(Option<(String, bool)>, Option<(String, bool)>),
    /// Those that begin so.
    Prefix(String),
    /// Those that look so.
    Like(String),
    /// Those within a number of edits.
    Near(Edits),
    /// Shapes that fulfil a condition.
    Geo(GeoTest),
}

impl Field {
    /// The terms of a value.
    pub(super) fn equal(&self, value: &Value) -> Result<Selection> {
        match (value, Type::of(value)) {
            (Value::String(text), _) => Ok(self.selection(Tokens::One(text.to_string()))),
            (_, Some(kind)) => Ok(self.typed(kind, Tokens::One(token(value)))),
            (_, None) => Err(not_a_token(value)),
        }
    }

    /// The terms of a range; None if no value can lie in it.
    pub(super) fn range(
        &self,
        lower: Option<&(Value, bool)>,
        upper: Option<&(Value, bool)>,
    ) -> Result<Option<Selection>> {
        let kind = |bound: Option<&(Value, bool)>| bound.map(|(value, _)| Type::of(value));
        let (a, b) = (kind(lower), kind(upper));
        if a.is_some() && b.is_some() && a != b {
            return Ok(None);
        }
        for (value, _) in lower.into_iter().chain(upper) {
            if matches!(value, Value::Array(_) | Value::Object(_)) {
                return Err(not_a_token(value));
            }
        }
        let text = |bound: Option<&(Value, bool)>| {
            bound.map(|(value, inclusive)| match value {
                Value::String(text) => (text.to_string(), *inclusive),
                other => (token(other), *inclusive),
            })
        };
        let tokens = Tokens::Range(text(lower), text(upper));
        Ok(Some(match a.or(b).flatten() {
            Some(kind) => self.typed(kind, tokens),
            None => self.selection(tokens),
        }))
    }

    /// The numbers of a range; none if it is none of numbers, or if not each integer around a bound is a double.
    pub(super) fn between(
        &self,
        lower: Option<&(Value, bool)>,
        upper: Option<&(Value, bool)>,
    ) -> Option<Between> {
        const EXACT_BELOW: f64 = (1_u64 << 53) as f64;
        if lower.is_none() && upper.is_none() {
            return None;
        }
        let of = |bound: Option<&(Value, bool)>| match bound {
            None => Some(None),
            Some((value, inclusive)) => {
                let number = value.as_f64().filter(|number| number.abs() < EXACT_BELOW)?;
                Some(Some((number, *inclusive)))
            }
        };
        let field = Path::of(&self.path).typed(Type::Number);
        Some(Between { field, lower: of(lower)?, upper: of(upper)? })
    }

    /// The shapes of a geo analyzer.
    pub(super) fn shapes(&self, test: GeoTest) -> Selection {
        let field = Path::of(&self.path).shape(&self.analysis);
        Selection { field, ..self.selection(Tokens::Geo(test)) }
    }

    /// The texts behind the pieces of a wildcard analyzer.
    pub(super) fn wholes(&self, tokens: Tokens) -> Selection {
        let field = Path::of(&self.path).whole(&self.analysis);
        Selection { field, ..self.selection(tokens) }
    }

    /// Tokens of texts.
    pub(super) fn selection(&self, tokens: Tokens) -> Selection {
        let features = Features { frequency: self.analysis.frequency, norm: self.analysis.norm };
        let field = Path::of(&self.path).analyzed(&self.analysis);
        Selection { field, features: Some(features), tokens }
    }

    fn typed(&self, kind: Type, tokens: Tokens) -> Selection {
        let features = Features { frequency: false, norm: false };
        Selection { field: Path::of(&self.path).typed(kind), features: Some(features), tokens }
    }
}

/// The terms that `EXISTS` looks for.
pub(super) fn stored(path: &[Segment], what: &str) -> Selection {
    let field = Path::of(path).typed(Type::Stored);
    Selection { field, features: None, tokens: Tokens::One(what.to_owned()) }
}

impl Between {
    /// Whether a number is one of them.
    pub(super) fn holds(&self, number: f64) -> bool {
        self.lower.is_none_or(|(bound, own)| number > bound || (own && number == bound))
            && self.upper.is_none_or(|(bound, own)| number < bound || (own && number == bound))
    }
}

impl Tokens {
    /// A bound below all of them, without the field.
    pub(super) fn lower(&self) -> Option<(String, bool)> {
        match self {
            Self::One(token) => Some((token.clone(), true)),
            Self::Range(lower, _) => lower.clone(),
            Self::Prefix(prefix) => Some((prefix.clone(), true)),
            Self::Like(pattern) => Some((fixed(pattern).to_owned(), true)),
            Self::Near(edits) => Some((edits.prefix.clone(), true)),
            Self::Geo(_) => None,
        }
    }

    /// Whether a token that is not below `lower` is one of them; None when no later one can be.
    pub(super) fn holds(&self, token: &str) -> Option<bool> {
        match self {
            Self::One(one) => (one == token).then_some(true),
            Self::Range(_, None) => Some(true),
            Self::Range(_, Some((upper, true))) => (token <= upper.as_str()).then_some(true),
            Self::Range(_, Some((upper, false))) => (token < upper.as_str()).then_some(true),
            Self::Prefix(prefix) => token.starts_with(prefix.as_str()).then_some(true),
            Self::Like(pattern) => {
                token.starts_with(fixed(pattern)).then(|| like(token, pattern, false))
            }
            Self::Geo(test) => Some(test.holds(token)),
            Self::Near(edits) => {
                let rest = token.strip_prefix(edits.prefix.as_str())?;
                Some(edits.of(rest) <= edits.distance)
            }
        }
    }
}

impl Choice {
    /// The tokens that it stands for.
    pub(super) fn tokens(&self) -> Tokens {
        match self {
            Self::Token(token) => Tokens::One(token.clone()),
            Self::Prefix(prefix) => Tokens::Prefix(prefix.clone()),
            Self::Like(pattern) => Tokens::Like(pattern.clone()),
            Self::Near(edits) => Tokens::Near(edits.clone()),
            Self::Range(lower, upper) => Tokens::Range(lower.clone(), upper.clone()),
        }
    }
}

impl Edits {
    /// How like the target a token without the prefix is: 1 less the edits by the length of the shorter of the two with their
    /// prefix, in characters; not below 0 where the tokens are limited (ArangoDB's `by_edit_distance`).
    pub(super) fn similarity(&self, token: &str) -> f32 {
        let length = |text: &str| (self.prefix.chars().count() + text.chars().count()).max(1);
        let similarity =
            1.0 - self.of(token) as f32 / length(token).min(length(&self.target)) as f32;
        if self.terms_max > 0 { similarity.max(0.0) } else { similarity }
    }

    /// The number of edits between the target and a token without the prefix; above the distance it may be any number above.
    pub(crate) fn of(&self, token: &str) -> usize {
        let a: Vec<char> = self.target.chars().collect();
        let b: Vec<char> = token.chars().collect();
        if a.len().abs_diff(b.len()) > self.distance {
            return self.distance + 1;
        }
        let mut before: Vec<usize> = Vec::new();
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, x) in a.iter().enumerate() {
            let mut next = vec![i + 1];
            for (j, y) in b.iter().enumerate() {
                let mut edits = (row[j] + usize::from(x != y)).min(row[j + 1] + 1).min(next[j] + 1);
                let swapped = i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y;
                if self.transpositions && swapped {
                    edits = edits.min(before[j - 1] + 1);
                }
                next.push(edits);
            }
            before = std::mem::replace(&mut row, next);
        }
        row[b.len()]
    }
}

/// What every text that looks like a pattern begins with.
fn fixed(pattern: &str) -> &str {
    pattern.split(['%', '_', '\\']).next().unwrap_or_default()
}

fn not_a_token(value: &Value) -> Error {
    let text = format!("a SEARCH cannot compare an attribute with an {}", value.type_name());
    Error::new(Code::BadParameter, text)
}
