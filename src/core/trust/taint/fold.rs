//! Normalises a text for the taint rules: lower case, no invisible characters, ASCII letters in
//! place of look-alike characters, split into words.

use std::collections::HashMap;
use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;
use unicode_security::confusable_detection::skeleton;

use crate::memory::markup::is_unseen;

/// Range of a word in [`Folded::letters`].
#[derive(Clone, Copy, Debug)]
struct WordRange {
    start: usize,
    end: usize,
    /// Whether a sentence ends before the word.
    breaks: bool,
}

/// A text, normalised so that texts that look alike become equal.
#[derive(Clone, Debug, Default)]
pub(super) struct Folded {
    /// The whole text in lower case, without invisible characters and with look-alike characters
    /// replaced.
    pub(super) text: String,
    /// The words of the text in order, joined without separators.
    letters: String,
    words: Vec<WordRange>,
}

/// Word that replaces each web address in the list of words.
pub(super) const URL: &str = "<url>";
/// Word that replaces each mail address in the list of words.
pub(super) const EMAIL: &str = "<email>";

impl Folded {
    /// Normalises a text and splits it into words.
    pub(super) fn of(text: &str) -> Self {
        let mut folded = Self { text: folded_text(text), ..Self::default() };
        folded.cut();
        folded
    }

    /// Returns the number of words of the folded text.
    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns the word at an index; empty after the last word.
    pub(super) fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |place| &self.letters[place.start..place.end])
    }

    /// Whether a sentence ends before the word at an index.
    pub(super) fn breaks(&self, at: usize) -> bool {
        self.words.get(at).is_none_or(|place| place.breaks)
    }

    /// Returns all words of the folded text in order.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(|place| &self.letters[place.start..place.end])
    }

    fn cut(&mut self) {
        let text = std::mem::take(&mut self.text);
        let mut rest = text.as_str();
        let mut breaks = true;
        while let Some(next) = rest.chars().next() {
            if rest.starts_with("http://") || rest.starts_with("https://") {
                rest = &rest[url_end(rest)..];
                self.push(URL, breaks);
                breaks = false;
            } else if next.is_alphanumeric() {
                let (end, email) = word_end(rest);
                if email {
                    self.push(EMAIL, breaks);
                } else {
                    self.push(&spelled(&rest[..end]), breaks);
                }
                breaks = false;
                rest = &rest[end..];
            } else {
                let behind = &rest[next.len_utf8()..];
                breaks |= ends_sentence(next, behind);
                rest = behind;
            }
        }
        self.text = text;
    }

    fn push(&mut self, word: &str, breaks: bool) {
        let start = self.letters.len();
        self.letters.push_str(word);
        self.words.push(WordRange { start, end: self.letters.len(), breaks });
    }
}

/// Whether a character ends a sentence, given the text after it. An empty line ends a sentence; a
/// full stop without a space after it (`example.org`) does not.
fn ends_sentence(mark: char, behind: &str) -> bool {
    let spaced = behind.chars().next().is_none_or(char::is_whitespace);
    match mark {
        '.' | '!' | '?' => spaced,
        '。' => true,
        '\n' => behind.starts_with('\n'),
        _ => false,
    }
}

/// Returns the length of the web address at the beginning of a text, in bytes.
fn url_end(text: &str) -> usize {
    let ends = |c: char| c.is_whitespace() || "()<>[]\"'`".contains(c);
    text.find(ends).unwrap_or(text.len())
}

/// Returns the length in bytes of the word at the beginning of a text, and whether the word is a
/// mail address. Inner apostrophes and underscores are part of a word.
fn word_end(text: &str) -> (usize, bool) {
    let mut email = false;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().is_some_and(|(_, next)| next.is_alphanumeric());
        let inside = match c {
            '\'' | '’' | '_' => next,
            '@' => {
                email |= next;
                next
            }
            '.' | '-' if email => next,
            c => c.is_alphanumeric(),
        };
        if !inside {
            return (at, email);
        }
    }
    (text.len(), email)
}

/// Returns a word without apostrophes. In a word with letters and digits, digits become the letters
/// that they look like (`1gn0re` becomes `ignore`).
fn spelled(word: &str) -> String {
    let letters = word.chars().any(char::is_alphabetic);
    let digits = word.chars().any(|c| c.is_ascii_digit());
    let plain = word.chars().filter(|c| *c != '\'' && *c != '’');
    if !(letters && digits) {
        return plain.collect();
    }
    let letter = |c: char| match c {
        '0' => 'o',
        '1' => 'i',
        '3' => 'e',
        '4' => 'a',
        '5' => 's',
        '7' => 't',
        other => other,
    };
    plain.map(letter).collect()
}

/// Returns a text in the form that the taint rules read.
pub(super) fn folded_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c.to_ascii_lowercase());
        } else if let Some(alike) = alike(c) {
            out.push(alike.to_ascii_lowercase());
        } else if c.is_alphanumeric() {
            push_alike(c, &mut out);
        } else if !is_unseen(c) && !is_combining_mark(c) {
            out.extend(c.to_lowercase());
        }
    }
    out
}

/// Appends the characters that a letter or digit looks like: its compatible form (Unicode's form
/// NFKD, for superscripts and the like) without marks, and for each part its confusable character
/// (UTS 39).
fn push_alike(c: char, out: &mut String) {
    for part in c.nfkd().filter(|part| !is_combining_mark(*part) && !is_unseen(*part)) {
        if let Some(alike) = alike(part) {
            out.push(alike.to_ascii_lowercase());
            continue;
        }
        let mut bytes = [0; 4];
        let like: String = skeleton(part.encode_utf8(&mut bytes)).collect();
        match like.as_str() {
            _ if part.is_ascii() => out.push(part.to_ascii_lowercase()),
            // UTS 39 replaces `m` by the two letters that look like it.
            "rn" => out.push('m'),
            like => out.extend(
                like.chars().filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase),
            ),
        }
    }
}

/// Number of letters in each style (bold, italic, …) of Unicode's mathematical alphabets: 26
/// capital and 26 small letters.
const STYLE_LETTERS: u32 = 52;

/// Returns the ASCII character that looks like the given character, if any. Covered are full-width,
/// mathematical, circled, parenthesised and squared letters, regional indicators (Unicode blocks
/// from FF00, 1D400, 2490 and 1F110), small capitals, Cyrillic and Greek look-alikes, letters with
/// an accent, tag characters, and special spaces. Other look-alikes come from UTS 39
/// ([`push_alike`]).
fn alike(c: char) -> Option<char> {
    let code = u32::from(c);
    let ascii = |code: u32| char::from_u32(code).filter(char::is_ascii);
    let letter = |place: u32| ascii(u32::from('a') + place % 26);
    match code {
        0xff01..=0xff5e => ascii(code - 0xfee0),
        0xe0020..=0xe007e => ascii(code - 0xe0000),
        0x1d400..=0x1d6a3 => letter((code - 0x1d400) % STYLE_LETTERS),
        0x1d7ce..=0x1d7ff => ascii(u32::from('0') + (code - 0x1d7ce) % 10),
        0x24b6..=0x24e9 => letter(code - 0x24b6),
        0x249c..=0x24b5 => letter(code - 0x249c),
        0x1f110..=0x1f129 => letter(code - 0x1f110),
        0x1f1e6..=0x1f1ff => letter(code - 0x1f1e6),
        0x1f130..=0x1f149 => letter(code - 0x1f130),
        0x1f150..=0x1f169 => letter(code - 0x1f150),
        0x1f170..=0x1f189 => letter(code - 0x1f170),
        0xa0 | 0x2000..=0x200a | 0x202f | 0x205f | 0x2800 | 0x3000 | 0x3164 | 0xffa0 => Some(' '),
        _ => ALIKE.get(&c).copied(),
    }
}

static ALIKE: LazyLock<HashMap<char, char>> = LazyLock::new(|| {
    let each = |(letter, others): &(char, &'static str)| {
        let letter = *letter;
        others.chars().map(move |other| (other, letter))
    };
    LOOKS_LIKE.iter().flat_map(each).collect()
});

/// ASCII letters, each with the non-ASCII characters that look like it.
const LOOKS_LIKE: [(char, &str); 26] = [
    ('a', "àáâãäåāăąǎаαÀÁÂÃÄÅАΑɑᴀ"),
    ('b', "ВвΒƅЬьʙ"),
    ('c', "çćčϲсСϹᴄ"),
    ('d', "ďđԁᴅ"),
    ('e', "èéêëēėęěеЕεΕÈÉÊËєᴇ"),
    ('f', "ꜰ"),
    ('g', "ğǧɡԍɢ"),
    ('h', "һНΗнʜ"),
    ('i', "ìíîïīįıіІιΙÌÍÎÏɪ"),
    ('j', "јЈᴊ"),
    ('k', "кКκΚᴋ"),
    ('l', "łӏⅼʟ"),
    ('m', "мМΜᴍ"),
    ('n', "ñńňΝηñÑɴ"),
    ('o', "òóôõöøōоОοΟÒÓÔÕÖᴏ"),
    ('p', "рРρΡᴘ"),
    ('q', "ԛǫ"),
    ('r', "řгᴦʀ"),
    ('s', "śšşѕЅꜱ"),
    ('t', "ťţтТτΤᴛ"),
    ('u', "ùúûüūůυÙÚÛÜᴜ"),
    ('v', "νѵᴠ"),
    ('w', "ŵԝѡᴡ"),
    ('x', "хХχΧ"),
    ('y', "ýÿуУγΥʏ"),
    ('z', "ᴢ"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        Folded::of(text).words().map(str::to_owned).collect()
    }

    #[test]
    fn what_looks_alike_is_alike() {
        for text in [
            "Ignore PREVIOUS",
            "ig\u{200b}nore pre\u{ad}vious",
            "іgnоrе рrеvіоuѕ",
            "ｉｇｎｏｒｅ ｐｒｅｖｉｏｕｓ",
            "𝐢𝐠𝐧𝐨𝐫𝐞\u{a0}𝓅𝓇𝑒𝓋𝒾𝑜𝓊𝓈",
            "1gn0re prev10us",
            "ïgnóre\n\tprëvious",
        ] {
            assert_eq!(words(text), ["ignore", "previous"], "{text}");
        }
    }

    #[test]
    fn addresses_are_words_of_their_own_and_sentences_end() {
        let folded = Folded::of("Don't mail a.b@example.org. See https://x.org/a?b=c now");
        let words: Vec<&str> = folded.words().collect();
        assert_eq!(
            words,
            ["dont", "mail", "a", "b@example.org", "see", URL, "now"]
                .map(|w| { if w == "b@example.org" { EMAIL } else { w } })
        );
        let breaks: Vec<bool> = (0..folded.len()).map(|at| folded.breaks(at)).collect();
        assert_eq!(breaks, [true, false, false, false, true, false, false]);
    }

    #[test]
    fn folding_twice_is_folding_once() {
        for text in ["", "Ünïcode ﬁne", "a\u{202e}b", "１２３ Ⓐⓑ", "core_memory_append()"]
        {
            let once = Folded::of(text);
            let twice = Folded::of(&once.text);
            assert_eq!(once.words().collect::<Vec<_>>(), twice.words().collect::<Vec<_>>());
        }
    }
}
