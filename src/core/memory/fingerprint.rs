//! The fingerprint of vectors (model, version and dimension); vectors with different fingerprints
//! are never compared.

use serde::{Deserialize, Serialize};

use super::receipt::sha256;

/// The origin of vectors: the model, the model's version, and the vectors' dimension. Only vectors
/// with equal fingerprints are compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Name of the embedding model.
    pub model_id: String,
    /// Version of the embedding model. A model that computes other vectors for the same texts has
    /// another version.
    pub embedding_version: String,
    /// Number of components of a vector.
    pub dimension: u32,
}

impl Fingerprint {
    /// Returns the SHA-256 in hex over model name, version and dimension, with a NUL after every
    /// value.
    pub fn digest(&self) -> String {
        let Self { model_id, embedding_version, dimension } = self;
        sha256(&format!("{model_id}\0{embedding_version}\0{dimension}\0"))
    }
}
