//! Inserts many documents whose attributes are already encoded.
//!
//! This module only writes new documents under unused keys; the function `insert` handles all other
//! cases (errors, overwriting and conflicts).

use crate::encode::{Draft, Drafts, Key, Space, document_key, encode_ordered_text};
use crate::error::Result;
use crate::index::{EXPANSION, entries};
use crate::limits::DOCUMENT_BYTES_MAX;
use crate::schema::{Collection, CollectionKind, Index, IndexKind, ValidationLevel};
use crate::storage::Bytes;
use crate::txn::{Grant, State, Transaction, WriteOptions, key_of_primary, part};

use super::keys;

/// The result of writing one draft (a document whose attributes are already encoded).
#[derive(Debug)]
pub(crate) enum DraftOutcome<'a> {
    /// The draft was written with this key and revision.
    Written(&'a str, u64),
    /// The draft was not written; `insert` must write this JSON text before the next draft.
    Left(&'a [u8]),
}

/// An unused primary key that this transaction has locked.
type PrimaryKey = Bytes;

/// The views and the sorted indexes to which each new document of a collection must be added.
struct Followers<'a> {
    sorted: Vec<&'a Index>,
    /// The first attribute name of each field of the sorted indexes.
    wanted: Vec<String>,
    /// Store ids of the views and inverted indexes.
    views: Vec<u64>,
}

/// Whether new documents of a collection can be written as drafts. This requires that no index
/// except a sorted one needs the documents' decoded values.
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
    /// Inserts drafts in order, with the same effect as calls to `insert`. The caller has checked
    /// `takes_drafts`. Calls `told` with the outcome of each draft. An error of the store or of
    /// `told` ends the function, and no later draft is written.
    pub(crate) fn insert_drafts(
        &self,
        c: &Collection,
        drafts: &Drafts<'_>,
        o: &WriteOptions,
        mut told: impl FnMut(DraftOutcome<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut rest = &drafts.list[..];
        if rest.is_empty() {
            return Ok(());
        }
        let collection = self.writable(c)?;
        // The check is repeated, because the collection's definition may have changed since the
        // caller's check.
        let followers = takes_drafts(collection, o).then(|| self.followers(collection));
        while let Some(first) = rest.first() {
            let Some(followers) = followers.as_ref().filter(|_| first.is_plain()) else {
                told(DraftOutcome::Left(drafts.text(first)))?;
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
                    told(DraftOutcome::Left(drafts.text(left)))?;
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

    /// Locks the keys of some drafts, and generates keys for drafts without a key. Returns a
    /// primary key for each draft whose key is free. Writes nothing.
    fn places(
        &self,
        collection: &Collection,
        run: &[Draft<'_>],
        o: &WriteOptions,
    ) -> Result<Vec<Option<PrimaryKey>>> {
        let mut state = self.writing_state()?;
        let prefix = Key::Primary(collection.id).bytes();
        let (mut key, mut primary) = (String::new(), Vec::with_capacity(64));
        let mut place = |state: &mut State, draft: &Draft<'_>| {
            key.clear();
            // A draft with a bad key gets no primary key here; the function `insert` reports the
            // error later.
            keys::put_key(self.resources(), state, collection, draft.key(), &mut key).ok()?;
            primary.clear();
            primary.extend_from_slice(&prefix);
            encode_ordered_text(&key, &mut primary);
            let place = PrimaryKey::from(&primary[..]);
            // A new lock means that this transaction has not touched the key before.
            let grant = self.grant(state, Space::Indexes, place.clone(), 0);
            (grant == Grant::New).then_some(place)
        };
        let mut places = Vec::with_capacity(run.len());
        places.extend(run.iter().map(|draft| place(&mut state, draft)));
        // The keys of all drafts are locked now, so no other transaction can write documents under
        // these keys.
        if !self.is_at_newest(&mut state, o.sees_newest) {
            places.iter_mut().for_each(|place| *place = None);
            return Ok(places);
        }
        let mut rising: Vec<(&PrimaryKey, usize)> = Vec::with_capacity(places.len());
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

    /// Writes drafts until it reaches a draft whose key is used or that only `insert` can check.
    /// Returns the number of written drafts.
    fn put_free(
        &self,
        collection: &Collection,
        drafts: &Drafts<'_>,
        (run, places): (&[Draft<'_>], &[Option<PrimaryKey>]),
        followers: &Followers<'_>,
        told: &mut impl FnMut(DraftOutcome<'_>) -> Result<()>,
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
            result = told(DraftOutcome::Written(key, revision));
            if result.is_err() {
                break;
            }
        }
        state.overlay.count(collection.id, done as i64);
        state.sync |= collection.wait_for_sync && done > 0;
        result.map(|()| done)
    }

    /// Writes a document's record, its index entries, and its pending rows (from which views index
    /// the document after the commit). Returns `false` and writes nothing if the record is too
    /// large or cannot be indexed.
    fn put_record(
        &self,
        state: &mut State,
        collection: &Collection,
        (place, revision, record): (&PrimaryKey, u64, &[u8]),
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

/// Writes the entries of a record in sorted indexes; returns `false` if the record cannot be
/// indexed.
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
