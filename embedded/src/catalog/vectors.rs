//! Vector indexes as definitions see them: trained when they are made, asked how far they are, compared with their documents.

use super::state::collection as find;
use crate::data::{self, count_up_to, too_few, vector_faults};
use crate::engine::Engine;
use crate::error::{Code, Error, Result};
use crate::limits::VECTOR_LOCK_TRIES_MAX;
use crate::schema::{Index, IndexKind};
use crate::txn::{InTraining, not_ready, standing};
use crate::vector::Stage;

/// How far a vector index is.
#[derive(Clone, Debug)]
pub struct Training {
    /// `unusable`, `training`, `ingesting` or `ready`.
    pub state: &'static str,
    /// Why it is unusable.
    pub error: Option<Error>,
    /// `resolvedNLists`: lists it was trained with; 0 before.
    pub lists: u32,
}

impl Engine {
    /// Trains a new index as far as it goes. The index is there whatever comes of it: its state tells, and the background
    /// goes on.
    pub(super) fn train_now(&self, db: &str, owner: u64, index: &Index, claimed: InTraining<'_>) {
        let training = self.training_of(db, owner, index);
        let stopped = || self.is_stopping();
        if let Err(error) = training.attempt(Some(claimed), VECTOR_LOCK_TRIES_MAX, &stopped) {
            tracing::warn!(index = index.id, %error, "a vector index could not be trained");
        }
    }

    /// Has a new index take in the documents that are there, beside their writers; the background goes on where these do not
    /// let it. 10 and 17 if it refuses one of them.
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

    /// How far an index is; none for one that is no vector index.
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
                            Stage::Filling(_) => "not all documents are taken in yet",
                            _ => "the training has not begun yet",
                        };
                        Error::new(Code::QueryVectorIndexNotReady, text)
                    }
                };
                Training { error: Some(error), ..of("unusable") }
            }
        }))
    }

    /// 1555 if a query of this plan asks a vector index that is not ready, as the server says while it plans.
    pub fn check_vectors_ready(&self, indexes: &[&Index]) -> Result<()> {
        for index in indexes {
            if self.training(index)?.is_some_and(|training| training.state != "ready") {
                return Err(not_ready(index));
            }
        }
        Ok(())
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
