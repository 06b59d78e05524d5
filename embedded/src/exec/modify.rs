//! Runs INSERT, UPDATE, REPLACE, REMOVE and UPSERT: evaluates expressions, writes through the
//! transaction, and puts `OLD` and `NEW` into registers.

use super::executor::Executor;
use crate::error::{Code, Error, Result};
use crate::expr::{Row, eval};
use crate::plan::{Pipeline, Write, WriteKind};
use crate::schema::Collection;
use crate::txn::Written;
use crate::value::{Object, Value};

impl<'q> Executor<'q> {
    /// Writes the document of one row. Returns `false` if the write failed with an ignored error;
    /// later nodes then do not receive the row.
    pub(super) fn write(&mut self, write: &'q Write, row: &mut Row) -> Result<bool> {
        let result = match &write.kind {
            WriteKind::Upsert { lookup, insert, update, replace } => {
                let found = self.upsert_lookup(lookup, row)?;
                row[write.old] = found.clone();
                if found.is_null() {
                    let document = eval(insert, row, self.binds, self)?;
                    self.insert(write, &document)
                } else {
                    let patch = eval(update, row, self.binds, self)?;
                    let revision = patch.as_object().and_then(|patch| patch.get("_rev"));
                    self.change(write, &found, Some((&patch, revision)), *replace)
                }
            }
            WriteKind::Insert { document } => {
                let document = eval(document, row, self.binds, self)?;
                self.insert(write, &document)
            }
            WriteKind::Change { key, patch, replace } => {
                let key = eval(key, row, self.binds, self)?;
                let patch = match patch {
                    Some(patch) => Some(eval(patch, row, self.binds, self)?),
                    None => None,
                };
                let revision = key.as_object().and_then(|object| object.get("_rev"));
                let patch = patch.as_ref().map(|patch| (patch, revision));
                self.change(write, &key, patch, *replace)
            }
            WriteKind::Remove { key } => {
                let key = eval(key, row, self.binds, self)?;
                self.remove(write, &key)
            }
        };
        match result {
            Ok(written) => {
                let counter = if written.executed {
                    &mut self.stats.writes_executed
                } else {
                    &mut self.stats.writes_ignored
                };
                *counter += 1;
                row[write.new] = if written.executed { written.new } else { Value::Null };
                row[write.old] = written.old;
                Ok(true)
            }
            Err(_) if write.ignore_errors => {
                self.stats.writes_ignored += 1;
                Ok(false)
            }
            // A query's error identifies the document only in its message, not in further
            // attributes.
            Err(error) => Err(Error { extra: None, status: None, ..error }),
        }
    }

    fn target(&self, write: &Write) -> &'q Collection {
        &self.plan.collections[write.collection].collection
    }

    fn upsert_lookup(&mut self, lookup: &'q Pipeline, row: &mut Row) -> Result<Value> {
        Ok(self.pipeline(lookup, row, None)?.into_iter().next().unwrap_or_default())
    }

    fn insert(&self, write: &Write, document: &Value) -> Result<Written> {
        check_document(document)?;
        self.transaction.insert(self.target(write), document, &write.options)
    }

    /// Updates or replaces a document. With `patch`, `key` only identifies the document, and the
    /// new content and the expected revision come from `patch`.
    fn change(
        &self,
        write: &Write,
        key: &Value,
        patch: Option<(&Value, Option<&Value>)>,
        replace: bool,
    ) -> Result<Written> {
        let document = match patch {
            Some((patch, revision)) => {
                check_document(patch)?;
                with_revision(patch, revision)
            }
            None => key.clone(),
        };
        let name = key_of(key)?;
        check_document(&document)?;
        let target = self.target(write);
        if replace {
            self.transaction.replace(target, name, &document, &write.options)
        } else {
            self.transaction.update(target, name, &document, &write.options)
        }
    }

    fn remove(&self, write: &Write, key: &Value) -> Result<Written> {
        self.transaction.remove(
            self.target(write),
            key_of(key)?,
            key.text_of("_rev"),
            &write.options,
        )
    }
}

fn check_document(document: &Value) -> Result<()> {
    match document {
        Value::Object(_) => Ok(()),
        _ => Err(Error::of(Code::DocumentTypeInvalid)),
    }
}

/// Returns the document key from the value of a key expression: a text, or an object's `_key`.
fn key_of(value: &Value) -> Result<&str> {
    match value {
        Value::String(key) => Ok(key),
        other => other.text_of("_key").ok_or_else(|| Error::of(Code::DocumentKeyBad)),
    }
}

/// Returns the patch without `_key`, `_id` and `_rev`, but with the expected revision, if any.
fn with_revision(patch: &Value, revision: Option<&Value>) -> Value {
    let Value::Object(given) = patch else { return patch.clone() };
    let foreign = ["_key", "_id", "_rev"].iter().any(|name| given.get(name).is_some());
    if !foreign && revision.is_none() {
        return patch.clone();
    }
    let mut out: Object = (**given).clone();
    for name in ["_key", "_id", "_rev"] {
        out.remove(name);
    }
    if let Some(revision) = revision {
        out.insert("_rev", revision.clone());
    }
    Value::object(out)
}
