//! Objects in stored form: the first reads decode only single attributes, and after several reads
//! all attributes are decoded together.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use super::Value;

/// Number of reads that decode a single attribute. The next read decodes the whole object, because
/// each single decoding must skip all preceding attributes.
const LOOKS_MAX: u8 = 8;

/// The stored form of an object. It was checked when it was read, so decoding cannot fail.
pub trait Encoded: Send + Sync {
    /// Decodes all attributes of the object in order.
    fn attributes(&self) -> Vec<(Arc<str>, Value)>;
    /// Decodes one attribute of the object, if present.
    fn attribute(&self, name: &str) -> Option<Value>;
    /// Appends the object's JSON text, which is UTF-8.
    fn write_json(&self, out: &mut Vec<u8>);
    /// Returns the approximate size of all attributes in memory after they are decoded, in bytes.
    fn size_bytes(&self) -> usize;
}

/// A stored object and, once they are decoded, its attributes.
pub(super) struct Lazy<F: ?Sized> {
    entries: OnceLock<Vec<(Arc<str>, Value)>>,
    looks: AtomicU8,
    form: F,
}

impl<F> Lazy<F> {
    /// Creates an object that is not decoded yet.
    pub(super) fn new(form: F) -> Self {
        Self { entries: OnceLock::new(), looks: AtomicU8::new(0), form }
    }
}

impl Lazy<dyn Encoded> {
    /// Returns the stored form.
    pub(super) fn form(&self) -> &dyn Encoded {
        &self.form
    }

    /// Whether the object's attributes are decoded.
    pub(super) fn is_decoded(&self) -> bool {
        self.entries.get().is_some()
    }

    /// Returns the object's attributes, which are decoded on first use.
    pub(super) fn entries(&self) -> &Vec<(Arc<str>, Value)> {
        self.entries.get_or_init(|| self.form.attributes())
    }

    /// Takes all attributes out of the object, and decodes them if necessary.
    pub(super) fn take_entries(&mut self) -> Vec<(Arc<str>, Value)> {
        self.entries.take().unwrap_or_else(|| self.form.attributes())
    }

    /// Returns the stored form, to read a single attribute from it. Returns `None` if all
    /// attributes are decoded or should be decoded now.
    pub(super) fn alone(&self) -> Option<&dyn Encoded> {
        let is_new = !self.is_decoded() && self.looks.load(Ordering::Relaxed) < LOOKS_MAX;
        is_new.then(|| {
            self.looks.fetch_add(1, Ordering::Relaxed);
            &self.form
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::value::Object;

    /// The stored object `{"a": 1, "b": [2]}`, which counts how often all its attributes are
    /// decoded.
    struct Stored(Arc<AtomicUsize>);

    impl Encoded for Stored {
        fn attributes(&self) -> Vec<(Arc<str>, Value)> {
            self.0.fetch_add(1, Ordering::Relaxed);
            vec![("a".into(), Value::Int(1)), ("b".into(), vec![Value::Int(2)].into())]
        }

        fn attribute(&self, name: &str) -> Option<Value> {
            match name {
                "a" => Some(Value::Int(1)),
                "b" => Some(vec![Value::Int(2)].into()),
                _ => None,
            }
        }

        fn write_json(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(br#"{"a":1,"b":[2]}"#);
        }

        fn size_bytes(&self) -> usize {
            1000
        }
    }

    fn stored() -> (Arc<AtomicUsize>, Object) {
        let decoded = Arc::default();
        (Arc::clone(&decoded), Object::encoded(Stored(decoded)))
    }

    #[test]
    fn it_is_decoded_when_it_pays_and_once() {
        let (decoded, object) = stored();
        for _ in 0..LOOKS_MAX {
            assert_eq!(object.attribute("a"), Some(Value::Int(1)));
            assert!(!object.is_decoded());
        }
        let value = Value::object(object);
        assert_eq!(
            (value.to_json().as_str(), decoded.load(Ordering::Relaxed)),
            (r#"{"a":1,"b":[2]}"#, 0)
        );
        let object = value.as_object().expect("an object");
        assert_eq!(object.attribute("b"), Some(vec![Value::Int(2)].into()));
        assert!(object.is_decoded() && object.len() == 2 && object.get("a").is_some());
        assert_eq!(decoded.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_change_leaves_the_stored_form_behind() {
        let (_, mut object) = stored();
        object.insert("a", Value::Null);
        object.push_new("c", true.into());
        assert_eq!(object.remove("b"), Some(vec![Value::Int(2)].into()));
        let value = Value::object(object);
        assert_eq!(value.to_json(), r#"{"a":null,"c":true}"#);
        assert!(value.size_bytes() < 1000);
        let (_, object) = stored();
        assert_eq!(Value::object(object.clone()), Value::object(object));
        let (_, object) = stored();
        assert_eq!(Value::object(object).at_path(&["b"]), vec![Value::Int(2)].into());
    }
}
