//! Computes the entries of one document in one index. A document has at most one entry, but in an
//! array index one entry for each element of the array.

use crate::encode::{Key, encode_ordered};
use crate::error::{Code, Error, Result};
use crate::limits::{ARRAY_ENTRIES_MAX, KEY_BYTES_MAX};
use crate::schema::{Collection, Index, IndexKind};
use crate::value::{Object, Value};

/// Suffix of an attribute name in an array index, which gets one index entry per element of the
/// array.
pub(crate) const EXPANSION: &str = "[*]";

/// One entry of an index other than the primary index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IndexEntry {
    /// The entry's key in the index space.
    pub(crate) key: Vec<u8>,
    /// Whether the index is unique. A unique index stores the document's local id as the entry's
    /// value; any other index stores the local id at the end of the entry's key.
    pub(crate) unique: bool,
}

/// Returns all entries of a document in one index, sorted and without duplicates. `document` must
/// contain the system attributes.
pub(crate) fn entries(
    collection: &Collection,
    index: &Index,
    document: &Object,
    local: u64,
) -> Result<Vec<IndexEntry>> {
    match &index.kind {
        // Indexes of these types have no entries in this module; `data/vectors.rs` writes the
        // entries of vector indexes.
        IndexKind::Primary | IndexKind::Vector(_) | IndexKind::DefinitionOnly(_) => Ok(Vec::new()),
        IndexKind::Edge => {
            let side = |head: Key<'_>, name: &str| -> Result<IndexEntry> {
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

fn sorted_entries(index: &Index, document: &Object, local: u64) -> Result<Vec<IndexEntry>> {
    let head = if index.unique { Key::Unique(index.id) } else { Key::Sorted(index.id) };
    let mut keys = vec![head.bytes()];
    let of_numbers = index.definition.text_of("fieldValueTypes").is_some();
    for path in &index.fields {
        let values = field_values(document, path);
        if of_numbers
            && is_number_field(index, path)
            && !values.iter().all(|v| v.as_f64().is_some() || (index.sparse && v.is_null()))
        {
            let text = format!("an index of type mdi takes only numbers in '{}'", path.join("."));
            return Err(Error::new(Code::QueryInvalidArithmeticValue, text));
        }
        if index.sparse && values.iter().any(Value::is_null) {
            return Ok(Vec::new());
        }
        if keys.len() * values.len() > ARRAY_ENTRIES_MAX {
            let text =
                format!("an array index takes at most {ARRAY_ENTRIES_MAX} entries of one document");
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

/// Whether a path is one of the `fields` of a multi-dimensional index. The values of these fields
/// must be numbers. The values of the index's prefix fields may have any type.
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

fn finished(mut key: Vec<u8>, unique: bool, local: u64) -> Result<IndexEntry> {
    if !unique {
        key.extend_from_slice(&local.to_be_bytes());
    }
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::new(
            Code::BadParameter,
            format!("an index entry is longer than {KEY_BYTES_MAX} bytes"),
        ));
    }
    Ok(IndexEntry { key, unique })
}

/// Returns the values of a path: one value, or each element of the array at `[*]`. The result is
/// empty if there is no array at `[*]`.
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
