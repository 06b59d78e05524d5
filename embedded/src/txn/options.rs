//! Options of transactions and writes, and the results of writes.

use crate::value::Value;

/// The collections that a transaction declares at its beginning.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    /// Collections that the transaction may read.
    pub read: Vec<String>,
    /// Collections that the transaction may read and write.
    pub write: Vec<String>,
    /// Collections that the transaction may read and write, and to which no other transaction may
    /// write until this transaction ends.
    pub exclusive: Vec<String>,
    /// Whether the transaction may read undeclared collections; writing to undeclared collections
    /// is never allowed.
    pub allow_implicit: bool,
}

/// Options of a write, as in the document API and in AQL's `OPTIONS`.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// `ignoreRevs`: if false, the `_rev` in the given document must match the stored one
    /// (otherwise error 1200).
    pub ignore_revs: bool,
    /// `keepNull`: if false, an update removes attributes that it sets to null.
    pub keep_null: bool,
    /// `mergeObjects`: if false, an update replaces sub-objects instead of merging them.
    pub merge_objects: bool,
    /// What an insert does if the key exists.
    pub overwrite: OverwriteMode,
    /// Maximum wait for another writer of the same key, in milliseconds. After a longer wait, the
    /// write fails with error 1200 (HTTP 409). Requests use `KEY_LOCK_WAIT_MS`.
    pub lock_wait_ms: u64,
    /// Whether the write may overwrite documents that were committed after the write's transaction
    /// began. The document API allows this if the transaction serves only one request and has no
    /// earlier writes. If it is not allowed, such a write fails with error 1200 (HTTP 409).
    pub sees_newest: bool,
    /// The revision that the document must have (`If-Match`), regardless of `ignore_revs`; a
    /// different revision causes error 1200 (HTTP 412).
    pub if_match: Option<String>,
    /// `versionAttribute`: the attribute with a version number. The write is skipped unless the new
    /// version number is above the stored version number.
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
            sees_newest: false,
            if_match: None,
            version_attribute: None,
        }
    }
}

/// ArangoDB's error message for a revision that differs from the expected one.
pub(crate) const REVISIONS_DIFFER: &str = "conflict, _rev values do not match";

/// `overwriteMode` of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverwriteMode {
    /// The mode `conflict`, which causes error 1210.
    Conflict,
    /// The mode `ignore`, which keeps the existing document.
    Ignore,
    /// The mode `replace`, which replaces the whole document.
    Replace,
    /// The mode `update`, which patches the existing document.
    Update,
}

/// The result of writing a document.
#[derive(Clone, Debug)]
pub struct Written {
    /// `_key` of the document.
    pub key: String,
    /// `_rev` after the write; for a removal, the `_rev` of the removed document.
    pub rev: String,
    /// `_rev` before the write, if there was a document.
    pub old_rev: Option<String>,
    /// The whole document before the write, with `_id`, `_key` and `_rev`; null if there was none.
    pub old: Value,
    /// The whole document after the write; null for a removal or an ignored insert.
    pub new: Value,
    /// Whether the write took effect; false if `overwriteMode: ignore` or `versionAttribute` kept
    /// the old document.
    pub executed: bool,
}

impl Written {
    /// Returns the result of inserting a new document, without the document itself.
    pub(crate) fn fresh(key: &str, revision: u64) -> Self {
        Self {
            key: key.to_owned(),
            rev: super::revision_text(revision),
            old_rev: None,
            old: Value::Null,
            new: Value::Null,
            executed: true,
        }
    }
}

/// The part of a sorted index to read: equal values for the first fields, then bounds for the next
/// field.
#[derive(Clone, Debug, Default)]
pub struct IndexRange {
    /// Values that the index's first fields must equal.
    pub equals: Vec<Value>,
    /// Lower bound of the first index field that is not in `equals`, and whether the bound is
    /// inclusive.
    pub lower: Option<(Value, bool)>,
    /// Upper bound of the first index field that is not in `equals`, and whether the bound is
    /// inclusive.
    pub upper: Option<(Value, bool)>,
}
