//! The condition of a SEARCH after all its values were computed, and the conversion of the
//! condition to selections of the segments' terms.

use std::sync::Arc;

use super::analyzer::Analysis;
use super::geo::GeoTest;
use super::score::Features;
use super::terms::{Path, Segment, Type, token};
use crate::error::{Code, Error, Result};
use crate::functions::like;
use crate::value::Value;

/// A condition on the documents of a view.
#[derive(Clone, Debug)]
pub(crate) enum Query {
    /// Every document matches.
    All,
    /// No document matches.
    Nothing,
    /// A field has the given value: a token of its analyzer, or a null, bool or number.
    Equal(Field, Value),
    /// A field has a value between two bounds of one type, each of which may be inclusive.
    Range(Field, Option<(Value, bool)>, Option<(Value, bool)>),
    /// A field has a token that begins with a given prefix.
    Prefix(Field, String),
    /// A field has a token that matches a pattern (`%`, `_`).
    Like(Field, String),
    /// A field has a token within a given edit distance of a target (`LEVENSHTEIN_MATCH`).
    Near(Field, Edits),
    /// A field contains a phrase.
    Phrase(Field, Vec<Part>),
    /// A field contains a required share of the given tokens in the same order (`NGRAM_MATCH`).
    Ngram(Field, Vec<String>, f32),
    /// A field has a shape that fulfils a geo condition.
    Geo(Field, GeoTest),
    /// An attribute exists and has the given type: `any`, `string`, `numeric`, `bool`, `null`, or
    /// `analyzer:` and a name.
    Exists(Vec<Segment>, String),
    /// The document fulfils all of the conditions.
    And(Vec<Self>),
    /// The document fulfils at least the given number of the conditions.
    AtLeast(usize, Vec<Self>),
    /// The document does not fulfil the condition.
    Not(Box<Self>),
    /// A condition whose score is multiplied by a factor.
    Boost(Box<Self>, f32),
}

/// An attribute path and the analyzer for its texts.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// Attribute names and list indexes of the path.
    pub(crate) path: Vec<Segment>,
    /// The analyzer of the field's texts.
    pub(crate) analysis: Arc<Analysis>,
}

/// A part of a phrase: alternative tokens for one position.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// Number of positions between the previous part and this part.
    pub(crate) gap: i64,
    /// The alternative tokens.
    pub(crate) choices: Vec<Choice>,
}

/// An alternative for one position of a phrase.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    /// The given token.
    Token(String),
    /// Any token that begins with the given prefix.
    Prefix(String),
    /// Any token that matches a pattern.
    Like(String),
    /// Any token within a given edit distance of a target.
    Near(Edits),
    /// Any token between two bounds, each of which may be inclusive.
    Range(Option<(String, bool)>, Option<(String, bool)>),
}

/// The arguments of `LEVENSHTEIN_MATCH`.
#[derive(Clone, Debug)]
pub(crate) struct Edits {
    /// The target with which tokens are compared.
    pub(crate) target: String,
    /// Maximum edit distance.
    pub(crate) distance: usize,
    /// Whether a transposition of two characters counts as one edit.
    pub(crate) transpositions: bool,
    /// Maximum number of tokens that match. If more tokens are within the distance, the tokens
    /// nearest to the target match. 0 means no limit.
    pub(crate) terms_max: usize,
    /// The prefix that a token must have; only the rest of the token is compared with the target.
    pub(crate) prefix: String,
}

/// A selection of terms of one field.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    /// The prefix of all terms of the field.
    pub(super) field: String,
    /// The analyzer's features that affect scores; `None` if the terms have no scores.
    pub(super) features: Option<Features>,
    /// The selected tokens.
    pub(super) tokens: Tokens,
}

/// A condition on the numbers of one field: between two bounds, each of which may be inclusive.
#[derive(Clone, Debug)]
pub(super) struct Between {
    /// Prefix of all terms of the field.
    pub(super) field: String,
    lower: Option<(f64, bool)>,
    upper: Option<(f64, bool)>,
}

/// A set of tokens, given by a condition.
#[derive(Clone, Debug)]
pub(super) enum Tokens {
    /// The given token.
    One(String),
    /// All tokens between two bounds, each of which may be inclusive.
    Range(Option<(String, bool)>, Option<(String, bool)>),
    /// All tokens with a prefix.
    Prefix(String),
    /// All tokens that match a pattern.
    Like(String),
    /// All tokens within a given edit distance of a target.
    Near(Edits),
    /// All shapes that fulfil a geo condition.
    Geo(GeoTest),
}

impl Field {
    /// Selects the terms for a value of a field.
    pub(super) fn equal(&self, value: &Value) -> Result<Selection> {
        match (value, Type::of(value)) {
            (Value::String(text), _) => Ok(self.selection(Tokens::One(text.to_string()))),
            (_, Some(kind)) => Ok(self.typed(kind, Tokens::One(token(value)))),
            (_, None) => Err(not_a_token(value)),
        }
    }

    /// Selects the terms for a range of values, or returns `None` if the bounds have different
    /// types.
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

    /// Returns the condition for a range of numbers, with the bounds as doubles. Returns `None` if
    /// a bound is not a number, or if its absolute value is 2^53 or more, where doubles are not
    /// exact.
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

    /// Selects the shapes of the field that fulfil a geo condition.
    pub(super) fn shapes(&self, test: GeoTest) -> Selection {
        let field = Path::of(&self.path).shape(&self.analysis);
        Selection { field, ..self.selection(Tokens::Geo(test)) }
    }

    /// Returns a selection of whole tokens, which a wildcard analyzer has not split into n-grams.
    pub(super) fn wholes(&self, tokens: Tokens) -> Selection {
        let field = Path::of(&self.path).whole(&self.analysis);
        Selection { field, ..self.selection(tokens) }
    }

    /// Returns the selection of the given tokens in the field's analyzed texts.
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

/// Selects the terms for `EXISTS`.
pub(super) fn stored(path: &[Segment], what: &str) -> Selection {
    let field = Path::of(path).typed(Type::Stored);
    Selection { field, features: None, tokens: Tokens::One(what.to_owned()) }
}

impl Between {
    /// Whether a number is between the bounds of the range.
    pub(super) fn holds(&self, number: f64) -> bool {
        self.lower.is_none_or(|(bound, own)| number > bound || (own && number == bound))
            && self.upper.is_none_or(|(bound, own)| number < bound || (own && number == bound))
    }
}

impl Tokens {
    /// Returns a lower bound of the selected tokens, without the field's prefix, and whether the
    /// bound is inclusive.
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

    /// Whether the condition selects `token`, which must not be below the lower bound. Returns
    /// `None` if neither this token nor any greater token is selected.
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

    /// Whether a selection must look at every token of the field.
    pub(super) fn looks_at_all(&self) -> bool {
        match self {
            Self::Like(pattern) => fixed(pattern).is_empty(),
            Self::Near(edits) => edits.prefix.is_empty(),
            Self::One(_) | Self::Range(..) | Self::Prefix(_) | Self::Geo(_) => false,
        }
    }

    /// Returns a text that every selected token contains, if one is known: the longest part of a
    /// pattern without wildcards.
    pub(super) fn part(&self) -> Option<&str> {
        let Self::Like(pattern) = self else { return None };
        if pattern.contains('\\') {
            return None;
        }
        pattern.split(['%', '_']).max_by_key(|part| part.len())
    }
}

impl Choice {
    /// Returns the tokens that this alternative allows.
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
    /// Returns the similarity between the target and a token, which is given without the prefix.
    /// The similarity is `1 − distance / length`: `distance` is the edit distance, and `length` is
    /// the number of characters of the shorter of the two texts, each including the prefix. If the
    /// number of tokens is limited, the similarity is at least 0 (ArangoDB's `by_edit_distance`).
    pub(super) fn similarity(&self, token: &str) -> f32 {
        let length = |text: &str| (self.prefix.chars().count() + text.chars().count()).max(1);
        let similarity =
            1.0 - self.of(token) as f32 / length(token).min(length(&self.target)) as f32;
        if self.terms_max > 0 { similarity.max(0.0) } else { similarity }
    }

    /// Returns the edit distance between the target and a token, which is given without the prefix.
    /// If the distance is above the allowed distance, the result may be any number above the
    /// allowed distance.
    pub(crate) fn of(&self, token: &str) -> usize {
        // Most pairs have little in common, and most texts are ASCII: no characters are collected.
        let (target, token) = rests(&self.target, token);
        if target.is_ascii() && token.is_ascii() {
            self.between(target.as_bytes(), token.as_bytes())
        } else {
            let of = |text: &str| text.chars().collect::<Vec<_>>();
            self.between(&of(target), &of(token))
        }
    }

    fn between<T: PartialEq>(&self, a: &[T], b: &[T]) -> usize {
        if a.len().abs_diff(b.len()) > self.distance {
            return self.distance + 1;
        }
        if a.is_empty() || b.is_empty() {
            return a.len().max(b.len());
        }
        // Both texts differ at the beginning and at the end, so one edit is enough only for one
        // character, or for two that are swapped.
        if self.distance <= 1 && a.len().max(b.len()) > 2 {
            return self.distance + 1;
        }
        let mut before: Vec<usize> = Vec::new();
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, x) in a.iter().enumerate() {
            let mut next = Vec::with_capacity(row.len());
            next.push(i + 1);
            for (j, y) in b.iter().enumerate() {
                let mut edits = (row[j] + usize::from(x != y)).min(row[j + 1] + 1).min(next[j] + 1);
                let swapped = i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y;
                if self.transpositions && swapped {
                    edits = edits.min(before[j - 1] + 1);
                }
                next.push(edits);
            }
            if next.iter().all(|edits| *edits > self.distance + 1) {
                return self.distance + 1;
            }
            before = std::mem::replace(&mut row, next);
        }
        row[b.len()]
    }
}

/// Returns two texts without the characters that they have in common at the beginning and at the
/// end, which need no edit.
fn rests<'a, 'b>(a: &'a str, b: &'b str) -> (&'a str, &'b str) {
    let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[a.floor_char_boundary(same)..], &b[b.floor_char_boundary(same)..]);
    let same = a.bytes().rev().zip(b.bytes().rev()).take_while(|(a, b)| a == b).count();
    let end = |text: &str| text.ceil_char_boundary(text.len() - same);
    (&a[..end(a)], &b[..end(b)])
}

/// Returns the part of a pattern before its first wildcard or escape; all matching texts begin with
/// it.
fn fixed(pattern: &str) -> &str {
    pattern.split(['%', '_', '\\']).next().unwrap_or_default()
}

fn not_a_token(value: &Value) -> Error {
    let text = format!("a SEARCH cannot compare an attribute with an {}", value.type_name());
    Error::new(Code::BadParameter, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The edit distance by its definition, with transpositions of adjacent characters.
    fn defined(a: &[char], b: &[char], transpositions: bool) -> usize {
        let (Some((x, a_rest)), Some((y, b_rest))) = (a.split_last(), b.split_last()) else {
            return a.len().max(b.len());
        };
        let mut edits = (defined(a_rest, b_rest, transpositions) + usize::from(x != y))
            .min(defined(a_rest, b, transpositions) + 1)
            .min(defined(a, b_rest, transpositions) + 1);
        if transpositions
            && let ([a_rest @ .., p, q], [b_rest @ .., r, s]) = (a, b)
            && (p, q) == (s, r)
        {
            edits = edits.min(defined(a_rest, b_rest, transpositions) + 1);
        }
        edits
    }

    #[test]
    fn distances_up_to_the_limit_are_exact() {
        let letters = ['a', 'b', 'é', 'è'];
        let words = (0..4_u32.pow(5)).step_by(7).map(|number| {
            let length = 1 + number % 5;
            (0..length).map(|at| letters[(number >> (2 * at)) as usize % 4]).collect::<String>()
        });
        let words: Vec<String> = words.collect();
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        for target in words.iter().step_by(5) {
            for token in &words {
                for (distance, transpositions) in [(1, true), (1, false), (2, true), (4, false)] {
                    let (target, prefix) = (target.clone(), String::new());
                    let edits = Edits { target, distance, transpositions, terms_max: 0, prefix };
                    let exact = defined(&chars(&edits.target), &chars(token), transpositions);
                    let found = edits.of(token);
                    assert_eq!(
                        found.min(distance + 1),
                        exact.min(distance + 1),
                        "{edits:?} {token}"
                    );
                }
            }
        }
    }
}
