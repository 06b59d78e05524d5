//! Reads attribute paths inside a value.

use super::Value;

impl Value {
    /// Returns the value at a path of attribute names, or `null` if an attribute of the path is
    /// missing.
    pub fn at_path<S: AsRef<str>>(&self, path: &[S]) -> Value {
        let mut at = self;
        for (place, name) in path.iter().enumerate() {
            match at {
                Self::Object(o) if !o.is_decoded() => {
                    let inner = o.attribute(name.as_ref()).unwrap_or_default();
                    return inner.at_path(&path[place + 1..]);
                }
                Self::Object(o) => match o.get(name.as_ref()) {
                    Some(inner) => at = inner,
                    None => return Self::Null,
                },
                _ => return Self::Null,
            }
        }
        at.clone()
    }
}
