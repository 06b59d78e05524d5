//! The built-in embedder, which hashes words and letter groups into signed vector components and
//! adds the document's context to each chunk's vector.
//!
//! The lexical embedder matches shared words and word parts instead of meaning. On conversations it
//! finds about two thirds of what BM25 finds. It uses no file, network or randomness, so equal
//! texts give equal vectors.

use std::sync::LazyLock;

use rustc_hash::{FxHashMap, FxHashSet};

use super::composed::{DOCUMENT_SHARE, SECTION_SHARE};
use super::filler_words::FILLER_WORDS;
use crate::memory::Fingerprint;
use crate::search::StopWords;
use crate::seeded::mix;

/// `model_id` of the lexical vectors.
pub const MODEL_ID: &str = "vctx-lexical";
/// `embedding_version` of the lexical vectors; the version changes whenever a component of a vector
/// would change.
pub const EMBEDDING_VERSION: &str = "1";
/// Default number of components of a lexical vector.
pub const DIMENSION: u32 = 384;

/// Factor by which a word's features are multiplied for each other word between this word and the
/// chunk.
const FADE: f64 = 0.97;
/// Weight of a letter group relative to the word that contains it.
const GROUP_SHARE: f64 = 0.8;
/// Lengths of the letter groups, in letters.
const GROUPS: [usize; 2] = [3, 4];
/// Weight of filler words in a lexical vector.
const FILLER_WEIGHT: f64 = 0.4;
/// Maximum number of a word's letters that are hashed; further letters are ignored.
const WORD_CHARS_MAX: usize = 32;
/// Factor for rounding a vector's components to six decimals, which a 32-bit float can represent.
const DECIMALS: f64 = 1e6;

static STOP: LazyLock<FxHashSet<&'static str>> =
    LazyLock::new(|| StopWords::Summary.words().collect());
static FILLER: LazyLock<FxHashSet<&'static str>> =
    LazyLock::new(|| FILLER_WORDS.split_whitespace().collect());

/// Fingerprint of the lexical vectors with the default number of components.
pub static OWN: LazyLock<Fingerprint> = LazyLock::new(|| own(DIMENSION));

fn own(dimension: u32) -> Fingerprint {
    Fingerprint {
        model_id: MODEL_ID.into(),
        embedding_version: EMBEDDING_VERSION.into(),
        dimension,
    }
}

/// Whether a fingerprint belongs to the lexical embedder, whose vectors may have any number of
/// components.
pub fn makes(fingerprint: &Fingerprint) -> bool {
    *fingerprint == own(fingerprint.dimension)
}

/// The lexical embedder with a fixed number of components in its vectors.
pub struct Lexical {
    fingerprint: Fingerprint,
}

impl Default for Lexical {
    fn default() -> Self {
        Self::new(DIMENSION)
    }
}

impl Lexical {
    /// Returns the fingerprint of the embedder's vectors.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Returns an embedder with vectors of `dimension` components.
    pub fn new(dimension: u32) -> Self {
        Self { fingerprint: own(dimension) }
    }

    /// Returns the number of components of the vectors.
    pub fn dimension(&self) -> usize {
        self.fingerprint.dimension as usize
    }
}

/// Converts a vector to 32-bit floats, which can represent six decimals.
pub fn narrowed(vector: &[f64]) -> Vec<f32> {
    vector.iter().map(|component| *component as f32).collect()
}

/// Returns one vector for each chunk of a document, in order: normalise(chunk + λ·section +
/// μ·document). In this formula, `chunk` is the sum of the features of the chunk's words. `section`
/// is the sum of the features of all words around the chunk, and a word counts less the more
/// distant it is. `document` is the sum of the features of the document's other words.
pub fn embed_document(chunks: &[String], dimension: usize) -> Vec<Vec<f64>> {
    let own: Vec<Vec<f64>> = chunks.iter().map(|text| features(text, dimension)).collect();
    let before = faded(chunks, dimension, false);
    let behind = faded(chunks, dimension, true);
    let mut all = vec![0.0; dimension];
    own.iter().for_each(|vector| add(&mut all, vector, 1.0));
    (0..chunks.len())
        .map(|at| {
            let mut near = before[at].clone();
            add(&mut near, &behind[at], 1.0);
            let mut whole = all.clone();
            add(&mut whole, &own[at], -1.0);
            let mut vector = unit(own[at].clone());
            add(&mut vector, &unit(near), SECTION_SHARE);
            add(&mut vector, &unit(whole), DOCUMENT_SHARE);
            finished(vector, &chunks[at])
        })
        .collect()
}

/// Returns the vector of a question. A question's vector includes no context, unlike a chunk's
/// vector.
pub fn embed_query(text: &str, dimension: usize) -> Vec<f64> {
    finished(features(text, dimension), text)
}

/// Returns, for each chunk, the features of all words before the chunk (or after it, if
/// `backwards`), where the features of a word fade with every other word between this word and the
/// chunk.
fn faded(chunks: &[String], dimension: usize, backwards: bool) -> Vec<Vec<f64>> {
    let mut states = vec![Vec::new(); chunks.len()];
    let mut state = vec![0.0; dimension];
    let mut visit = |at: usize| {
        states[at] = state.clone();
        let mut words = words(&chunks[at]);
        if backwards {
            words.reverse();
        }
        // The features of the words furthest from the next chunk must fade most.
        let left = FADE.powi(i32::try_from(words.len()).unwrap_or(i32::MAX));
        state.iter_mut().for_each(|component| *component *= left);
        let count = words.len();
        for (place, word) in words.iter().enumerate() {
            let distance = i32::try_from(count - 1 - place).unwrap_or(i32::MAX);
            add_word(&mut state, word, FADE.powi(distance));
        }
    };
    if backwards {
        (0..chunks.len()).rev().for_each(&mut visit);
    } else {
        (0..chunks.len()).for_each(&mut visit);
    }
    states
}

fn features(text: &str, dimension: usize) -> Vec<f64> {
    let mut vector = vec![0.0; dimension];
    for word in words(text) {
        add_word(&mut vector, &word, 1.0);
    }
    vector
}

/// The vectors of many short texts, for which each word's features are computed once.
pub(super) struct Features {
    dimension: usize,
    /// The components that a word changes, in order, and by how much.
    words: FxHashMap<String, Box<[(usize, f64)]>>,
}

impl Features {
    pub(super) fn new(dimension: usize) -> Self {
        Self { dimension, words: FxHashMap::default() }
    }

    /// Returns the vector of a text, as [`embed_query`] does.
    pub(super) fn embed(&mut self, text: &str) -> Vec<f64> {
        let mut vector = vec![0.0; self.dimension];
        for word in words(text) {
            let features = self.words.entry(word).or_insert_with_key(|word| {
                let mut features = Vec::new();
                features_of(word, 1.0, |hash, weight| {
                    features.push(feature(self.dimension, hash, weight));
                });
                features.into()
            });
            features.iter().for_each(|(at, weight)| vector[*at] += weight);
        }
        finished(vector, text)
    }
}

/// Splits a text into words, which are sequences of letters and digits, and returns the words in
/// lower case.
fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Adds the features of a word.
fn add_word(vector: &mut [f64], word: &str, weight: f64) {
    features_of(word, weight, |hash, weight| add_feature(vector, hash, weight));
}

/// Passes the hash and weight of each feature of a word and of the word's letter groups to `add`.
/// Function words have no features.
fn features_of(word: &str, weight: f64, mut add: impl FnMut(u64, f64)) {
    if STOP.contains(word) {
        return;
    }
    let weight = if FILLER.contains(word) { weight * FILLER_WEIGHT } else { weight };
    add(hash(&[b"w", word.as_bytes()]), weight);
    let mut letters: Vec<char> = vec!['^'];
    letters.extend(word.chars().take(WORD_CHARS_MAX));
    letters.push('$');
    let groups: Vec<String> = GROUPS
        .iter()
        .flat_map(|&length| letters.windows(length).map(|group| group.iter().collect()))
        .collect();
    let share = weight * GROUP_SHARE / (groups.len().max(1) as f64).sqrt();
    for group in &groups {
        add(hash(&[b"g", group.as_bytes()]), share);
    }
}

/// Adds a feature by the hashing trick with signs (Weinberger et al., ICML 2009): the hash modulo
/// the number of components chooses the component, and the highest bit chooses the sign.
fn add_feature(vector: &mut [f64], hash: u64, weight: f64) {
    let (at, weight) = feature(vector.len(), hash, weight);
    vector[at] += weight;
}

/// Returns the component that a feature changes, and by how much.
fn feature(dimension: usize, hash: u64, weight: f64) -> (usize, f64) {
    let at = usize::try_from(hash % dimension as u64).expect("below the length of a vector");
    (at, if hash >> 63 == 0 { weight } else { -weight })
}

/// Returns the FNV-1a hash of the parts, mixed so that every bit of the hash depends on every byte.
fn hash(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.iter().copied().chain([0]));
    let folded = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mix(folded)
}

fn add(vector: &mut [f64], other: &[f64], weight: f64) {
    for (component, other) in vector.iter_mut().zip(other) {
        *component += weight * other;
    }
}

/// Returns the vector scaled to length 1; a zero vector is unchanged.
fn unit(mut vector: Vec<f64>) -> Vec<f64> {
    let length = vector.iter().map(|c| c * c).sum::<f64>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|c| *c /= length);
    }
    vector
}

/// Scales a vector to length 1 and rounds its components to six decimals. The zero vector of a text
/// without content words is replaced by a unit vector that depends on a hash of the text, because a
/// vector index refuses a zero vector.
fn finished(vector: Vec<f64>, text: &str) -> Vec<f64> {
    let mut vector = unit(vector);
    if vector.iter().all(|c| c.abs() < 1.0 / DECIMALS) {
        add_feature(&mut vector, hash(&[b"t", text.trim().as_bytes()]), 1.0);
    }
    vector.iter_mut().for_each(|c| *c = (*c * DECIMALS).round() / DECIMALS);
    vector
}
