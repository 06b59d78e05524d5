//! Evaluates the condition of a SEARCH and converts it to a query for segments.

use std::sync::Arc;

use super::executor::Executor;
use crate::error::{Code, Error, Result};
use crate::expr::{Expr, Row, eval};
use crate::plan::{AttributeRef, Quantity, Search, SearchCall};
use crate::syntax::Binary;
use crate::text::{self, Analysis, Choice, Edits, Field, GeoTest, Part, Query, Segment};
use crate::value::Value;

/// Default analyzer of a SEARCH condition, used outside of `ANALYZER()`.
const IDENTITY: &str = "identity";
/// Maximum number of items of a list in a SEARCH.
const ITEMS_MAX: usize = 100_000;
/// Maximum edit distance of a LEVENSHTEIN_MATCH, without and with transpositions (ArangoDB's
/// limits).
const EDITS_MAX: usize = 4;
const EDITS_WITH_TRANSPOSITIONS_MAX: usize = 3;
/// Default threshold of NGRAM_MATCH (ArangoDB).
const SHARE: f32 = 0.7;
/// Default `maxTerms` of LEVENSHTEIN_MATCH (ArangoDB).
const NEAR_TERMS: i64 = 64;

impl Executor<'_> {
    /// Converts a condition to a query for segments; evaluates the condition's expressions for the
    /// row.
    pub(super) fn query(&mut self, search: &Search, row: &mut Row) -> Result<Query> {
        Ok(match search {
            Search::Is(value) => {
                if self.value(value, row)?.is_true() {
                    Query::All
                } else {
                    Query::Nothing
                }
            }
            Search::Compare { place, operator, value } => {
                let field = self.field(place, row)?;
                let value = self.value(value, row)?;
                compared(&field, *operator, value)?
            }
            Search::In { place, list: Expr::Binary(Binary::Range, low, high) } => {
                let field = self.field(place, row)?;
                let mut bound = |bound: &Expr| -> Result<Option<(Value, bool)>> {
                    let number = self.value(bound, row)?.to_i64();
                    Ok(Some((Value::Int(number), true)))
                };
                let (low, high) = (bound(low)?, bound(high)?);
                Query::Range(field, low, high)
            }
            Search::In { place, list } => {
                let field = self.field(place, row)?;
                let items = self.items_of(list, row)?;
                any(items.iter().map(|item| compared(&field, Binary::Equal, item.clone())))?
            }
            Search::Items { place, quantity, operator, list } => {
                self.items(place, quantity, *operator, list, row)?
            }
            Search::Call { call, place, arguments } => {
                let field = self.field(place, row)?;
                let arguments = arguments
                    .iter()
                    .map(|argument| self.value(argument, row))
                    .collect::<Result<Vec<_>>>()?;
                let by_index = place.field.is_some();
                if by_index
                    && *call == SearchCall::Exists
                    && arguments.first().and_then(Value::as_str) == Some("type")
                {
                    // In an inverted index, EXISTS ignores the requested type.
                    return Ok(Query::Exists(field.path, "any".to_owned()));
                }
                call_of(*call, field, &arguments)?
            }
            Search::Geo { name, place, at, arguments, bound } => {
                let field = self.field(place, row)?;
                let arguments = arguments.iter().map(|argument| self.value(argument, row));
                let mut arguments = arguments.collect::<Result<Vec<_>>>()?;
                arguments.insert(*at, Value::Null);
                let bound = bound.as_ref().map(|(operator, bound)| {
                    let value = self.value(bound, row)?;
                    if value.is_number() {
                        Ok((*operator, value))
                    } else {
                        Err(mistyped(name, &value))
                    }
                });
                Query::Geo(field, GeoTest::new(name, arguments, *at, bound.transpose()?)?)
            }
            Search::And(parts) => Query::And(self.queries(parts, row)?),
            Search::Or(parts) => Query::AtLeast(1, self.queries(parts, row)?),
            Search::AtLeast(parts, least) => {
                let least = self.value(least, row)?;
                Query::AtLeast(count(&least, "MIN_MATCH")?, self.queries(parts, row)?)
            }
            Search::Not(part) => Query::Not(Box::new(self.query(part, row)?)),
            Search::Boost(part, factor) => {
                let factor = self.value(factor, row)?;
                let Some(number) = factor.as_f64().filter(|number| *number >= 0.0) else {
                    return Err(mistyped("BOOST", &factor));
                };
                Query::Boost(Box::new(self.query(part, row)?), number as f32)
            }
        })
    }

    /// `TOKENS(text, analyzer)`: the tokens of a text, or nested lists of tokens for a list of
    /// texts.
    pub(super) fn tokens(&self, arguments: &[Value]) -> Result<Value> {
        let [given, rest @ ..] = arguments else { return Err(Error::of(Code::Internal)) };
        let name = rest
            .first()
            .map_or(Ok(IDENTITY), |name| name.as_str().ok_or_else(|| mistyped("TOKENS", name)))?;
        let analysis = text::find(self.database, name)?;
        match given {
            // For an empty list, ArangoDB's TOKENS returns one item without tokens.
            Value::Array(items) if items.is_empty() => Ok(vec![Value::array(Vec::new())].into()),
            given => tokens(&analysis, given),
        }
    }

    fn queries(&mut self, parts: &[Search], row: &mut Row) -> Result<Vec<Query>> {
        parts.iter().map(|part| self.query(part, row)).collect()
    }

    fn value(&mut self, value: &Expr, row: &mut Row) -> Result<Value> {
        eval(value, row, self.binds, self)
    }

    fn items_of(&mut self, list: &Expr, row: &mut Row) -> Result<Items> {
        let list = self.value(list, row)?;
        match list {
            Value::Array(items) if items.len() <= ITEMS_MAX => Ok(items),
            Value::Array(items) => {
                let text = format!(
                    "a SEARCH compares with {ITEMS_MAX} items at most, not {}",
                    items.len()
                );
                Err(Error::new(Code::ResourceLimit, text))
            }
            other => Err(mistyped("IN", &other)),
        }
    }

    fn field(&mut self, place: &AttributeRef, row: &mut Row) -> Result<Field> {
        if let Some(known) = &place.field {
            return self.indexed_field(place, known.as_ref(), row);
        }
        let name = match &place.analyzer {
            None => Value::from(IDENTITY),
            Some(name) => self.value(name, row)?,
        };
        let name = name.as_str().ok_or_else(|| mistyped("ANALYZER", &name))?;
        Ok(Field { path: place.path.clone(), analysis: text::find(self.database, name)? })
    }

    /// Returns a field of inverted indexes, with the analyzer that the indexes define.
    fn indexed_field(
        &mut self,
        place: &AttributeRef,
        known: Option<&Arc<Analysis>>,
        row: &mut Row,
    ) -> Result<Field> {
        let path = || {
            place.path.iter().fold(String::new(), |path, segment| match segment {
                Segment::Name(name) if path.is_empty() => name.to_string(),
                Segment::Name(name) => format!("{path}.{name}"),
                Segment::Item(item) => format!("{path}[{item}]"),
            })
        };
        let context = place.analyzer.as_ref().map(|name| self.value(name, row)).transpose()?;
        let context = context.as_ref().and_then(Value::as_str);
        let Some(analysis) = known else {
            let text = format!("Analyzer for field '{}' isn't set", path());
            self.warnings.raise(Code::BadParameter, text)?;
            let analysis = text::find(self.database, context.unwrap_or(IDENTITY))?;
            return Ok(Field { path: place.path.clone(), analysis });
        };
        if let Some(context) = context {
            let other = text::find(self.database, context)?;
            if other.name != analysis.name {
                let text = format!(
                    "Context analyzer '{context}' doesn't match field '{}' analyzer '{}'",
                    path(),
                    analysis.name
                );
                self.warnings.raise(Code::BadParameter, text)?;
            }
        }
        Ok(Field { path: place.path.clone(), analysis: analysis.clone() })
    }

    /// `NGRAM_MATCH(text, target, share, analyzer)` for two texts.
    pub(super) fn ngram_match(&self, arguments: &[Value]) -> Result<Value> {
        let (text, target, share, analysis) = self.compared_texts("NGRAM_MATCH", arguments)?;
        let target = analysis.tokens(target);
        if target.is_empty() {
            return Ok(false.into());
        }
        let found = text::in_order(&analysis.tokens(text), &target);
        Ok((found >= text::least(target.len(), share)).into())
    }

    /// `MINHASH_MATCH(text, target, share, analyzer)` for two texts.
    pub(super) fn minhash_match(&self, arguments: &[Value]) -> Result<Value> {
        let (text, target, share, analysis) = self.compared_texts("MINHASH_MATCH", arguments)?;
        if analysis.hashes().is_none() {
            return Err(Error::new(Code::BadParameter, "MINHASH_MATCH needs a minhash analyzer"));
        }
        let (own, target) = (analysis.tokens(text), analysis.tokens(target));
        let both = own.iter().filter(|token| target.contains(token)).count();
        Ok((both >= text::least(target.len(), share)).into())
    }

    fn compared_texts<'a>(
        &self,
        function: &str,
        arguments: &'a [Value],
    ) -> Result<(&'a str, &'a str, f32, Arc<Analysis>)> {
        let (text, target, share, name) = match arguments {
            [text, target, name] => (text, target, SHARE, name),
            [text, target, share, name] => (text, target, share_of(share, function)?, name),
            _ => return Err(Error::of(Code::Internal)),
        };
        let text_of = |value: &'a Value| value.as_str().ok_or_else(|| mistyped(function, value));
        let analysis = text::find(self.database, text_of(name)?)?;
        Ok((text_of(text)?, text_of(target)?, share, analysis))
    }

    fn items(
        &mut self,
        place: &AttributeRef,
        quantity: &Quantity,
        operator: Binary,
        list: &Expr,
        row: &mut Row,
    ) -> Result<Query> {
        let field = self.field(place, row)?;
        let items = self.items_of(list, row)?;
        // `NONE` with a comparison operator is converted to `ALL` with the opposite operator.
        // Missing attributes do not match.
        let opposite = match (quantity, operator) {
            (Quantity::None, Binary::Less) => Some(Binary::GreaterEqual),
            (Quantity::None, Binary::LessEqual) => Some(Binary::Greater),
            (Quantity::None, Binary::Greater) => Some(Binary::LessEqual),
            (Quantity::None, Binary::GreaterEqual) => Some(Binary::Less),
            _ => None,
        };
        let quantity = if opposite.is_some() { &Quantity::All } else { quantity };
        let operator = opposite.unwrap_or(operator);
        let one = |item: &Value| {
            let item = item.clone();
            match operator {
                // The list item is the left operand of AQL's comparison, so the operator is
                // mirrored.
                Binary::Less => compared(&field, Binary::Greater, item),
                Binary::LessEqual => compared(&field, Binary::GreaterEqual, item),
                Binary::Greater => compared(&field, Binary::Less, item),
                Binary::GreaterEqual => compared(&field, Binary::LessEqual, item),
                Binary::Equal | Binary::In => compared(&field, Binary::Equal, item),
                Binary::NotEqual | Binary::NotIn => {
                    Ok(Query::Not(Box::new(compared(&field, Binary::Equal, item)?)))
                }
                other => Err(Error::unsupported(format!("the operator {other} in SEARCH"))),
            }
        };
        let queries = items.iter().map(one).collect::<Result<Vec<_>>>()?;
        Ok(match quantity {
            Quantity::None => Query::Not(Box::new(Query::AtLeast(1, queries))),
            // For an empty list, ALL is true and ANY is false.
            Quantity::Any if queries.is_empty() => Query::Nothing,
            Quantity::All => Query::And(queries),
            Quantity::Any => Query::AtLeast(1, queries),
            Quantity::AtLeast(least) => {
                let least = self.value(least, row)?;
                Query::AtLeast(count(&least, "AT LEAST")?, queries)
            }
        })
    }
}

type Items = Arc<Vec<Value>>;

fn any(parts: impl Iterator<Item = Result<Query>>) -> Result<Query> {
    Ok(Query::AtLeast(1, parts.collect::<Result<_>>()?))
}

fn compared(field: &Field, operator: Binary, value: Value) -> Result<Query> {
    let field = field.clone();
    Ok(match operator {
        Binary::Equal => Query::Equal(field, value),
        Binary::Less => Query::Range(field, None, Some((value, false))),
        Binary::LessEqual => Query::Range(field, None, Some((value, true))),
        Binary::Greater => Query::Range(field, Some((value, false)), None),
        Binary::GreaterEqual => Query::Range(field, Some((value, true)), None),
        Binary::Like => Query::Like(field, text_of(&value, "LIKE")?),
        other => return Err(Error::unsupported(format!("the operator {other} in SEARCH"))),
    })
}

fn call_of(call: SearchCall, field: Field, arguments: &[Value]) -> Result<Query> {
    match (call, arguments) {
        (SearchCall::Phrase, parts) => phrase(field, parts),
        (SearchCall::Exists, arguments) => exists(field, arguments),
        (SearchCall::StartsWith, [Value::Array(prefixes), rest @ ..]) => {
            let least = rest.first().map_or(Ok(1), |least| count(least, "STARTS_WITH"))?;
            let one =
                |prefix: &Value| Ok(Query::Prefix(field.clone(), text_of(prefix, "STARTS_WITH")?));
            Ok(Query::AtLeast(least, prefixes.iter().map(one).collect::<Result<_>>()?))
        }
        (SearchCall::StartsWith, [prefix]) => {
            Ok(Query::Prefix(field, text_of(prefix, "STARTS_WITH")?))
        }
        (SearchCall::InRange, [low, high, include_low, include_high]) => {
            let flag = |value: &Value| match value {
                Value::Bool(flag) => Ok(*flag),
                other => Err(mistyped("IN_RANGE", other)),
            };
            let (low, high) =
                ((low.clone(), flag(include_low)?), (high.clone(), flag(include_high)?));
            Ok(Query::Range(field, Some(low), Some(high)))
        }
        (SearchCall::Like, [pattern]) => Ok(Query::Like(field, text_of(pattern, "LIKE")?)),
        (SearchCall::NgramMatch, [target, share @ ..]) => {
            let share = share.first().map_or(Ok(SHARE), |share| share_of(share, "NGRAM_MATCH"))?;
            let tokens = field.analysis.tokens(&text_of(target, "NGRAM_MATCH")?);
            Ok(Query::Ngram(field, tokens, share))
        }
        (SearchCall::MinhashMatch, [target, share]) => {
            let share = share_of(share, "MINHASH_MATCH")?;
            if field.analysis.hashes().is_none() {
                let text = "MINHASH_MATCH needs a minhash analyzer";
                return Err(Error::new(Code::BadParameter, text));
            }
            let tokens = field.analysis.tokens(&text_of(target, "MINHASH_MATCH")?);
            let least = text::least(tokens.len(), share);
            let one = |token: String| Query::Equal(field.clone(), token.into());
            Ok(Query::AtLeast(least, tokens.into_iter().map(one).collect()))
        }
        (SearchCall::LevenshteinMatch, arguments) => Ok(Query::Near(field, edits(arguments)?)),
        (call, arguments) => Err(mistyped(call.name(), &Value::array(arguments.to_vec()))),
    }
}

/// Converts the arguments of PHRASE: texts are split into tokens, numbers between texts are gaps,
/// and an object describes one position. If the only part is a list, each inner list describes one
/// position, and any item of the inner list may match there.
fn phrase(field: Field, parts: &[Value]) -> Result<Query> {
    let (parts, listed) = match parts {
        [Value::Array(parts)] => (parts.as_slice(), true),
        parts => (parts, false),
    };
    let mut out: Vec<Part> = Vec::new();
    let mut gap = 0;
    let mut after_gap = true;
    for (at, part) in parts.iter().enumerate() {
        if part.as_f64().is_some() {
            if after_gap || at + 1 == parts.len() {
                return Err(mistyped("PHRASE", part));
            }
            gap += whole(part, "PHRASE")?;
            after_gap = true;
            continue;
        }
        after_gap = false;
        let mut add = |choices: Vec<Choice>| {
            out.push(Part { gap: std::mem::take(&mut gap), choices });
        };
        match part {
            Value::String(text) => {
                for token in field.analysis.tokens(text) {
                    add(vec![Choice::Token(token)]);
                }
            }
            Value::Array(texts) if listed => {
                let mut choices = Vec::new();
                for text in texts.iter() {
                    let tokens = field.analysis.tokens(&text_of(text, "PHRASE")?);
                    choices.extend(tokens.into_iter().map(Choice::Token));
                }
                if !texts.is_empty() {
                    add(choices);
                }
            }
            Value::Array(items) => {
                for item in items.iter() {
                    match item {
                        Value::String(text) => {
                            for token in field.analysis.tokens(text) {
                                add(vec![Choice::Token(token)]);
                            }
                        }
                        object => add(choices(object)?),
                    }
                }
            }
            object => add(choices(object)?),
        }
    }
    Ok(if out.is_empty() { Query::Nothing } else { Query::Phrase(field, out) })
}

/// Converts a value to a number of positions in a phrase: an integer, which may be negative.
fn whole(value: &Value, function: &str) -> Result<i64> {
    /// Maximum number of positions between two parts of a phrase.
    const GAP_MAX: f64 = 1e9;
    let number = value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() <= GAP_MAX);
    number.map(|number| number as i64).ok_or_else(|| mistyped(function, value))
}

/// The alternatives at one position, from an object in a PHRASE.
fn choices(part: &Value) -> Result<Vec<Choice>> {
    let object = part.as_object().ok_or_else(|| mistyped("PHRASE", part))?;
    let mut entries = object.iter();
    let (Some((kind, value)), None) = (entries.next(), entries.next()) else {
        return Err(mistyped("PHRASE", part));
    };
    let one = |value: &Value| -> Result<Value> {
        match value.as_array() {
            Some([one]) => Ok(one.clone()),
            Some(_) => Err(mistyped("PHRASE", part)),
            None => Ok(value.clone()),
        }
    };
    Ok(match &*kind.to_uppercase() {
        "TERM" => vec![Choice::Token(text_of(&one(value)?, "PHRASE")?)],
        "TERMS" => {
            let terms = value.as_array().ok_or_else(|| mistyped("PHRASE", part))?;
            let terms = terms.iter().map(|term| Ok(Choice::Token(text_of(term, "PHRASE")?)));
            terms.collect::<Result<_>>()?
        }
        "STARTS_WITH" => vec![Choice::Prefix(text_of(&one(value)?, "PHRASE")?)],
        "WILDCARD" => vec![Choice::Like(text_of(&one(value)?, "PHRASE")?)],
        "LEVENSHTEIN_MATCH" => {
            vec![Choice::Near(edits(value.as_array().unwrap_or_default())?)]
        }
        "IN_RANGE" => {
            let Some([low, high, Value::Bool(include_low), Value::Bool(include_high)]) =
                value.as_array()
            else {
                return Err(mistyped("PHRASE", part));
            };
            let low = (text_of(low, "PHRASE")?, *include_low);
            let high = (text_of(high, "PHRASE")?, *include_high);
            vec![Choice::Range(Some(low), Some(high))]
        }
        other => return Err(Error::unsupported(format!("'{other}' in a PHRASE"))),
    })
}

fn exists(field: Field, arguments: &[Value]) -> Result<Query> {
    let what = match arguments {
        [] => "any".to_owned(),
        [kind] => match kind.as_str() {
            Some(kind @ ("string" | "numeric" | "bool" | "null")) => kind.to_owned(),
            Some("boolean") => "bool".to_owned(),
            Some("type") => {
                let one = |kind: &str| Query::Exists(field.path.clone(), kind.to_owned());
                return Ok(Query::AtLeast(1, ["null", "bool", "numeric"].map(one).to_vec()));
            }
            Some("analyzer") => format!("analyzer:{}", field.analysis.name),
            Some(other) => return Err(Error::unsupported(format!("EXISTS() with '{other}'"))),
            None => return Err(mistyped("EXISTS", kind)),
        },
        [kind, name] if kind.as_str() == Some("analyzer") => {
            let name = text_of(name, "EXISTS")?;
            format!("analyzer:{}", name.rsplit_once("::").map_or(name.as_str(), |(_, name)| name))
        }
        [kind, ..] => return Err(mistyped("EXISTS", kind)),
    };
    Ok(Query::Exists(field.path, what))
}

fn edits(arguments: &[Value]) -> Result<Edits> {
    let wrong = || mistyped("LEVENSHTEIN_MATCH", &Value::array(arguments.to_vec()));
    let [target, distance, rest @ ..] = arguments else { return Err(wrong()) };
    let transpositions = match rest.first() {
        None => true,
        Some(Value::Bool(transpositions)) => *transpositions,
        Some(_) => return Err(wrong()),
    };
    let distance = count(distance, "LEVENSHTEIN_MATCH")?;
    let max = if transpositions { EDITS_WITH_TRANSPOSITIONS_MAX } else { EDITS_MAX };
    if distance > max || rest.len() > 3 {
        return Err(wrong());
    }
    let terms_max = count(rest.get(1).unwrap_or(&Value::Int(NEAR_TERMS)), "LEVENSHTEIN_MATCH")?;
    let prefix =
        rest.get(2).map_or(Ok(String::new()), |text| text_of(text, "LEVENSHTEIN_MATCH"))?;
    let target = text_of(target, "LEVENSHTEIN_MATCH")?;
    Ok(Edits { target, distance, transpositions, terms_max, prefix })
}

fn tokens(analysis: &Analysis, given: &Value) -> Result<Value> {
    match given {
        Value::String(text) => analysis.tokens_value(text),
        Value::Array(items) => {
            let nested = |item: &Value| match item {
                Value::Array(items) if items.is_empty() => {
                    Ok(vec![Value::array(Vec::new())].into())
                }
                item => tokens(analysis, item),
            };
            Ok(Value::array(items.iter().map(nested).collect::<Result<_>>()?))
        }
        other => text::basic(other).ok_or_else(|| mistyped("TOKENS", other)),
    }
}

/// Converts a value to a share of matching tokens, from 0 to 1.
fn share_of(value: &Value, function: &str) -> Result<f32> {
    let share = value.as_f64().filter(|share| (0.0..=1.0).contains(share));
    share.map(|share| share as f32).ok_or_else(|| mistyped(function, value))
}

fn text_of(value: &Value, function: &str) -> Result<String> {
    value.as_str().map(str::to_owned).ok_or_else(|| mistyped(function, value))
}

/// Converts a value to a count, an integer of at least 0.
fn count(value: &Value, function: &str) -> Result<usize> {
    let number = value.as_f64().filter(|number| *number >= 0.0 && number.fract() == 0.0);
    number
        .filter(|number| *number <= f64::from(u32::MAX))
        .map(|number| number as usize)
        .ok_or_else(|| mistyped(function, value))
}

fn mistyped(function: &str, value: &Value) -> Error {
    let text = format!("{function} in SEARCH cannot be given {}", value.to_json());
    Error::new(Code::BadParameter, text)
}
