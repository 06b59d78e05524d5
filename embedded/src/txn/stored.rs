//! A document as it was read: kept in its bytes, and decoded as far as a query asks for it.

use std::sync::Arc;

use super::clock::Revision;
use super::read::{head, whole_of};
use crate::encode::Record;
use crate::error::Result;
use crate::schema::{Collection, CollectionKind};
use crate::value::{Encoded, Object, VALUE_BYTES, Value};

/// Why what is read again cannot fail.
const CHECKED: &str = "the record was checked when it was read";

/// A record that is whole, its collection, and what it holds once it is decoded.
struct Stored {
    collection: Arc<Collection>,
    /// A copy: a part of the store's block would keep all of the block.
    record: Box<[u8]>,
    size: usize,
}

/// A stored document with its system attributes first, like `whole`, of which only the parts that are used get decoded.
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
        whole_of(&self.collection, &self.record()).expect(CHECKED).into_entries()
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
