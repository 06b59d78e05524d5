//! Vector indexes as definitions see them: trained when they are made, asked how far they are, compared with their documents.

use super::state::collection as find;
use crate::data::{Training, count_up_to, vector_faults};
use crate::engine::Engine;
use crate::error::{Code, Error, Result};
use crate::limits::VECTOR_LOCK_TRIES_MAX;
use crate::schema::{Index, IndexKind};
use crate::txn::{InTraining, standing};
use crate::vector::Stage;

impl Engine {
    /// Trains a new index as far as it goes. The index is there whatever comes of it: its state tells, and the background
    /// goes on.
    pub(super) fn train_now(&self, db: &str, owner: u64, index: &Index, claimed: InTraining<'_>) {
        let training = Training {
            resources: &self.resources,
            catalog: &self.catalog,
            database: db,
            collection: owner,
            index,
        };
        let stopped = || self.is_stopping();
        if let Err(error) = training.attempt(Some(claimed), VECTOR_LOCK_TRIES_MAX, &stopped) {
            tracing::warn!(index = index.id, %error, "a vector index could not be trained");
        }
    }

    /// `trainingState` and `errorMessage` of an index; none for one that is no vector index.
    pub fn training_state(&self, index: &Index) -> Result<Option<(&'static str, String)>> {
        let IndexKind::Vector(params) = &index.kind else { return Ok(None) };
        let in_training = self.resources.vectors.is_in_training(index.id);
        let snapshot = self.resources.store.snapshot();
        Ok(Some(match standing(&*snapshot, index.id)?.stage {
            Stage::Ready => ("ready", String::new()),
            Stage::Ingesting => ("ingesting", String::new()),
            Stage::Untrained if in_training => ("training", String::new()),
            Stage::Untrained => {
                let wanted = params.lists as usize;
                let there = count_up_to(&*snapshot, index.id, wanted)?;
                let why = self.resources.vectors.failure(index.id).unwrap_or_else(|| {
                    if there >= wanted {
                        return "the training has not begun yet".to_owned();
                    }
                    let text = "the training needs at least";
                    format!("{text} {wanted} documents with a vector, there are {there}")
                });
                ("unusable", why)
            }
        }))
    }

    /// Where a vector index and the documents of its collection disagree, at one moment: nothing, or the engine has a
    /// fault. 1203, 1212. Reads the whole collection; at most `limits::VECTOR_FAULTS_MAX` are told.
    pub fn vector_faults(&self, db: &str, collection: &str, index: &str) -> Result<Vec<String>> {
        let collection = find(&*self.database(db)?, collection)?;
        let found = collection.indexes.iter().find(|known| known.name == index);
        let index = found.ok_or_else(|| Error::of(Code::IndexNotFound))?;
        vector_faults(&self.resources, &collection, index)
    }
}
