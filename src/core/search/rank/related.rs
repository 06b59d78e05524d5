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
        let terms = asked.terms.iter().zip(&asked.unknown).map(|((stem, _), is_unknown)| {
            let own = text(*stem);
            let is_unknown = *is_unknown && !present.contains(stem);
            (*stem, stems.iter().map(|other| likeness(own, other, is_unknown)).collect())
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
    let mut lexicon = Lexicon::new();
    let held: HashSet<Stem> = lexicon.read(text).iter().map(|word| word.stem).collect();
    words.iter().filter(|word| held.contains(&lexicon.word(word).stem)).count()
}

/// Returns the words of the everyday subjects of a query's words and the words nearest to them in
/// meaning, without the query's own words.
pub fn related_words(words: &[String]) -> Vec<String> {
    let stemmer = Stemmer::new(Algorithm::English);
    let stem = |word: &str| stemmer.stem(word).into_owned();
    let own: HashSet<String> = words.iter().map(|word| stem(word)).collect();
    let subjects = |word: &String| SUBJECTS_OF.get(word).into_iter().flatten().copied();
    let asked: BTreeSet<usize> = own.iter().flat_map(subjects).collect();
    let lines = SUBJECTS.lines().enumerate().filter(|(subject, _)| asked.contains(subject));
    let mut seen = own;
    let subjects = lines.flat_map(|(_, line)| line.split_whitespace());
    let near = words.iter().flat_map(|word| word_vectors::nearest(&stem(word), NEAR_WORDS));
    let also = subjects.chain(near);
    also.filter(|word| seen.insert(stem(word))).map(str::to_owned).take(RELATED_MAX).collect()
}

/// Returns the degree to which a word of a message counts as an asked word, from 0 to 1; both words
/// are stems. The argument `is_unknown` says whether no message has the asked word.
pub(super) fn likeness(asked: &str, word: &str, is_unknown: bool) -> f64 {
    if asked == word {
        return 0.0;
    }
    if is_compound(asked, word) {
        return COMPOUND;
    }
    if is_unknown && is_typo(asked, word) {
        return TYPO;
    }
    let same = if is_same_subject(asked, word) { SAME_SUBJECT } else { 0.0 };
    same.max(word_vectors::nearness(asked, word))
}

fn is_same_subject(asked: &str, word: &str) -> bool {
    let subjects = |stem: &str| SUBJECTS_OF.get(stem).map_or(&[][..], Vec::as_slice);
    let of_word = subjects(word);
    !of_word.is_empty() && subjects(asked).iter().any(|subject| of_word.contains(subject))
}

fn is_compound(asked: &str, word: &str) -> bool {
    let (short, long) = if asked.len() < word.len() { (asked, word) } else { (word, asked) };
    let is_part = short.chars().count() >= PART_CHARS_MIN
        && long.chars().count() >= short.chars().count() + REST_CHARS_MIN
        && short.chars().all(char::is_alphabetic);
    is_part && (long.starts_with(short) || long.ends_with(short))
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
            assert_eq!(likeness(asked, word, is_unknown), wanted, "{asked} {word}");
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
