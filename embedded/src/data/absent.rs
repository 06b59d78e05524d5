//! Refuses computed values in a build without the feature `conformance`.

use crate::error::{Error, Result};
use crate::schema::Collection;
use crate::value::{Object, Value};

fn refused<T>() -> Result<T> {
    Err(Error::unsupported("computedValues in a build without the feature `conformance`"))
}

/// Returns null if a collection defines no computed values; refuses any definition with error 501.
pub(crate) fn computed_values(given: &Value) -> Result<Value> {
    match given {
        Value::Null => Ok(Value::Null),
        Value::Array(list) if list.is_empty() => Ok(Value::Null),
        _ => refused(),
    }
}

/// Refuses a write to a collection that has computed values, which a build with the feature
/// `conformance` defined.
pub(super) fn compute(collection: &Collection, _: &mut Object, _: &str) -> Result<()> {
    if collection.computed_values.is_null() { Ok(()) } else { refused() }
}
