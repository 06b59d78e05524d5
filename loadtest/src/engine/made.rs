//! Input data of the engine benchmarks: texts and vectors, generated or read from files.

use std::path::Path;

use vctx_core::seeded::Seeded;

use crate::Fault;
use crate::slo::corpus::Corpus;
use crate::vectors::{VectorFile, unit};

/// Dimension of a generated vector.
const DIMENSION: usize = 384;
/// Number of clusters of generated vectors, and the share of a vector that comes from the cluster.
const CLUSTERS: usize = 2_000;
const CLUSTER_SHARE: f32 = 0.55;
/// Exponent of the spectrum: the scale of component `j` is `(j + 1)` to this power.
const SPECTRUM: f32 = -0.5;

/// Texts to store, and questions of three kinds.
pub(crate) struct Texts {
    corpus: Corpus,
    queries: Option<Corpus>,
}

impl Texts {
    /// Generates the texts, or reads texts and questions from files.
    pub(crate) fn new(corpus: Option<&Path>, queries: Option<&Path>) -> Result<Self, Fault> {
        let corpus = corpus.map_or_else(|| Ok(Corpus::texts(11)), Corpus::read)?;
        Ok(Self { corpus, queries: queries.map(Corpus::read).transpose()? })
    }

    /// Returns the generated text with the given number; no other text contains this text's last
    /// word.
    pub(crate) fn get(&self, number: u64) -> String {
        let mut text = self.corpus.get(number);
        text.push_str(&format!(" id{number}x"));
        text
    }

    /// Returns `each` questions of each kind, with the name of the kind. The words of generated
    /// questions come from the first `count` stored texts. The questions of a file are one kind.
    pub(crate) fn questions(&self, count: u64, each: u64) -> Vec<(&'static str, Vec<String>)> {
        if let Some(queries) = &self.queries {
            return vec![("questions of the file", (0..each).map(|n| queries.get(n)).collect())];
        }
        let mut chance = Seeded::new(23);
        let text = |chance: &mut Seeded| self.corpus.get(chance.below(count as usize) as u64);
        let mut natural = Vec::new();
        let mut middle = Vec::new();
        let mut rare = Vec::new();
        for _ in 0..each {
            let sentence = text(&mut chance);
            let words: Vec<&str> = sentence.split_whitespace().collect();
            let length = (4 + chance.below(3)).min(words.len());
            let from = chance.below(words.len() - length + 1);
            natural.push(words[from..from + length].join(" "));
            let word = |_| {
                let text = text(&mut chance);
                let words: Vec<&str> = text.split_whitespace().collect();
                words.get(chance.below(words.len())).copied().unwrap_or("none").to_owned()
            };
            let words: Vec<String> = (0..3).map(word).collect();
            middle.push(words.join(" "));
            rare.push(format!("id{}x", chance.below(count as usize)));
        }
        vec![
            ("4-6 words in a row of a text", natural),
            ("3 words of 3 texts", middle),
            ("1 word of one text", rare),
        ]
    }
}

/// Splits a text into words as the engine's analyzer does: in lower case, separated by every
/// character that is not a letter or digit.
#[cfg(feature = "comparators")]
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.sort();
    words.dedup();
    words
}

/// A sequence of vectors, generated or read from a file.
pub(crate) enum VectorSource {
    Made(MadeVectors),
    File(VectorFile),
}

impl VectorSource {
    /// Opens the vectors of a file, or generates vectors with or without clusters.
    pub(crate) fn new(file: Option<&Path>, seed: u64, clustered: bool) -> Result<Self, Fault> {
        match file {
            Some(path) => VectorFile::open(path).map(Self::File),
            None => Ok(Self::Made(MadeVectors::new(seed, clustered))),
        }
    }

    /// Returns the next vector, of length 1; `None` at the end of a vector file.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<f32>>, Fault> {
        match self {
            Self::Made(made) => Ok(Some(unit(made.next()))),
            Self::File(file) => file.next(),
        }
    }
}

/// Generates vectors. Each vector is the centre of a cluster plus noise; both are scaled so that
/// later components are smaller.
pub(crate) struct MadeVectors {
    chance: Seeded,
    scales: Vec<f32>,
    clustered: bool,
}

impl MadeVectors {
    fn new(seed: u64, clustered: bool) -> Self {
        let scales = (0..DIMENSION).map(|j| ((j + 1) as f32).powf(SPECTRUM)).collect();
        Self { chance: Seeded::new(seed), scales, clustered }
    }

    fn next(&mut self) -> Vec<f32> {
        let cluster = self.chance.below(CLUSTERS);
        // The clusters do not depend on the seed, so that questions resemble the stored vectors.
        let mut centre = Seeded::new((cluster as u64).wrapping_mul(0xd1b5_4a32_d192_ed03));
        let share = if self.clustered { CLUSTER_SHARE } else { 0.0 };
        let own = (1.0 - share * share).sqrt();
        let one =
            |scale: &f32| scale * (share * normal(&mut centre) + own * normal(&mut self.chance));
        self.scales.iter().map(one).collect()
    }
}

/// Returns an approximately normal random number of variance 1: the sum of four uniform numbers
/// (Irwin-Hall).
fn normal(chance: &mut Seeded) -> f32 {
    let bits = chance.next_u64();
    let sum: u64 = (0..4).map(|part| (bits >> (16 * part)) & 0xffff).sum();
    (sum as f32 / 65_536.0 - 2.0) * 1.732_050_8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_vectors_have_length_one() {
        let vector = VectorSource::new(None, 5, true).unwrap().next().unwrap().unwrap();
        assert_eq!(vector.len(), DIMENSION);
        assert!((vector.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-4);
    }

    #[test]
    fn questions_are_of_words_that_are_stored() {
        let texts = Texts::new(None, None).unwrap();
        let kinds = texts.questions(100, 5);
        assert_eq!(kinds.len(), 3);
        assert!(kinds.iter().all(|(_, questions)| questions.len() == 5));
        let rare = &kinds[2].1[0];
        assert!((0..100).any(|n| texts.get(n).ends_with(rare.as_str())));
    }
}
