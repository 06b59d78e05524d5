//! Rows on their way out and in: what names the agent or its database is left behind, and put back for whoever takes the row in.
//!
//! A row in a file says nothing of whose it is: no name, no key made from one. So a file holds no row of another agent, and the state of an
//! agent has one hash wherever it lies and whatever it is called. Only messages keep their ids, which lie under their digests.

use serde_json::{Map, Value, json};

use super::part::Part;
use super::tally::VectorKind;
use crate::memory::archive::{attribute, derived, manifest_key, passage_key};
use crate::memory::joined::{joined_key, version_key};
use crate::memory::message::TAINT;
use crate::memory::prompt::prompt_key;
use crate::memory::recall_vector::vector_key;
use crate::memory::receipt::sha256;
use crate::memory::schedule::schedule_key;

type Row = Map<String, Value>;

/// What a row says of its vector, and the first line of a file for all of them.
const KIND: [&str; 4] = ["dimension", "embedding_version", "metric", "model_id"];

/// Whose a row is in its database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Key of the core.
    pub scope: String,
    /// Its tenant.
    pub tenant: String,
    /// The name under the digests of its messages.
    pub sealed_as: String,
    /// What the vectors are that serve there.
    pub vector: Option<VectorKind>,
    /// Number of their setting.
    pub number: u64,
}

/// Key of a record of a call: of the agent's name and the caller's key; a part of a call has its own.
fn answer_key(scope: &str, key: &str, part: Option<u64>) -> String {
    let whole = sha256(&format!("{scope}\0{key}"));
    part.map_or_else(|| whole.clone(), |part| sha256(&format!("{whole}\0part\0{part}")))
}

/// A row as it stands in a file, from the row of a database. The error says what of it cannot go into a file.
pub fn carried(part: Part, mut row: Row, owner: &Owner) -> Result<Row, String> {
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
        Part::Core => {
            drop_equal(&mut row, "tenant", &owner.tenant)?;
            row.shift_remove("sealed_as");
            row.shift_remove("moving");
            shorten_kept(&mut row, scope)?;
            Some(scope.to_owned())
        }
        Part::Versions => {
            shorten_kept(&mut row, scope)?;
            Some(version_key(scope, number(&row, "version")?))
        }
        Part::Messages => {
            row.insert("id".into(), key.clone().into());
            row.shift_remove("tainted_seq");
            None
        }
        Part::Recall => {
            drop_equal(&mut row, "_from", &format!("core_memory/{scope}"))?;
            drop_equal(&mut row, "_to", &format!("messages/{key}"))?;
            row.insert("id".into(), key.clone().into());
            None
        }
        Part::RecallVectors => Some(vector_of(&row)?),
        Part::Manifests => {
            row.shift_remove("embedded");
            row.retain(|name, _| !KIND.contains(&name.as_str()));
            drop_owner(&mut row, scope)?;
            Some(manifest_key(scope, text(&row, "doc_id")?))
        }
        Part::Passages => {
            drop_owner(&mut row, scope)?;
            row.retain(|name, _| !KIND.contains(&name.as_str()));
            rename_vectors(&mut row, owner.number);
            row.shift_remove("tainted_key");
            Some(passage_key(scope, text(&row, "doc_id")?, text(&row, "chunk_id")?))
        }
        Part::Cites => Some(carry_cite(&mut row, scope)?),
        Part::Derived => Some(carry_derived(&mut row, scope)?),
        Part::Prompts => Some(prompt_key(scope, number(&row, "turn")?)),
        Part::ToolSets => Some(format!("{scope}:{}", text(&row, "digest")?)),
        Part::Answers => {
            Some(answer_key(scope, text(&row, "key")?, row.get("part").and_then(Value::as_u64)))
        }
        Part::Schedules => {
            drop_equal(&mut row, "tenant", &owner.tenant)?;
            Some(schedule_key(scope, text(&row, "name")?))
        }
        Part::Events => None,
    };
    if expected.is_some_and(|expected| expected != key) {
        return Err("has a key that is not made from what it holds".into());
    }
    known(part, &row)?;
    Ok(row)
}

/// Refuses attributes that a row of a file does not have.
pub(super) fn known(part: Part, row: &Row) -> Result<(), String> {
    let unknown = row.keys().find(|name| part.attributes().all(|known| known != name.as_str()));
    unknown.map_or(Ok(()), |name| Err(format!("has the unknown attribute `{name}`")))
}

/// A row of a database, from a row of a file that was checked.
pub fn settled(part: Part, mut row: Row, owner: &Owner) -> Result<Row, String> {
    let scope = owner.scope.as_str();
    let mut key = None;
    let mut whose = true;
    match part {
        Part::Core => {
            lengthen_kept(&mut row, scope);
            row.insert("tenant".into(), owner.tenant.as_str().into());
            if owner.sealed_as != scope {
                row.insert("sealed_as".into(), owner.sealed_as.as_str().into());
            }
            key = Some(scope.to_owned());
        }
        Part::Versions => {
            lengthen_kept(&mut row, scope);
            key = Some(version_key(scope, number(&row, "version")?));
        }
        Part::Messages => {
            let marked = row.get("meta").is_some_and(|meta| !meta[TAINT].is_null());
            if marked && row.get("kind").is_some_and(|kind| kind != "copy") {
                row.insert("tainted_seq".into(), number(&row, "seq")?.into());
            }
            key = Some(taken_text(&mut row, "id")?);
        }
        Part::Recall => {
            let id = taken_text(&mut row, "id")?;
            row.insert("_from".into(), format!("core_memory/{scope}").into());
            row.insert("_to".into(), format!("messages/{id}").into());
            key = Some(id);
            whose = false;
        }
        Part::RecallVectors => key = Some(vector_of(&row)?),
        Part::Manifests => {
            put_owner(&mut row, owner);
            row.insert("embedded".into(), owner.number.into());
            key = Some(manifest_key(scope, text(&row, "doc_id")?));
        }
        Part::Passages => {
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
        Part::Cites => {
            let from = format!("messages/{}", taken_text(&mut row, "message")?);
            let chunk = passage_key(scope, text(&row, "doc_id")?, text(&row, "chunk_id")?);
            key = Some(join(&mut row, from, format!("archival_docs/{chunk}")));
        }
        Part::Derived => {
            whose = row.contains_key("version");
            key = Some(settle_derived(&mut row, scope)?);
        }
        Part::Prompts => key = Some(prompt_key(scope, number(&row, "turn")?)),
        Part::ToolSets => key = Some(format!("{scope}:{}", text(&row, "digest")?)),
        Part::Answers => {
            let part = row.get("part").and_then(Value::as_u64);
            key = Some(answer_key(scope, text(&row, "key")?, part));
        }
        Part::Schedules => {
            row.insert("tenant".into(), owner.tenant.as_str().into());
            key = Some(schedule_key(scope, text(&row, "name")?));
        }
        // The database gives them new ones: nothing leads to an event.
        Part::Events => {}
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

/// Takes an attribute away that must have just this value.
fn drop_equal(row: &mut Row, name: &str, value: &str) -> Result<(), String> {
    match row.shift_remove(name) {
        Some(found) if found == value => Ok(()),
        _ => Err(format!("has another `{name}` than its agent")),
    }
}

/// The copy in `core_versions` that a summary is kept in, by its version alone.
fn shorten_kept(row: &mut Row, scope: &str) -> Result<(), String> {
    let Some(Value::Object(summary)) = row.get_mut("queue_head_summary") else { return Ok(()) };
    let Some(Value::String(kept)) = summary.get_mut("kept") else { return Ok(()) };
    let rest = kept.strip_prefix(scope).and_then(|rest| rest.strip_prefix(':'));
    *kept = rest.ok_or("has a summary that is kept elsewhere")?.to_owned();
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

/// Vectors that serve are `embedding` in a file; those of another setting stay behind, since they can be made again.
fn rename_vectors(row: &mut Row, number: u64) {
    let serving = row.shift_remove(&attribute(number));
    row.retain(|name, _| name != "embedding" && !name.starts_with("embedding_"));
    if let Some(vector) = serving {
        row.insert("embedding".into(), vector);
    }
}

/// Gives an edge its ends; the key that follows from them.
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
        return Err("ends at another chunk than it says".into());
    }
    row.insert("message".into(), id.into());
    Ok(joined_key(&from, &to))
}

/// An edge that begins at a copy of texts (`version`) or at a chunk, and ends at a message or at a copy before (`before`).
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
            return Err("begins at another chunk than it says".into());
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
