//! `OFFSET_INFO`: where in the texts of a found document the tokens stand that a condition was looking for.

use super::query::{Field, Part, Query, Tokens};
use super::terms::Segment;
use super::tokens::Token;
use crate::value::{Object, Value};

/// A path whose offsets are asked for, and how many of each kind.
#[derive(Debug)]
pub(crate) struct Rule {
    /// The path.
    pub(crate) path: Vec<Segment>,
    /// Offsets in all.
    pub(crate) max: usize,
    /// Offsets of single terms.
    pub(crate) terms_max: usize,
    /// Offsets of phrases.
    pub(crate) phrases_max: usize,
    /// Offsets of ngrams.
    pub(crate) ngrams_max: usize,
}

/// For each path with matches an object of its name and the offsets, in the order of the condition.
pub(crate) fn offsets(query: &Query, document: &Value, rules: &[Rule]) -> Value {
    let mut out = Vec::new();
    for rule in rules {
        for (name, text) in texts(document, &rule.path) {
            let mut found = Found { rule, offsets: Vec::new(), kinds: [0; 3] };
            found.look(query, &text);
            if !found.offsets.is_empty() {
                out.push(shown(&name, &found.offsets));
            }
        }
    }
    out.into()
}

/// The text at a path; where a list stands, those of its items, each with its place in the name.
fn texts(document: &Value, path: &[Segment]) -> Vec<(Vec<Segment>, String)> {
    let mut at = document.clone();
    for segment in path {
        at = match segment {
            Segment::Name(name) => at.attribute(name),
            Segment::Item(place) => {
                at.as_array().and_then(|items| items.get(*place)).cloned().unwrap_or_default()
            }
        };
    }
    match at {
        Value::String(text) => vec![(path.to_vec(), text.to_string())],
        Value::Array(items) => {
            let one = |(place, item): (usize, &Value)| {
                let name = path.iter().cloned().chain([Segment::Item(place)]).collect();
                Some((name, item.as_str()?.to_owned()))
            };
            items.iter().enumerate().filter_map(one).collect()
        }
        _ => Vec::new(),
    }
}

fn shown(name: &[Segment], offsets: &[(u32, u32)]) -> Value {
    let segment = |segment: &Segment| match segment {
        Segment::Name(name) => Value::from(&**name),
        Segment::Item(place) => Value::Int(*place as i64),
    };
    let offset = |(from, to): &(u32, u32)| {
        Value::array(vec![i64::from(*from).into(), i64::from(to - from).into()])
    };
    let mut out = Object::new();
    out.push_new("name", name.iter().map(segment).collect::<Vec<_>>().into());
    out.push_new("offsets", offsets.iter().map(offset).collect::<Vec<_>>().into());
    Value::object(out)
}

struct Found<'a> {
    rule: &'a Rule,
    offsets: Vec<(u32, u32)>,
    /// Of terms, phrases and ngrams.
    kinds: [usize; 3],
}

impl Found<'_> {
    fn look(&mut self, query: &Query, text: &str) {
        match query {
            Query::And(parts) | Query::AtLeast(_, parts) => {
                parts.iter().for_each(|part| self.look(part, text));
            }
            Query::Boost(part, _) => self.look(part, text),
            Query::Equal(field, Value::String(token)) => {
                self.terms(field, &Tokens::One(token.to_string()), text);
            }
            Query::Range(field, lower, upper) => {
                let bound = |bound: &Option<(Value, bool)>| {
                    bound
                        .as_ref()
                        .and_then(|(value, is_in)| Some((value.as_str()?.to_owned(), *is_in)))
                };
                self.terms(field, &Tokens::Range(bound(lower), bound(upper)), text);
            }
            Query::Prefix(field, prefix) => {
                self.terms(field, &Tokens::Prefix(prefix.clone()), text);
            }
            Query::Like(field, pattern) => self.terms(field, &Tokens::Like(pattern.clone()), text),
            Query::Near(field, edits) => self.terms(field, &Tokens::Near(edits.clone()), text),
            Query::Phrase(field, parts) => self.phrase(field, parts, text),
            Query::Ngram(field, tokens, _) => self.ngrams(field, tokens, text),
            Query::All
            | Query::Nothing
            | Query::Not(_)
            | Query::Geo(..)
            | Query::Exists(..)
            | Query::Equal(..) => {}
        }
    }

    /// The tokens of the text, if the field is the one that is asked for and keeps offsets.
    fn tokens(&self, field: &Field, text: &str) -> Vec<Token> {
        let names = |path: &[Segment]| -> Vec<Segment> {
            path.iter().filter(|segment| matches!(segment, Segment::Name(_))).cloned().collect()
        };
        let has_items = field.path.iter().any(|segment| matches!(segment, Segment::Item(_)));
        let same = if has_items {
            field.path == self.rule.path
        } else {
            field.path == names(&self.rule.path)
        };
        if !same || !field.analysis.offset {
            return Vec::new();
        }
        field.analysis.analyze(text).list
    }

    fn add(&mut self, kind: usize, from: u32, to: u32) {
        let rule = self.rule;
        let max = [rule.terms_max, rule.phrases_max, rule.ngrams_max][kind];
        if self.offsets.len() < rule.max
            && self.kinds[kind] < max
            && !self.offsets.contains(&(from, to))
        {
            self.kinds[kind] += 1;
            self.offsets.push((from, to));
        }
    }

    fn terms(&mut self, field: &Field, wanted: &Tokens, text: &str) {
        for token in self.tokens(field, text) {
            if holds(wanted, &token.text) {
                self.add(0, token.from, token.to);
            }
        }
    }

    fn phrase(&mut self, field: &Field, parts: &[Part], text: &str) {
        let mut place = -1;
        let tokens = self.tokens(field, text).into_iter().map(|token| {
            place += i64::from(token.step);
            (place, token)
        });
        let tokens: Vec<(i64, Token)> = tokens.collect();
        let at = |place: i64, part: &Part| {
            tokens.iter().filter(|(own, _)| *own == place).find(|(_, token)| {
                part.choices.iter().any(|choice| holds(&choice.tokens(), &token.text))
            })
        };
        let Some((first, rest)) = parts.split_first() else { return };
        for (begin, _) in &tokens {
            let Some((_, head)) = at(*begin, first) else { continue };
            let (mut from, mut to, mut next) = (head.from, head.to, *begin);
            let whole = rest.iter().all(|part| {
                next += part.gap + 1;
                at(next, part).is_some_and(|(_, token)| {
                    from = from.min(token.from);
                    to = to.max(token.to);
                    true
                })
            });
            if whole {
                self.add(1, from, to);
            }
        }
    }

    fn ngrams(&mut self, field: &Field, wanted: &[String], text: &str) {
        let tokens = self.tokens(field, text);
        let mut matching = tokens.iter().filter(|token| wanted.contains(&token.text));
        if let Some(first) = matching.next() {
            let last = matching.next_back().unwrap_or(first);
            self.add(2, first.from, last.to);
        }
    }
}

/// Whether a token is one of some tokens.
fn holds(wanted: &Tokens, token: &str) -> bool {
    let above = match wanted.lower() {
        None => true,
        Some((lower, true)) => token >= lower.as_str(),
        Some((lower, false)) => token > lower.as_str(),
    };
    above && wanted.holds(token) == Some(true)
}
