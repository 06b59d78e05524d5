//! Converts rows for export and import: an export removes the names of the agent and its tenant,
//! and an import adds the names of the new agent and tenant.
//!
//! A row in an export file contains neither the agent's name nor a key derived from the agent's
//! name. The digest of an agent's rows therefore does not depend on the agent's name. An export
//! fails on a row of another agent. Only messages keep their ids, because a message's digest
//! includes its id.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::part::RowKind;
use super::tally::VectorKind;
use crate::memory::answer_key::answer_key;
use crate::memory::archive::{attribute, derived, manifest_key, passage_key};
use crate::memory::edges::{joined_key, version_key};
use crate::memory::event::entry_key;
use crate::memory::message::TAINT;
use crate::memory::prompt::prompt_key;
use crate::memory::recall_vector::vector_key;
use crate::memory::schedule::schedule_key;

type Row = Map<String, Value>;

/// Attributes that have the same value for all vectors of an export file. Only the file's first
/// line contains these attributes.
const KIND: [&str; 4] = ["dimension", "embedding_version", "metric", "model_id"];

/// The agent that owns the rows in a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Key of this agent's core.
    pub scope: String,
    /// Tenant of the agent.
    pub tenant: String,
    /// The agent's name that the digests of messages contain. An import under another name keeps
    /// this value.
    pub sealed_as: String,
    /// Model, version, dimension and metric of the vectors that the database currently uses.
    pub vector: Option<VectorKind>,
    /// Number of the database's vector setting.
    pub number: u64,
}

/// Converts a row of the database into a row of an export file. An error says why the row cannot be
/// exported.
pub fn carried(part: RowKind, mut row: Row, owner: &Owner) -> Result<Row, String> {
    let scope = owner.scope.as_str();
    row.shift_remove("_id");
    row.shift_remove("_rev");
    let key = taken_text(&mut row, "_key")?;
    if let Some(agent) = row.shift_remove("agent_id")
        && agent != scope
    {
        return Err("is another agent's".into());
    }
    let expected = match part {
        RowKind::Core => {
            drop_equal(&mut row, "tenant", &owner.tenant)?;
            row.shift_remove("names");
            row.shift_remove("sealed_as");
            row.shift_remove("moving");
            row.shift_remove("imported_entries");
            shorten_kept(&mut row, scope)?;
            Some(scope.to_owned())
        }
        RowKind::Versions => {
            shorten_kept(&mut row, scope)?;
            Some(version_key(scope, number(&row, "version")?))
        }
        RowKind::Messages => {
            row.insert("id".into(), key.clone().into());
            row.shift_remove("tainted_seq");
            None
        }
        RowKind::Recall => {
            drop_equal(&mut row, "_from", &format!("core_memory/{scope}"))?;
            drop_equal(&mut row, "_to", &format!("messages/{key}"))?;
            row.insert("id".into(), key.clone().into());
            None
        }
        RowKind::RecallVectors => Some(vector_of(&row)?),
        RowKind::Manifests => {
            row.shift_remove("embedded");
            row.retain(|name, _| !KIND.contains(&name.as_str()));
            drop_owner(&mut row, scope)?;
            Some(manifest_key(scope, text(&row, "doc_id")?))
        }
        RowKind::Passages => {
            drop_owner(&mut row, scope)?;
            row.retain(|name, _| !KIND.contains(&name.as_str()));
            rename_vectors(&mut row, owner.number);
            row.shift_remove("tainted_key");
            Some(passage_key(scope, text(&row, "doc_id")?, text(&row, "chunk_id")?))
        }
        RowKind::Cites => Some(carry_cite(&mut row, scope)?),
        RowKind::Derived => Some(carry_derived(&mut row, scope)?),
        RowKind::Prompts => Some(prompt_key(scope, number(&row, "turn")?)),
        RowKind::ToolSets | RowKind::Packs => Some(format!("{scope}:{}", text(&row, "digest")?)),
        RowKind::Answers => {
            Some(answer_key(scope, text(&row, "key")?, row.get("part").and_then(Value::as_u64)))
        }
        RowKind::Schedules => {
            drop_equal(&mut row, "tenant", &owner.tenant)?;
            Some(schedule_key(scope, text(&row, "name")?))
        }
        RowKind::Events if row.contains_key("n") => {
            row.shift_remove("code");
            Some(entry_key(scope, number(&row, "n")?))
        }
        RowKind::Events => None,
    };
    if expected.is_some_and(|expected| expected != key) {
        return Err("has a key that is not made from its content".into());
    }
    check_attributes(part, &row)?;
    Ok(row)
}

/// The attributes of each kind of row, sorted, in the order of [`RowKind::ALL`].
static KNOWN: LazyLock<[Vec<&str>; RowKind::ALL.len()]> = LazyLock::new(|| {
    RowKind::ALL.map(|part| {
        let mut names: Vec<&str> = part.attributes().collect();
        names.sort_unstable();
        names
    })
});

/// Refuses attributes that a row of an export file may not have.
pub(super) fn check_attributes(part: RowKind, row: &Row) -> Result<(), String> {
    let known = &KNOWN[part as usize];
    let unknown = row.keys().find(|name| known.binary_search(&name.as_str()).is_err());
    unknown.map_or(Ok(()), |name| Err(format!("has the unknown attribute `{name}`")))
}

/// Converts a checked row of an export file into a row of the owner's database.
pub fn settled(part: RowKind, mut row: Row, owner: &Owner) -> Result<Row, String> {
    let scope = owner.scope.as_str();
    let mut key = None;
    let mut whose = true;
    match part {
        RowKind::Core => {
            lengthen_kept(&mut row, scope);
            row.insert("tenant".into(), owner.tenant.as_str().into());
            if owner.sealed_as != scope {
                row.insert("sealed_as".into(), owner.sealed_as.as_str().into());
            }
            key = Some(scope.to_owned());
        }
        RowKind::Versions => {
            lengthen_kept(&mut row, scope);
            key = Some(version_key(scope, number(&row, "version")?));
        }
        RowKind::Messages => {
            let marked = row.get("meta").is_some_and(|meta| !meta[TAINT].is_null());
            if marked && row.get("kind").is_some_and(|kind| kind != "copy") {
                row.insert("tainted_seq".into(), number(&row, "seq")?.into());
            }
            key = Some(taken_text(&mut row, "id")?);
        }
        RowKind::Recall => {
            let id = taken_text(&mut row, "id")?;
            row.insert("_from".into(), format!("core_memory/{scope}").into());
            row.insert("_to".into(), format!("messages/{id}").into());
            key = Some(id);
            whose = false;
        }
        RowKind::RecallVectors => key = Some(vector_of(&row)?),
        RowKind::Manifests => {
            put_owner(&mut row, owner);
            row.insert("embedded".into(), owner.number.into());
            key = Some(manifest_key(scope, text(&row, "doc_id")?));
        }
        RowKind::Passages => {
            put_owner(&mut row, owner);
            if let Some(vector) = row.shift_remove("embedding") {
                row.insert(attribute(owner.number), vector);
            }
            let own = passage_key(scope, text(&row, "doc_id")?, text(&row, "chunk_id")?);
            if row.contains_key("taint") {
                row.insert("tainted_key".into(), own.as_str().into());
            }
            key = Some(own);
        }
        RowKind::Cites => {
            let from = format!("messages/{}", taken_text(&mut row, "message")?);
            let chunk = passage_key(scope, text(&row, "doc_id")?, text(&row, "chunk_id")?);
            key = Some(join(&mut row, from, format!("archival_docs/{chunk}")));
        }
        RowKind::Derived => {
            whose = row.contains_key("version");
            key = Some(settle_derived(&mut row, scope)?);
        }
        RowKind::Prompts => key = Some(prompt_key(scope, number(&row, "turn")?)),
        RowKind::ToolSets | RowKind::Packs => {
            key = Some(format!("{scope}:{}", text(&row, "digest")?));
        }
        RowKind::Answers => {
            let part = row.get("part").and_then(Value::as_u64);
            key = Some(answer_key(scope, text(&row, "key")?, part));
        }
        RowKind::Schedules => {
            row.insert("tenant".into(), owner.tenant.as_str().into());
            key = Some(schedule_key(scope, text(&row, "name")?));
        }
        // The database assigns new keys to memory events, because no row refers to an event. Only
        // an entry of the ledger has a key of its own.
        RowKind::Events => {
            if row.contains_key("n") {
                key = Some(entry_key(scope, number(&row, "n")?));
            }
        }
    }
    if let Some(key) = key {
        row.insert("_key".into(), key.into());
    }
    if whose {
        row.insert("agent_id".into(), scope.into());
    }
    Ok(row)
}

pub(super) fn text<'a>(row: &'a Row, name: &str) -> Result<&'a str, String> {
    row.get(name).and_then(Value::as_str).ok_or_else(|| format!("has no text `{name}`"))
}

pub(super) fn number(row: &Row, name: &str) -> Result<u64, String> {
    row.get(name).and_then(Value::as_u64).ok_or_else(|| format!("has no whole number `{name}`"))
}

fn taken_text(row: &mut Row, name: &str) -> Result<String, String> {
    match row.shift_remove(name) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(format!("has no text `{name}`")),
    }
}

/// Removes an attribute from a row; returns an error if the attribute does not have the given
/// value.
fn drop_equal(row: &mut Row, name: &str, value: &str) -> Result<(), String> {
    match row.shift_remove(name) {
        Some(found) if found == value => Ok(()),
        _ => Err(format!("has a `{name}` that differs from its agent's")),
    }
}

/// The core's summary contains the key of a row of `core_versions`. Shortens this key, which begins
/// with the agent's name, to the version number at its end.
fn shorten_kept(row: &mut Row, scope: &str) -> Result<(), String> {
    let Some(Value::Object(summary)) = row.get_mut("queue_head_summary") else { return Ok(()) };
    let Some(Value::String(kept)) = summary.get_mut("kept") else { return Ok(()) };
    let rest = kept.strip_prefix(scope).and_then(|rest| rest.strip_prefix(':'));
    *kept = rest.ok_or("has a summary that belongs to another agent")?.to_owned();
    Ok(())
}

fn lengthen_kept(row: &mut Row, scope: &str) {
    if let Some(Value::Object(summary)) = row.get_mut("queue_head_summary")
        && let Some(Value::String(kept)) = summary.get_mut("kept")
    {
        *kept = format!("{scope}:{kept}");
    }
}

fn vector_of(row: &Row) -> Result<String, String> {
    let passage = usize::try_from(number(row, "passage")?).map_err(|e| e.to_string())?;
    Ok(vector_key(text(row, "id")?, passage))
}

fn drop_owner(row: &mut Row, scope: &str) -> Result<(), String> {
    match row.get_mut("provenance") {
        Some(Value::Object(provenance)) => drop_equal(provenance, "owner", scope),
        _ => Err("has no provenance".into()),
    }
}

fn put_owner(row: &mut Row, owner: &Owner) {
    if let Some(Value::Object(provenance)) = row.get_mut("provenance") {
        provenance.insert("owner".into(), owner.scope.as_str().into());
    }
    if let Some(Value::Object(kind)) = owner.vector.as_ref().map(|kind| json!(kind)) {
        row.extend(kind);
    }
}

/// Renames the vector of the current vector setting to `embedding`, and removes the vectors of
/// other settings, because they can be computed again.
fn rename_vectors(row: &mut Row, number: u64) {
    let serving = row.shift_remove(&attribute(number));
    row.retain(|name, _| name != "embedding" && !name.starts_with("embedding_"));
    if let Some(vector) = serving {
        row.insert("embedding".into(), vector);
    }
}

/// Sets the two ends of an edge, and returns the key that the edge must have.
fn join(row: &mut Row, from: String, to: String) -> String {
    let key = joined_key(&from, &to);
    row.insert("_from".into(), from.into());
    row.insert("_to".into(), to.into());
    key
}

fn carry_cite(row: &mut Row, scope: &str) -> Result<String, String> {
    let (from, to) = (taken_text(row, "_from")?, taken_text(row, "_to")?);
    let chunk = passage_key(scope, text(row, "doc_id")?, text(row, "chunk_id")?);
    let id = from.strip_prefix("messages/").ok_or("begins at no message")?;
    if to != format!("archival_docs/{chunk}") {
        return Err("names a chunk other than the chunk at its end".into());
    }
    row.insert("message".into(), id.into());
    Ok(joined_key(&from, &to))
}

/// Replaces the ends of an edge of `derived_from` by attributes without the agent's name, and
/// returns the edge's expected key. The attribute `version` is the core version that contains the
/// summary, `before` is the core version that contains the previous summary, and `message` is the
/// id of a message.
fn carry_derived(row: &mut Row, scope: &str) -> Result<String, String> {
    let (from, to) = (taken_text(row, "_from")?, taken_text(row, "_to")?);
    let version_of = |id: &str| -> Option<u64> {
        let version = id.strip_prefix("core_versions/")?.strip_prefix(scope)?.strip_prefix(':')?;
        version.parse().ok()
    };
    let message = to.strip_prefix("messages/");
    if let Some(Value::Object(chunk)) = row.get("chunk") {
        let chunk = passage_key(scope, text(chunk, "doc_id")?, text(chunk, "chunk_id")?);
        let message = message.ok_or("ends at no message")?.to_owned();
        let edge = derived(&chunk, &message);
        if edge.from != from {
            return Err("names a chunk other than the chunk at its beginning".into());
        }
        row.insert("message".into(), message.into());
        return Ok(edge.key);
    }
    let version = version_of(&from).ok_or("begins neither at a summary nor at a chunk")?;
    row.insert("version".into(), version.into());
    match (message, version_of(&to)) {
        (Some(id), _) => row.insert("message".into(), id.into()),
        (None, Some(before)) => row.insert("before".into(), before.into()),
        (None, None) => return Err("ends neither at a message nor at a summary".into()),
    };
    Ok(joined_key(&from, &to))
}

fn settle_derived(row: &mut Row, scope: &str) -> Result<String, String> {
    if let Some(Value::Object(chunk)) = row.shift_remove("chunk") {
        let chunk = passage_key(scope, text(&chunk, "doc_id")?, text(&chunk, "chunk_id")?);
        let edge = derived(&chunk, &taken_text(row, "message")?);
        row.insert("_from".into(), json!(edge.from));
        row.insert("_to".into(), json!(edge.to));
        return Ok(edge.key);
    }
    let from = format!("core_versions/{}", version_key(scope, number(row, "version")?));
    row.shift_remove("version");
    let to = match row.shift_remove("before").and_then(|before| before.as_u64()) {
        Some(before) => format!("core_versions/{}", version_key(scope, before)),
        None => format!("messages/{}", taken_text(row, "message")?),
    };
    Ok(join(row, from, to))
}
