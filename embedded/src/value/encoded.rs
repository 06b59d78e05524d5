//! Objects in a stored form: what a value has to know of it, and when it stops asking for one attribute after another.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use super::Value;

/// Attributes that are decoded one by one before all are: each look steps over what stands before the attribute.
const LOOKS_MAX: u8 = 8;

/// A stored object that was checked when it was read, so that nothing here can fail.
pub trait Encoded: Send + Sync {
    /// All attributes in order.
    fn attributes(&self) -> Vec<(Arc<str>, Value)>;
    /// One attribute, if it is there.
    fn attribute(&self, name: &str) -> Option<Value>;
    /// Appends the JSON text that its decoded form has, which is UTF-8.
    fn write_json(&self, out: &mut Vec<u8>);
    /// What its decoded attributes hold in bytes.
    fn size_bytes(&self) -> usize;
}

/// A stored object, and its attributes once they are decoded.
pub(super) struct Lazy<F: ?Sized> {
    entries: OnceLock<Vec<(Arc<str>, Value)>>,
    looks: AtomicU8,
    form: F,
}

impl<F> Lazy<F> {
    /// Nothing is decoded yet.
    pub(super) fn new(form: F) -> Self {
        Self { entries: OnceLock::new(), looks: AtomicU8::new(0), form }
    }
}

impl Lazy<dyn Encoded> {
    /// The stored form.
    pub(super) fn form(&self) -> &dyn Encoded {
        &self.form
    }

    /// Whether the attributes are there.
    pub(super) fn is_decoded(&self) -> bool {
        self.entries.get().is_some()
    }

    /// The attributes, decoded now if they were not.
    pub(super) fn entries(&self) -> &Vec<(Arc<str>, Value)> {
        self.entries.get_or_init(|| self.form.attributes())
    }

    /// The attributes, given away.
    pub(super) fn take_entries(&mut self) -> Vec<(Arc<str>, Value)> {
        self.entries.take().unwrap_or_else(|| self.form.attributes())
    }

    /// The stored form to take a single attribute from, unless all are decoded or soon better were.
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

    /// `{"a": 1, "b": [2]}`, which counts how often it was decoded whole.
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
