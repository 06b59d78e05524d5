//! The embedder that is always there: signed hashing of words and letter groups, pooled late, so that a chunk's vector knows its document.
//!
//! It finds shared words and word parts, no meanings: a synonym is a stranger to it. On conversations such vectors find about two thirds
//! of what BM25 finds. Real embeddings come from the caller. It needs no file, no network and no chance: equal input, equal vectors.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::composed::{DOCUMENT_SHARE, SECTION_SHARE};
use super::words::{FILLER_WORDS, STOP_WORDS};
use crate::memory::Fingerprint;

/// `model_id` of its vectors.
pub const MODEL_ID: &str = "vctx-lexical";
/// `embedding_version` of its vectors; changes whenever one component of one vector would.
pub const EMBEDDING_VERSION: &str = "1";
/// Components unless the caller or the database says otherwise.
pub const DIMENSION: u32 = 384;

/// What of a word is left one word further on, when its surroundings are gathered.
const FADE: f64 = 0.97;
/// Weight of a letter group against its word (all groups of a word together weigh about as much as the word).
const GROUP_SHARE: f64 = 0.8;
/// Letters of a group.
const GROUPS: [usize; 2] = [3, 4];
/// Weight of words that stand in any conversation.
const FILLER_WEIGHT: f64 = 0.4;
/// Longest part of a word that is looked at, in letters.
const WORD_CHARS_MAX: usize = 32;
/// Components are kept to six decimals: a float of four bytes holds no more, and a document is shorter.
const DECIMALS: f64 = 1e6;

static STOP: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| STOP_WORDS.split_whitespace().collect());
static FILLER: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| FILLER_WORDS.split_whitespace().collect());

/// What its vectors are, at their usual length.
pub static OWN: LazyLock<Fingerprint> = LazyLock::new(|| own(DIMENSION));

fn own(dimension: u32) -> Fingerprint {
    Fingerprint {
        model_id: MODEL_ID.into(),
        embedding_version: EMBEDDING_VERSION.into(),
        dimension,
    }
}

/// Whether vectors of that fingerprint are of this embedder; it makes any length.
pub fn makes(fingerprint: &Fingerprint) -> bool {
    *fingerprint == own(fingerprint.dimension)
}

/// This embedder, with vectors of one length.
pub struct Lexical {
    fingerprint: Fingerprint,
}

impl Default for Lexical {
    fn default() -> Self {
        Self::new(DIMENSION)
    }
}

impl Lexical {
    /// What its vectors are.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Makes vectors of `dimension` components.
    pub fn new(dimension: u32) -> Self {
        Self { fingerprint: own(dimension) }
    }

    /// Components of its vectors.
    pub fn dimension(&self) -> usize {
        self.fingerprint.dimension as usize
    }
}

/// Six decimals fit into a float of four bytes.
pub fn narrowed(vector: &[f64]) -> Vec<f32> {
    vector.iter().map(|component| *component as f32).collect()
}

/// One vector for each chunk of a document, in order. The document is read whole, word by word; each word's state is its own features
/// and, fading with distance, those of the words around it, plus a little of the whole; a chunk's vector is the mean of its words'
/// states: normalise(chunk + λ·section + μ·document), where the section is what stands around the chunk, fading. (The sums below are that mean in closed form: what fades into a chunk from outside enters each of its words in proportion.)
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

/// The vector of a question, which has no surroundings.
pub fn embed_query(text: &str, dimension: usize) -> Vec<f64> {
    finished(features(text, dimension), text)
}

/// For each chunk the features of everything before it (or behind it), fading by word.
fn faded(chunks: &[String], dimension: usize, backwards: bool) -> Vec<Vec<f64>> {
    let mut states = vec![Vec::new(); chunks.len()];
    let mut state = vec![0.0; dimension];
    let mut visit = |at: usize| {
        states[at] = state.clone();
        let mut words = words(&chunks[at]);
        if backwards {
            words.reverse();
        }
        // The words furthest from the next chunk have faded most; the weight grows towards its side.
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

/// Lower-case runs of letters and digits.
fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Adds a word and its letter groups. Words that say nothing are left out.
fn add_word(vector: &mut [f64], word: &str, weight: f64) {
    if STOP.contains(word) {
        return;
    }
    let weight = if FILLER.contains(word) { weight * FILLER_WEIGHT } else { weight };
    add_feature(vector, hash(&[b"w", word.as_bytes()]), weight);
    let mut letters: Vec<char> = vec!['^'];
    letters.extend(word.chars().take(WORD_CHARS_MAX));
    letters.push('$');
    let groups: Vec<String> = GROUPS
        .iter()
        .flat_map(|&length| letters.windows(length).map(|group| group.iter().collect()))
        .collect();
    let share = weight * GROUP_SHARE / (groups.len().max(1) as f64).sqrt();
    for group in &groups {
        add_feature(vector, hash(&[b"g", group.as_bytes()]), share);
    }
}

/// The hashing trick with signs (Weinberger et al., ICML 2009): the low bits choose the component, the highest one the sign.
fn add_feature(vector: &mut [f64], hash: u64, weight: f64) {
    let at = usize::try_from(hash % vector.len() as u64).expect("below the length of a vector");
    vector[at] += if hash >> 63 == 0 { weight } else { -weight };
}

/// FNV-1a of the parts, mixed by the last steps of SplitMix64 so that all bits depend on all letters.
fn hash(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.iter().copied().chain([0]));
    let folded = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (folded ^ (folded >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn add(vector: &mut [f64], other: &[f64], weight: f64) {
    for (component, other) in vector.iter_mut().zip(other) {
        *component += weight * other;
    }
}

/// The vector with length 1; one without direction stays as it is.
fn unit(mut vector: Vec<f64>) -> Vec<f64> {
    let length = vector.iter().map(|c| c * c).sum::<f64>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|c| *c /= length);
    }
    vector
}

/// Length 1 and six decimals. A text without a word that counts still gets a direction, its own: a vector index knows no zero vector.
fn finished(vector: Vec<f64>, text: &str) -> Vec<f64> {
    let mut vector = unit(vector);
    if vector.iter().all(|c| c.abs() < 1.0 / DECIMALS) {
        add_feature(&mut vector, hash(&[b"t", text.trim().as_bytes()]), 1.0);
    }
    vector.iter_mut().for_each(|c| *c = (*c * DECIMALS).round() / DECIMALS);
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: usize = DIMENSION as usize;

    fn cosine(a: &[f64], b: &[f64]) -> f64 {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
    }

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|t| (*t).to_owned()).collect()
    }

    #[test]
    fn the_same_chunk_in_two_documents_has_two_vectors_near_each_other() {
        let shared = "The fee is due on the first of May.";
        let boats = embed_document(&texts(&["Berths in the harbour of Cuxhaven.", shared]), D);
        let flats = embed_document(&texts(&["Rooms in the student house.", shared]), D);
        assert_ne!(boats[1], flats[1]);
        assert!(cosine(&boats[1], &flats[1]) > 0.8);
        assert_eq!(
            boats,
            embed_document(&texts(&["Berths in the harbour of Cuxhaven.", shared]), D)
        );
        // And a naive embedder would not tell them apart.
        assert_eq!(embed_query(shared, D), embed_query(shared, D));
    }

    #[test]
    fn what_stands_nearer_weighs_more() {
        let filler =
            "Lorem ipsum dolor sit amet consectetur adipiscing elit sed eiusmod. ".repeat(20);
        let document = texts(&[
            "Harbour master Petersen.",
            "He charges fourteen euros.",
            &filler,
            "Payment by card.",
        ]);
        let vectors = embed_document(&document, D);
        let question = embed_query("harbour master Petersen", D);
        assert!(cosine(&question, &vectors[1]) > cosine(&question, &vectors[3]) + 0.02);
    }

    #[test]
    fn a_question_finds_its_chunk_by_words_and_word_parts() {
        let document = texts(&[
            "Ada moved to Lisbon in March and rents a flat near the river.",
            "The veterinarian prescribed drops for Biscuit, the older cat.",
            "Their savings are in an index fund at the cooperative bank.",
            "On Thursdays the choir rehearses Brahms in the parish hall.",
            "The bicycle needs new brake pads before the tour in August.",
        ]);
        let vectors = embed_document(&document, D);
        for (question, wanted) in [
            ("Where does Ada rent?", 0),
            ("Which vet drops does the cat Biscuit get?", 1),
            ("cooperative banks and funds", 2),
            ("when are the choir's rehearsals", 3),
            ("bicycles: braking", 4),
        ] {
            let question_vector = embed_query(question, D);
            let near = |at: &usize| cosine(&question_vector, &vectors[*at]);
            let best = (0..vectors.len()).max_by(|a, b| near(a).total_cmp(&near(b)));
            assert_eq!(best, Some(wanted), "{question}");
        }
    }

    #[test]
    fn every_vector_has_length_one_and_any_dimension() {
        for dimension in [2, 256, 1024] {
            for text in ["", "the of and", "?!", "Brahms", &"long ".repeat(5000)] {
                let vectors = embed_document(&texts(&[text, "other words"]), dimension);
                for vector in vectors.iter().chain([&embed_query(text, dimension)]) {
                    assert_eq!(vector.len(), dimension);
                    let length = vector.iter().map(|c| c * c).sum::<f64>();
                    assert!((length - 1.0).abs() < 1e-3, "{text:.20}: {length}");
                }
            }
        }
    }
}
