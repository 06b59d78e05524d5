//! Applies a patch to a document.

use std::sync::Arc;

use crate::encode::is_head;
use crate::value::{Object, Value};

/// Returns `document` with a patch applied. Ignores `_key`, `_id` and `_rev` of the patch.
pub(super) fn patched(
    document: &Object,
    patch: &Object,
    keep_null: bool,
    merge_objects: bool,
) -> Object {
    let mut result = document.clone();
    for (name, value) in patch.iter().filter(|(name, _)| !is_head(name)) {
        set(&mut result, name, value, keep_null, merge_objects);
    }
    result
}

fn set(target: &mut Object, name: &Arc<str>, value: &Value, keep_null: bool, merge_objects: bool) {
    if value.is_null() && !keep_null {
        target.remove(name);
        return;
    }
    let merged = match (target.get(name), value) {
        (Some(Value::Object(old)), Value::Object(new)) if merge_objects => {
            // The order of attributes in ArangoDB's recorded answers: existing attributes by name,
            // then new attributes in reverse order.
            let mut merged = (**old).clone();
            merged.sort_by_name();
            let new: Vec<_> = new.iter().collect();
            new.into_iter()
                .rev()
                .for_each(|(name, value)| set(&mut merged, name, value, keep_null, true));
            Value::object(merged)
        }
        _ if keep_null => value.clone(),
        _ => without_nulls(value),
    };
    target.insert(name.clone(), merged);
}

/// Prepares a new value for `keepNull: false`: removes nulls from nested objects, but does not
/// change arrays.
fn without_nulls(value: &Value) -> Value {
    let Value::Object(object) = value else { return value.clone() };
    let entries = object.iter().filter(|(_, value)| !value.is_null());
    Value::object(entries.map(|(name, value)| (name.clone(), without_nulls(value))).collect())
}
