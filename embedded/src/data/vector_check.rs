//! Compares a vector index with the documents of its collection in one snapshot.

use std::collections::BTreeMap;

use crate::encode::{Key, Space, list_of_key, list_of_value, local_id_of_key};
use crate::error::{Error, Result};
use crate::limits::VECTOR_FAULTS_MAX;
use crate::schema::{Collection, Index, IndexKind};
use crate::storage::Snapshot;
use crate::txn::{Resources, range, standing, whole};
use crate::vector::{Stage, bytes_of, key_of, of_document};

/// Lists documents without a vector, vectors without a document, and vectors in a wrong list.
pub(crate) fn vector_faults(
    resources: &Resources,
    collection: &Collection,
    index: &Index,
) -> Result<Vec<String>> {
    let IndexKind::Vector(params) = &index.kind else {
        return Err(Error::unsupported(
            "comparing an index that is not a vector index with its documents",
        ));
    };
    let snapshot = resources.store.snapshot();
    let now = standing(&*snapshot, index.id)?;
    let model = match now.stage {
        Stage::Filling(_) | Stage::Untrained => None,
        Stage::Ingesting | Stage::Ready => {
            Some(resources.vectors.model(&*snapshot, index.id, params, now)?)
        }
    };
    let mut wanted = wanted(&*snapshot, collection, index)?;
    let mut places = places(&*snapshot, index.id)?;
    let mut faults = Vec::new();
    let (lower, upper) = range(&Key::VectorLists(index.id));
    for pair in snapshot.scan(Space::Indexes, &lower, &upper, false) {
        let (key, stored) = pair?;
        let (list, local) = (list_of_key(&key)?, local_id_of_key(&key)?);
        let place = places.remove(&local);
        if place != Some(list) {
            faults.push(format!(
                "document {local} is in list {list}, but its record names list {place:?}"
            ));
        }
        let Some(vector) = wanted.remove(&local) else {
            faults.push(format!(
                "document {local} of list {list} is also in another list, or has no vector"
            ));
            continue;
        };
        if bytes_of(&vector)[..] != stored[..] {
            faults.push(format!(
                "the vector of document {local} differs from the document's attribute"
            ));
        }
        let right = match (&model, now.stage) {
            (Some(model), Stage::Ready) => list == model.list_of(&vector),
            (Some(model), _) => list == 0 || list == model.list_of(&vector),
            (None, _) => list == 0,
        };
        if !right {
            faults.push(format!("document {local} is in the wrong list {list}"));
        }
        if faults.len() >= VECTOR_FAULTS_MAX {
            return Ok(faults);
        }
    }
    // Documents that the filling thread has not read yet are not reported as missing.
    let missing = wanted.keys().filter(|local| !now.has_to_come_to(**local));
    faults.extend(missing.map(|local| format!("the vector of document {local} is in no list")));
    faults.extend(
        places
            .keys()
            .map(|local| format!("the record of document {local} names a list without its vector")),
    );
    faults.truncate(VECTOR_FAULTS_MAX);
    Ok(faults)
}

/// The vectors of the documents, by local document id.
fn wanted(
    snapshot: &dyn Snapshot,
    collection: &Collection,
    index: &Index,
) -> Result<BTreeMap<u64, Vec<f32>>> {
    let IndexKind::Vector(params) = &index.kind else { return Ok(BTreeMap::new()) };
    let (lower, upper) = range(&Key::Documents(collection.id));
    let mut wanted = BTreeMap::new();
    for pair in snapshot.scan(Space::Documents, &lower, &upper, false) {
        let (key, value) = pair?;
        let document = whole(collection, &value)?;
        let object = document.as_object().expect("a stored document is an object");
        if let Some(vector) = of_document(index, params, key_of(object), object)? {
            wanted.insert(local_id_of_key(&key)?, vector);
        }
    }
    Ok(wanted)
}

/// The list that contains each vector, by local document id.
fn places(snapshot: &dyn Snapshot, index: u64) -> Result<BTreeMap<u64, u32>> {
    let (lower, upper) = range(&Key::VectorPlaces(index));
    let mut places = BTreeMap::new();
    for pair in snapshot.scan(Space::Indexes, &lower, &upper, false) {
        let (key, value) = pair?;
        places.insert(local_id_of_key(&key)?, list_of_value(&value)?);
    }
    Ok(places)
}
