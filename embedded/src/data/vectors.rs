//! Checks the vector of a document, stores the vector in a list of a vector index, and removes the
//! vector.

use crate::encode::{Key, Space, list_of_value};
use crate::error::Result;
use crate::schema::{Index, IndexKind};
use crate::storage::{Batch, Bytes};
use crate::txn::{State, Transaction};
use crate::value::Object;
use crate::vector::{bytes_of, key_of, missing, of_document};

/// A document that a write changes.
pub(super) struct Document<'a> {
    pub(super) key: &'a str,
    pub(super) local: u64,
    /// Whether the document existed before the write.
    pub(super) is_there: bool,
    /// The document's new content; `None` for a removal.
    pub(super) next: Option<&'a Object>,
}

/// The change that one write makes to a vector index.
pub(super) struct VectorChange {
    index: u64,
    local: u64,
    from: Option<u32>,
    to: Option<(u32, Bytes)>,
}

impl Transaction {
    /// Returns the change to the vector index for a document's write; `None` if the vector does not
    /// change. Returns error 10 or 17 for a document that the index refuses.
    pub(super) fn vector_change(
        &self,
        state: &State,
        index: &Index,
        of: &Document<'_>,
    ) -> Result<Option<VectorChange>> {
        let IndexKind::Vector(params) = &index.kind else { return Ok(None) };
        let Document { key, local, .. } = *of;
        let vector = match of.next {
            Some(document) => of_document(index, params, key, document)?,
            None => None,
        };
        let place = state.get(Space::Indexes, &Key::VectorPlace(index.id, local).bytes())?;
        let is_change_without_vector = of.is_there && of.next.is_some() && place.is_none();
        if is_change_without_vector
            && !self.database().release.sparse_vector_updates()
            && !state.is_filled_later(index.id, local)?
        {
            return Err(missing(key));
        }
        let from = place.map(|place| list_of_value(&place)).transpose()?;
        let Some(vector) = vector else {
            return Ok(from.map(|_| VectorChange { index: index.id, local, from, to: None }));
        };
        let bytes = Bytes::from(bytes_of(&vector));
        if let Some(list) = from {
            let entry = Key::VectorEntry(index.id, list, local).bytes();
            if state.get(Space::Indexes, &entry)?.is_some_and(|stored| stored == bytes) {
                return Ok(None);
            }
        }
        let list = state.list_for(self.resources(), index.id, params, &vector)?;
        Ok(Some(VectorChange { index: index.id, local, from, to: Some((list, bytes)) }))
    }
}

impl VectorChange {
    /// Applies the change of a vector index in the document's transaction.
    pub(super) fn apply(self, state: &mut State) {
        let Self { index, local, from, to } = self;
        let mut set = |key: Key<'_>, value| state.overlay.set(Space::Indexes, key.bytes(), value);
        if let Some(list) = from {
            set(Key::VectorEntry(index, list, local), None);
        }
        let place = to.as_ref().map(|(list, _)| list.to_be_bytes().into());
        set(Key::VectorPlace(index, local), place);
        if let Some((list, bytes)) = to {
            set(Key::VectorEntry(index, list, local), Some(bytes));
        }
    }
}

/// Stores the vector of a document that is older than the index. The vector goes into list 0, which
/// holds all vectors until the index is trained.
pub(super) fn put_waiting(
    batch: &mut Batch,
    index: &Index,
    document: &Object,
    local: u64,
) -> Result<()> {
    let IndexKind::Vector(params) = &index.kind else { return Ok(()) };
    if let Some(vector) = of_document(index, params, key_of(document), document)? {
        let place = Key::VectorPlace(index.id, local);
        batch.put(Space::Indexes, place.bytes(), 0_u32.to_be_bytes());
        let entry = Key::VectorEntry(index.id, 0, local);
        batch.put(Space::Indexes, entry.bytes(), bytes_of(&vector));
    }
    Ok(())
}
