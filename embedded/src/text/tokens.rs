//! Splits texts into tokens, as the type of an analyzer requires.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::mem::{Discriminant, discriminant};

use frostem::{Algorithm, Stemmer};
use unicode_segmentation::UnicodeSegmentation;

use super::aql::Program;
use super::collation::Collation;
use super::geo::Shapes;
use super::minhash;
use super::normal;
use crate::limits::{
    VIEW_DOCUMENT_TERM_BYTES_MAX, VIEW_DOCUMENT_TERMS_MAX, VIEW_STEM_BYTES_MAX, VIEW_STEMS_MAX,
};

/// A token of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The token itself.
    pub(crate) text: String,
    /// Distance in positions from the previous token.
    pub(crate) step: u32,
    /// Byte offset of the token's beginning in the text.
    pub(crate) from: u32,
    /// Byte offset of the token's end in the text.
    pub(crate) to: u32,
}

/// The tokens of one text, up to the limits for one document.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    /// The tokens in the order of the text.
    pub(crate) list: Vec<Token>,
    /// Whether the text has more tokens than the limits allow.
    pub(crate) cut: bool,
    bytes: usize,
}

impl Tokens {
    fn push(&mut self, text: impl Into<String>, step: u32, from: usize, to: usize) {
        let text = text.into();
        self.bytes += text.len();
        if self.list.len() >= VIEW_DOCUMENT_TERMS_MAX || self.bytes > VIEW_DOCUMENT_TERM_BYTES_MAX {
            self.cut = true;
        } else {
            self.list.push(Token { text, step, from: from as u32, to: to as u32 });
        }
    }
}

/// The type of an analyzer, with its compiled properties.
#[derive(Debug)]
pub(super) enum Kind {
    Identity,
    Delimiter(String),
    MultiDelimiter(Vec<String>),
    Stem(Option<Algorithm>),
    Norm(Norm),
    Ngram(Ngram),
    Text { norm: Norm, stopwords: BTreeSet<String>, stem: Option<Algorithm>, edge: Option<Edge> },
    Segmentation { words: Words, case: Case },
    Stopwords(BTreeSet<String>),
    Pipeline(Vec<Self>),
    Aql(Box<Program>),
    MinHash { of: Box<Self>, hashes: usize },
    Wildcard { of: Box<Self>, size: usize },
    Collation(Collation),
    Geo(Shapes),
}

/// Settings for the normalisation of case and accents.
#[derive(Debug)]
pub(super) struct Norm {
    pub(super) case: Case,
    /// Whether accents are kept.
    pub(super) accent: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Case {
    Lower,
    Upper,
    None,
}

/// Which parts of a text a `segmentation` analyzer keeps: all, those with letters or digits, or all
/// except blanks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Words {
    All,
    Alpha,
    Graphic,
}

/// Settings of an n-gram analyzer.
#[derive(Debug)]
pub(super) struct Ngram {
    pub(super) min: usize,
    pub(super) max: usize,
    pub(super) original: bool,
    /// Whether n-grams consist of characters instead of bytes.
    pub(super) utf8: bool,
    pub(super) start: String,
    pub(super) end: String,
}

/// Settings of edge n-grams, which are the prefixes of a word.
#[derive(Debug)]
pub(super) struct Edge {
    pub(super) min: usize,
    pub(super) max: usize,
    pub(super) original: bool,
}

impl Kind {
    /// Returns the tokens of a text.
    pub(super) fn tokens(&self, text: &str) -> Tokens {
        let mut out = Tokens::default();
        self.add(text, &mut out);
        out
    }

    fn add(&self, text: &str, out: &mut Tokens) {
        match self {
            Self::Identity => out.push(text, 1, 0, text.len()),
            Self::Delimiter(delimiter) => split(text, delimiter, out),
            Self::MultiDelimiter(delimiters) => split_at_any(text, delimiters, out),
            Self::Stem(stem) => out.push(stemmed(text, *stem), 1, 0, text.len()),
            Self::Norm(norm) => out.push(norm.of(text), 1, 0, text.len()),
            Self::Ngram(ngram) => ngram.add(text, out),
            Self::Text { norm, stopwords, stem, edge } => {
                for (from, word) in text.unicode_word_indices() {
                    let to = from + word.len();
                    let word = norm.of(word);
                    if stopwords.contains(&word) {
                        continue;
                    }
                    let word = stemmed(&word, *stem);
                    match edge {
                        None => out.push(word, 1, from, to),
                        Some(edge) => edge.add(&word, from, to, out),
                    }
                }
            }
            Self::Segmentation { words, case } => {
                for (from, word) in text.split_word_bound_indices() {
                    let kept = match words {
                        Words::All => true,
                        Words::Alpha => word.contains(char::is_alphanumeric),
                        Words::Graphic => !word.chars().all(is_blank),
                    };
                    if kept {
                        out.push(case.of(word.to_owned()), 1, from, from + word.len());
                    }
                }
            }
            Self::Stopwords(stopwords) => {
                if !stopwords.contains(text) {
                    out.push(text, 1, 0, text.len());
                }
            }
            Self::Pipeline(kinds) => {
                out.push(text, 1, 0, text.len());
                for (at, kind) in kinds.iter().enumerate() {
                    let before = std::mem::take(out);
                    out.cut = before.cut;
                    for token in &before.list {
                        kind.add_behind(token, at > 0, out);
                    }
                }
            }
            Self::Aql(program) => {
                for (at, token) in program.texts(text).into_iter().enumerate() {
                    let step = u32::from(at == 0 || !program.collapses());
                    out.push(token, step, 0, text.len());
                }
            }
            Self::MinHash { of, hashes } => {
                let tokens = of.tokens(text);
                out.cut |= tokens.cut;
                let texts = tokens.list.iter().map(|token| token.text.as_str());
                for (at, hash) in minhash::signature(texts, *hashes).into_iter().enumerate() {
                    out.push(minhash::token(hash), u32::from(at == 0), 0, text.len());
                }
            }
            Self::Wildcard { of, size } => {
                for whole in of.tokens(text).list {
                    wildcard(&whole, *size, out);
                }
            }
            // A geo analyzer makes no tokens of texts.
            Self::Geo(_) => {}
            Self::Collation(collation) => out.push(collation.key(text), 1, 0, text.len()),
        }
    }

    /// Adds the tokens that this analyzer makes of a token of another analyzer. If `whole_known` is
    /// true, the first new token gets the position of the other analyzer's token.
    fn add_behind(&self, token: &Token, whole_known: bool, out: &mut Tokens) {
        let own = self.tokens(&token.text);
        out.cut |= own.cut;
        let same_bytes = (token.to - token.from) as usize == token.text.len();
        for (at, inner) in own.list.into_iter().enumerate() {
            let step = if at == 0 && whole_known { token.step } else { inner.step };
            // If the other analyzer changed the length of its token, offsets inside it are unknown,
            // so each new token has the offsets of the whole token.
            let (from, to) = if same_bytes {
                (token.from + inner.from, token.from + inner.to)
            } else {
                (token.from, token.to)
            };
            out.push(inner.text, step, from as usize, to as usize);
        }
    }

    /// Returns the tokens of a wildcard analyzer before it splits them into n-grams, or `None` for
    /// any other analyzer.
    pub(super) fn wholes(&self, text: &str) -> Option<Tokens> {
        match self {
            Self::Wildcard { of, .. } => Some(of.tokens(text)),
            _ => None,
        }
    }
}

impl Norm {
    fn of(&self, text: &str) -> String {
        let text = self.case.of(normal::composed(text));
        if self.accent { text } else { normal::without_accents(&text) }
    }
}

impl Case {
    fn of(self, text: String) -> String {
        match self {
            Self::Lower => text.to_lowercase(),
            Self::Upper => text.to_uppercase(),
            Self::None => text,
        }
    }
}

impl Ngram {
    /// Adds the n-grams in the order in which they start in the text. Of several n-grams with the
    /// same start, the shorter ones come first. If `original` is true, the whole text is added
    /// after the n-grams that start at the beginning of the text.
    fn add(&self, text: &str, out: &mut Tokens) {
        let bounds: Vec<usize> = if self.utf8 {
            text.char_indices().map(|(at, _)| at).chain([text.len()]).collect()
        } else {
            (0..=text.len()).collect()
        };
        let last = bounds.len() - 1;
        let min = self.min.max(1);
        let piece = |from: usize, to: usize| readable(&text.as_bytes()[bounds[from]..bounds[to]]);
        for from in 0..last {
            let mut step = 1;
            let mut originals = from == 0 && self.original;
            for to in from + min..=last.min(from.saturating_add(self.max.max(min))) {
                if from == 0 && to == last && originals {
                    break;
                }
                let mut token = piece(from, to);
                if from == 0 && !self.start.is_empty() {
                    token = format!("{}{token}", self.start);
                } else if to == last {
                    token.push_str(&self.end);
                }
                out.push(token, step, bounds[from], bounds[to]);
                step = 0;
                if from == 0 && to == last && !self.start.is_empty() && !self.end.is_empty() {
                    out.push(format!("{}{}", piece(0, last), self.end), 0, 0, text.len());
                }
            }
            if std::mem::take(&mut originals) {
                for whole in self.originals(&piece(0, last)) {
                    out.push(whole, step, 0, text.len());
                    step = 0;
                }
            }
            if out.cut {
                return;
            }
        }
    }

    fn originals(&self, text: &str) -> Vec<String> {
        if self.start.is_empty() && self.end.is_empty() {
            return vec![text.to_owned()];
        }
        let start = (!self.start.is_empty()).then(|| format!("{}{text}", self.start));
        let end = (!self.end.is_empty()).then(|| format!("{text}{}", self.end));
        start.into_iter().chain(end).collect()
    }
}

impl Edge {
    fn add(&self, word: &str, from: usize, to: usize, out: &mut Tokens) {
        let bounds: Vec<usize> =
            word.char_indices().map(|(at, _)| at).chain([word.len()]).collect();
        let length = bounds.len() - 1;
        let mut step = 1;
        for size in self.min.max(1)..=length.min(self.max) {
            let end = if size == length { to } else { (from + bounds[size]).min(to) };
            out.push(&word[..bounds[size]], step, from, end);
            step = 0;
        }
        if self.original && (length < self.min || length > self.max) {
            out.push(word, step, from, to);
        }
    }
}

/// Returns the stemmer of a locale's language, or `None` if Snowball has no stemmer for the
/// language.
pub(super) fn stemmer(locale: &str) -> Option<Algorithm> {
    /// Languages for which ArangoDB's Snowball has a stemmer.
    const LANGUAGES: [&str; 28] = [
        "ar", "hy", "eu", "ca", "da", "en", "fi", "fr", "de", "el", "hi", "hu", "id", "ga", "it",
        "lt", "ne", "no", "nb", "nn", "pt", "ro", "ru", "sr", "es", "sv", "ta", "tr",
    ];
    let language = locale.split(['_', '-', '.', '@']).next().unwrap_or_default().to_lowercase();
    match language.as_str() {
        // ArangoDB has a Snowball version before 3.0, whose Dutch stemmer is that of Martin Porter.
        "nl" => Some(Algorithm::DutchPorter),
        "nb" | "nn" => Some(Algorithm::Norwegian),
        "yi" => Some(Algorithm::Yiddish),
        language if LANGUAGES.contains(&language) => Algorithm::from_name(language).ok(),
        _ => None,
    }
}

thread_local! {
    /// The thread's cache of recent stems by language; most words repeat.
    static STEMS: RefCell<HashMap<Discriminant<Algorithm>, HashMap<Box<str>, Box<str>>>> = RefCell::default();
}

fn stemmed(text: &str, stem: Option<Algorithm>) -> String {
    let Some(algorithm) = stem else { return text.to_owned() };
    let stem = || Stemmer::new(algorithm).stem(text).into_owned();
    if text.len() > VIEW_STEM_BYTES_MAX {
        return stem();
    }
    STEMS.with_borrow_mut(|stems| {
        let known = stems.entry(discriminant(&algorithm)).or_default();
        if let Some(found) = known.get(text) {
            return found.to_string();
        }
        if known.len() >= VIEW_STEMS_MAX {
            known.clear();
        }
        let made = stem();
        known.insert(text.into(), made.as_str().into());
        made
    })
}

/// Converts bytes to a text. If the bytes are not valid UTF-8, each byte above 0x7F becomes a
/// private-use character.
fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => {
            let one = |byte: &u8| match byte {
                0..=0x7F => char::from(*byte),
                _ => char::from_u32(UNREADABLE + u32::from(*byte)).unwrap_or_default(),
            };
            bytes.iter().map(one).collect()
        }
    }
}

/// The private-use character for the byte 0; the character for another byte is larger by the byte's
/// value.
const UNREADABLE: u32 = 0xF700;

/// Whether a token contains bytes that were part of a split character.
pub(super) fn is_unreadable(text: &str) -> bool {
    text.chars().any(|c| (UNREADABLE + 0x80..=UNREADABLE + 0xFF).contains(&u32::from(c)))
}

/// Whether a `segmentation` analyzer treats a character as a blank; a newline is not a blank.
fn is_blank(c: char) -> bool {
    matches!(
        c,
        '\t' | ' ' | '\u{85}' | '\u{A0}' | '\u{1680}' | '\u{2000}'
            ..='\u{200A}' | '\u{2028}' | '\u{2029}' | '\u{202F}' | '\u{205F}' | '\u{3000}'
    )
}

/// The character that marks the beginning and the end of a token in the n-grams of a wildcard
/// analyzer.
const EDGE_MARK: char = '\u{FFFD}';

fn wildcard(whole: &Token, size: usize, out: &mut Tokens) {
    let text: Vec<char> =
        [EDGE_MARK].into_iter().chain(whole.text.chars()).chain([EDGE_MARK]).collect();
    for from in 0..text.len() - 1 {
        let to = text.len().min(from + size);
        let piece: String = text[from..to].iter().collect();
        out.push(piece, 1, whole.from as usize, whole.to as usize);
    }
}

/// Adds the parts of a text between any of the delimiters, without empty parts.
fn split_at_any(text: &str, delimiters: &[String], out: &mut Tokens) {
    let (mut begin, mut at) = (0, 0);
    while at <= text.len() {
        let rest = &text[at..];
        let here = delimiters.iter().find(|one| !one.is_empty() && rest.starts_with(one.as_str()));
        if here.is_some() || rest.is_empty() {
            if at > begin {
                out.push(&text[begin..at], 1, begin, at);
            }
            let Some(delimiter) = here else { return };
            at += delimiter.len();
            begin = at;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
}

/// Adds the parts of a text between delimiters. A part in double quotes may contain delimiters;
/// inside such a part, two double quotes represent one double quote.
fn split(text: &str, delimiter: &str, out: &mut Tokens) {
    if delimiter.is_empty() {
        return out.push(text, 1, 0, text.len());
    }
    let mut at = 0;
    loop {
        let rest = &text[at..];
        if let Some((part, behind)) = quoted(rest, delimiter) {
            let next = behind.map(|behind| text.len() - behind.len());
            out.push(part, 1, at, next.map_or(text.len(), |next| next - delimiter.len()));
            match next {
                Some(next) => at = next,
                None => return,
            }
            continue;
        }
        match rest.find(delimiter) {
            Some(length) => {
                out.push(&rest[..length], 1, at, at + length);
                at += length + delimiter.len();
            }
            None => return out.push(rest, 1, at, text.len()),
        }
    }
}

/// Returns the quoted part at the beginning of a text, and the text after the delimiter that
/// follows it, if any. Returns `None` if the text does not begin with a quoted part.
fn quoted<'a>(text: &'a str, delimiter: &str) -> Option<(String, Option<&'a str>)> {
    let mut rest = text.strip_prefix('"')?;
    let mut part = String::new();
    loop {
        let (before, behind) = rest.split_once('"')?;
        part.push_str(before);
        if let Some(behind) = behind.strip_prefix('"') {
            part.push('"');
            rest = behind;
        } else if behind.is_empty() {
            return Some((part, None));
        } else {
            return behind.strip_prefix(delimiter).map(|behind| (part, Some(behind)));
        }
    }
}
