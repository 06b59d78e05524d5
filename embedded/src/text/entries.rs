//! What a view holds of one document: its terms with their places, and the length of each field.

use std::collections::{BTreeMap, BTreeSet};

use super::aql::Returns;
use super::link::{Items, Level};
use super::terms::{Path, Type, holds_numbers, number, token};
use crate::limits::{VIEW_DOCUMENT_TERM_BYTES_MAX, VIEW_DOCUMENT_TERMS_MAX};
use crate::value::Value;

/// Longest term that is held; a longer token is found by nothing.
pub(super) const TERM_BYTES_MAX: usize = 32_766;
/// Places between two items of an array, so that no phrase reaches from one into the next.
const ITEM_GAP: u32 = 1000;

/// The terms of a document.
#[derive(Debug, Default)]
pub(super) struct Entries {
    /// Terms and their places in their fields.
    pub(super) terms: Vec<(String, u32)>,
    /// Number of tokens by field (path and analyzer).
    pub(super) lengths: BTreeMap<String, u64>,
    /// Numbers by field, as doubles: ranges are looked for among them.
    pub(super) numbers: BTreeMap<String, Vec<f64>>,
    /// Whether it had more terms than a document may have.
    pub(super) cut: bool,
    /// Whether it has any value that the view holds; a view knows nothing of a document without one.
    pub(super) any: bool,
    places: BTreeMap<String, u32>,
    stored: BTreeSet<String>,
    /// Bytes of the terms and of the fields.
    bytes: usize,
}

impl Entries {
    /// What a link holds of a document.
    pub(super) fn of(level: &Level, document: &Value) -> Self {
        let mut entries = Self::default();
        entries.value(level, &Path::default(), document, false);
        entries
    }

    /// `item` says whether the value is one of a list's.
    fn value(&mut self, level: &Level, path: &Path, value: &Value, item: bool) {
        let alone = level.items == Items::Only && !item;
        if level.items != Items::Only {
            self.absent(level, path, value);
        }
        if level.values && !alone && self.shapes(level, path, value) {
            return;
        }
        match value {
            Value::Object(_) if alone => {}
            Value::Object(object) => {
                for (name, inner) in object.iter() {
                    if let Some(level) = level.field(name) {
                        self.value(level, &path.with(name), inner, false);
                    }
                }
            }
            Value::Array(items) => match level.items {
                Items::None => {}
                Items::Only if item => {}
                Items::Each | Items::Only => {
                    for inner in items.iter() {
                        self.value(level, path, inner, true);
                    }
                }
                Items::Placed => {
                    for (place, inner) in items.iter().enumerate() {
                        self.value(level, &path.item(place), inner, true);
                    }
                }
            },
            _ if alone || !level.values => {}
            Value::String(text) => self.text(level, path, text),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Double(_) => {
                let kind = Type::of(value).expect("these four have a type");
                self.any = true;
                let field = path.typed(kind);
                self.add(&field, [(token(value), 1)]);
                self.stored(level, path, Stored::of(kind));
            }
        }
    }

    /// Holds the shapes that geo analyzers see in a value; whether that is all there is to it.
    fn shapes(&mut self, level: &Level, path: &Path, value: &Value) -> bool {
        if !matches!(value, Value::Object(_) | Value::Array(_)) {
            return false;
        }
        let mut found = false;
        for analysis in &level.analyzers {
            if let Some(shape) = analysis.shape(value) {
                self.any = true;
                found = true;
                self.add(&path.shape(analysis), [(shape.to_json(), 1)]);
            }
        }
        // A pair of numbers is one place and not two values.
        found && matches!(value, Value::Array(_))
    }

    /// Holds attributes that a value has not as nulls, where the level wants that.
    fn absent(&mut self, level: &Level, path: &Path, value: &Value) {
        for (name, inner) in level.missing(value) {
            let path = path.with(name);
            if inner.absent {
                self.any = true;
                self.add(&path.typed(Type::Null), [(token(&Value::Null), 1)]);
                self.stored(inner, &path, Stored::of(Type::Null));
            }
            if inner.items != Items::Only {
                self.absent(inner, &path, &Value::Null);
            }
        }
    }

    fn text(&mut self, level: &Level, path: &Path, text: &str) {
        self.any |= !level.analyzers.is_empty();
        for analysis in &level.analyzers {
            let field = match analysis.returns {
                Returns::Text => path.analyzed(analysis),
                Returns::Number => path.typed(Type::Number),
                Returns::Bool => path.typed(Type::Bool),
            };
            let tokens = analysis.analyze(text);
            self.cut |= tokens.cut;
            self.add(&field, tokens.list.into_iter().map(|token| (token.text, token.step)));
            if let Some(wholes) = analysis.wholes(text) {
                let wholes = wholes.into_iter().map(|whole| (whole.text, whole.step));
                self.add(&path.whole(analysis), wholes);
            }
            if level.store {
                self.once(&path.typed(Type::Stored), &format!("analyzer:{}", analysis.name));
            }
        }
        self.stored(level, path, "string");
    }

    fn stored(&mut self, level: &Level, path: &Path, kind: &str) {
        if level.store {
            let field = path.typed(Type::Stored);
            self.once(&field, "any");
            self.once(&field, kind);
        }
    }

    fn once(&mut self, field: &str, token: &str) {
        if !self.has_room(field.len() + token.len()) {
            return;
        }
        let term = format!("{field}{token}");
        if self.stored.insert(term.clone()) {
            self.bytes += term.len();
            self.terms.push((term, 0));
        }
    }

    /// Whether the document may have one more term of so many bytes; it is cut from the first one on that it may not have.
    fn has_room(&mut self, bytes: usize) -> bool {
        self.cut |= self.terms.len() >= VIEW_DOCUMENT_TERMS_MAX
            || self.bytes + bytes > VIEW_DOCUMENT_TERM_BYTES_MAX;
        !self.cut
    }

    /// Adds the tokens of one value behind those that the field has already.
    fn add(&mut self, field: &str, tokens: impl IntoIterator<Item = (String, u32)>) {
        let mut next = self.places.get(field).map_or(0, |last| last + ITEM_GAP);
        let mut count = 0;
        let mut numbers = holds_numbers(field).then(Vec::new);
        for (token, step) in tokens {
            let bytes = field.len() + token.len();
            if !self.has_room(bytes) {
                break;
            }
            let place = (next + step).saturating_sub(1);
            if bytes <= TERM_BYTES_MAX {
                self.bytes += bytes;
                if let Some(numbers) = &mut numbers {
                    numbers.extend(number(&token));
                }
                self.terms.push((format!("{field}{token}"), place));
            }
            next = place + 1;
            count += 1;
        }
        if count == 0 {
            return;
        }
        if let Some(numbers) = numbers {
            self.numbers.entry(field.to_owned()).or_default().extend(numbers);
        }
        match self.lengths.get_mut(field) {
            Some(length) => *length += count,
            None => {
                self.bytes += field.len();
                self.lengths.insert(field.to_owned(), count);
            }
        }
        self.places.insert(field.to_owned(), next);
    }
}

/// What `EXISTS` calls the types.
struct Stored;

impl Stored {
    fn of(kind: Type) -> &'static str {
        match kind {
            Type::Null => "null",
            Type::Bool => "bool",
            Type::Number => "numeric",
            Type::Stored => "any",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Database;
    use crate::value::{Object, parse};

    /// Each term begins with its path: a long path and many values are far more than the document itself.
    #[test]
    fn terms_of_a_document_have_a_bound_in_bytes() {
        let link = parse(br#"{"includeAllFields": true, "storeValues": "id"}"#).unwrap();
        let level = Level::of_link(&Database::default(), &link).unwrap();
        let mut document = Object::new();
        let name = "n".repeat(TERM_BYTES_MAX - 100);
        document.push_new(name, Value::array((0..4000_i64).map(Value::Int).collect()));
        document.push_new("behind", Value::from("it"));
        let entries = Entries::of(&level, &Value::object(document));
        let bytes: usize = entries.terms.iter().map(|(term, _)| term.len()).sum();
        assert!(entries.cut);
        assert!(bytes <= VIEW_DOCUMENT_TERM_BYTES_MAX, "{bytes} bytes of terms");
    }
}
