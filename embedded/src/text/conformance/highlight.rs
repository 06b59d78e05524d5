//! Implements `OFFSET_INFO`, which returns the offsets of tokens in a document's texts. Only the
//! tokens that match a search condition are included.

use crate::error::{Code, Error, Result};
use crate::text::query::{Field, Part, Query, Tokens};
use crate::text::terms::Segment;
use crate::text::tokens::Token;
use crate::value::{Object, Value};

/// A path argument of `OFFSET_INFO`, with limits on the number of offsets.
#[derive(Debug)]
pub(crate) struct Rule {
    /// The path of the highlighted attribute.
    pub(crate) path: Vec<Segment>,
    /// Maximum number of offsets of all kinds for one path.
    pub(crate) max: usize,
    /// Maximum number of offsets of single terms for one path.
    pub(crate) terms_max: usize,
    /// Maximum number of offsets of phrases for one path.
    pub(crate) phrases_max: usize,
    /// Maximum number of offsets of n-grams for one path.
    pub(crate) ngrams_max: usize,
}

impl Rule {
    /// Parses the argument of `OFFSET_INFO`: a path, a list of paths, or objects with a path and
    /// limits.
    pub(crate) fn all(given: &Value) -> Result<Vec<Self>> {
        /// ArangoDB's default for the maximum number of offsets for one path.
        const OFFSETS: usize = 10;
        let items = match given {
            Value::Array(items) => items.to_vec(),
            one => vec![one.clone()],
        };
        let rule = |item: &Value| {
            let name = item.as_str().or_else(|| item.text_of("name"));
            let path = name.and_then(path_of).ok_or_else(|| bad_argument(item))?;
            let options = item.attribute("options");
            let limits = options.attribute("limits");
            let bound = |of: &Value, name: &str, default: usize| match of.attribute(name) {
                Value::Null => Ok(default),
                value => value
                    .as_f64()
                    .filter(|number| *number >= 0.0)
                    .map(|number| number as usize)
                    .ok_or_else(|| bad_argument(item)),
            };
            Ok(Self {
                path,
                max: bound(&options, "maxOffsets", OFFSETS)?,
                terms_max: bound(&limits, "term", usize::MAX)?,
                phrases_max: bound(&limits, "phrase", usize::MAX)?,
                ngrams_max: bound(&limits, "ngram", usize::MAX)?,
            })
        };
        items.iter().map(rule).collect()
    }
}

/// Parses a path such as `a.b[1].c`.
fn path_of(text: &str) -> Option<Vec<Segment>> {
    let mut path = Vec::new();
    for part in text.split('.') {
        let (name, items) = match part.find('[') {
            Some(at) => part.split_at(at),
            None => (part, ""),
        };
        if name.is_empty() {
            return None;
        }
        path.push(Segment::Name(name.into()));
        for item in items.split_inclusive(']') {
            let place = item.strip_prefix('[')?.strip_suffix(']')?;
            path.push(Segment::Item(place.parse().ok()?));
        }
    }
    Some(path)
}

fn bad_argument(value: &Value) -> Error {
    let text = format!("OFFSET_INFO() cannot be called with {}", value.to_json());
    Error::new(Code::BadParameter, text)
}

/// Returns a list with one object for each path with matches: the path's name and the offsets of
/// the matches. The objects have the order of the path arguments.
pub(crate) fn offsets(query: &Query, document: &Value, rules: &[Rule]) -> Value {
    let mut out = Vec::new();
    for rule in rules {
        for (name, text) in texts(document, &rule.path) {
            let mut matches = RuleMatches { rule, offsets: Vec::new(), kinds: [0; 3] };
            matches.look(query, &text);
            if !matches.offsets.is_empty() {
                out.push(shown(&name, &matches.offsets));
            }
        }
    }
    out.into()
}

/// Returns the text at a path, together with this path. For a list, returns the text of each item,
/// together with the path that ends with the item's index.
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

/// Collects the matches of one path argument in a text.
struct RuleMatches<'a> {
    rule: &'a Rule,
    offsets: Vec<(u32, u32)>,
    /// Numbers of offsets found so far: of terms, of phrases and of n-grams.
    kinds: [usize; 3],
}

impl RuleMatches<'_> {
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

    /// Returns the tokens of a text, if the searched field's path equals the path argument of
    /// `OFFSET_INFO` and the field's analyzer stores offsets.
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

/// Whether a set of tokens contains a given token.
fn holds(wanted: &Tokens, token: &str) -> bool {
    let above = match wanted.lower() {
        None => true,
        Some((lower, true)) => token >= lower.as_str(),
        Some((lower, false)) => token > lower.as_str(),
    };
    above && wanted.holds(token) == Some(true)
}
