//! What a query or a document call may do with data; every read sees the snapshot plus the transaction's own writes.

use crate::error::{Code, Error, Result};
use crate::schema::{Collection, Index};
use crate::value::Value;

/// Collections named at the begin of a transaction.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    /// May be read.
    pub read: Vec<String>,
    /// May be read and written.
    pub write: Vec<String>,
    /// May be read and written while nobody else writes them.
    pub exclusive: Vec<String>,
    /// Whether other collections may be read (never written) without being named.
    pub allow_implicit: bool,
}

/// Options of one write, as the document API and AQL's `OPTIONS` have them.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// `ignoreRevs`: false makes `_rev` of the given document a condition (1200).
    pub ignore_revs: bool,
    /// `keepNull`: false removes attributes that an update sets to null.
    pub keep_null: bool,
    /// `mergeObjects`: false replaces sub-objects in an update.
    pub merge_objects: bool,
    /// What an insert does when the key exists.
    pub overwrite: OverwriteMode,
    /// How long a writer may wait for another writer of the same key before 1200/409 (document API: 1 s; AQL: 0).
    pub lock_wait_ms: u64,
    /// Revision that the document must have (`If-Match`), checked whatever `ignore_revs` says; 412 when it differs.
    pub if_match: Option<String>,
    /// `versionAttribute`: a write with a version not above the stored one is skipped.
    pub version_attribute: Option<String>,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            ignore_revs: true,
            keep_null: true,
            merge_objects: true,
            overwrite: OverwriteMode::Conflict,
            lock_wait_ms: 0,
            if_match: None,
            version_attribute: None,
        }
    }
}

/// `overwriteMode` of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverwriteMode {
    /// 1210.
    Conflict,
    /// Nothing is written.
    Ignore,
    /// The whole document is replaced.
    Replace,
    /// The document is patched.
    Update,
}

/// What a write did.
#[derive(Clone, Debug)]
pub struct Written {
    /// `_key` of the document.
    pub key: String,
    /// `_rev` after the write (of the removed document for a removal).
    pub rev: String,
    /// `_rev` before the write, if there was a document.
    pub old_rev: Option<String>,
    /// The whole document before, with `_id`, `_key`, `_rev`; null if there was none.
    pub old: Value,
    /// The whole document after; null for a removal or an ignored insert.
    pub new: Value,
    /// False when `overwriteMode: ignore` or `versionAttribute` kept the old document.
    pub executed: bool,
}

/// Which part of a sorted index to read: equal values for a prefix of the fields, then bounds for the next field.
#[derive(Clone, Debug, Default)]
pub struct IndexRange {
    /// Values of the first fields.
    pub equals: Vec<Value>,
    /// Lower bound of the next field and whether the bound itself belongs to it.
    pub lower: Option<(Value, bool)>,
    /// Upper bound of the next field and whether the bound itself belongs to it.
    pub upper: Option<(Value, bool)>,
}

/// A place in a scan; it borrows nothing, so a query may write between two batches.
#[derive(Debug)]
pub struct Scan {
    _private: (),
}

/// One transaction. All calls take `&self`; a caller keeps it to one thread at a time.
#[derive(Debug)]
pub struct Transaction {
    _private: (),
}

impl Transaction {
    /// One document by key, whole, with `_key`, `_id`, `_rev` first.
    pub fn get(&self, _collection: &Collection, _key: &str) -> Result<Option<Value>> {
        Err(Error::of(Code::NotImplemented))
    }

    /// All documents in the order of their insertion.
    pub fn scan(&self, _collection: &Collection) -> Result<Scan> {
        Err(Error::of(Code::NotImplemented))
    }

    /// Documents of a primary (`_key`), edge (`_from` or `_to` by `field`), persistent or ttl index within a range, in
    /// index order or backwards. `field` picks `_from` (0) or `_to` (1) of the edge index and is 0 otherwise.
    pub fn index_scan(
        &self,
        _collection: &Collection,
        _index: &Index,
        _field: usize,
        _range: &IndexRange,
        _backwards: bool,
    ) -> Result<Scan> {
        Err(Error::of(Code::NotImplemented))
    }

    /// The next documents of a scan, at most `max`; an empty answer is the end.
    pub fn next(&self, _scan: &mut Scan, _max: usize) -> Result<Vec<Value>> {
        Err(Error::of(Code::NotImplemented))
    }

    /// Number of documents.
    pub fn count(&self, _collection: &Collection) -> Result<u64> {
        Err(Error::of(Code::NotImplemented))
    }

    /// Writes a new document (1210 if key or unique value exists, 1221/1222 bad key, 1233 bad edge, 1620 schema).
    pub fn insert(&self, _c: &Collection, _doc: &Value, _o: &WriteOptions) -> Result<Written> {
        Err(Error::of(Code::NotImplemented))
    }

    /// Patches the document `key` (1202 missing, 1200 conflict). `_rev` of `patch` counts if `ignore_revs` is false.
    pub fn update(
        &self,
        _c: &Collection,
        _key: &str,
        _patch: &Value,
        _o: &WriteOptions,
    ) -> Result<Written> {
        Err(Error::of(Code::NotImplemented))
    }

    /// Replaces the document `key`.
    pub fn replace(
        &self,
        _c: &Collection,
        _key: &str,
        _doc: &Value,
        _o: &WriteOptions,
    ) -> Result<Written> {
        Err(Error::of(Code::NotImplemented))
    }

    /// Removes the document `key`; `rev` is compared when `ignore_revs` is false.
    pub fn remove(
        &self,
        _c: &Collection,
        _key: &str,
        _rev: Option<&str>,
        _o: &WriteOptions,
    ) -> Result<Written> {
        Err(Error::of(Code::NotImplemented))
    }

    /// Marks the current end of the writes, so that a failed statement can be undone alone.
    pub fn savepoint(&self) -> usize {
        0
    }

    /// Undoes the writes made after a savepoint (locks stay).
    pub fn rollback_to(&self, _savepoint: usize) {}
}
