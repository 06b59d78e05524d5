//! Insert, update, replace, remove: the document, its key, its revision and all its index entries in one overlay.

use super::{computed, keys, merge, validate, vectors};
use crate::encode::{Key, Record, Space, is_end, is_head, is_too_deep, local_id_of_value};
use crate::error::{Code, Error, Result};
use crate::index::{Entry, entries};
use crate::limits::DOCUMENT_BYTES_MAX;
use crate::schema::{Collection, CollectionKind, Index, Sharding};
use crate::storage::Snapshot;
use crate::txn::{
    OverwriteMode, REVISIONS_DIFFER, State, Transaction, WriteOptions, Written, head, primary_key,
    whole,
};
use crate::value::{Object, Value};

/// A stored document that is about to be changed.
struct Found {
    local: u64,
    revision: String,
    document: Value,
}

/// What a document becomes.
struct Next {
    revision: u64,
    document: Object,
}

impl Transaction {
    /// Writes a new document (1210 if key or unique value exists, 1221/1222 bad key, 1233 bad edge, 1620 schema).
    pub fn insert(&self, c: &Collection, doc: &Value, o: &WriteOptions) -> Result<Written> {
        let collection = self.writable(c)?;
        let given = object_of(doc)?;
        let sharding = collection.sharding.as_ref();
        if sharding.is_some_and(Sharding::forbids_own_keys) && given.get("_key").is_some() {
            return Err(Error::of(Code::ClusterMustNotSpecifyKey));
        }
        let mut state = self.state()?;
        let key = keys::key_of(self.resources(), &mut state, collection, given)?;
        let found = self.find(&mut state, collection, &key, o)?;
        match found {
            None => self.put_new(&mut state, collection, &key, given, o),
            Some(found) => match o.overwrite {
                OverwriteMode::Conflict => Err(exists(&key)),
                OverwriteMode::Ignore => Ok(kept(key, found, Value::Null)),
                OverwriteMode::Replace => {
                    self.put_replaced(&mut state, collection, &key, found, given, o)
                }
                OverwriteMode::Update => {
                    self.put_updated(&mut state, collection, &key, found, given, o)
                }
            },
        }
    }

    /// Patches the document `key` (1202 missing, 1200 conflict). `_rev` of `patch` counts if `ignore_revs` is false.
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
        let found = self.find_for(
            &mut state,
            collection,
            key,
            given.get("_rev").and_then(Value::as_str),
            o,
        )?;
        self.put_updated(&mut state, collection, key, found, given, o)
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
        let found = self.find_for(
            &mut state,
            collection,
            key,
            given.get("_rev").and_then(Value::as_str),
            o,
        )?;
        self.put_replaced(&mut state, collection, key, found, given, o)
    }

    /// Removes the document `key`; `rev` is compared when `ignore_revs` is false.
    pub fn remove(
        &self,
        c: &Collection,
        key: &str,
        rev: Option<&str>,
        o: &WriteOptions,
    ) -> Result<Written> {
        let collection = self.writable(c)?;
        let mut state = self.state()?;
        let found = self.find_for(&mut state, collection, key, rev, o)?;
        self.write(&mut state, collection, key, Some(&found), None, o)?;
        let rev = found.revision;
        Ok(Written {
            key: key.to_owned(),
            old_rev: Some(rev.clone()),
            rev,
            old: found.document,
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

    /// Locks a document key and reads what is there now.
    fn find(
        &self,
        state: &mut State,
        collection: &Collection,
        key: &str,
        o: &WriteOptions,
    ) -> Result<Option<Found>> {
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
        Ok(Some(Found { local, revision, document }))
    }

    /// A document that has to be there, with the revision that is asked for.
    fn find_for(
        &self,
        state: &mut State,
        collection: &Collection,
        key: &str,
        given: Option<&str>,
        o: &WriteOptions,
    ) -> Result<Found> {
        let found = self
            .find(state, collection, key, o)?
            .ok_or_else(|| Error::of(Code::DocumentNotFound))?;
        if let Some(wanted) = o.if_match.as_deref().map(|rev| rev.trim_matches('"'))
            && wanted != found.revision
        {
            return Err(stale(&found).with_status(412));
        }
        match given {
            Some(given) if !o.ignore_revs && given != found.revision => Err(stale(&found)),
            _ => Ok(found),
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
        found: Found,
        given: &Object,
        o: &WriteOptions,
    ) -> Result<Written> {
        if is_outdated(&found.document, given, o) {
            let unchanged = found.document.clone();
            return Ok(kept(key.to_owned(), found, unchanged));
        }
        let revision = self.new_revision();
        let mut document = fresh(collection, key, revision, given, true);
        computed::compute(collection, &mut document, "replace")?;
        self.put(state, collection, key, Some(found), Next { revision, document }, o)
    }

    fn put_updated(
        &self,
        state: &mut State,
        collection: &Collection,
        key: &str,
        found: Found,
        given: &Object,
        o: &WriteOptions,
    ) -> Result<Written> {
        if is_outdated(&found.document, given, o) {
            let unchanged = found.document.clone();
            return Ok(kept(key.to_owned(), found, unchanged));
        }
        let revision = self.new_revision();
        let old = found.document.as_object().expect("a stored document is an object");
        let mut document = merge::patched(old, given, o.keep_null, o.merge_objects);
        document.insert("_rev", crate::txn::revision_text(revision).into());
        computed::compute(collection, &mut document, "update")?;
        self.put(state, collection, key, Some(found), Next { revision, document }, o)
    }

    /// Checks a document and writes it.
    fn put(
        &self,
        state: &mut State,
        collection: &Collection,
        key: &str,
        found: Option<Found>,
        next: Next,
        o: &WriteOptions,
    ) -> Result<Written> {
        if collection.kind == CollectionKind::Edge {
            check_edge(&next.document)?;
        }
        let old = found.as_ref().and_then(|found| found.document.as_object());
        validate::check(collection, old, &next.document)?;
        self.write(state, collection, key, found.as_ref(), Some(&next), o)?;
        let (old, old_rev) =
            found.map_or((Value::Null, None), |found| (found.document, Some(found.revision)));
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

    /// Moves a document and its index entries from what is stored to what comes; nothing of it stays if it fails.
    fn write(
        &self,
        state: &mut State,
        collection: &Collection,
        key: &str,
        found: Option<&Found>,
        next: Option<&Next>,
        o: &WriteOptions,
    ) -> Result<()> {
        let local = found.map_or_else(|| next.map_or(0, |next| next.revision), |found| found.local);
        if let (Some(sharding), Some(found), Some(next)) = (&collection.sharding, found, next)
            && sharding.differs(&found.document, &next.document)
        {
            return Err(Error::of(Code::ClusterMustNotChangeShardingAttributes));
        }
        let document = next.map(|next| &next.document);
        let document = vectors::Document { key, local, is_there: found.is_some(), next: document };
        let (mut changes, mut vectors) = (Vec::new(), Vec::new());
        for index in &collection.indexes {
            let old = found.and_then(|found| found.document.as_object());
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
        if found.is_none() != next.is_none() {
            let value = next.map(|_| local.to_be_bytes().into());
            state.overlay.set(Space::Indexes, primary_key(collection.id, key), value);
            state.overlay.count(collection.id, if next.is_some() { 1 } else { -1 });
        }
        state.overlay.set(Space::Documents, document_key, record.map(Into::into));
        self.tell_views(state, collection, local);
        state.sync |= collection.wait_for_sync;
        self.check_size(state).inspect_err(|_| state.overlay.rollback_to(savepoint))
    }

    /// Leaves a row for each view that holds the collection and for each of its inverted indexes, so that they take the
    /// change in once it is committed.
    fn tell_views(&self, state: &mut State, collection: &Collection, local: u64) {
        for store in self.stores_to_tell(collection) {
            let (key, row) = self.pending_row(store, collection.id, local);
            state.overlay.set(Space::Indexes, key, Some(row.into()));
        }
    }

    /// Numbers of the stores of those views and inverted indexes.
    pub(super) fn stores_to_tell(&self, collection: &Collection) -> Vec<u64> {
        let database = self.database();
        let views = database.views.values().filter(|view| view.holds(&collection.name));
        let inverted = collection.indexes.iter().filter(|index| index.is_inverted());
        views.map(|view| view.id).chain(inverted.map(|index| index.id)).collect()
    }

    /// Such a row: its key and where the document lies.
    pub(super) fn pending_row(
        &self,
        store: u64,
        collection: u64,
        local: u64,
    ) -> (Vec<u8>, [u8; 16]) {
        let key = Key::PendingRow(store, self.new_revision()).bytes();
        (key, crate::encode::document_key(collection, local))
    }

    /// Locks the unique keys that come and go, and refuses those that another document has (1210).
    fn check_unique(
        &self,
        state: &mut State,
        (collection, index, key, document): (&Collection, &Index, &str, Option<&Object>),
        old: &[Entry],
        new: &[Entry],
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

/// Texts of a conflict between writers, as ArangoDB's tests expect them.
const LOCKED: &str = "timeout waiting to lock key Operation timed out: Timeout waiting to lock key";
const CHANGED: &str = "conflict: write-write conflict";

fn primary_place(what: &str, key: &str) -> String {
    format!("{what} - in index primary of type primary over '_key'; conflicting key: {key}")
}

fn index_place(index: &Index) -> String {
    let fields: Vec<_> = index.fields.iter().map(|path| path.join(".")).collect();
    format!("in index {} of type persistent over '{}'", index.name, fields.join(", "))
}

/// What the fields of an index are in a document, as JSON.
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

/// 1200 between writers, with the document's identity: its revision is empty as long as it was never committed.
fn clash(state: &State, collection: &Collection, key: &str, text: &str) -> Result<Error> {
    let stored = version(&*state.snapshot, collection.id, &primary_key(collection.id, key))?;
    let mut extra = Object::new();
    extra.insert("_id", format!("{}/{key}", collection.name).into());
    extra.insert("_key", key.into());
    let rev = stored.map_or_else(String::new, |(_, rev)| crate::txn::revision_text(rev));
    extra.insert("_rev", rev.into());
    Ok(Error::new(Code::Conflict, text).with_extra(Value::object(extra)))
}

/// Local number and revision of a document in a snapshot: equal only if nobody changed it.
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

/// `_from` and `_to` have to be `collection/key`.
fn check_edge(document: &Object) -> Result<()> {
    let legal = |name: &str| {
        let text = document.get(name).and_then(Value::as_str);
        text.and_then(|text| text.split_once('/'))
            .is_some_and(|(collection, key)| !collection.is_empty() && keys::is_legal(key))
    };
    if legal("_from") && legal("_to") { Ok(()) } else { Err(Error::of(Code::InvalidEdgeAttribute)) }
}

/// Whether `versionAttribute` says that the stored document is at least as new.
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

/// A document with nothing of what was there: `_key`, `_id`, of an edge its ends, `_rev`, the rest as given.
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

fn kept(key: String, found: Found, new: Value) -> Written {
    let rev = found.revision;
    Written { key, old_rev: Some(rev.clone()), rev, old: found.document, new, executed: false }
}

fn stale(found: &Found) -> Error {
    let mut extra = Object::new();
    for name in ["_id", "_key", "_rev"] {
        extra.insert(name, found.document.attribute(name));
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
