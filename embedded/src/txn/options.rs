//! What a caller asks of a transaction and what a write answers.

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
    /// How long a writer may wait for another writer of the same key before 1200/409 (requests: `KEY_LOCK_WAIT_MS`).
    pub lock_wait_ms: u64,
    /// Whether a request of its own that has written nothing yet may write what was committed after its begin (document
    /// API); otherwise that is 1200/409.
    pub sees_newest: bool,
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
            sees_newest: false,
            if_match: None,
            version_attribute: None,
        }
    }
}

/// Text of a revision that is not the one that was named (recorded).
pub(crate) const REVISIONS_DIFFER: &str = "conflict, _rev values do not match";

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

impl Written {
    /// A new document of which nobody needs the values.
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
