//! Trains and fills vector indexes, reports their state, and compares vector indexes with the
//! documents.

use super::state::collection as find;
use crate::data::{self, count_up_to, too_few, vector_faults};
use crate::engine::Engine;
use crate::error::{Code, Error, Result};
use crate::limits::VECTOR_LOCK_TRIES_MAX;
use crate::schema::{Index, IndexKind};
use crate::txn::{InTraining, not_ready, standing};
use crate::vector::Stage;

/// The training state of a vector index.
#[derive(Clone, Debug)]
pub struct Training {
    /// `unusable`, `training`, `ingesting` or `ready`.
    pub state: &'static str,
    /// The error that makes the vector index unusable.
    pub error: Option<Error>,
    /// `resolvedNLists`: the number of trained lists; 0 before the training.
    pub lists: u32,
}

impl Engine {
    /// Trains a new vector index if it has enough vectors and writers do not block the collection
    /// too long. After an error, the index stays, its state contains the error, and the background
    /// thread tries again.
    pub(super) fn train_now(&self, db: &str, owner: u64, index: &Index, claimed: InTraining<'_>) {
        let training = self.training_of(db, owner, index);
        let stopped = || self.is_stopping();
        if let Err(error) = training.attempt(Some(claimed), VECTOR_LOCK_TRIES_MAX, &stopped) {
            tracing::warn!(index = index.id, %error, "a vector index could not be trained");
        }
    }

    /// Fills a new vector index with the existing documents while clients write. If writers block
    /// the collection, the background thread continues to fill the vector index. Returns error 10
    /// or 17 if the index refuses a document.
    pub(super) fn fill_now(
        &self,
        db: &str,
        owner: u64,
        index: &Index,
        claimed: InTraining<'_>,
    ) -> Result<()> {
        let outcome =
            self.training_of(db, owner, index).fill(VECTOR_LOCK_TRIES_MAX, &|| self.is_stopping());
        drop(claimed);
        outcome.map(|_| ())
    }

    fn training_of<'a>(&'a self, db: &'a str, owner: u64, index: &'a Index) -> data::Training<'a> {
        data::Training {
            resources: &self.resources,
            catalog: &self.catalog,
            database: db,
            collection: owner,
            index,
        }
    }

    /// The training state of an index; `None` if the index is not a vector index.
    pub fn training(&self, index: &Index) -> Result<Option<Training>> {
        let IndexKind::Vector(params) = &index.kind else { return Ok(None) };
        let in_training = self.resources.vectors.is_in_training(index.id);
        let snapshot = self.resources.store.snapshot();
        let standing = standing(&*snapshot, index.id)?;
        let of = |state| Training { state, error: None, lists: 0 };
        let lists = if standing.lists == 0 { params.lists } else { standing.lists };
        Ok(Some(match standing.stage {
            Stage::Ready => Training { lists, ..of("ready") },
            Stage::Ingesting => Training { lists, ..of("ingesting") },
            Stage::Filling(_) | Stage::Untrained if in_training => of("training"),
            stage => {
                let wanted = params.lists as usize;
                let error = self.resources.vectors.failure(index.id);
                let error = match error {
                    Some(error) => error,
                    None if stage == Stage::Untrained
                        && count_up_to(&*snapshot, index.id, wanted)? < wanted =>
                    {
                        too_few()
                    }
                    None => {
                        let text = match stage {
                            Stage::Filling(_) => "not all documents are in the index yet",
                            _ => "the training has not begun yet",
                        };
                        Error::new(Code::QueryVectorIndexNotReady, text)
                    }
                };
                Training { error: Some(error), ..of("unusable") }
            }
        }))
    }

    /// Returns error 1555 if the plan uses a vector index that is not ready; ArangoDB also reports
    /// this during planning.
    pub fn check_vectors_ready(&self, indexes: &[&Index]) -> Result<()> {
        for index in indexes {
            if self.training(index)?.is_some_and(|training| training.state != "ready") {
                return Err(not_ready(index));
            }
        }
        Ok(())
    }

    /// Lists differences between a vector index and the documents of its collection, in one
    /// snapshot. Any difference is a bug of the engine. Reads the whole collection and returns at
    /// most `limits::VECTOR_FAULTS_MAX` differences. Errors: 1203 for an unknown collection, 1212
    /// for an unknown index.
    pub fn vector_faults(&self, db: &str, collection: &str, index: &str) -> Result<Vec<String>> {
        let collection = find(&*self.database(db)?, collection)?;
        let found = collection.indexes.iter().find(|known| known.name == index);
        let index = found.ok_or_else(|| Error::of(Code::IndexNotFound))?;
        vector_faults(&self.resources, &collection, index)
    }
}
