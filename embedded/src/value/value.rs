//! The value type of documents, bind parameters and rows, whose clones are cheap.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::encoded::{Encoded, Lazy};
use super::names::shared;

/// Maximum number of attributes for which a linear search for a name is faster than hashing.
const SMALL_OBJECT: usize = 16;

/// An AQL value. Strings, arrays and objects are shared: a clone only increments a reference count.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// `null`, also the value of every missing attribute.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer that fits a signed 64-bit integer.
    Int(i64),
    /// An integer above `i64::MAX` that fits an unsigned 64-bit integer.
    UInt(u64),
    /// A double-precision number, which may be whole (`1.0`). NaN and infinities do not occur,
    /// except for out-of-range literals in a syntax tree.
    Double(f64),
    /// A string: a UTF-8 text.
    String(Arc<str>),
    /// An array: a list of values.
    Array(Arc<Vec<Value>>),
    /// An object: a document or sub-document.
    Object(Arc<Object>),
}

/// An object: attributes with distinct names in insertion order. Of a repeated name, the last value
/// is kept, at the name's first position.
pub struct Object {
    body: Body,
}

/// Decoded attributes, or a stored form that is decoded when it is used.
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

/// A type that converts to an attribute name; texts become the thread's shared copy of the name.
pub trait Name {
    /// Converts to the shared form of the name.
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

    /// Creates an empty object.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty object with capacity for `n` attributes.
    pub fn with_capacity(n: usize) -> Self {
        Self::of(Vec::with_capacity(n))
    }

    /// Creates an object from its stored form; its attributes are decoded when they are read.
    pub(crate) fn encoded(form: impl Encoded + 'static) -> Self {
        Self { body: Body::Encoded(Box::new(Lazy::new(form))) }
    }

    /// Returns the stored form of the object, unless the object was changed. The stored form is
    /// complete even after some attributes are decoded.
    pub(super) fn form(&self) -> Option<&dyn Encoded> {
        match &self.body {
            Body::Decoded(_) => None,
            Body::Encoded(lazy) => Some(lazy.form()),
        }
    }

    /// Whether all attributes are decoded, so that they can be borrowed.
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

    /// Returns the object's attributes so that they can be changed. Drops the stored form.
    fn entries_mut(&mut self) -> &mut Vec<(Arc<str>, Value)> {
        if let Body::Encoded(lazy) = &mut self.body {
            self.body = Body::Decoded(lazy.take_entries());
        }
        match &mut self.body {
            Body::Decoded(entries) => entries,
            Body::Encoded(_) => unreachable!("decoded above"),
        }
    }

    /// Returns an attribute's value, if present.
    pub fn get(&self, name: &str) -> Option<&Value> {
        find(self.entries(), name)
    }

    /// Returns a copy of an attribute's value, if present. If the object still has its stored form,
    /// usually only this attribute is decoded.
    pub fn attribute(&self, name: &str) -> Option<Value> {
        match &self.body {
            Body::Decoded(entries) => find(entries, name).cloned(),
            Body::Encoded(lazy) => match lazy.alone() {
                Some(form) => form.attribute(name),
                None => find(lazy.entries(), name).cloned(),
            },
        }
    }

    /// Sets an attribute; an existing attribute keeps its position.
    pub fn insert(&mut self, name: impl Name, value: Value) {
        let name = name.into_shared();
        let entries = self.entries_mut();
        match entries.iter_mut().find(|(n, _)| *n == name) {
            Some((_, slot)) => *slot = value,
            None => entries.push((name, value)),
        }
    }

    /// Appends an attribute; the object must not have an attribute with this name yet. Decoders use
    /// this method.
    pub fn push_new(&mut self, name: impl Name, value: Value) {
        self.entries_mut().push((name.into_shared(), value));
    }

    /// Creates an object from attributes in order. Of a repeated name, the last value is kept, at
    /// the name's first position.
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

    /// Converts the object to a list of its attributes.
    pub(crate) fn into_entries(mut self) -> Vec<(Arc<str>, Value)> {
        std::mem::take(self.entries_mut())
    }

    /// Removes an attribute and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let entries = self.entries_mut();
        let at = entries.iter().position(|(n, _)| &**n == name)?;
        Some(entries.remove(at).1)
    }

    /// Returns the attributes in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Value)> {
        self.entries().iter().map(|(n, v)| (n, v))
    }

    /// Sorts the attributes by the bytes of their names.
    pub(crate) fn sort_by_name(&mut self) {
        self.entries_mut().sort_by(|(left, _), (right, _)| left.cmp(right));
    }

    /// Moves the named attributes to the front, in the order of `names`; all other attributes keep
    /// their order.
    pub(crate) fn arrange(&mut self, names: &[&str]) {
        let place = |name: &str| names.iter().position(|known| *known == name);
        self.entries_mut().sort_by_key(|(name, _)| place(name).unwrap_or(names.len()));
    }

    /// Returns the number of attributes.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether the object has no attributes.
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }
}

fn find<'a>(entries: &'a [(Arc<str>, Value)], name: &str) -> Option<&'a Value> {
    entries.iter().find(|(n, _)| &**n == name).map(|(_, value)| value)
}

impl PartialEq for Value {
    /// Compares in AQL's total order, in which `1 == 1.0`, and a missing attribute equals null.
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
    /// Creates a string value.
    pub fn string(text: impl AsRef<str>) -> Self {
        Self::String(Arc::from(text.as_ref()))
    }

    /// Creates an array value.
    pub fn array(items: Vec<Value>) -> Self {
        Self::Array(Arc::new(items))
    }

    /// Creates an object value.
    pub fn object(object: Object) -> Self {
        Self::Object(Arc::new(object))
    }

    /// Returns the value of an attribute as in AQL: `null` if the attribute is missing or this
    /// value is not an object.
    pub fn attribute(&self, name: &str) -> Value {
        match self {
            Self::Object(o) => o.attribute(name).unwrap_or_default(),
            _ => Self::Null,
        }
    }

    /// Returns the value of an attribute if it is a text.
    pub fn text_of(&self, name: &str) -> Option<&str> {
        match self {
            Self::Object(o) => o.get(name).and_then(Value::as_str),
            _ => None,
        }
    }

    /// Returns the text of a string value, or `None` for any other value.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(s) => Some(s),
            _ => None,
        }
    }

    /// Returns the object of an object value, or `None` for any other value.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(o) => Some(o),
            _ => None,
        }
    }

    /// Returns the items of an array value, or `None` for any other value.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Self::Array(a) => Some(a),
            _ => None,
        }
    }

    /// Returns a number as a double, or `None` for any other value.
    #[inline]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(i) => Some(*i as f64),
            Self::UInt(u) => Some(*u as f64),
            Self::Double(d) => Some(*d),
            _ => None,
        }
    }

    /// Whether the value is `null`.
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
