//! How a text becomes tokens, one kind of analyzer each.

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
    /// The token.
    pub(crate) text: String,
    /// How many places it is behind the token before.
    pub(crate) step: u32,
    /// Byte of the text at which it begins.
    pub(crate) from: u32,
    /// Byte of the text behind it.
    pub(crate) to: u32,
}

/// Tokens of one text; what is more than a document may hold is left out.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    /// In the order of the text.
    pub(crate) list: Vec<Token>,
    /// Whether there were more.
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

/// What an analyzer does.
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

/// Case and accents.
#[derive(Debug)]
pub(super) struct Norm {
    pub(super) case: Case,
    /// Whether accents stay.
    pub(super) accent: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Case {
    Lower,
    Upper,
    None,
}

/// Which segments a segmentation keeps.
#[derive(Clone, Copy, Debug)]
pub(super) enum Words {
    All,
    Alpha,
    Graphic,
}

/// Pieces of a text.
#[derive(Debug)]
pub(super) struct Ngram {
    pub(super) min: usize,
    pub(super) max: usize,
    pub(super) original: bool,
    /// Whether a symbol is a character, not a byte.
    pub(super) utf8: bool,
    pub(super) start: String,
    pub(super) end: String,
}

/// Beginnings of a word.
#[derive(Debug)]
pub(super) struct Edge {
    pub(super) min: usize,
    pub(super) max: usize,
    pub(super) original: bool,
}

impl Kind {
    /// The tokens of a text.
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
                    let step = u32::from(at == 0 || !program.collapse);
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
            // Shapes are no texts.
            Self::Geo(_) => {}
            Self::Collation(collation) => out.push(collation.key(text), 1, 0, text.len()),
        }
    }

    /// The tokens of a token of another analyzer: the first of them takes its place.
    fn add_behind(&self, token: &Token, whole_known: bool, out: &mut Tokens) {
        let own = self.tokens(&token.text);
        out.cut |= own.cut;
        let same_bytes = (token.to - token.from) as usize == token.text.len();
        for (at, inner) in own.list.into_iter().enumerate() {
            let step = if at == 0 && whole_known { token.step } else { inner.step };
            // A token that is not the text itself any more is as long as the text it came of.
            let (from, to) = if same_bytes {
                (token.from + inner.from, token.from + inner.to)
            } else {
                (token.from, token.to)
            };
            out.push(inner.text, step, from as usize, to as usize);
        }
    }

    /// The tokens whose pieces a wildcard analyzer holds.
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
    /// Pieces by where they begin, shorter ones first; the original stands behind the pieces of the beginning.
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

/// The stemmer of a locale's language; none where Snowball has none for it.
pub(super) fn stemmer(locale: &str) -> Option<Algorithm> {
    /// Languages of ArangoDB's Snowball.
    const LANGUAGES: [&str; 28] = [
        "ar", "hy", "eu", "ca", "da", "en", "fi", "fr", "de", "el", "hi", "hu", "id", "ga", "it",
        "lt", "ne", "no", "nb", "nn", "pt", "ro", "ru", "sr", "es", "sv", "ta", "tr",
    ];
    let language = locale.split(['_', '-', '.', '@']).next().unwrap_or_default().to_lowercase();
    match language.as_str() {
        // Martin Porter's Dutch stemmer is the one that Snowball called Dutch until its third release.
        "nl" => Some(Algorithm::DutchPorter),
        "nb" | "nn" => Some(Algorithm::Norwegian),
        "yi" => Some(Algorithm::Yiddish),
        language if LANGUAGES.contains(&language) => Algorithm::from_name(language).ok(),
        _ => None,
    }
}

thread_local! {
    /// Stems of words that this thread met lately: a text has few words that were never met before.
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

/// Bytes as a text; those that are none become characters for private use, one each.
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

/// Characters for private use that stand for bytes from here on.
const UNREADABLE: u32 = 0xF700;

/// Whether a token is a part of a character.
pub(super) fn is_unreadable(text: &str) -> bool {
    text.chars().any(|c| (UNREADABLE + 0x80..=UNREADABLE + 0xFF).contains(&u32::from(c)))
}

/// Blanks as a segmentation knows them; line breaks are none.
fn is_blank(c: char) -> bool {
    matches!(
        c,
        '\t' | ' ' | '\u{85}' | '\u{A0}' | '\u{1680}' | '\u{2000}'
            ..='\u{200A}' | '\u{2028}' | '\u{2029}' | '\u{202F}' | '\u{205F}' | '\u{3000}'
    )
}

/// Marks the beginning and the end of a text in the pieces of a wildcard analyzer.
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

/// Parts between any of some delimiters; empty ones are none.
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

/// Parts between delimiters; a part in double quotes may hold them, and two quotes in it are one.
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

/// A quoted part that ends at a delimiter or at the end, and what follows the delimiter.
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
