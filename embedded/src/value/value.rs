//! The value type: what a document, a bind parameter and a row consist of; clones are cheap.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::encoded::{Encoded, Lazy};
use super::names::shared;

/// Up to here looking for a name from the front beats hashing.
const SMALL_OBJECT: usize = 16;

/// An AQL value. Strings, arrays and objects are shared, so that a clone costs a reference count.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// `null`, and every missing attribute.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer that fits 64 bits signed; kept exactly.
    Int(i64),
    /// An integer above `i64::MAX`; smaller ones are always `Int`.
    UInt(u64),
    /// Any other number; never NaN or infinite.
    Double(f64),
    /// UTF-8 text.
    String(Arc<str>),
    /// A list.
    Array(Arc<Vec<Value>>),
    /// A document or sub-document.
    Object(Arc<Object>),
}

/// Attributes in the order of their insertion; a name stands once (the last writer keeps the first place).
pub struct Object {
    body: Body,
}

/// Attributes as they are, or as they are stored until somebody looks at them.
enum Body {
    Decoded(Vec<(Arc<str>, Value)>),
    Encoded(Box<Lazy<dyn Encoded>>),
}

impl Default for Object {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl Clone for Object {
    fn clone(&self) -> Self {
        Self::of(self.entries().clone())
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// What can name an attribute; a borrowed text becomes the copy that its thread shares.
pub trait Name {
    /// The name as objects keep it.
    fn into_shared(self) -> Arc<str>;
}

impl Name for &str {
    fn into_shared(self) -> Arc<str> {
        shared(self)
    }
}

impl Name for &String {
    fn into_shared(self) -> Arc<str> {
        shared(self)
    }
}

impl Name for String {
    fn into_shared(self) -> Arc<str> {
        shared(&self)
    }
}

impl Name for Arc<str> {
    fn into_shared(self) -> Arc<str> {
        self
    }
}

impl Object {
    fn of(entries: Vec<(Arc<str>, Value)>) -> Self {
        Self { body: Body::Decoded(entries) }
    }

    /// An empty object.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty object with room for `n` attributes.
    pub fn with_capacity(n: usize) -> Self {
        Self::of(Vec::with_capacity(n))
    }

    /// An object in its stored form, which is decoded as far as it is looked at.
    pub(crate) fn encoded(form: impl Encoded + 'static) -> Self {
        Self { body: Body::Encoded(Box::new(Lazy::new(form))) }
    }

    /// The stored form, if it still has one: it is whole, whatever of it was decoded.
    pub(super) fn form(&self) -> Option<&dyn Encoded> {
        match &self.body {
            Body::Decoded(_) => None,
            Body::Encoded(lazy) => Some(lazy.form()),
        }
    }

    /// Whether attributes can be lent without being decoded.
    pub(crate) fn is_decoded(&self) -> bool {
        match &self.body {
            Body::Decoded(_) => true,
            Body::Encoded(lazy) => lazy.is_decoded(),
        }
    }

    fn entries(&self) -> &Vec<(Arc<str>, Value)> {
        match &self.body {
            Body::Decoded(entries) => entries,
            Body::Encoded(lazy) => lazy.entries(),
        }
    }

    /// The attributes for a change, after which the stored form is no more.
    fn entries_mut(&mut self) -> &mut Vec<(Arc<str>, Value)> {
        if let Body::Encoded(lazy) = &mut self.body {
            self.body = Body::Decoded(lazy.take_entries());
        }
        match &mut self.body {
            Body::Decoded(entries) => entries,
            Body::Encoded(_) => unreachable!("decoded above"),
        }
    }

    /// The attribute's value, if it is there.
    pub fn get(&self, name: &str) -> Option<&Value> {
        find(self.entries(), name)
    }

    /// The attribute's value as one of its own, if it is there; of a stored form only this attribute is decoded.
    pub fn attribute(&self, name: &str) -> Option<Value> {
        match &self.body {
            Body::Decoded(entries) => find(entries, name).cloned(),
            Body::Encoded(lazy) => match lazy.alone() {
                Some(form) => form.attribute(name),
                None => find(lazy.entries(), name).cloned(),
            },
        }
    }

    /// Sets an attribute; an existing one keeps its place.
    pub fn insert(&mut self, name: impl Name, value: Value) {
        let name = name.into_shared();
        let entries = self.entries_mut();
        match entries.iter_mut().find(|(n, _)| *n == name) {
            Some((_, slot)) => *slot = value,
            None => entries.push((name, value)),
        }
    }

    /// Appends an attribute that the caller knows to be new; used by decoders.
    pub fn push_new(&mut self, name: impl Name, value: Value) {
        self.entries_mut().push((name.into_shared(), value));
    }

    /// An object of entries in order; of a repeated name the last value counts, at the first place.
    pub fn from_entries(entries: Vec<(Arc<str>, Value)>) -> Self {
        if entries.len() <= SMALL_OBJECT {
            let repeats = |at: usize| entries[..at].iter().any(|(n, _)| *n == entries[at].0);
            if !(1..entries.len()).any(repeats) {
                return Self::of(entries);
            }
            return entries.into_iter().collect();
        }
        let mut places: HashMap<Arc<str>, usize> = HashMap::with_capacity(entries.len());
        let mut kept: Vec<(Arc<str>, Value)> = Vec::with_capacity(entries.len());
        for (name, value) in entries {
            if let Some(at) = places.get(&name) {
                kept[*at].1 = value;
            } else {
                places.insert(Arc::clone(&name), kept.len());
                kept.push((name, value));
            }
        }
        Self::of(kept)
    }

    /// The attributes alone.
    pub(crate) fn into_entries(mut self) -> Vec<(Arc<str>, Value)> {
        std::mem::take(self.entries_mut())
    }

    /// Takes an attribute out.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let entries = self.entries_mut();
        let at = entries.iter().position(|(n, _)| &**n == name)?;
        Some(entries.remove(at).1)
    }

    /// Attributes in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Value)> {
        self.entries().iter().map(|(n, v)| (n, v))
    }

    /// Puts the attributes in the order of their names' bytes.
    pub(crate) fn sort_by_name(&mut self) {
        self.entries_mut().sort_by(|(left, _), (right, _)| left.cmp(right));
    }

    /// Puts the named attributes first, in that order; the others keep theirs behind them.
    pub(crate) fn arrange(&mut self, names: &[&str]) {
        let place = |name: &str| names.iter().position(|known| *known == name);
        self.entries_mut().sort_by_key(|(name, _)| place(name).unwrap_or(names.len()));
    }

    /// Number of attributes.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether there is no attribute.
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }
}

fn find<'a>(entries: &'a [(Arc<str>, Value)], name: &str) -> Option<&'a Value> {
    entries.iter().find(|(n, _)| &**n == name).map(|(_, value)| value)
}

impl PartialEq for Value {
    /// Equality of the total order: `1 == 1.0`, a missing attribute equals null.
    fn eq(&self, other: &Self) -> bool {
        super::order::equal(self, other)
    }
}

impl FromIterator<(Arc<str>, Value)> for Object {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Value)>>(iter: I) -> Self {
        let mut object = Self::new();
        for (name, value) in iter {
            object.insert(name, value);
        }
        object
    }
}

impl Value {
    /// A text value.
    pub fn string(text: impl AsRef<str>) -> Self {
        Self::String(Arc::from(text.as_ref()))
    }

    /// A list value.
    pub fn array(items: Vec<Value>) -> Self {
        Self::Array(Arc::new(items))
    }

    /// An object value.
    pub fn object(object: Object) -> Self {
        Self::Object(Arc::new(object))
    }

    /// Attribute access as AQL has it: `null` for anything that is not there.
    pub fn attribute(&self, name: &str) -> Value {
        match self {
            Self::Object(o) => o.attribute(name).unwrap_or_default(),
            _ => Self::Null,
        }
    }

    /// The attribute's text, if it is one.
    pub fn text_of(&self, name: &str) -> Option<&str> {
        match self {
            Self::Object(o) => o.get(name).and_then(Value::as_str),
            _ => None,
        }
    }

    /// The text of a string value.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(s) => Some(s),
            _ => None,
        }
    }

    /// The object of an object value.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(o) => Some(o),
            _ => None,
        }
    }

    /// The items of an array value.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Self::Array(a) => Some(a),
            _ => None,
        }
    }

    /// The number as a double, if it is a number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(i) => Some(*i as f64),
            Self::UInt(u) => Some(*u as f64),
            Self::Double(d) => Some(*d),
            _ => None,
        }
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}

impl From<i64> for Value {
    fn from(i: i64) -> Self {
        Self::Int(i)
    }
}

impl From<u64> for Value {
    fn from(u: u64) -> Self {
        i64::try_from(u).map_or(Self::UInt(u), Self::Int)
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Self::string(s)
    }
}

impl From<String> for Value {
    fn from(s: String) -> Self {
        Self::String(Arc::from(s))
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::array(items)
    }
}
