//! What vectors are: the model that made them, its version, their length. Vectors of two fingerprints never mix.

use serde::{Deserialize, Serialize};

use super::receipt::sha256;

/// What made vectors; two texts are compared by vectors of one fingerprint only.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Name of the model.
    pub model_id: String,
    /// Changes whenever one component of one vector would.
    pub embedding_version: String,
    /// Components of a vector.
    pub dimension: u32,
}

impl Fingerprint {
    /// SHA-256 in hex over the three, each closed by a NUL: short enough to stand beside every vector.
    pub fn digest(&self) -> String {
        let Self { model_id, embedding_version, dimension } = self;
        sha256(&format!("{model_id}\0{embedding_version}\0{dimension}\0"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_model_version_or_length_is_another_fingerprint() {
        let of = |model: &str, version: &str, dimension| Fingerprint {
            model_id: model.into(),
            embedding_version: version.into(),
            dimension,
        };
        let all =
            [of("m", "1", 2), of("n", "1", 2), of("m", "2", 2), of("m", "1", 3), of("m1", "", 2)];
        let digests: std::collections::BTreeSet<String> =
            all.iter().map(Fingerprint::digest).collect();
        assert_eq!(digests.len(), all.len());
        assert_eq!(of("m", "1", 2).digest(), all[0].digest());
    }
}
