//! A document in stored form, of which only the attributes that a query needs are decoded.

use std::sync::Arc;

use super::clock::Revision;
use super::read::{decode_document, head};
use crate::encode::Record;
use crate::error::Result;
use crate::schema::{Collection, CollectionKind};
use crate::value::{Encoded, Object, VALUE_BYTES, Value};

/// The panic message, which says why decoding cannot fail.
const CHECKED: &str = "the record was checked when it was read";

/// The bytes of a stored document, and its collection.
struct Stored {
    collection: Arc<Collection>,
    /// The bytes of the stored document. They are a copy, because a reference into the store's
    /// block would keep the whole block in memory.
    record: Box<[u8]>,
    size: usize,
}

/// Returns a stored document whose attributes are decoded when they are used; the system attributes
/// come first.
pub(crate) fn stored(collection: &Arc<Collection>, bytes: &[u8]) -> Result<Value> {
    let record = Record::read(bytes)?;
    let key = record.key.len();
    let texts = [key, collection.name.len() + 1 + key, Revision::of(record.revision).text().len()];
    let names = ["_key", "_id", "_rev"].map(str::len);
    let head: usize = texts.iter().chain(&names).sum::<usize>() + texts.len() * 2 * VALUE_BYTES;
    let size = head + record.checked_size()?;
    let collection = Arc::clone(collection);
    Ok(Value::object(Object::encoded(Stored { collection, record: bytes.into(), size })))
}

impl Stored {
    fn record(&self) -> Record<'_> {
        Record::read(&self.record).expect(CHECKED)
    }
}

impl Encoded for Stored {
    fn attributes(&self) -> Vec<(Arc<str>, Value)> {
        decode_document(&self.collection, &self.record()).expect(CHECKED).into_entries()
    }

    fn attribute(&self, name: &str) -> Option<Value> {
        let record = self.record();
        match name {
            "_key" => Some(record.key.into()),
            "_id" => head(&self.collection, record.key).remove("_id"),
            "_rev" => Some(Revision::of(record.revision).text().into()),
            name => record.attribute(name).expect(CHECKED),
        }
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        let record = self.record();
        let is_edge = self.collection.kind == CollectionKind::Edge;
        let revision = Revision::of(record.revision);
        record.write_text(&self.collection.name, revision.text(), is_edge, out).expect(CHECKED);
    }

    fn size_bytes(&self) -> usize {
        self.size
    }
}
