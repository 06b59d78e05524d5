//! Finds words that say nearly the same as a word of the question: words of the same everyday
//! subject or with a near meaning, parts of compound words, and words with a typing error.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::LazyLock;

use frostem::{Algorithm, Stemmer};

use super::question::QuestionWords;
use super::word_vectors;
use super::words::{Lexicon, Stem, Word};

/// Degree to which a word of the same subject counts as the asked word. The degrees were chosen on
/// the development halves of LoCoMo and BEAM-100K and on a chat of a month.
const SAME_SUBJECT: f64 = 0.5;
/// Degree to which a compound word counts as the asked word, or a part of it as the whole.
const COMPOUND: f64 = 0.6;
/// Degree to which a word with one wrong, missing, additional or swapped letter counts as an asked
/// word that no message has.
const TYPO: f64 = 0.8;
/// Minimum length of a part of a compound word, in characters.
const PART_CHARS_MIN: usize = 4;
/// Minimum number of characters that a compound word has in addition to its part.
const REST_CHARS_MIN: usize = 3;
/// Minimum length of a word in which a typing error is recognised, in characters.
const TYPO_CHARS_MIN: usize = 5;

/// Maximum number of words that a search looks for in addition to the words of the query.
const RELATED_MAX: usize = 64;
/// Number of words that a search looks for because they are near in meaning to a word of the query.
const NEAR_WORDS: usize = 10;

/// Everyday subjects, one on each line: words with which people ask for and speak of the same
/// thing.
const SUBJECTS: &str = include_str!("subjects.txt");

/// Subjects of each stem.
static SUBJECTS_OF: LazyLock<HashMap<String, Vec<usize>>> = LazyLock::new(|| {
    let stemmer = Stemmer::new(Algorithm::English);
    let mut of: HashMap<String, Vec<usize>> = HashMap::new();
    for (subject, line) in SUBJECTS.lines().enumerate() {
        for word in line.split_whitespace() {
            let subjects = of.entry(stemmer.stem(word).into_owned()).or_default();
            if subjects.last() != Some(&subject) {
                subjects.push(subject);
            }
        }
    }
    of
});

/// The degrees to which words count as the words of a question.
pub(super) struct Alike {
    /// For each word of the question, its stem and the degree of each other stem.
    terms: Vec<(Stem, Vec<f64>)>,
}

impl Alike {
    /// Compares the words of a question with all stems of a lexicon. A word that one of the texts
    /// has is spelt correctly.
    pub(super) fn of<'w>(
        asked: &QuestionWords,
        lexicon: &Lexicon,
        words: impl Iterator<Item = &'w Word>,
    ) -> Self {
        let stems = lexicon.stems();
        let present: HashSet<Stem> = words.map(|word| word.stem).collect();
        let text = |stem: Stem| stems.get(stem as usize).map_or("", String::as_str);
        let others: Vec<TextWord<'_>> = stems.iter().map(|stem| TextWord::of(stem)).collect();
        let terms = asked.terms.iter().zip(&asked.unknown).map(|((stem, _), is_unknown)| {
            let own = AskedWord::of(text(*stem), *is_unknown && !present.contains(stem));
            (*stem, others.iter().map(|other| own.likeness(other)).collect())
        });
        Self { terms: terms.collect() }
    }

    /// Returns how often each word of the question occurs among the given words. If a word does not
    /// occur, returns the degree of the word that is most like it.
    pub(super) fn counts(&self, words: &[Word]) -> Vec<f64> {
        let count = |(stem, degrees): &(Stem, Vec<f64>)| {
            let exact = words.iter().filter(|word| word.stem == *stem).count();
            if exact > 0 {
                return exact as f64;
            }
            let degree = |word: &Word| degrees.get(word.stem as usize).copied().unwrap_or(0.0);
            words.iter().map(degree).fold(0.0, f64::max)
        };
        self.terms.iter().map(count).collect()
    }
}

/// Returns how many of the given words a text holds, in any form of the word.
pub fn held_words(words: &[String], text: &str) -> usize {
    words_held(words, text).into_iter().filter(|held| *held).count()
}

/// Returns for each of the given words whether a text holds it, in any form of the word.
pub(crate) fn words_held(words: &[String], text: &str) -> Vec<bool> {
    let mut lexicon = Lexicon::new();
    let held: HashSet<Stem> = lexicon.read(text).iter().map(|word| word.stem).collect();
    words.iter().map(|word| held.contains(&lexicon.word(word).stem)).collect()
}

/// Returns the words of the everyday subjects of a query's words and the words nearest to them in
/// meaning, without the query's own words.
pub fn related_words(words: &[String]) -> Vec<String> {
    let stemmer = Stemmer::new(Algorithm::English);
    let stem = |word: &str| stemmer.stem(word).into_owned();
    let own: HashSet<String> = words.iter().map(|word| stem(word)).collect();
    let asked: BTreeSet<usize> = own.iter().flat_map(|stem| subjects(stem)).copied().collect();
    let lines = SUBJECTS.lines().enumerate().filter(|(subject, _)| asked.contains(subject));
    let mut seen = own;
    let same = lines.flat_map(|(_, line)| line.split_whitespace());
    let near = words.iter().flat_map(|word| word_vectors::nearest(&stem(word), NEAR_WORDS));
    let also = same.chain(near);
    also.filter(|word| seen.insert(stem(word))).map(str::to_owned).take(RELATED_MAX).collect()
}

/// A word of a text, prepared for the comparison with the words of a question.
pub(in crate::search) struct TextWord<'a> {
    pub(in crate::search) stem: &'a str,
    chars: usize,
    subjects: &'static [usize],
    /// Place in the list of words with vectors.
    pub(in crate::search) place: Option<usize>,
}

impl<'a> TextWord<'a> {
    pub(in crate::search) fn of(stem: &'a str) -> Self {
        let chars = stem.chars().count();
        Self { stem, chars, subjects: subjects(stem), place: word_vectors::place(stem) }
    }
}

/// A word of a question, prepared for the comparison with the words of texts.
pub(in crate::search) struct AskedWord<'a> {
    pub(in crate::search) stem: &'a str,
    chars: usize,
    subjects: &'static [usize],
    near: HashMap<usize, f64>,
    is_unknown: bool,
}

impl<'a> AskedWord<'a> {
    /// The argument `is_unknown` says whether no text has the word.
    pub(in crate::search) fn of(stem: &'a str, is_unknown: bool) -> Self {
        let (subjects, near) = (subjects(stem), word_vectors::near_words(stem));
        Self { stem, chars: stem.chars().count(), subjects, near, is_unknown }
    }

    /// Returns the degree to which a word of a text counts as this word, from 0 to 1.
    pub(in crate::search) fn likeness(&self, word: &TextWord<'_>) -> f64 {
        if self.stem == word.stem {
            return 0.0;
        }
        if self.is_compound(word) {
            return COMPOUND;
        }
        if self.is_unknown && is_typo(self.stem, word.stem) {
            return TYPO;
        }
        let is_same = self.subjects.iter().any(|subject| word.subjects.contains(subject));
        self.nearness(word).max(if is_same { SAME_SUBJECT } else { 0.0 })
    }

    /// Returns the degree to which a word of a text counts as this word because their meanings are
    /// near, from 0 to 1.
    pub(in crate::search) fn nearness(&self, word: &TextWord<'_>) -> f64 {
        word.place.and_then(|place| self.near.get(&place)).copied().unwrap_or(0.0)
    }

    fn is_compound(&self, word: &TextWord<'_>) -> bool {
        let (asked, word) = ((self.stem, self.chars), (word.stem, word.chars));
        let is_shorter = self.stem.len() < word.0.len();
        let ((short, least), (long, most)) = if is_shorter { (asked, word) } else { (word, asked) };
        least >= PART_CHARS_MIN
            && most >= least + REST_CHARS_MIN
            && (long.starts_with(short) || long.ends_with(short))
            && short.chars().all(char::is_alphabetic)
    }
}

/// Returns the everyday subjects of a stem.
fn subjects(stem: &str) -> &'static [usize] {
    SUBJECTS_OF.get(stem).map_or(&[], Vec::as_slice)
}

/// Whether two words differ by one letter, or by two swapped neighbours.
fn is_typo(asked: &str, word: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (asked.chars().collect(), word.chars().collect());
    if a.len().min(b.len()) < TYPO_CHARS_MIN || a.len().abs_diff(b.len()) > 1 {
        return false;
    }
    let begin = a.iter().zip(&b).take_while(|(one, other)| one == other).count();
    let (a, b) = (&a[begin..], &b[begin..]);
    let end = a.iter().rev().zip(b.iter().rev()).take_while(|(one, other)| one == other).count();
    let (a, b) = (&a[..a.len() - end], &b[..b.len() - end]);
    match (a, b) {
        ([_], [_]) | ([_], []) | ([], [_]) => true,
        ([one, two], [other, another]) => one == another && two == other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_recognised() {
        for (asked, word, is_unknown, wanted) in [
            ("flight", "plane", false, SAME_SUBJECT),
            ("rent", "charg", false, SAME_SUBJECT),
            ("hall", "hallway", false, COMPOUND),
            ("zahnarzttermin", "termin", false, COMPOUND),
            ("wisker", "whisker", true, TYPO),
            ("wisker", "whisker", false, 0.0),
            ("recieve", "receive", true, TYPO),
            ("boat", "coat", true, 0.0),
            ("boat", "lamp", true, 0.0),
            ("art", "apart", false, 0.0),
        ] {
            let degree = AskedWord::of(asked, is_unknown).likeness(&TextWord::of(word));
            assert_eq!(degree, wanted, "{asked} {word}");
        }
    }

    #[test]
    fn every_subject_has_two_words_and_no_word_twice() {
        for line in SUBJECTS.lines() {
            let mut words: Vec<&str> = line.split_whitespace().collect();
            let count = words.len();
            words.sort_unstable();
            words.dedup();
            assert!(words.len() == count && count > 1, "{line}");
        }
    }
}
