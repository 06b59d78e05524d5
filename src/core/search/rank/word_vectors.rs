//! Vectors of the most frequent English words, which tell how near words and texts are in meaning.
//!
//! `word_vectors.bin` has a header of three numbers (`u32`, little-endian: words, components,
//! neighbours), for each word the components of its vector (`i8`), for each word its neighbours in
//! meaning, nearest first (`u16` place, `u8` cosine times 255, which is 0 for no neighbour), and
//! the words in the order of their frequency, one on each line. The vectors join those of GloVe
//! (Wikipedia and Gigaword, 100 components) with those of all-MiniLM-L6-v2 for single words,
//! reduced by a principal component analysis. Months, days, numbers and colours have no neighbours:
//! another value is no other word for the same thing. `loadtest/word_vectors.py` makes the file.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use frostem::{Algorithm, Stemmer};

/// The file with the words and their vectors.
const FILE: &[u8] = include_bytes!("word_vectors.bin");
/// Length of a number in the file's header, in bytes.
const NUMBER_BYTES: usize = 4;
/// Length of a neighbour in the file, in bytes.
const NEIGHBOUR_BYTES: usize = 3;
/// Number of the most frequent words, which say nothing about the subject of a text.
const COMMON_WORDS: usize = 40;
/// Smallest cosine of two neighbours' vectors, and the cosine from which nearer words count no
/// more.
const NEAR_COSINES: (f64, f64) = (0.45, 0.8);
/// Degrees to which a word counts as an asked word at the two cosines of [`NEAR_COSINES`]. Chosen,
/// like the weights of the topic, on the development halves of LoCoMo and BEAM-100K and on chats of
/// a month.
const NEAR_DEGREES: (f64, f64) = (0.05, 0.2);
/// Frequency of a word at which the word counts half in the vector of a text, as a share of all
/// words (SIF, Arora et al. 2017).
const HALF_FREQUENCY: f32 = 1e-3;
/// Zipf's law for the frequency of the word at a place: `ZIPF.0 / (place + ZIPF.1)`.
const ZIPF: (f32, f32) = (0.1, 2.7);

/// The vectors of the words, in the order of their frequency.
struct WordVectors {
    words: Vec<&'static str>,
    /// Place of the most frequent word with a stem.
    places: HashMap<String, usize>,
    components: usize,
    numbers: &'static [u8],
    neighbours: &'static [u8],
    /// Length of one word's neighbours, in bytes.
    neighbours_bytes: usize,
    /// For each word, the words that have it as a neighbour, and the cosines.
    named_by: Vec<Vec<(usize, f64)>>,
    /// For each word, its weight in the vector of a text, divided by the length of its vector.
    scales: Vec<f32>,
}

static VECTORS: LazyLock<WordVectors> = LazyLock::new(|| WordVectors::read(FILE));

impl WordVectors {
    fn read(file: &'static [u8]) -> Self {
        let number = |at: usize| {
            let bytes = file[at * NUMBER_BYTES..(at + 1) * NUMBER_BYTES].try_into();
            u32::from_le_bytes(bytes.expect("a number has four bytes")) as usize
        };
        let (count, components, neighbours_bytes) =
            (number(0), number(1), number(2) * NEIGHBOUR_BYTES);
        let (numbers, rest) = file[3 * NUMBER_BYTES..].split_at(count * components);
        let (neighbours, words) = rest.split_at(count * neighbours_bytes);
        let words: Vec<&str> =
            std::str::from_utf8(words).expect("words are UTF-8").lines().collect();
        let stemmer = Stemmer::new(Algorithm::English);
        let mut places = HashMap::with_capacity(count);
        for (place, word) in words.iter().enumerate() {
            places.entry(stemmer.stem(word).into_owned()).or_insert(place);
        }
        let named_by = vec![Vec::new(); count];
        let mut vectors = Self {
            words,
            places,
            components,
            numbers,
            neighbours,
            neighbours_bytes,
            named_by,
            scales: Vec::new(),
        };
        for place in 0..count {
            for (other, cosine) in vectors.neighbours(place) {
                vectors.named_by[other].push((place, cosine));
            }
        }
        vectors.scales = (0..count).map(|place| vectors.scale(place)).collect();
        vectors
    }

    fn scale(&self, place: usize) -> f32 {
        let frequency = ZIPF.0 / (place as f32 + ZIPF.1);
        let length = self.row(place).iter().map(|c| signed(*c).pow(2)).sum::<i32>() as f32;
        HALF_FREQUENCY / (HALF_FREQUENCY + frequency) / length.sqrt().max(1.0)
    }

    fn row(&self, place: usize) -> &'static [u8] {
        &self.numbers[place * self.components..(place + 1) * self.components]
    }

    /// Returns the places of a word's neighbours, nearest first, and the cosines of their vectors.
    fn neighbours(&self, place: usize) -> impl Iterator<Item = (usize, f64)> + use<> {
        let begin = place * self.neighbours_bytes;
        let all = self.neighbours[begin..begin + self.neighbours_bytes].chunks(NEIGHBOUR_BYTES);
        let one = |bytes: &'static [u8]| {
            let place = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
            (place, f64::from(bytes[2]) / f64::from(u8::MAX))
        };
        all.map(one).take_while(|(_, cosine)| *cosine > 0.0)
    }
}

fn signed(component: u8) -> i32 {
    i32::from(component.cast_signed())
}

/// Returns the place of a stem's word in the list of words, if the list has it.
pub(in crate::search) fn place(stem: &str) -> Option<usize> {
    VECTORS.places.get(stem).copied()
}

/// Returns the cosine of two words' vectors.
pub(super) fn cosine(one: usize, other: usize) -> f64 {
    let vectors = &*VECTORS;
    let (a, b) = (vectors.row(one), vectors.row(other));
    let dot: i32 = a.iter().zip(b).map(|(x, y)| signed(*x) * signed(*y)).sum();
    let length = |row: &[u8]| f64::from(row.iter().map(|c| signed(*c).pow(2)).sum::<i32>()).sqrt();
    f64::from(dot) / (length(a) * length(b)).max(1.0)
}

/// Returns the places of the words whose meaning is near to a stem, and for each of them the degree
/// to which it counts as this stem's word, from 0 to 1.
pub(super) fn near_words(stem: &str) -> HashMap<usize, f64> {
    let vectors = &*VECTORS;
    let Some(own) = place(stem) else { return HashMap::new() };
    let (least, most) = NEAR_COSINES;
    let degree = |(place, cosine): (usize, f64)| {
        let share = ((cosine - least) / (most - least)).clamp(0.0, 1.0);
        (place, NEAR_DEGREES.0 + share * (NEAR_DEGREES.1 - NEAR_DEGREES.0))
    };
    let named_by = vectors.named_by[own].iter().copied();
    named_by.chain(vectors.neighbours(own)).map(degree).collect()
}

/// Whether a stem's word has a vector that says something about the subject of a text.
pub(super) fn is_known(stem: &str) -> bool {
    VECTORS.places.get(stem).is_some_and(|place| *place >= COMMON_WORDS)
}

/// Returns the words nearest in meaning to a stem, nearest first, at most `limit`.
pub(super) fn nearest(stem: &str, limit: usize) -> impl Iterator<Item = &'static str> + use<> {
    let vectors = &*VECTORS;
    let asked = vectors.places.get(stem).copied();
    let near = asked.into_iter().flat_map(|place| vectors.neighbours(place));
    near.take(limit).map(|(place, _)| vectors.words[place])
}

/// The subject of a text: the mean of its words' vectors, of length 1, or empty without a known
/// word.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::search) struct Topic(Vec<f32>);

impl Topic {
    /// Reads the stems of a text; each stem counts once, and a frequent word counts less.
    pub(super) fn of<'s>(stems: impl Iterator<Item = &'s str>) -> Self {
        Self::of_places(stems.filter_map(place))
    }

    /// Reads the places of a text's words, as [`Self::of`] does.
    pub(in crate::search) fn of_places(places: impl Iterator<Item = usize>) -> Self {
        let vectors = &*VECTORS;
        let mut seen = HashSet::new();
        let mut sum = vec![0.0; vectors.components];
        for place in places.filter(|place| *place >= COMMON_WORDS) {
            if !seen.insert(place) {
                continue;
            }
            let scale = vectors.scales[place];
            for (total, component) in sum.iter_mut().zip(vectors.row(place)) {
                *total += scale * signed(*component) as f32;
            }
        }
        let length = sum.iter().map(|c| c * c).sum::<f32>().sqrt();
        if length <= f32::MIN_POSITIVE {
            return Self::default();
        }
        sum.iter_mut().for_each(|component| *component /= length);
        Self(sum)
    }

    /// Returns the cosine of two topics, or 0 if it is negative or one of the texts has no topic.
    pub(in crate::search) fn nearness(&self, other: &Self) -> f64 {
        f64::from(self.0.iter().zip(&other.0).map(|(a, b)| a * b).sum::<f32>().max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_near_and_values_are_not() {
        assert!(VECTORS.words.len() >= 10_000);
        for (asked, word, is_near) in [
            ("dentist", "teeth", true),
            ("wage", "salari", true),
            ("jog", "run", true),
            ("dentist", "guitar", false),
            ("march", "april", false),
            ("two", "three", false),
            ("blue", "red", false),
            ("wisker", "whisker", false),
            ("wage", "wage", false),
        ] {
            let near = near_words(asked);
            let degree = place(word).and_then(|place| near.get(&place)).copied().unwrap_or(0.0);
            assert_eq!(degree > 0.0, is_near, "{asked} {word} {degree}");
            assert!(degree <= NEAR_DEGREES.1);
        }
        let near: Vec<&str> = nearest("wage", 3).collect();
        assert!(near.len() == 3 && near.contains(&"salary"), "{near:?}");
        assert!(nearest("april", 3).chain(nearest("the", 3)).next().is_none());
    }

    #[test]
    fn texts_of_one_subject_are_nearer_than_others() {
        let topic = |text: &str| {
            let stemmer = Stemmer::new(Algorithm::English);
            let stems: Vec<String> =
                text.split(' ').map(|word| stemmer.stem(word).into_owned()).collect();
            Topic::of(stems.iter().map(String::as_str))
        };
        let asked = topic("limit on my jogging while the tendon heals");
        let told = topic("achilles nothing torn but no runs longer than five");
        let other = topic("the invoice has a fuel adjustment line");
        assert!(asked.nearness(&told) > asked.nearness(&other));
        assert!((asked.nearness(&asked) - 1.0).abs() < 1e-5);
        assert_eq!(topic("zq7c").nearness(&asked), 0.0);
    }
}
