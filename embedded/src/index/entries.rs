//! The entries of a document in an index: none, one, or one per element for an array index.

use crate::encode::{Key, encode_ordered};
use crate::error::{Code, Error, Result};
use crate::limits::{ARRAY_ENTRIES_MAX, KEY_BYTES_MAX};
use crate::schema::{Collection, Index, IndexKind};
use crate::value::{Object, Value};

/// Marks an attribute of which each element gets an entry.
pub(crate) const EXPANSION: &str = "[*]";

/// One entry, not counting the primary index's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    /// Key in the index space.
    pub(crate) key: Vec<u8>,
    /// Whether the local number is the value (and the key may stand once) instead of the end of the key.
    pub(crate) unique: bool,
}

/// All entries of a whole document (with its system attributes) in one index; sorted, each once.
pub(crate) fn entries(
    collection: &Collection,
    index: &Index,
    document: &Object,
    local: u64,
) -> Result<Vec<Entry>> {
    match &index.kind {
        // Where a vector goes is for `data/vectors.rs` to find out.
        IndexKind::Primary | IndexKind::Vector(_) | IndexKind::DefinitionOnly(_) => Ok(Vec::new()),
        IndexKind::Edge => {
            let side = |head: Key<'_>, name: &str| -> Result<Entry> {
                let mut key = head.bytes();
                encode_ordered(document.get(name).unwrap_or(&Value::Null), &mut key);
                finished(key, false, local)
            };
            Ok(vec![
                side(Key::EdgeFrom(collection.id), "_from")?,
                side(Key::EdgeTo(collection.id), "_to")?,
            ])
        }
        IndexKind::Persistent | IndexKind::Ttl => sorted_entries(index, document, local),
    }
}

fn sorted_entries(index: &Index, document: &Object, local: u64) -> Result<Vec<Entry>> {
    let head = if index.unique { Key::Unique(index.id) } else { Key::Sorted(index.id) };
    let mut keys = vec![head.bytes()];
    let of_numbers = index.definition.text_of("fieldValueTypes").is_some();
    for path in &index.fields {
        let values = field_values(document, path);
        if of_numbers
            && is_number_field(index, path)
            && !values.iter().all(|v| v.as_f64().is_some() || (index.sparse && v.is_null()))
        {
            let text = format!("an index of type mdi takes numbers, in '{}'", path.join("."));
            return Err(Error::new(Code::QueryInvalidArithmeticValue, text));
        }
        if index.sparse && values.iter().any(Value::is_null) {
            return Ok(Vec::new());
        }
        if keys.len() * values.len() > ARRAY_ENTRIES_MAX {
            let text =
                format!("an array index takes at most {ARRAY_ENTRIES_MAX} elements of a document");
            return Err(Error::new(Code::ResourceLimit, text));
        }
        keys = extended(&keys, &values);
    }
    let entries = keys.into_iter().map(|key| finished(key, index.unique, local));
    let mut entries = entries.collect::<Result<Vec<_>>>()?;
    entries.sort();
    entries.dedup();
    Ok(entries)
}

/// Whether a field of a multi-dimensional index has to be a number (those of its prefix have not).
fn is_number_field(index: &Index, path: &[String]) -> bool {
    let fields = index.definition.attribute("fields");
    let name = path.join(".");
    fields.as_array().is_some_and(|fields| fields.iter().any(|field| field.as_str() == Some(&name)))
}

fn extended(keys: &[Vec<u8>], values: &[Value]) -> Vec<Vec<u8>> {
    let pairs = keys.iter().flat_map(|key| values.iter().map(move |value| (key, value)));
    let extend = |(key, value): (&Vec<u8>, &Value)| {
        let mut key = key.clone();
        encode_ordered(value, &mut key);
        key
    };
    pairs.map(extend).collect()
}

fn finished(mut key: Vec<u8>, unique: bool, local: u64) -> Result<Entry> {
    if !unique {
        key.extend_from_slice(&local.to_be_bytes());
    }
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::new(
            Code::BadParameter,
            format!("an index entry is longer than {KEY_BYTES_MAX} bytes"),
        ));
    }
    Ok(Entry { key, unique })
}

/// The values of a path: one, or each element at its `[*]` (none if there is no array).
fn field_values(document: &Object, path: &[String]) -> Vec<Value> {
    let mut rest = path.iter();
    let Some(first) = rest.next() else { return vec![Value::Null] };
    let top = |name: &str| document.get(name).cloned().unwrap_or_default();
    let mut values = match first.strip_suffix(EXPANSION) {
        Some(name) => elements(&top(name)),
        None => vec![top(first)],
    };
    for segment in rest {
        values = match segment.strip_suffix(EXPANSION) {
            Some(name) => {
                values.iter().flat_map(|value| elements(&value.attribute(name))).collect()
            }
            None => values.iter().map(|value| value.attribute(segment)).collect(),
        };
    }
    values
}

fn elements(value: &Value) -> Vec<Value> {
    value.as_array().map(<[Value]>::to_vec).unwrap_or_default()
}
