//! Reading: documents by key, in the order of their insertion, or along an index; own writes lie over the snapshot.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::clock::revision_text;
use super::options::IndexRange;
use super::transaction::{State, Transaction};
use crate::encode::{
    Key, Record, Space, encode_ordered, local_id_of_key, local_id_of_value, successor,
};
use crate::error::{Code, Error, Result};
use crate::schema::{Collection, CollectionKind, Index, IndexKind};
use crate::storage::Bytes;
use crate::value::{Object, Value};

/// A place in a scan; it borrows nothing, so a query may write between two batches. Documents that are inserted after
/// the scan began do not come up in it.
#[derive(Debug)]
pub struct Scan {
    collection: Arc<Collection>,
    space: Space,
    lower: Vec<u8>,
    upper: Vec<u8>,
    backwards: bool,
    source: Source,
    /// Local numbers from here on were given out after the scan began.
    born_before: u64,
    done: bool,
}

/// Pairs that a walk over several keys meets in vain before single lookups are cheaper: more than the shorter numbers
/// among a hundred generated ones.
const WALK_PAIRS_MAX: usize = 32;
/// Bytes before and behind the key in a primary key: its kind, the collection and the mark of a text; the end of a text.
const PRIMARY_HEAD_BYTES: usize = 10;
const PRIMARY_END_BYTES: usize = 2;

/// Where an entry of a scan keeps its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// In the value itself.
    Document,
    /// Under the local number at the end of its key.
    KeySuffix,
    /// Under the local number in its value.
    Value,
    /// Like `Value`, and there is one entry at most: at `lower`.
    Point,
}

impl Transaction {
    /// One document by key, whole, with `_key`, `_id`, `_rev` first.
    pub fn get(&self, collection: &Collection, key: &str) -> Result<Option<Value>> {
        let collection = self.readable(collection)?;
        let state = self.state()?;
        let Some(local) = state.local_id(&primary_key(collection.id, key))? else {
            return Ok(None);
        };
        let bytes = state.document(collection.id, local)?;
        bytes.map(|bytes| whole(collection, &bytes)).transpose()
    }

    /// A document by its local number, if it still has the revision under which it was found.
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
        whole(collection, &bytes).map(Some)
    }

    /// All documents in the order of their insertion.
    pub fn scan(&self, collection: &Collection) -> Result<Scan> {
        let lower = Key::Documents(collection.id).bytes();
        let upper = Key::Document(collection.id, u64::MAX).bytes();
        self.new_scan(collection, Source::Document, lower, upper, false)
    }

    /// Documents of a primary (`_key`), edge (`_from` or `_to` by `field`), persistent or ttl index within a range, in
    /// index order or backwards. `field` picks `_from` (0) or `_to` (1) of the edge index and is 0 otherwise.
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

    /// The next documents of a scan, at most `max`; an empty answer is the end.
    pub fn next(&self, scan: &mut Scan, max: usize) -> Result<Vec<Value>> {
        let mut documents = Vec::new();
        if scan.done || max == 0 {
            return Ok(documents);
        }
        let state = self.state()?;
        if scan.source == Source::Point {
            scan.done = true;
            if let Some(value) = state.get(scan.space, &scan.lower)?
                && let Some(document) = scan.fetch(&state, local_id_of_value(&value)?)?
            {
                documents.push(document);
            }
            return Ok(documents);
        }
        let mut last = None;
        state.merged(scan.space, &scan.lower, &scan.upper, scan.backwards, |key, value| {
            let document = match scan.source {
                Source::Document if local_id_of_key(key)? < scan.born_before => {
                    Some(whole(&scan.collection, value)?)
                }
                Source::Document => None,
                Source::KeySuffix => scan.fetch(&state, local_id_of_key(key)?)?,
                Source::Value | Source::Point => scan.fetch(&state, local_id_of_value(value)?)?,
            };
            documents.extend(document);
            if documents.len() < max {
                return Ok(ControlFlow::Continue(()));
            }
            last = Some(key.to_vec());
            Ok(ControlFlow::Break(()))
        })?;
        match last {
            None => scan.done = true,
            Some(key) if scan.backwards => scan.upper = key,
            Some(mut key) => {
                key.push(0);
                scan.lower = key;
            }
        }
        Ok(documents)
    }

    /// Number of documents.
    pub fn count(&self, collection: &Collection) -> Result<u64> {
        let collection = self.readable(collection)?;
        let state = self.state()?;
        let stored = state.snapshot.get(Space::Meta, &Key::Count(collection.id).bytes())?;
        let stored = stored.map_or(Ok(0), |value| local_id_of_value(&value))?;
        Ok(stored.saturating_add_signed(state.overlay.counted(collection.id)))
    }
}

impl Scan {
    fn fetch(&self, state: &State, local: u64) -> Result<Option<Value>> {
        if local >= self.born_before {
            return Ok(None);
        }
        let bytes = state.document(self.collection.id, local)?;
        bytes.map(|bytes| whole(&self.collection, &bytes)).transpose()
    }
}

impl State {
    /// Which of some rising keys of the index space the snapshot has. Keys that are near each other, as generated ones are,
    /// are found or missed by one walk instead of a lookup for each.
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

    /// The record of a document by its local number.
    pub(crate) fn document(&self, collection: u64, local: u64) -> Result<Option<Bytes>> {
        self.get(Space::Documents, &Key::Document(collection, local).bytes())
    }

    /// Visits the pairs with `lower <= key < upper`, own writes over the snapshot, until the visitor breaks.
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

/// The bytes of a document's primary key.
pub(crate) fn primary_key(collection: u64, key: &str) -> Vec<u8> {
    let mut bytes = Key::Primary(collection).bytes();
    crate::encode::encode_ordered_text(key, &mut bytes);
    bytes
}

/// The key in the bytes of a primary key; None for anything that `primary_key` of a legal key did not make.
pub(crate) fn key_of_primary(bytes: &[u8]) -> Option<&str> {
    let key = bytes.get(PRIMARY_HEAD_BYTES..bytes.len().checked_sub(PRIMARY_END_BYTES)?)?;
    std::str::from_utf8(key).ok()
}

/// A stored document with its system attributes first.
pub(crate) fn whole(collection: &Collection, bytes: &[u8]) -> Result<Value> {
    let record = Record::read(bytes)?;
    let mut object = head(collection, record.key);
    let is_edge = collection.kind == CollectionKind::Edge;
    record.attributes_into(&mut object, revision_text(record.revision).into(), is_edge)?;
    Ok(Value::object(object))
}

/// A stored document with those of its attributes that are wanted, system attributes first.
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

/// `_key` and `_id`, with room for the rest.
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
