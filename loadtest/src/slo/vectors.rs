//! Numbered vectors: generated as random variations of topic vectors, or read from a file.

use std::path::Path;

use vctx_core::seeded::Seeded;

use crate::Fault;
use crate::vectors::{VectorFile, take_nearer, unit};

/// Number of topics around which vectors are generated.
const TOPICS: usize = 2_000;
/// Scatter of generated vectors around a topic, relative to the length of the topic's vector.
const SCATTER: f64 = 0.7;
/// Maximum number of components read from a file.
const COMPONENTS_MAX: usize = 4 << 30;

/// Vectors of one dimension and of length 1.
pub(crate) enum Vectors {
    Made { seed: u64, dimension: usize },
    Read { all: Vec<Vec<f32>> },
}

impl Vectors {
    /// Creates a sequence of generated vectors.
    pub(crate) fn generate(seed: u64, dimension: usize) -> Self {
        Self::Made { seed, dimension }
    }

    /// Reads all vectors of a file.
    pub(crate) fn read(path: &Path) -> Result<Self, Fault> {
        let fault = |text: &str| -> Fault { format!("{}: {text}", path.display()).into() };
        let mut file = VectorFile::open(path)?;
        let (mut all, mut components) = (Vec::new(), 0);
        while let Some(vector) = file.next()? {
            components += vector.len();
            if components > COMPONENTS_MAX {
                return Err(fault("more vectors than fit into main memory"));
            }
            all.push(vector);
        }
        match all.first().map_or(0, Vec::len) {
            0 => Err(fault("no vectors")),
            dimension if all.iter().any(|vector| vector.len() != dimension) => {
                Err(fault("vectors of different dimensions"))
            }
            _ => Ok(Self::Read { all }),
        }
    }

    /// Returns the dimension of the vectors.
    pub(crate) fn dimension(&self) -> usize {
        match self {
            Self::Made { dimension, .. } => *dimension,
            Self::Read { all } => all[0].len(),
        }
    }

    /// Returns the number of vectors in a file; `None` for generated vectors, whose number is
    /// unlimited.
    pub(crate) fn count(&self) -> Option<u64> {
        match self {
            Self::Made { .. } => None,
            Self::Read { all } => Some(all.len() as u64),
        }
    }

    /// Returns the vector with a given number.
    pub(crate) fn get(&self, number: u64) -> Vec<f32> {
        match self {
            Self::Read { all } => all[(number % all.len() as u64) as usize].clone(),
            Self::Made { seed, dimension } => {
                let mut own = Seeded::new(seed ^ number.wrapping_mul(0x9e6c_63d0_876a_3f6b));
                // The topics do not depend on the seed, so that questions resemble the stored
                // vectors.
                let topic = (own.below(TOPICS) as u64).wrapping_mul(0xd1b5_4a32_d192_ed03);
                let mut topic = Seeded::new(topic);
                let mix = |_| (topic.normal() + SCATTER * own.normal()) as f32;
                unit((0..*dimension).map(mix).collect())
            }
        }
    }
}

/// Returns the numbers of the `k` stored vectors nearest to a question.
pub(crate) fn exact(stored: &[Vec<f32>], question: &[f32], k: usize) -> Vec<u64> {
    let mut nearest = Vec::with_capacity(k + 1);
    take_nearer(&mut nearest, k, question, stored, 0);
    nearest.into_iter().map(|(_, number)| number).collect()
}
