//! Finds the content words of texts, with the stems and the class of each word, for the summariser
//! and the measures of drift.

use frostem::{Algorithm, Stemmer};
use rustc_hash::{FxHashMap, FxHashSet};
use unicode_segmentation::UnicodeSegmentation;

use super::filler_words::{FILLER_WORDS, MONTHS, NAMES_LIKE_STOP_WORDS, PRAISE_WORDS};
use crate::memory::TokenCounter;
use crate::search::StopWords;

/// Maximum number of characters of a word that are read; a longer word is a blob or a hash.
const WORD_CHARS_MAX: usize = 40;
/// Maximum number of ideographs or kana that form one word.
const IDEOGRAPHS_PER_WORD: usize = 8;

/// Index of a word in its [`Lexicon`].
pub(super) type WordId = usize;
/// Index of a stem in its [`Lexicon`].
pub(super) type StemId = usize;

/// The class of a word, by its spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Class {
    /// A negation (`not`, `no`, `never`), which adds no worth to a clause.
    Negation,
    /// A word that is common in all conversations, such as a greeting.
    Filler,
    /// Any other word.
    Plain,
    /// A word that begins with a capital letter within a sentence.
    Name,
    /// A word with a digit, or the name of a month.
    Number,
}

/// A word with its stems and class.
#[derive(Debug)]
pub(super) struct Word {
    /// The word in lower case.
    pub(super) text: String,
    pub(super) stems: Vec<StemId>,
    pub(super) class: Class,
}

/// A text without spaces.
struct PieceWords {
    /// Its content words.
    words: Box<[WordId]>,
    /// Whether it has parts that can be words.
    has_parts: bool,
}

/// All words and stems of the texts read so far; each word and stem is stored once.
pub(super) struct Lexicon<'a> {
    pub(super) words: Vec<Word>,
    by_text: FxHashMap<(String, Class), WordId>,
    stems: FxHashMap<String, StemId>,
    /// The content words of each text without spaces that was read at the beginning of a sentence,
    /// and of each that was read inside.
    pieces: [FxHashMap<String, PieceWords>; 2],
    stop: FxHashSet<&'static str>,
    filler: FxHashSet<&'static str>,
    stemmer: Stemmer,
    counter: &'a dyn TokenCounter,
}

impl<'a> Lexicon<'a> {
    /// Returns an empty lexicon.
    pub(super) fn new(counter: &'a dyn TokenCounter) -> Self {
        Self {
            words: Vec::new(),
            by_text: FxHashMap::default(),
            stems: FxHashMap::default(),
            pieces: Default::default(),
            stop: StopWords::Summary.words().collect(),
            filler: FILLER_WORDS.split(' ').chain(PRAISE_WORDS.split(' ')).collect(),
            stemmer: Stemmer::new(Algorithm::English),
            counter,
        }
    }

    /// Returns the number of stored stems.
    pub(super) fn stem_count(&self) -> usize {
        self.stems.len()
    }

    /// Returns the content words of each sentence of `text`, at most `words_max` words in all;
    /// sentences without content words are left out.
    pub(super) fn sentences(&mut self, text: &str, words_max: usize) -> Vec<Vec<WordId>> {
        let mut left = words_max;
        let mut kept = Vec::new();
        for sentence in sentences(text) {
            let mut words = self.content_words(sentence);
            words.truncate(left);
            left -= words.len();
            if !words.is_empty() {
                kept.push(words);
            }
            if left == 0 {
                break;
            }
        }
        kept
    }

    /// Returns the stems of the content words of one sentence.
    pub(super) fn stems_in(&mut self, sentence: &str) -> Vec<StemId> {
        let words = self.content_words(sentence);
        words.iter().flat_map(|&word| self.words[word].stems.iter().copied()).collect()
    }

    /// Returns the number of tokens of a line that consists of the speaker's name and the sentence.
    pub(super) fn line_tokens(&self, speaker: &str, sentence: &str) -> u64 {
        self.counter.count(&format!("{speaker}: {}\n", sentence.trim()))
    }

    /// Returns the content words of a sentence or line, in order.
    pub(super) fn content_words(&mut self, sentence: &str) -> Vec<WordId> {
        let mut words = Vec::new();
        let mut inside = false;
        for piece in sentence.split_whitespace() {
            let place = usize::from(inside);
            if let Some(known) = self.pieces[place].get(piece) {
                words.extend(&known.words);
                inside |= known.has_parts;
                continue;
            }
            let first = words.len();
            let parts = parts(piece);
            for part in &parts {
                words.extend(self.word(part, inside));
                inside = true;
            }
            let read = PieceWords { words: words[first..].into(), has_parts: !parts.is_empty() };
            self.pieces[place].insert(piece.to_owned(), read);
        }
        words
    }

    /// Stores a word with its properties and returns its index; returns `None` for a function word.
    /// If `inside`, the word is not the first of its sentence, so that a capital letter marks a
    /// name.
    fn word(&mut self, part: &str, inside: bool) -> Option<WordId> {
        let text = part.trim_matches(|c: char| !c.is_alphanumeric());
        let text = text.strip_suffix("'s").or_else(|| text.strip_suffix("’s")).unwrap_or(text);
        let text =
            &text[..text.char_indices().nth(WORD_CHARS_MAX).map_or(text.len(), |(at, _)| at)];
        let lower = text.to_lowercase().replace('’', "'");
        let plain = lower.split('\'').next().unwrap_or_default();
        if lower.ends_with("n't")
            || matches!(lower.as_str(), "cannot" | "not" | "no" | "never" | "without" | "none")
        {
            return Some(self.intern(lower, Class::Negation, &[]));
        }
        if plain.is_empty()
            || (self.stop.contains(plain) && !(inside && NAMES_LIKE_STOP_WORDS.contains(&text)))
        {
            return None;
        }
        if lower.chars().count() == 1
            && lower.is_ascii()
            && !lower.chars().all(|c| c.is_ascii_digit())
        {
            return None;
        }
        let class = if lower.chars().any(char::is_numeric) || MONTHS.contains(&text) {
            Class::Number
        } else if self.filler.contains(plain) {
            Class::Filler
        } else if inside && text.chars().next().is_some_and(char::is_uppercase) {
            Class::Name
        } else {
            Class::Plain
        };
        let stems = self.stems_of(&lower);
        Some(self.intern(lower, class, &stems))
    }

    fn intern(&mut self, text: String, class: Class, stems: &[StemId]) -> WordId {
        let words = &mut self.words;
        *self.by_text.entry((text.clone(), class)).or_insert_with(|| {
            words.push(Word { text, stems: stems.to_vec(), class });
            words.len() - 1
        })
    }

    fn stems_of(&mut self, lower: &str) -> Vec<StemId> {
        let mut stems = Vec::new();
        for part in
            lower.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|part| !part.is_empty())
        {
            let part = part.strip_suffix("'s").unwrap_or(part);
            if self.stop.contains(part) && part.len() < lower.len() {
                continue;
            }
            if part.chars().all(is_ideograph) {
                let glyphs: Vec<String> = part.chars().map(String::from).collect();
                stems.extend(glyphs.into_iter().map(|glyph| self.stem_id(glyph)));
            } else {
                let stem = self.stemmer.stem(part).to_string();
                stems.push(self.stem_id(stem));
            }
        }
        stems.dedup();
        stems
    }

    fn stem_id(&mut self, stem: String) -> StemId {
        let next = self.stems.len();
        *self.stems.entry(stem).or_insert(next)
    }
}

/// Splits a text into sentences; a line break also ends a sentence.
pub(super) fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(UnicodeSegmentation::unicode_sentences)
}

/// Splits a text without spaces into words, at dashes, slashes and ellipses. If the text is long or
/// contains ideographs, it is split at Unicode word boundaries instead.
fn parts(piece: &str) -> Vec<&str> {
    if piece.len() <= WORD_CHARS_MAX && !piece.chars().any(is_ideograph) {
        return piece
            .split(['—', '/', '…'])
            .flat_map(|part| part.split("..."))
            .filter(|part| !part.is_empty())
            .collect();
    }
    let mut parts: Vec<&str> = Vec::new();
    let mut start = None;
    let mut glyphs = 0;
    for (at, segment) in piece.split_word_bound_indices() {
        let ideograph = segment.chars().all(is_ideograph);
        if let Some(begin) = start
            && (!ideograph || glyphs == IDEOGRAPHS_PER_WORD)
        {
            parts.push(&piece[begin..at]);
            start = None;
        }
        if ideograph {
            glyphs = if start.is_none() { 1 } else { glyphs + 1 };
            start = start.or(Some(at));
        } else if segment.chars().any(char::is_alphanumeric) {
            parts.push(segment);
        }
    }
    parts.extend(start.map(|begin| &piece[begin..]));
    parts
}

/// Whether a character is Han or kana. These scripts put no spaces between words, and a single
/// character can be a word.
fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}
