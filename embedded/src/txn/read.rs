//! Reads documents by key, in insertion order, or from an index, where a transaction's own writes
//! override its snapshot.

use std::ops::{ControlFlow, RangeInclusive};
use std::sync::Arc;

use super::clock::{Revision, revision_text};
use super::options::IndexRange;
use super::stored::stored;
use super::transaction::{State, Transaction};
use crate::encode::{
    Key, Record, Space, document_key, encode_ordered, local_id_of_key, local_id_of_value, successor,
};
use crate::error::{Code, Error, Result};
use crate::schema::{Collection, CollectionKind, Index, IndexKind};
use crate::storage::Bytes;
use crate::value::{Object, Value};

/// Minimum number of documents for which one range scan may replace single lookups.
const WALK_MIN: usize = 4;
/// Maximum number of documents that a range scan may read for each wanted document; otherwise,
/// single lookups are used.
const WALK_WIDTH_MAX: usize = 2;

/// The state of a scan over documents. It borrows no data, so that a query can write between two
/// batches of the scan. A scan does not return documents that were inserted after it began.
#[derive(Debug)]
pub struct Scan {
    collection: Arc<Collection>,
    space: Space,
    lower: Vec<u8>,
    upper: Vec<u8>,
    backwards: bool,
    source: Source,
    /// Local ids from this one on were assigned after the scan began.
    born_before: u64,
    done: bool,
}

/// Maximum number of pairs that a scan over several keys may skip; beyond this number, single
/// lookups are cheaper. Keys are sorted as texts, so shorter keys lie between generated keys: 101
/// lies between 1009 and 1010. Between a hundred consecutive generated keys, there are fewer
/// shorter keys than this maximum.
const WALK_PAIRS_MAX: usize = 32;
/// A key of the primary index contains a document key. The first number is the number of bytes
/// before the document key (kind, collection and text tag). The second number is the number of
/// bytes after it (end of the text).
const PRIMARY_HEAD_BYTES: usize = 10;
const PRIMARY_END_BYTES: usize = 2;

/// Where a scanned key-value pair contains the document or its local id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The pair's value is the document.
    Document,
    /// The local id is at the end of the pair's key.
    KeySuffix,
    /// The pair's value is the local id.
    Value,
    /// The pair's value is the local id, and at most one pair is read, with the key `lower`.
    Point,
}

impl Transaction {
    /// Reads one whole document by key; `_key`, `_id` and `_rev` are its first attributes.
    pub fn get(&self, collection: &Collection, key: &str) -> Result<Option<Value>> {
        let collection = self.readable(collection)?;
        let state = self.state()?;
        let Some(local) = state.local_id(&primary_key(collection.id, key))? else {
            return Ok(None);
        };
        let bytes = state.document(collection.id, local)?;
        bytes.map(|bytes| stored(collection, &bytes)).transpose()
    }

    /// Reads a document by its local id, if the document still has the expected revision.
    pub(crate) fn get_found(
        &self,
        collection: &Collection,
        local: u64,
        revision: u64,
    ) -> Result<Option<Value>> {
        let collection = self.readable(collection)?;
        let Some(bytes) = self.state()?.document(collection.id, local)? else { return Ok(None) };
        if Record::read(&bytes)?.revision != revision {
            return Ok(None);
        }
        stored(collection, &bytes).map(Some)
    }

    /// Begins a scan of all documents in insertion order.
    pub fn scan(&self, collection: &Collection) -> Result<Scan> {
        let lower = Key::Documents(collection.id).bytes();
        let upper = Key::Document(collection.id, u64::MAX).bytes();
        self.new_scan(collection, Source::Document, lower, upper, false)
    }

    /// Begins a scan of a range of a primary (`_key`), edge, persistent or TTL index, in index
    /// order or backwards. For an edge index, `field` selects `_from` (0) or `_to` (1); for other
    /// indexes, `field` is 0.
    pub fn index_scan(
        &self,
        collection: &Collection,
        index: &Index,
        field: usize,
        range: &IndexRange,
        backwards: bool,
    ) -> Result<Scan> {
        let (head, fields, source) = match &index.kind {
            IndexKind::Primary => (Key::Primary(collection.id), 1, Source::Value),
            IndexKind::Edge if field == 0 => (Key::EdgeFrom(collection.id), 1, Source::KeySuffix),
            IndexKind::Edge => (Key::EdgeTo(collection.id), 1, Source::KeySuffix),
            IndexKind::Persistent | IndexKind::Ttl if index.unique => {
                (Key::Unique(index.id), index.fields.len(), Source::Value)
            }
            IndexKind::Persistent | IndexKind::Ttl => {
                (Key::Sorted(index.id), index.fields.len(), Source::KeySuffix)
            }
            IndexKind::Vector(_) => return Err(Error::unsupported("a lookup in a vector index")),
            IndexKind::DefinitionOnly(kind) => {
                return Err(Error::unsupported(format!("a lookup in a {kind} index")));
            }
        };
        let known = self.readable(collection)?.indexes.iter().any(|own| own.id == index.id);
        let bounded = range.lower.is_some() || range.upper.is_some();
        if !known || range.equals.len() + usize::from(bounded) > fields {
            return Err(Error::new(
                Code::IndexNotFound,
                format!("index not found: {}", index.name),
            ));
        }
        let mut prefix = head.bytes();
        range.equals.iter().for_each(|value| encode_ordered(value, &mut prefix));
        if source == Source::Value && range.equals.len() == fields {
            return self.new_scan(collection, Source::Point, prefix, Vec::new(), backwards);
        }
        let (lower, upper) = bounds(prefix, range);
        self.new_scan(collection, source, lower, upper, backwards)
    }

    fn new_scan(
        &self,
        collection: &Collection,
        source: Source,
        lower: Vec<u8>,
        upper: Vec<u8>,
        backwards: bool,
    ) -> Result<Scan> {
        let collection = self.readable(collection)?.clone();
        let space = if source == Source::Document { Space::Documents } else { Space::Indexes };
        let born_before = self.new_revision();
        Ok(Scan { collection, space, lower, upper, backwards, source, born_before, done: false })
    }

    /// Returns the next documents of a scan, at most `max`. Returns an empty list at the end.
    pub fn next(&self, scan: &mut Scan, max: usize) -> Result<Vec<Value>> {
        let mut documents = Vec::new();
        let state = self.state()?;
        while documents.is_empty() && !scan.done && max > 0 {
            documents = scan.read(&state, max)?;
        }
        Ok(documents)
    }

    /// Returns the number of documents in a collection.
    pub fn count(&self, collection: &Collection) -> Result<u64> {
        let collection = self.readable(collection)?;
        let state = self.state()?;
        let stored = state.snapshot.get(Space::Meta, &Key::Count(collection.id).bytes())?;
        let stored = stored.map_or(Ok(0), |value| local_id_of_value(&value))?;
        Ok(stored.saturating_add_signed(state.overlay.counted(collection.id)))
    }
}

impl Scan {
    /// Reads pairs until the scan has enough documents or reaches the end of its range.
    fn read(&mut self, state: &State, max: usize) -> Result<Vec<Value>> {
        if self.source == Source::Point {
            self.done = true;
            let value = state.get(self.space, &self.lower)?;
            let local = value.map(|value| local_id_of_value(&value)).transpose()?;
            return self.fetch(state, &Vec::from_iter(local));
        }
        let mut documents = Vec::new();
        let mut locals = Vec::new();
        let mut last = None;
        let born_before = self.born_before;
        state.merged(self.space, &self.lower, &self.upper, self.backwards, |key, value| {
            let local = match self.source {
                Source::Document | Source::KeySuffix => local_id_of_key(key)?,
                Source::Value | Source::Point => local_id_of_value(value)?,
            };
            if local < born_before {
                if self.source == Source::Document {
                    documents.push(stored(&self.collection, value)?);
                } else {
                    locals.push(local);
                }
            }
            if documents.len() + locals.len() < max {
                return Ok(ControlFlow::Continue(()));
            }
            last = Some(key.to_vec());
            Ok(ControlFlow::Break(()))
        })?;
        match last {
            None => self.done = true,
            Some(key) if self.backwards => self.upper = key,
            Some(mut key) => {
                key.push(0);
                self.lower = key;
            }
        }
        if self.source == Source::Document { Ok(documents) } else { self.fetch(state, &locals) }
    }

    /// Returns the documents with the given local ids, in the order of `locals`.
    fn fetch(&self, state: &State, locals: &[u64]) -> Result<Vec<Value>> {
        let mut documents = Vec::with_capacity(locals.len());
        if let Some(range) = neighbours(locals) {
            let walked = self.walk(state, range.clone(), locals)?;
            let found = locals.iter().map(|local| &walked[(local - range.start()) as usize]);
            documents.extend(found.flatten().cloned());
            return Ok(documents);
        }
        for local in locals.iter().filter(|local| **local < self.born_before) {
            if let Some(bytes) = state.document(self.collection.id, *local)? {
                documents.push(stored(&self.collection, &bytes)?);
            }
        }
        Ok(documents)
    }

    /// Reads a range of local ids with one scan. Returns one item for each id of the range: the
    /// document, or `None` if the document is not wanted or does not exist.
    fn walk(
        &self,
        state: &State,
        range: RangeInclusive<u64>,
        wanted: &[u64],
    ) -> Result<Vec<Option<Value>>> {
        let place = |local: u64| (local - range.start()) as usize;
        let collection = self.collection.id;
        let lower = document_key(collection, *range.start());
        let upper = [&document_key(collection, *range.end())[..], &[0]].concat();
        let mut is_wanted = vec![false; place(*range.end()) + 1];
        wanted.iter().for_each(|local| is_wanted[place(*local)] = true);
        let mut documents = vec![None; is_wanted.len()];
        state.merged(Space::Documents, &lower, &upper, false, |key, value| {
            let at = place(local_id_of_key(key)?);
            if is_wanted[at] {
                documents[at] = Some(stored(&self.collection, value)?);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(documents)
    }
}

/// Returns the range from the smallest to the largest local id, if one scan of this range is
/// cheaper than single lookups. One scan is cheaper for documents that were written one after
/// another, as an index on a time or number often returns them.
fn neighbours(locals: &[u64]) -> Option<RangeInclusive<u64>> {
    if locals.len() < WALK_MIN {
        return None;
    }
    let (lowest, highest) = (*locals.iter().min()?, *locals.iter().max()?);
    let width = usize::try_from(highest - lowest).ok()?;
    (width < locals.len() * WALK_WIDTH_MAX).then_some(lowest..=highest)
}

impl State {
    /// Returns, for each of several keys in ascending order, whether the index key space of the
    /// snapshot contains the key. For keys close together, such as generated keys, one scan
    /// replaces the single lookups.
    pub(crate) fn are_stored(&self, keys: &[&[u8]]) -> Result<Vec<bool>> {
        let mut stored = vec![false; keys.len()];
        let mut at = 0;
        if let [first, .., last] = keys {
            let behind = [last, &[0][..]].concat();
            let mut left = WALK_PAIRS_MAX;
            for pair in self.snapshot.scan(Space::Indexes, first, &behind, false) {
                let (key, _) = pair?;
                at += keys[at..].iter().take_while(|wanted| ***wanted < *key).count();
                left -= 1;
                if left == 0 {
                    break;
                }
                if keys[at] == &*key {
                    stored[at] = true;
                    at += 1;
                    left = WALK_PAIRS_MAX;
                }
            }
            if left > 0 {
                return Ok(stored);
            }
        }
        for (key, stored) in keys.iter().zip(&mut stored).skip(at) {
            *stored = self.snapshot.get(Space::Indexes, key)?.is_some();
        }
        Ok(stored)
    }

    /// Returns a document in its stored form, looked up by its local id.
    pub(crate) fn document(&self, collection: u64, local: u64) -> Result<Option<Bytes>> {
        self.get(Space::Documents, &document_key(collection, local))
    }

    /// Calls `visit` for the pairs with `lower <= key < upper` until `visit` returns `Break`. The
    /// transaction's own writes override the snapshot.
    pub(crate) fn merged(
        &self,
        space: Space,
        lower: &[u8],
        upper: &[u8],
        backwards: bool,
        mut visit: impl FnMut(&[u8], &Bytes) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut stored = self.snapshot.scan(space, lower, upper, backwards);
        let range = self.overlay.range(space, lower, upper);
        let mut own: Box<dyn Iterator<Item = _>> =
            if backwards { Box::new(range.rev()) } else { Box::new(range) };
        let (mut next_stored, mut next_own) = (stored.next().transpose()?, own.next());
        loop {
            let order = match (&next_stored, next_own) {
                (None, None) => return Ok(()),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some((stored, _)), Some((own, _))) if backwards => (**own).cmp(&**stored),
                (Some((stored, _)), Some((own, _))) => (**stored).cmp(&**own),
            };
            let mut flow = ControlFlow::Continue(());
            if order.is_lt() {
                if let Some((key, value)) = &next_stored {
                    flow = visit(key, value)?;
                }
            } else if let Some((key, Some(value))) = next_own {
                flow = visit(key, value)?;
            }
            if flow.is_break() {
                return Ok(());
            }
            if order.is_le() {
                next_stored = stored.next().transpose()?;
            }
            if order.is_ge() {
                next_own = own.next();
            }
        }
    }
}

/// Returns the bytes of a document's key in the primary index.
pub(crate) fn primary_key(collection: u64, key: &str) -> Vec<u8> {
    let mut bytes = Key::Primary(collection).bytes();
    crate::encode::encode_ordered_text(key, &mut bytes);
    bytes
}

/// Returns the document key that a key of the primary index contains. Returns `None` for bytes that
/// `primary_key` cannot have made of a legal document key.
pub(crate) fn key_of_primary(bytes: &[u8]) -> Option<&str> {
    let key = bytes.get(PRIMARY_HEAD_BYTES..bytes.len().checked_sub(PRIMARY_END_BYTES)?)?;
    std::str::from_utf8(key).ok()
}

/// Decodes a stored document; the system attributes come first.
pub(crate) fn whole(collection: &Collection, bytes: &[u8]) -> Result<Value> {
    decode_document(collection, &Record::read(bytes)?).map(Value::object)
}

/// Decodes the attributes of a stored document; the system attributes come first.
pub(super) fn decode_document(collection: &Collection, record: &Record<'_>) -> Result<Object> {
    let mut object = head(collection, record.key);
    let is_edge = collection.kind == CollectionKind::Edge;
    record.attributes_into(&mut object, Revision::of(record.revision).text().into(), is_edge)?;
    Ok(object)
}

/// Decodes only the wanted attributes of a stored document; system attributes come first.
pub(crate) fn part(collection: &Collection, bytes: &[u8], wanted: &[String]) -> Result<Value> {
    let record = Record::read(bytes)?;
    let mut object = Object::with_capacity(wanted.len());
    for name in wanted {
        match name.as_str() {
            "_key" => object.push_new("_key", record.key.into()),
            "_id" => object.push_new("_id", format!("{}/{}", collection.name, record.key).into()),
            "_rev" => object.push_new("_rev", revision_text(record.revision).into()),
            _ => {}
        }
    }
    record.wanted_into(wanted, &mut object)?;
    Ok(Value::object(object))
}

/// Creates an object with `_key` and `_id`, and with capacity for further attributes.
pub(crate) fn head(collection: &Collection, key: &str) -> Object {
    let mut object = Object::with_capacity(12);
    object.push_new("_key", Value::from(key));
    object.push_new("_id", Value::from(format!("{}/{key}", collection.name)));
    object
}

fn bounds(prefix: Vec<u8>, range: &IndexRange) -> (Vec<u8>, Vec<u8>) {
    let after = |bytes: Vec<u8>| successor(bytes).expect("a key begins with a small kind byte");
    let with = |value: &Value| {
        let mut bytes = prefix.clone();
        encode_ordered(value, &mut bytes);
        bytes
    };
    let lower = match &range.lower {
        None => prefix.clone(),
        Some((value, true)) => with(value),
        Some((value, false)) => after(with(value)),
    };
    let upper = match &range.upper {
        None => after(prefix),
        Some((value, true)) => after(with(value)),
        Some((value, false)) => with(value),
    };
    (lower, upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_neighbours_are_worth_a_walk() {
        for (locals, range) in [
            (&[][..], None),
            (&[1, 2, 3], None),
            (&[4, 3, 2, 1], Some(1..=4)),
            (&[1, 3, 5, 7, 7], Some(1..=7)),
            (&[1, 3, 5, 9], None),
            (&[0, 1, 2, u64::MAX], None),
        ] {
            assert_eq!(neighbours(locals), range, "{locals:?}");
        }
    }
}
