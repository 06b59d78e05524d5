//! Splits texts into words for the scorer, and finds each word's stem and whether the word names a
//! time, a number or a change.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use frostem::{Algorithm, Stemmer};
use unicode_segmentation::UnicodeSegmentation as _;

use super::word_vectors::{self, Topic};

/// Maximum number of words whose stems one OS thread caches between searches; a full cache is
/// emptied.
const RANK_FORMS_MAX: usize = 32_768;
/// Length in bytes of the longest word that is cached.
const RANK_FORM_BYTES_MAX: usize = 32;

/// Number of letters from which a part of an identifier is a word.
const IDENTIFIER_LETTERS_MIN: usize = 2;

/// Number of a stem in its [`Lexicon`].
pub(super) type Stem = u32;

/// The stem of a word and what the word names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) stem: Stem,
    pub(super) marks: Marks,
}

/// What a word names; several fields may be true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// The word names a time.
    pub(super) time: bool,
    /// The word is or contains a number.
    pub(super) number: bool,
    /// The word begins with a digit.
    pub(super) digits: bool,
    /// The word reports a change.
    pub(super) change: bool,
    /// The word is a number or a month: a value that another statement may contradict.
    pub(super) value: bool,
}

/// Numbers the stems of all texts of one ranking; each word's stem is computed once.
pub(super) struct Lexicon {
    words: HashMap<String, Word>,
    stems: HashMap<String, Stem>,
    /// The text of each stem.
    texts: Vec<String>,
}

/// A cached word that all searches on one OS thread share. The stem is kept as text, because each
/// search numbers stems differently.
struct Form {
    stem: Box<str>,
    marks: Marks,
}

thread_local! {
    /// Cache of the words of the texts that earlier searches scored, because the next search mostly
    /// scores texts with the same words.
    static FORMS: RefCell<HashMap<Box<str>, Form>> = RefCell::default();
}

impl Lexicon {
    /// Returns an empty lexicon. Its stems are English stems, as in the ArangoSearch view.
    pub(super) fn new() -> Self {
        Self { words: HashMap::new(), stems: HashMap::new(), texts: Vec::new() }
    }

    /// Returns the words of a text, in order.
    pub(super) fn read(&mut self, text: &str) -> Vec<Word> {
        word_ranges(text).into_iter().map(|range| self.word(&text[range])).collect()
    }

    /// Returns the words of a text, in order. An identifier is followed by the words that it is
    /// made of, because a question names `maxTokens` as "max tokens", too.
    pub(super) fn read_parted(&mut self, text: &str) -> Vec<Word> {
        let mut words = Vec::new();
        for range in word_ranges(text) {
            let word = &text[range];
            words.push(self.word(word));
            words.extend(identifier_words(word).into_iter().map(|part| self.word(part)));
        }
        words
    }

    /// Returns the stem of a word, and its marks, which say what the word names. The word may be in
    /// upper or lower case.
    pub(super) fn word(&mut self, raw: &str) -> Word {
        if let Some(word) = self.words.get(raw) {
            return *word;
        }
        let word = FORMS.with_borrow_mut(|forms| {
            if let Some(form) = forms.get(raw) {
                return self.numbered(form);
            }
            if forms.len() >= RANK_FORMS_MAX {
                forms.clear();
            }
            let form = formed(raw);
            let word = self.numbered(&form);
            if raw.len() <= RANK_FORM_BYTES_MAX {
                forms.insert(raw.into(), form);
            }
            word
        });
        self.words.insert(raw.to_owned(), word);
        word
    }

    /// Returns the texts of all stems, in the order of their numbers.
    pub(super) fn stems(&self) -> &[String] {
        &self.texts
    }

    /// Returns the subject of a text with the given stems.
    pub(super) fn topic(&self, stems: impl Iterator<Item = Stem>) -> Topic {
        Topic::of(stems.filter_map(|stem| self.texts.get(stem as usize)).map(String::as_str))
    }

    /// Whether a stem counts in the subject of a text.
    pub(super) fn has_topic(&self, stem: Stem) -> bool {
        self.texts.get(stem as usize).is_some_and(|text| word_vectors::is_known(text))
    }

    fn numbered(&mut self, form: &Form) -> Word {
        let next = Stem::try_from(self.stems.len()).unwrap_or(Stem::MAX);
        let stem = match self.stems.get(&*form.stem) {
            Some(stem) => *stem,
            None => {
                self.texts.push(form.stem.to_string());
                *self.stems.entry(form.stem.to_string()).or_insert(next)
            }
        };
        Word { stem, marks: form.marks }
    }
}

fn formed(raw: &str) -> Form {
    let plain = plain(raw);
    let stem = Stemmer::new(Algorithm::English).stem(&plain).into_owned().into();
    Form { stem, marks: marks(&plain) }
}

/// Returns a text in lower case, with each typographic apostrophe replaced by `'`.
pub(super) fn plain(word: &str) -> String {
    word.to_lowercase().replace('’', "'")
}

/// Splits a text into words, which are sequences of letters and digits. A word also includes
/// underscores, apostrophes and full stops between its letters, and combining marks (accents, vowel
/// signs, joiners). Each ideograph is a word of its own.
pub(super) fn word_ranges(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut open: Option<usize> = None;
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let inside = open.is_some()
            && (c == '_'
                || is_mark(c)
                || (matches!(c, '\'' | '’' | '.')
                    && characters.peek().is_some_and(|(_, next)| next.is_alphanumeric())));
        if is_ideograph(c) {
            found.extend(open.take().map(|start| start..at));
            found.push(at..at + c.len_utf8());
        } else if c.is_alphanumeric() || inside {
            open.get_or_insert(at);
        } else {
            found.extend(open.take().map(|start| start..at));
        }
    }
    found.extend(open.map(|start| start..text.len()));
    found
}

/// Returns the words that an identifier is made of: `max` and `Tokens` of `maxTokens`, `max_tokens`
/// or `max.Tokens`. Returns nothing for another word, such as a number or an abbreviation.
pub(super) fn identifier_words(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut begin = 0;
    let mut before = None;
    let mut characters = word.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let is_lower_next = characters.peek().is_some_and(|(_, next)| next.is_lowercase());
        let rises = c.is_uppercase()
            && before
                .is_some_and(|b: char| b.is_lowercase() || (b.is_uppercase() && is_lower_next));
        let divides = matches!(c, '_' | '.');
        if rises || divides {
            parts.push(&word[begin..at]);
            begin = if divides { at + c.len_utf8() } else { at };
        }
        before = Some(c);
    }
    parts.push(&word[begin..]);
    let is_word =
        |part: &&str| part.chars().filter(|c| c.is_alphabetic()).count() >= IDENTIFIER_LETTERS_MIN;
    match parts.len() {
        0 | 1 => Vec::new(),
        _ => parts.into_iter().filter(is_word).collect(),
    }
}

/// Whether a character extends the character before it (UAX #29) or is a soft hyphen.
fn is_mark(c: char) -> bool {
    let joined = || String::from_iter(['a', c]).graphemes(true).count() == 1;
    !c.is_ascii() && (c == '\u{ad}' || joined())
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// Returns the number of a month (1 to 12) for its long or short name in lower case.
pub(super) fn month(word: &str) -> Option<u32> {
    let at = u32::try_from(MONTHS.iter().position(|name| *name == word)?).ok()?;
    Some(match at {
        0..=11 => at + 1,
        // In `MONTHS`, the short names lack "may", which is also the long name, and have two forms
        // of September.
        12..=15 => at - 11,
        16..=19 => at - 10,
        _ => at - 11,
    })
}

/// Long names of the months, followed by the short names.
const MONTHS: [&str; 24] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "jan",
    "feb",
    "mar",
    "apr",
    "jun",
    "jul",
    "aug",
    "sep",
    "sept",
    "oct",
    "nov",
    "dec",
];

const TIMES: &str = "yesterday today tonight tomorrow ago last next week weeks weekend month months year years day days monday tuesday \
wednesday thursday friday saturday sunday recently soon since summer winter spring fall autumn morning evening afternoon night hour hours minutes";

const NUMBERS: &str = "one two three four five six seven eight nine ten eleven twelve dozen once twice couple several first second third \
hundred thousand";

const CHANGES: &str = "updated update now changed change new newly increased increase recently extended moved moving rescheduled adjusted adjust \
improved latest current currently reached revised already postponed switched swapped bumped shifted replaced longer shorter later earlier instead anymore no longer grown decreased reduced raised";

/// Marks of every word in the lists of times, numbers and changes.
static LISTED: LazyLock<HashMap<&'static str, Marks>> = LazyLock::new(|| {
    let mut listed: HashMap<&'static str, Marks> = HashMap::new();
    TIMES.split(' ').chain(MONTHS).for_each(|word| listed.entry(word).or_default().time = true);
    NUMBERS.split(' ').for_each(|word| listed.entry(word).or_default().number = true);
    CHANGES.split(' ').for_each(|word| listed.entry(word).or_default().change = true);
    listed
});

fn marks(plain: &str) -> Marks {
    let listed = LISTED.get(plain).copied().unwrap_or_default();
    let is_year = plain.len() == 4
        && (plain.starts_with("19") || plain.starts_with("20"))
        && plain.bytes().all(|b| b.is_ascii_digit());
    let digits = plain.starts_with(char::is_numeric);
    let number = digits || listed.number;
    Marks {
        time: is_year || listed.time,
        number,
        digits,
        value: number || month(plain).is_some(),
        change: listed.change,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        word_ranges(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        for (text, wanted) in [
            ("", vec![]),
            ("Hello, world!", vec!["Hello", "world"]),
            ("it's 3.5 km. Ida’s", vec!["it's", "3.5", "km", "Ida’s"]),
            ("snake_case 'quoted'", vec!["snake_case", "quoted"]),
            ("茶を飲むtea", vec!["茶", "を", "飲", "む", "tea"]),
            ("re\u{301}sume\u{301} \u{301}x", vec!["re\u{301}sume\u{301}", "x"]),
            ("हिन्दी में", vec!["हिन्दी", "में"]),
            ("می\u{200c}خواهم", vec!["می\u{200c}خواهم"]),
            ("perce\u{2011}neige – “so”…", vec!["perce", "neige", "so"]),
        ] {
            assert_eq!(words(text), wanted, "{text}");
        }
    }

    #[test]
    fn an_identifier_is_made_of_words() {
        for (word, wanted) in [
            ("maxTokens", vec!["max", "Tokens"]),
            ("max_tokens", vec!["max", "tokens"]),
            ("HTTPServer.new", vec!["HTTP", "Server", "new"]),
            ("__init__", vec!["init"]),
            ("YouTube", vec!["You", "Tube"]),
            ("Tokens", vec![]),
            ("NASA", vec![]),
            ("U.S.A", vec![]),
            ("3.5", vec![]),
            ("Ida’s", vec![]),
        ] {
            assert_eq!(identifier_words(word), wanted, "{word}");
        }
        let mut lexicon = Lexicon::new();
        let read = lexicon.read_parted("Set maxTokens.");
        let plain = lexicon.read("set maxTokens max tokens");
        assert_eq!(read, plain);
    }

    #[test]
    fn one_stem_has_one_number_whatever_the_case_and_ending() {
        let mut lexicon = Lexicon::new();
        let read: Vec<Stem> =
            lexicon.read("Painted PAINTING paints brush").iter().map(|w| w.stem).collect();
        assert_eq!(read[0], read[1]);
        assert_eq!(read[1], read[2]);
        assert_ne!(read[2], read[3]);
        assert_eq!(lexicon.word("Ida’s").stem, lexicon.word("ida").stem);
    }

    #[test]
    fn a_word_may_be_a_time_a_number_a_change_or_a_value() {
        let mut lexicon = Lexicon::new();
        for (word, time, number, change, value) in [
            ("Yesterday", true, false, false, false),
            ("2023", true, true, false, true),
            ("May", true, false, false, true),
            ("seven", false, true, false, true),
            ("moved", false, false, true, false),
            ("recently", true, false, true, false),
            ("boat", false, false, false, false),
        ] {
            let digits = word.starts_with(char::is_numeric);
            let wanted = Marks { time, number, digits, change, value };
            assert_eq!(lexicon.word(word).marks, wanted, "{word}");
        }
    }
}
