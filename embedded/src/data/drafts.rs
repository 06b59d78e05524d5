//! New documents whose attributes are encoded already: keys, locks, lookups, revisions and records of many at once.
//!
//! Everything that is not plainly a new document under a free key is left to `insert`, so that errors, overwriting and
//! conflicts have one place.

use crate::encode::{Draft, Drafts, Key, Space, document_key, encode_ordered_text};
use crate::error::Result;
use crate::index::{EXPANSION, entries};
use crate::limits::DOCUMENT_BYTES_MAX;
use crate::schema::{Collection, CollectionKind, Index, IndexKind, ValidationLevel};
use crate::storage::Bytes;
use crate::txn::{Grant, State, Transaction, WriteOptions, key_of_primary, part};

use super::keys;

/// What became of a draft.
#[derive(Debug)]
pub(crate) enum Told<'a> {
    /// It was written under this key and revision.
    Written(&'a str, u64),
    /// Its JSON text has to be written by `insert`, before the next draft's turn.
    Left(&'a [u8]),
}

/// A primary key that this transaction holds and that nobody has.
type Place = Bytes;

/// What a document of a collection writes besides itself.
struct Followers<'a> {
    sorted: Vec<&'a Index>,
    /// First names of the sorted indexes' fields.
    wanted: Vec<String>,
    /// Views and inverted indexes by the number of their store.
    views: Vec<u64>,
}

/// Whether new documents of a collection may come as drafts: nothing needs their values but sorted indexes.
pub(crate) fn takes_drafts(collection: &Collection, o: &WriteOptions) -> bool {
    let is_unchecked = |level| level == ValidationLevel::None;
    let is_simple = |index: &Index| match &index.kind {
        IndexKind::Primary | IndexKind::DefinitionOnly(_) => true,
        IndexKind::Persistent | IndexKind::Ttl => !index.unique,
        IndexKind::Edge | IndexKind::Vector(_) => false,
    };
    collection.kind == CollectionKind::Document
        && collection.sharding.is_none()
        && collection.computed_values.is_null()
        && collection.validation.as_ref().is_none_or(|v| is_unchecked(v.level))
        && collection.indexes.iter().all(|index| is_simple(index))
        && o.keep_null
}

impl Transaction {
    /// Inserts drafts in their order, each as `insert` would. Collection and options are such that `takes_drafts`. An error of
    /// `told` ends it; one of the store leaves nothing of the drafts whose turn had not come.
    pub(crate) fn insert_drafts(
        &self,
        c: &Collection,
        drafts: &Drafts<'_>,
        o: &WriteOptions,
        mut told: impl FnMut(Told<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut rest = &drafts.list[..];
        if rest.is_empty() {
            return Ok(());
        }
        let collection = self.writable(c)?;
        // The definitions may be newer than those that were asked.
        let followers = takes_drafts(collection, o).then(|| self.followers(collection));
        while let Some(first) = rest.first() {
            let Some(followers) = followers.as_ref().filter(|_| first.is_plain()) else {
                told(Told::Left(drafts.text(first)))?;
                rest = &rest[1..];
                continue;
            };
            let (run, behind) = rest.split_at(rest.iter().take_while(|d| d.is_plain()).count());
            rest = behind;
            let places = self.places(collection, run, o)?;
            let mut at = 0;
            while at < run.len() {
                at += self.put_free(
                    collection,
                    drafts,
                    (&run[at..], &places[at..]),
                    followers,
                    &mut told,
                )?;
                if let Some(left) = run.get(at) {
                    told(Told::Left(drafts.text(left)))?;
                    at += 1;
                }
            }
        }
        Ok(())
    }

    fn followers<'a>(&self, collection: &'a Collection) -> Followers<'a> {
        let is_sorted =
            |index: &&Index| matches!(index.kind, IndexKind::Persistent | IndexKind::Ttl);
        let sorted: Vec<&Index> =
            collection.indexes.iter().map(|index| &**index).filter(is_sorted).collect();
        let firsts = sorted.iter().flat_map(|index| &index.fields).filter_map(|path| path.first());
        let mut wanted: Vec<String> =
            firsts.map(|name| name.strip_suffix(EXPANSION).unwrap_or(name).to_owned()).collect();
        wanted.sort();
        wanted.dedup();
        Followers { sorted, wanted, views: self.stores_to_tell(collection) }
    }

    /// Makes or takes the keys of some drafts and locks them; a place for each whose key is free. Nothing was written since.
    fn places(
        &self,
        collection: &Collection,
        run: &[Draft<'_>],
        o: &WriteOptions,
    ) -> Result<Vec<Option<Place>>> {
        let mut state = self.writing_state()?;
        let prefix = Key::Primary(collection.id).bytes();
        let (mut key, mut primary) = (String::new(), Vec::with_capacity(64));
        let mut place = |state: &mut State, draft: &Draft<'_>| {
            key.clear();
            // Who has no key or a bad one is told so by `insert`; neither leaves anything behind.
            keys::put_key(self.resources(), state, collection, draft.key(), &mut key).ok()?;
            primary.clear();
            primary.extend_from_slice(&prefix);
            encode_ordered_text(&key, &mut primary);
            let place = Place::from(&primary[..]);
            // A lock that is new means that this transaction has never touched the key.
            let grant = self.grant(state, Space::Indexes, place.clone(), 0);
            (grant == Grant::New).then_some(place)
        };
        let mut places = Vec::with_capacity(run.len());
        places.extend(run.iter().map(|draft| place(&mut state, draft)));
        // All locks are held by now, so that what is newest for these keys stays so.
        if !self.is_at_newest(&mut state, o.sees_newest) {
            places.iter_mut().for_each(|place| *place = None);
            return Ok(places);
        }
        let mut rising: Vec<(&Place, usize)> = Vec::with_capacity(places.len());
        rising.extend(
            places.iter().enumerate().filter_map(|(at, place)| Some((place.as_ref()?, at))),
        );
        rising.sort_unstable();
        let keys: Vec<&[u8]> = rising.iter().map(|(place, _)| &***place).collect();
        let stored = state.are_stored(&keys)?;
        let taken = rising.iter().zip(stored).filter(|(_, is_stored)| *is_stored);
        let taken: Vec<usize> = taken.map(|((_, at), _)| *at).collect();
        taken.into_iter().for_each(|at| places[at] = None);
        Ok(places)
    }

    /// Writes the drafts before the first without a place, or before the first that only `insert` can judge; how many.
    fn put_free(
        &self,
        collection: &Collection,
        drafts: &Drafts<'_>,
        (run, places): (&[Draft<'_>], &[Option<Place>]),
        followers: &Followers<'_>,
        told: &mut impl FnMut(Told<'_>) -> Result<()>,
    ) -> Result<usize> {
        let free = places.iter().map_while(Option::as_ref);
        let count = free.clone().count();
        if count == 0 {
            return Ok(0);
        }
        let mut state = self.writing_state()?;
        let each = 2 + followers.sorted.len() + followers.views.len();
        state.overlay.reserve_unseen(each * count);
        let first = self.resources().clock.revisions(count as u64);
        let mut record = Vec::new();
        let (mut done, mut result) = (0, Ok(()));
        for ((draft, place), revision) in run.iter().zip(free).zip(first..) {
            let key = key_of_primary(place).expect("made of a key");
            drafts.record(draft, revision, key, &mut record);
            if !self.put_record(&mut state, collection, (place, revision, &record), followers) {
                break;
            }
            done += 1;
            result = told(Told::Written(key, revision));
            if result.is_err() {
                break;
            }
        }
        state.overlay.count(collection.id, done as i64);
        state.sync |= collection.wait_for_sync && done > 0;
        result.map(|()| done)
    }

    /// Writes a record and all that follows from it; false, and nothing of it, if it is too large or not to be indexed.
    fn put_record(
        &self,
        state: &mut State,
        collection: &Collection,
        (place, revision, record): (&Place, u64, &[u8]),
        followers: &Followers<'_>,
    ) -> bool {
        let before = state.overlay.unseen();
        if record.len() > DOCUMENT_BYTES_MAX
            || !put_entries(state, collection, (revision, record), followers)
        {
            state.overlay.keep_unseen(before);
            return false;
        }
        for store in &followers.views {
            let (key, row) = self.pending_row(*store, collection.id, revision);
            state.overlay.set_unseen(Space::Indexes, key.into(), row.into());
        }
        let local = Bytes::from(revision.to_be_bytes());
        state.overlay.set_unseen(Space::Indexes, place.clone(), local);
        let key = Bytes::from(document_key(collection.id, revision));
        state.overlay.set_unseen(Space::Documents, key, record.into());
        if self.is_too_large(state) {
            state.overlay.keep_unseen(before);
            return false;
        }
        true
    }
}

/// Writes the entries of a record in sorted indexes; false if it cannot be indexed.
fn put_entries(
    state: &mut State,
    collection: &Collection,
    (revision, record): (u64, &[u8]),
    followers: &Followers<'_>,
) -> bool {
    if followers.sorted.is_empty() {
        return true;
    }
    let Ok(document) = part(collection, record, &followers.wanted) else { return false };
    let Some(document) = document.as_object() else { return false };
    followers.sorted.iter().all(|index| {
        let Ok(entries) = entries(collection, index, document, revision) else { return false };
        for entry in entries {
            state.overlay.set_unseen(Space::Indexes, entry.key.into(), Bytes::default());
        }
        true
    })
}
