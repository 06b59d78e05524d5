//! Inserts, updates, replaces and removes documents with all their index entries in the
//! transaction's overlay.

use super::{computed, keys, merge, validate, vectors};
use crate::encode::{Key, Record, Space, is_end, is_head, is_too_deep, local_id_of_value};
use crate::error::{Code, Error, Result};
use crate::index::{IndexEntry, entries};
use crate::limits::DOCUMENT_BYTES_MAX;
use crate::schema::{Collection, CollectionKind, Index, Sharding};
use crate::storage::Snapshot;
use crate::txn::{
    OverwriteMode, REVISIONS_DIFFER, State, Transaction, WriteOptions, Written, head, primary_key,
    whole,
};
use crate::value::{Object, Value};

/// A stored document that a write will change.
struct StoredDocument {
    local: u64,
    revision: String,
    document: Value,
}

/// The new content of a document.
struct Next {
    revision: u64,
    document: Object,
}

impl Transaction {
    /// Inserts a document. Errors: 1210 if another document has the same key or the same unique
    /// value, 1221 and 1222 for a bad key, 1233 for a bad edge, 1620 for a violated schema.
    pub fn insert(&self, c: &Collection, doc: &Value, o: &WriteOptions) -> Result<Written> {
        let collection = self.writable(c)?;
        let given = object_of(doc)?;
        let sharding = collection.sharding.as_ref();
        if sharding.is_some_and(Sharding::forbids_own_keys) && given.get("_key").is_some() {
            return Err(Error::of(Code::ClusterMustNotSpecifyKey));
        }
        let mut state = self.state()?;
        let key = keys::key_of(self.resources(), &mut state, collection, given)?;
        let stored = self.find(&mut state, collection, &key, o)?;
        match stored {
            None => self.put_new(&mut state, collection, &key, given, o),
            Some(stored) => match o.overwrite {
                OverwriteMode::Conflict => Err(exists(&key)),
                OverwriteMode::Ignore => Ok(unchanged_result(key, stored, Value::Null)),
                OverwriteMode::Replace => {
                    self.put_replaced(&mut state, collection, &key, stored, given, o)
                }
                OverwriteMode::Update => {
                    self.put_updated(&mut state, collection, &key, stored, given, o)
                }
            },
        }
    }

    /// Patches the document `key`. Errors: 1202 for a missing document, 1200 for a conflict. If
    /// `ignore_revs` is false, `_rev` of `patch` must match.
    pub fn update(
        &self,
        c: &Collection,
        key: &str,
        patch: &Value,
        o: &WriteOptions,
    ) -> Result<Written> {
        let collection = self.writable(c)?;
        let given = object_of(patch)?;
        let mut state = self.state()?;
        let stored = self.find_for(
            &mut state,
            collection,
            key,
            given.get("_rev").and_then(Value::as_str),
            o,
        )?;
        self.put_updated(&mut state, collection, key, stored, given, o)
    }

    /// Replaces the document `key`.
    pub fn replace(
        &self,
        c: &Collection,
        key: &str,
        doc: &Value,
        o: &WriteOptions,
    ) -> Result<Written> {
        let collection = self.writable(c)?;
        let given = object_of(doc)?;
        let mut state = self.state()?;
        let stored = self.find_for(
            &mut state,
            collection,
            key,
            given.get("_rev").and_then(Value::as_str),
            o,
        )?;
        self.put_replaced(&mut state, collection, key, stored, given, o)
    }

    /// Removes the document `key`; if `ignore_revs` is false, `rev` must match.
    pub fn remove(
        &self,
        c: &Collection,
        key: &str,
        rev: Option<&str>,
        o: &WriteOptions,
    ) -> Result<Written> {
        let collection = self.writable(c)?;
        let mut state = self.state()?;
        let stored = self.find_for(&mut state, collection, key, rev, o)?;
        self.write(&mut state, collection, key, Some(&stored), None, o)?;
        let rev = stored.revision;
        Ok(Written {
            key: key.to_owned(),
            old_rev: Some(rev.clone()),
            rev,
            old: stored.document,
            new: Value::Null,
            executed: true,
        })
    }

    /// Removes all documents of a collection.
    pub fn truncate(&self, c: &Collection) -> Result<()> {
        let mut scan = self.scan(self.writable(c)?)?;
        loop {
            let documents = self.next(&mut scan, crate::limits::STEP_DOCUMENTS)?;
            if documents.is_empty() {
                return Ok(());
            }
            for document in &documents {
                let key = document.text_of("_key").expect("each stored document has its key");
                self.remove(c, key, None, &WriteOptions::default())?;
            }
        }
    }

    /// Locks a document key and reads the newest version of the document.
    fn find(
        &self,
        state: &mut State,
        collection: &Collection,
        key: &str,
        o: &WriteOptions,
    ) -> Result<Option<StoredDocument>> {
        let primary = primary_key(collection.id, key);
        if !self.lock(state, Space::Indexes, &primary, o.lock_wait_ms) {
            return Err(clash(state, collection, key, &primary_place(LOCKED, key))?);
        }
        let version = |snapshot: &dyn Snapshot| version(snapshot, collection.id, &primary);
        if !self.is_unchanged(state, o.sees_newest, |seen, newest| {
            Ok(version(seen)? != version(newest)?)
        })? {
            return Err(clash(state, collection, key, &primary_place(CHANGED, key))?);
        }
        let Some(local) = state.local_id(&primary)? else { return Ok(None) };
        let Some(bytes) = state.document(collection.id, local)? else { return Ok(None) };
        let document = whole(collection, &bytes)?;
        let revision =
            document.text_of("_rev").expect("each stored document has its revision").to_owned();
        Ok(Some(StoredDocument { local, revision, document }))
    }

    /// Reads a document; fails if the document is missing or has another revision than expected.
    fn find_for(
        &self,
        state: &mut State,
        collection: &Collection,
        key: &str,
        given: Option<&str>,
        o: &WriteOptions,
    ) -> Result<StoredDocument> {
        let stored = self
            .find(state, collection, key, o)?
            .ok_or_else(|| Error::of(Code::DocumentNotFound))?;
        if let Some(wanted) = o.if_match.as_deref().map(|rev| rev.trim_matches('"'))
            && wanted != stored.revision
        {
            return Err(stale(&stored).with_status(412));
        }
        match given {
            Some(given) if !o.ignore_revs && given != stored.revision => Err(stale(&stored)),
            _ => Ok(stored),
        }
    }

    fn put_new(
        &self,
        state: &mut State,
        collection: &Collection,
        key: &str,
        given: &Object,
        o: &WriteOptions,
    ) -> Result<Written> {
        let revision = self.new_revision();
        let keep_null = o.keep_null || o.overwrite != OverwriteMode::Update;
        let mut document = fresh(collection, key, revision, given, keep_null);
        computed::compute(collection, &mut document, "insert")?;
        self.put(state, collection, key, None, Next { revision, document }, o)
    }

    fn put_replaced(
        &self,
        state: &mut State,
        collection: &Collection,
        key: &str,
        stored: StoredDocument,
        given: &Object,
        o: &WriteOptions,
    ) -> Result<Written> {
        if is_outdated(&stored.document, given, o) {
            let unchanged = stored.document.clone();
            return Ok(unchanged_result(key.to_owned(), stored, unchanged));
        }
        let revision = self.new_revision();
        let mut document = fresh(collection, key, revision, given, true);
        computed::compute(collection, &mut document, "replace")?;
        self.put(state, collection, key, Some(stored), Next { revision, document }, o)
    }

    fn put_updated(
        &self,
        state: &mut State,
        collection: &Collection,
        key: &str,
        stored: StoredDocument,
        given: &Object,
        o: &WriteOptions,
    ) -> Result<Written> {
        if is_outdated(&stored.document, given, o) {
            let unchanged = stored.document.clone();
            return Ok(unchanged_result(key.to_owned(), stored, unchanged));
        }
        let revision = self.new_revision();
        let old = stored.document.as_object().expect("a stored document is an object");
        let mut document = merge::patched(old, given, o.keep_null, o.merge_objects);
        document.insert("_rev", crate::txn::revision_text(revision).into());
        computed::compute(collection, &mut document, "update")?;
        self.put(state, collection, key, Some(stored), Next { revision, document }, o)
    }

    /// Checks a document and writes it.
    fn put(
        &self,
        state: &mut State,
        collection: &Collection,
        key: &str,
        stored: Option<StoredDocument>,
        next: Next,
        o: &WriteOptions,
    ) -> Result<Written> {
        if collection.kind == CollectionKind::Edge {
            check_edge(&next.document)?;
        }
        let old = stored.as_ref().and_then(|stored| stored.document.as_object());
        validate::check(collection, old, &next.document)?;
        self.write(state, collection, key, stored.as_ref(), Some(&next), o)?;
        let (old, old_rev) =
            stored.map_or((Value::Null, None), |stored| (stored.document, Some(stored.revision)));
        let rev = crate::txn::revision_text(next.revision);
        Ok(Written {
            key: key.to_owned(),
            rev,
            old_rev,
            old,
            new: Value::object(next.document),
            executed: true,
        })
    }

    /// Replaces a stored document and the document's index entries. After an error, none of these
    /// changes remains.
    fn write(
        &self,
        state: &mut State,
        collection: &Collection,
        key: &str,
        stored: Option<&StoredDocument>,
        next: Option<&Next>,
        o: &WriteOptions,
    ) -> Result<()> {
        let local =
            stored.map_or_else(|| next.map_or(0, |next| next.revision), |stored| stored.local);
        if let (Some(sharding), Some(stored), Some(next)) = (&collection.sharding, stored, next)
            && sharding.differs(&stored.document, &next.document)
        {
            return Err(Error::of(Code::ClusterMustNotChangeShardingAttributes));
        }
        let document = next.map(|next| &next.document);
        let document = vectors::Document { key, local, is_there: stored.is_some(), next: document };
        let (mut changes, mut vectors) = (Vec::new(), Vec::new());
        for index in &collection.indexes {
            let old = stored.and_then(|stored| stored.document.as_object());
            let old = old.map_or(Ok(Vec::new()), |old| entries(collection, index, old, local))?;
            let new = next
                .map_or(Ok(Vec::new()), |next| entries(collection, index, &next.document, local))?;
            let shown = next.map(|next| &next.document);
            self.check_unique(state, (collection, index, key, shown), &old, &new, o)?;
            changes.push((old, new));
            vectors.extend(self.vector_change(state, index, &document)?);
        }
        let record = next.map(|next| Record::write(next.revision, key, &next.document));
        if record.as_ref().is_some_and(|record| record.len() > DOCUMENT_BYTES_MAX) {
            return Err(Error::of(Code::DocumentTooLarge));
        }
        let savepoint = state.overlay.savepoint();
        for (old, new) in changes {
            for entry in old.iter().filter(|entry| new.binary_search(entry).is_err()) {
                state.overlay.set(Space::Indexes, entry.key.clone(), None);
            }
            for entry in new.into_iter().filter(|entry| old.binary_search(entry).is_err()) {
                let value = if entry.unique { local.to_be_bytes().into() } else { [].into() };
                state.overlay.set(Space::Indexes, entry.key, Some(value));
            }
        }
        vectors.into_iter().for_each(|change| change.apply(state));
        let document_key = Key::Document(collection.id, local).bytes();
        if stored.is_none() != next.is_none() {
            let value = next.map(|_| local.to_be_bytes().into());
            state.overlay.set(Space::Indexes, primary_key(collection.id, key), value);
            state.overlay.count(collection.id, if next.is_some() { 1 } else { -1 });
        }
        state.overlay.set(Space::Documents, document_key, record.map(Into::into));
        self.tell_views(state, collection, local);
        state.sync |= collection.wait_for_sync;
        self.check_size(state).inspect_err(|_| state.overlay.rollback_to(savepoint))
    }

    /// Adds a pending row for each view that links the collection and for each inverted index of
    /// the collection. Views and inverted indexes process pending rows after the commit.
    fn tell_views(&self, state: &mut State, collection: &Collection, local: u64) {
        for store in self.stores_to_tell(collection) {
            let (key, row) = self.pending_row(store, collection.id, local);
            state.overlay.set(Space::Indexes, key, Some(row.into()));
        }
    }

    /// Returns the store ids of the collection's views and inverted indexes.
    pub(super) fn stores_to_tell(&self, collection: &Collection) -> Vec<u64> {
        let database = self.database();
        let views = database.views.values().filter(|view| view.holds(&collection.name));
        let inverted = collection.indexes.iter().filter(|index| index.is_inverted());
        views.map(|view| view.id).chain(inverted.map(|index| index.id)).collect()
    }

    /// A pending row, which names a document that a view must process after the commit: the row's
    /// key, and the location of the document.
    pub(super) fn pending_row(
        &self,
        store: u64,
        collection: u64,
        local: u64,
    ) -> (Vec<u8>, [u8; 16]) {
        let key = Key::PendingRow(store, self.new_revision()).bytes();
        (key, crate::encode::document_key(collection, local))
    }

    /// Locks the unique keys that change. Returns error 1210 if another document has one of the new
    /// keys.
    fn check_unique(
        &self,
        state: &mut State,
        (collection, index, key, document): (&Collection, &Index, &str, Option<&Object>),
        old: &[IndexEntry],
        new: &[IndexEntry],
        o: &WriteOptions,
    ) -> Result<()> {
        if !index.unique {
            return Ok(());
        }
        let busy = |state: &State, what: &str| {
            let values = indexed_values(index, document);
            let text = format!(
                "{what} - {}; document key: {key}; indexed values: {values}",
                index_place(index)
            );
            clash(state, collection, key, &text)
        };
        for entry in old.iter().filter(|entry| new.binary_search(entry).is_err()) {
            if !self.lock(state, Space::Indexes, &entry.key, o.lock_wait_ms) {
                return Err(busy(state, LOCKED)?);
            }
        }
        for entry in new.iter().filter(|entry| old.binary_search(entry).is_err()) {
            if !self.lock(state, Space::Indexes, &entry.key, o.lock_wait_ms) {
                return Err(busy(state, LOCKED)?);
            }
            let holder = |snapshot: &dyn Snapshot| snapshot.get(Space::Indexes, &entry.key);
            let unchanged = self.is_unchanged(state, o.sees_newest, |seen, newest| {
                Ok(holder(seen)? != holder(newest)?)
            })?;
            if !unchanged {
                return Err(busy(state, CHANGED)?);
            }
            if let Some(value) = state.get(Space::Indexes, &entry.key)? {
                return Err(taken(state, collection, index, local_id_of_value(&value)?));
            }
        }
        Ok(())
    }
}

/// Messages of write conflicts, with the texts that ArangoDB's tests expect.
const LOCKED: &str = "timeout waiting to lock key Operation timed out: Timeout waiting to lock key";
const CHANGED: &str = "conflict: write-write conflict";

fn primary_place(what: &str, key: &str) -> String {
    format!("{what} - in index primary of type primary over '_key'; conflicting key: {key}")
}

fn index_place(index: &Index) -> String {
    let fields: Vec<_> = index.fields.iter().map(|path| path.join(".")).collect();
    format!("in index {} of type persistent over '{}'", index.name, fields.join(", "))
}

/// The values of an index's fields in a document, as JSON.
fn indexed_values(index: &Index, document: Option<&Object>) -> String {
    let value_at = |path: &Vec<String>| {
        let (first, rest) = path.split_first()?;
        let first = document?.get(first)?.clone();
        Some(rest.iter().fold(first, |value, name| value.attribute(name)))
    };
    let values = index.fields.iter().map(|path| value_at(path).unwrap_or_default());
    let mut text = String::new();
    crate::value::write_text(&Value::from(values.collect::<Vec<_>>()), &mut text);
    text
}

/// Error 1200 for a conflict between writers, with the document's identity. The revision is empty
/// for a document that was never committed.
fn clash(state: &State, collection: &Collection, key: &str, text: &str) -> Result<Error> {
    let stored = version(&*state.snapshot, collection.id, &primary_key(collection.id, key))?;
    let mut extra = Object::new();
    extra.insert("_id", format!("{}/{key}", collection.name).into());
    extra.insert("_key", key.into());
    let rev = stored.map_or_else(String::new, |(_, rev)| crate::txn::revision_text(rev));
    extra.insert("_rev", rev.into());
    Ok(Error::new(Code::Conflict, text).with_extra(Value::object(extra)))
}

/// Local id and revision of a document in a snapshot. Two reads return equal pairs only if the
/// document did not change between them.
fn version(snapshot: &dyn Snapshot, collection: u64, primary: &[u8]) -> Result<Option<(u64, u64)>> {
    let Some(value) = snapshot.get(Space::Indexes, primary)? else { return Ok(None) };
    let local = local_id_of_value(&value)?;
    let bytes = snapshot.get(Space::Documents, &Key::Document(collection, local).bytes())?;
    let revision =
        bytes.map(|bytes| Record::read(&bytes).map(|record| record.revision)).transpose()?;
    Ok(revision.map(|revision| (local, revision)))
}

fn object_of(document: &Value) -> Result<&Object> {
    if is_too_deep(document) {
        return Err(Error::new(Code::QueryTooMuchNesting, "the document is nested too deeply"));
    }
    document.as_object().ok_or_else(|| Error::of(Code::DocumentTypeInvalid))
}

/// Checks that `_from` and `_to` have the form `collection/key`.
fn check_edge(document: &Object) -> Result<()> {
    let legal = |name: &str| {
        let text = document.get(name).and_then(Value::as_str);
        text.and_then(|text| text.split_once('/'))
            .is_some_and(|(collection, key)| !collection.is_empty() && keys::is_legal(key))
    };
    if legal("_from") && legal("_to") { Ok(()) } else { Err(Error::of(Code::InvalidEdgeAttribute)) }
}

/// Whether the stored document's version (its `versionAttribute`) is at least as high as the new
/// document's version.
fn is_outdated(stored: &Value, given: &Object, o: &WriteOptions) -> bool {
    let Some(name) = o.version_attribute.as_deref().filter(|name| !name.is_empty()) else {
        return false;
    };
    let number = |value: Value| value.as_f64().filter(|number| *number >= 0.0).map(|_| value);
    let (Some(old), Some(new)) =
        (number(stored.attribute(name)), given.get(name).cloned().and_then(number))
    else {
        return false;
    };
    let ordered = |value: &Value| {
        let mut bytes = Vec::new();
        crate::encode::encode_ordered(value, &mut bytes);
        bytes
    };
    ordered(&new) <= ordered(&old)
}

/// Builds a new document with the attributes `_key`, `_id`, the ends of an edge, `_rev`, then the
/// request's attributes.
fn fresh(
    collection: &Collection,
    key: &str,
    revision: u64,
    given: &Object,
    keep_null: bool,
) -> Object {
    let mut document = head(collection, key);
    let is_edge = collection.kind == CollectionKind::Edge;
    if is_edge {
        for name in ["_from", "_to"] {
            if let Some(end) = given.get(name) {
                document.push_new(name, end.clone());
            }
        }
    }
    document.push_new("_rev", crate::txn::revision_text(revision).into());
    for (name, value) in given.iter().filter(|(name, _)| !is_head(name)) {
        if !(is_edge && is_end(name)) && (keep_null || !value.is_null()) {
            document.push_new(name.clone(), value.clone());
        }
    }
    document
}

fn unchanged_result(key: String, stored: StoredDocument, new: Value) -> Written {
    let rev = stored.revision;
    Written { key, old_rev: Some(rev.clone()), rev, old: stored.document, new, executed: false }
}

fn stale(stored: &StoredDocument) -> Error {
    let mut extra = Object::new();
    for name in ["_id", "_key", "_rev"] {
        extra.insert(name, stored.document.attribute(name));
    }
    Error::new(Code::Conflict, REVISIONS_DIFFER).with_extra(Value::object(extra))
}

fn exists(key: &str) -> Error {
    Error::new(
        Code::UniqueConstraintViolated,
        format!(
            "unique constraint violated - in index primary of type primary over '_key'; conflicting key: {key}"
        ),
    )
}

fn taken(state: &State, collection: &Collection, index: &Index, local: u64) -> Error {
    let holder = match state.document(collection.id, local) {
        Ok(Some(bytes)) => {
            Record::read(&bytes).map(|record| format!("; conflicting key: {}", record.key))
        }
        Ok(None) => Ok(String::new()),
        Err(error) => Err(error),
    };
    match holder {
        Ok(holder) => Error::new(
            Code::UniqueConstraintViolated,
            format!("unique constraint violated - {}{holder}", index_place(index)),
        ),
        Err(error) => error,
    }
}
