//! Compares a vector index with the documents of its collection, as one snapshot shows both.

use std::collections::BTreeMap;

use crate::encode::{Key, Space, list_of_key, list_of_value, local_id_of_key};
use crate::error::{Error, Result};
use crate::limits::VECTOR_FAULTS_MAX;
use crate::schema::{Collection, Index, IndexKind};
use crate::storage::Snapshot;
use crate::txn::{Resources, range, standing, whole};
use crate::vector::{Stage, bytes_of, key_of, of_document};

/// Where they disagree: a document without its vector, a vector without its document, or one in a wrong list.
pub(crate) fn vector_faults(
    resources: &Resources,
    collection: &Collection,
    index: &Index,
) -> Result<Vec<String>> {
    let IndexKind::Vector(params) = &index.kind else {
        return Err(Error::unsupported("comparing vectors of an index that has none"));
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
            faults.push(format!("{local} lies in list {list}, its place says {place:?}"));
        }
        let Some(vector) = wanted.remove(&local) else {
            faults.push(format!("list {list} has {local} twice, or without a document"));
            continue;
        };
        if bytes_of(&vector)[..] != stored[..] {
            faults.push(format!("the vector of {local} is not its document's"));
        }
        let right = match (&model, now.stage) {
            (Some(model), Stage::Ready) => list == model.list_of(&vector),
            (Some(model), _) => list == 0 || list == model.list_of(&vector),
            (None, _) => list == 0,
        };
        if !right {
            faults.push(format!("{local} lies in list {list}, where it does not belong"));
        }
        if faults.len() >= VECTOR_FAULTS_MAX {
            return Ok(faults);
        }
    }
    // Those that a filling has still to come to are none.
    let missing = wanted.keys().filter(|local| !now.has_to_come_to(**local));
    faults.extend(missing.map(|local| format!("the vector of {local} is in no list")));
    faults.extend(places.keys().map(|local| format!("the place of {local} names no vector")));
    faults.truncate(VECTOR_FAULTS_MAX);
    Ok(faults)
}

/// The vectors of the documents, by local number.
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

/// The list of each vector, by local number.
fn places(snapshot: &dyn Snapshot, index: u64) -> Result<BTreeMap<u64, u32>> {
    let (lower, upper) = range(&Key::VectorPlaces(index));
    let mut places = BTreeMap::new();
    for pair in snapshot.scan(Space::Indexes, &lower, &upper, false) {
        let (key, value) = pair?;
        places.insert(local_id_of_key(&key)?, list_of_value(&value)?);
    }
    Ok(places)
}
