//! Words as the scorer knows them: stems by number, and what a word may be (a date, a number, a sign that something changed).

use std::collections::HashMap;
use std::ops::Range;

use frostem::{Algorithm, Stemmer};

/// Number of a stem in its [`Lexicon`].
pub(super) type Stem = u32;

/// A word of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) stem: Stem,
    pub(super) marks: Marks,
}

/// What a word may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// It names a time.
    pub(super) time: bool,
    /// It is or holds a number.
    pub(super) number: bool,
    /// It says that something is not as it was.
    pub(super) change: bool,
    /// It is a number or names a month: what another statement may say otherwise.
    pub(super) value: bool,
}

/// Every word met so far, each stemmed once.
pub(super) struct Lexicon {
    stemmer: Stemmer,
    words: HashMap<String, Word>,
    stems: HashMap<String, Stem>,
}

impl Lexicon {
    /// No words yet; stems are English, as those of the view are.
    pub(super) fn new() -> Self {
        Self {
            stemmer: Stemmer::new(Algorithm::English),
            words: HashMap::new(),
            stems: HashMap::new(),
        }
    }

    /// The words of a text, in order.
    pub(super) fn read(&mut self, text: &str) -> Vec<Word> {
        word_ranges(text).into_iter().map(|range| self.word(&text[range])).collect()
    }

    /// One word, in any case.
    pub(super) fn word(&mut self, raw: &str) -> Word {
        if let Some(word) = self.words.get(raw) {
            return *word;
        }
        let plain = plain(raw);
        let stemmed = self.stemmer.stem(&plain).into_owned();
        let next = Stem::try_from(self.stems.len()).unwrap_or(Stem::MAX);
        let stem = *self.stems.entry(stemmed).or_insert(next);
        let word = Word { stem, marks: marks(&plain) };
        self.words.insert(raw.to_owned(), word);
        word
    }
}

/// Lower case, with one kind of apostrophe.
pub(super) fn plain(word: &str) -> String {
    word.to_lowercase().replace('’', "'")
}

/// Runs of letters and digits; an apostrophe or a full stop between two of them stays inside, and each ideograph is a word.
pub(super) fn word_ranges(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut open: Option<usize> = None;
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let inside = open.is_some()
            && (c == '_'
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

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// The number of a month by its name, long or short, in lower case.
pub(super) fn month(word: &str) -> Option<u32> {
    let at = u32::try_from(MONTHS.iter().position(|name| *name == word)?).ok()?;
    Some(match at {
        0..=11 => at + 1,
        // The short names leave out May, and September has two.
        12..=15 => at - 11,
        16..=19 => at - 10,
        _ => at - 11,
    })
}

/// Names of months, long and short.
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
improved latest current currently reached revised already postponed switched instead anymore no longer grown decreased reduced raised";

fn marks(plain: &str) -> Marks {
    let among = |list: &str| list.split(' ').any(|word| word == plain);
    let is_year = plain.len() == 4
        && (plain.starts_with("19") || plain.starts_with("20"))
        && plain.bytes().all(|b| b.is_ascii_digit());
    let number = plain.starts_with(|c: char| c.is_numeric()) || among(NUMBERS);
    Marks {
        time: is_year || month(plain).is_some() || among(TIMES),
        number,
        value: number || month(plain).is_some(),
        change: among(CHANGES),
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
        ] {
            assert_eq!(words(text), wanted, "{text}");
        }
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
            assert_eq!(lexicon.word(word).marks, Marks { time, number, change, value }, "{word}");
        }
    }
}
