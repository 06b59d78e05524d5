//! Reading: documents by key, in the order of their insertion, or along an index; own writes lie over the snapshot.

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

/// Documents that are read one by one: fewer than a walk is worth.
const WALK_MIN: usize = 4;
/// Documents that a walk steps over for each that is wanted, this one included.
const WALK_WIDTH_MAX: usize = 2;

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
        bytes.map(|bytes| stored(collection, &bytes)).transpose()
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
        stored(collection, &bytes).map(Some)
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
        let state = self.state()?;
        while documents.is_empty() && !scan.done && max > 0 {
            documents = scan.read(&state, max)?;
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
    /// Reads on until there are so many documents, or the entries end.
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

    /// The documents of these local numbers, in their order.
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

    /// Those of a range of local numbers that are wanted, by their place in it.
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

/// The range of some local numbers, if one walk through it is cheaper than a lookup of each: documents that were written
/// one after another, as an index by time or by number has them.
fn neighbours(locals: &[u64]) -> Option<RangeInclusive<u64>> {
    if locals.len() < WALK_MIN {
        return None;
    }
    let (lowest, highest) = (*locals.iter().min()?, *locals.iter().max()?);
    let width = usize::try_from(highest - lowest).ok()?;
    (width < locals.len() * WALK_WIDTH_MAX).then_some(lowest..=highest)
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
        self.get(Space::Documents, &document_key(collection, local))
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
    whole_of(collection, &Record::read(bytes)?).map(Value::object)
}

/// A record's document with its system attributes first.
pub(super) fn whole_of(collection: &Collection, record: &Record<'_>) -> Result<Object> {
    let mut object = head(collection, record.key);
    let is_edge = collection.kind == CollectionKind::Edge;
    record.attributes_into(&mut object, Revision::of(record.revision).text().into(), is_edge)?;
    Ok(object)
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
