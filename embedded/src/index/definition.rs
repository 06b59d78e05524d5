//! Defines the built-in indexes, and checks definitions of new indexes.

use crate::error::{Code, Error, Result};
use crate::index::entries::EXPANSION;
use crate::limits::{VECTOR_CENTROIDS_BYTES_MAX, VECTOR_TRAINING_ROUNDS_MAX};
use crate::schema::{Index, IndexKind, VectorParams};
use crate::value::{Object, Value};

/// Maximum number of fields, and of stored values, of a persistent index (ArangoDB 3.12).
const FIELDS_MAX: usize = 32;

/// Returns the primary index of a new collection.
pub(crate) fn primary_index() -> Index {
    fixed(0, "primary", IndexKind::Primary, &["_key"], true)
}

/// Returns the edge index of a new edge collection.
pub(crate) fn edge_index() -> Index {
    fixed(1, "edge", IndexKind::Edge, &["_from", "_to"], false)
}

/// Returns the unique index on user names in `_users`, which arangod creates at its first start.
pub(crate) fn users_index(id: u64) -> Index {
    let name = format!("idx_{id}");
    let mut definition = Object::new();
    for (attribute, value) in [("cacheEnabled", false), ("deduplicate", true), ("estimates", true)]
    {
        definition.insert(attribute, value.into());
    }
    definition.insert("fields", vec![Value::from("user")].into());
    definition.insert("type", "hash".into());
    Index {
        id,
        name,
        kind: IndexKind::Persistent,
        fields: vec![vec!["user".to_owned()]],
        unique: true,
        sparse: true,
        definition: Value::object(definition),
    }
}

fn fixed(id: u64, kind_name: &str, kind: IndexKind, fields: &[&str], unique: bool) -> Index {
    let names = fields.iter().map(|field| Value::from(*field)).collect::<Vec<_>>();
    let mut definition = Object::new();
    definition.insert("type", kind_name.into());
    definition.insert("name", kind_name.into());
    definition.insert("fields", names.into());
    definition.insert("unique", unique.into());
    definition.insert("sparse", false.into());
    Index {
        id,
        name: kind_name.into(),
        kind,
        fields: fields.iter().map(|field| vec![(*field).to_owned()]).collect(),
        unique,
        sparse: false,
        definition: Value::object(definition),
    }
}

/// Refuses index definitions that are invalid or exceed the engine's limits.
pub(crate) fn check_definition(index: &Index) -> Result<()> {
    match &index.kind {
        IndexKind::Primary | IndexKind::Edge => Err(Error::new(
            Code::BadParameter,
            "primary and edge indexes are created only together with their collection",
        )),
        IndexKind::DefinitionOnly(_) => Ok(()),
        IndexKind::Vector(params) => check_vector(index, params),
        IndexKind::Ttl if index.fields.len() != 1 || index.unique => {
            Err(Error::new(Code::BadParameter, "a ttl index has one field and is not unique"))
        }
        IndexKind::Ttl if expire_after(index).is_none() => Err(Error::new(
            Code::BadParameter,
            "a ttl index needs a number expireAfter of at least 0",
        )),
        IndexKind::Persistent | IndexKind::Ttl => check_fields(index),
    }
}

/// Returns the number of seconds from the time in a document's indexed attribute until a ttl index
/// removes the document. Returns `None` if `expireAfter` is not a valid number.
pub(crate) fn expire_after(index: &Index) -> Option<f64> {
    index.definition.attribute("expireAfter").as_f64().filter(|seconds| *seconds >= 0.0)
}

fn check_vector(index: &Index, params: &VectorParams) -> Result<()> {
    let bad = |text: String| Err(Error::new(Code::BadParameter, text));
    let VectorParams {
        dimension, lists, default_probes, training_rounds, documents_per_list, ..
    } = params.clone();
    if [dimension, lists, default_probes, training_rounds, documents_per_list].contains(&0) {
        return bad("each parameter of a vector index must be at least 1".to_owned());
    }
    if training_rounds > VECTOR_TRAINING_ROUNDS_MAX {
        return bad(format!("'params.trainingIterations' is at most {VECTOR_TRAINING_ROUNDS_MAX}"));
    }
    let bytes = u64::from(dimension) * u64::from(lists) * 4;
    if bytes > VECTOR_CENTROIDS_BYTES_MAX {
        let text = "the centroids of a vector index (nLists x dimension x 4 bytes) take at most";
        return bad(format!("{text} {VECTOR_CENTROIDS_BYTES_MAX} bytes"));
    }
    if index.fields.len() != 1 || index.unique {
        return bad("a vector index has one field and is not unique".to_owned());
    }
    check_fields(index)
}

fn check_fields(index: &Index) -> Result<()> {
    let bad = |text: &str| Err(Error::new(Code::BadParameter, text));
    if index.fields.is_empty() || index.fields.len() > FIELDS_MAX {
        return bad("an index has 1 to 32 fields");
    }
    let mut expansions = 0;
    for path in &index.fields {
        if path.is_empty() || path.iter().any(String::is_empty) {
            return bad("an index field is a path of names");
        }
        if path[0] == "_id" {
            return bad("_id cannot be indexed");
        }
        if path.iter().any(|segment| segment.trim_end_matches(EXPANSION).contains(['[', ']', '*']))
        {
            return Err(Error::of(Code::AttributeParserFailed));
        }
        expansions += path.iter().filter(|segment| segment.ends_with(EXPANSION)).count();
    }
    let expanded_ttl = expansions > 0 && index.kind == IndexKind::Ttl;
    if expansions > 1 || expanded_ttl {
        return Err(Error::unsupported(
            "an index with more than one [*], or a ttl index with [*],",
        ));
    }
    let repeated = (1..index.fields.len()).any(|at| index.fields[..at].contains(&index.fields[at]));
    if repeated { bad("an index field is listed twice") } else { Ok(()) }
}
