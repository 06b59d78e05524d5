//! Computes what a view indexes of one document: terms with positions, and the length of each
//! field.

use std::collections::{BTreeMap, BTreeSet};

use super::analyzer::Returns;
use super::link::{Items, Level};
use super::terms::{Path, Type, holds_numbers, number, token};
use crate::limits::{VIEW_DOCUMENT_TERM_BYTES_MAX, VIEW_DOCUMENT_TERMS_MAX};
use crate::value::Value;

/// Maximum length of an indexed term in bytes; a longer term is not indexed.
pub(super) const TERM_BYTES_MAX: usize = 32_766;
/// Gap in positions between two items of an array, so that no phrase spans two items.
const ITEM_GAP: u32 = 1000;

/// What a view indexes of one document.
#[derive(Debug, Default)]
pub(super) struct Entries {
    /// Terms, each with one position in its field; a term at several positions occurs several
    /// times.
    pub(super) terms: Vec<(String, u32)>,
    /// Number of tokens in each field; a field is a path with an analyzer or type.
    pub(super) lengths: BTreeMap<String, u64>,
    /// The numbers in each field, for range searches.
    pub(super) numbers: BTreeMap<String, Vec<f64>>,
    /// Whether the document has more terms than the limits allow.
    pub(super) cut: bool,
    /// Whether the document has any indexed value; a document without an indexed value is not in
    /// the view.
    pub(super) any: bool,
    places: BTreeMap<String, u32>,
    stored: BTreeSet<String>,
    /// Size of the terms and field names, in bytes.
    bytes: usize,
}

impl Entries {
    /// Computes what a link indexes of a document.
    pub(super) fn of(level: &Level, document: &Value) -> Self {
        let mut entries = Self::default();
        entries.value(level, &Path::default(), document, false);
        entries
    }

    /// Adds a value at a path; `item` says whether the value is an item of a list.
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
                let kind = Type::of(value).expect("null, bools and numbers have a type");
                self.any = true;
                let field = path.typed(kind);
                self.add(&field, [(token(value), 1)]);
                self.stored(level, path, Stored::of(kind));
            }
        }
    }

    /// Adds the shapes that geo analyzers make of a value. Returns whether the value is an array
    /// that must not also be indexed as a list.
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
        // An array that is a shape, such as a pair of coordinates, is not also indexed as a list of
        // values.
        found && matches!(value, Value::Array(_))
    }

    /// Adds a null for each missing attribute, if the link's definition indexes this attribute even
    /// when it is missing.
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

    /// Whether the limits allow one more term of the given length. At the first term over a limit,
    /// indexing of the document ends.
    fn has_room(&mut self, bytes: usize) -> bool {
        self.cut |= self.terms.len() >= VIEW_DOCUMENT_TERMS_MAX
            || self.bytes + bytes > VIEW_DOCUMENT_TERM_BYTES_MAX;
        !self.cut
    }

    /// Adds the tokens of one value to a field, at positions after the field's existing tokens.
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

/// Names of value types in the arguments of `EXISTS`.
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

    /// Each term begins with the attribute's path, so the terms of a long path with many values are
    /// much larger than the document.
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
