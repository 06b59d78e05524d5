//! Unicode normalisation for analyzers: canonical composition (NFC) and the removal of accents.

use std::collections::HashMap;
use std::sync::OnceLock;

const DATA: &str = include_str!("unicode.txt");

/// Constants to decompose Hangul syllables by computation (Unicode Standard, section 3.12).
const HANGUL: Hangul = Hangul { syllables: 0xAC00, lead: 0x1100, vowel: 0x1161, tail: 0x11A7 };
const VOWELS: u32 = 21;
const TAILS: u32 = 28;
const SYLLABLES: u32 = 19 * VOWELS * TAILS;

struct Hangul {
    syllables: u32,
    lead: u32,
    vowel: u32,
    tail: u32,
}

struct Tables {
    parts: HashMap<char, Vec<char>>,
    wholes: HashMap<(char, char), char>,
    classes: HashMap<char, u8>,
    marks: Vec<(u32, u32)>,
}

/// Returns a text in canonical composition (NFC).
pub(super) fn composed(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let tables = tables();
    compose(decomposed(text, tables), tables)
}

/// Removes accents from a text: decomposes it, drops the non-spacing marks, and composes it again.
pub(super) fn without_accents(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let tables = tables();
    let mut chars = decomposed(text, tables);
    chars.retain(|c| !tables.is_mark(*c));
    compose(chars, tables)
}

/// Returns a text in canonical decomposition (NFD).
#[cfg(feature = "conformance")]
pub(super) fn decomposed_text(text: &str) -> String {
    decomposed(text, tables()).into_iter().collect()
}

/// Whether a character is a non-spacing mark.
#[cfg(feature = "conformance")]
pub(super) fn is_mark(c: char) -> bool {
    !c.is_ascii() && tables().is_mark(c)
}

impl Tables {
    fn class(&self, c: char) -> u8 {
        self.classes.get(&c).copied().unwrap_or(0)
    }

    fn is_mark(&self, c: char) -> bool {
        let c = u32::from(c);
        let at = self.marks.partition_point(|(_, last)| *last < c);
        self.marks.get(at).is_some_and(|(first, _)| *first <= c)
    }
}

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| read(DATA).expect("the excerpt is part of the program"))
}

fn read(data: &str) -> Option<Tables> {
    let mut tables = Tables {
        parts: HashMap::new(),
        wholes: HashMap::new(),
        classes: HashMap::new(),
        marks: Vec::new(),
    };
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let range = |text: &str| {
        let (first, last) = text.split_once('-')?;
        Some((number(first)?, number(last)?))
    };
    for line in data.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            [kind @ ("D" | "X"), code, parts @ ..] => {
                let code = char::from_u32(number(code)?)?;
                let parts =
                    parts.iter().map(|part| char::from_u32(number(part)?)).collect::<Option<_>>();
                let parts: Vec<char> = parts?;
                if let ("D", [first, second]) = (*kind, parts.as_slice()) {
                    tables.wholes.insert((*first, *second), code);
                }
                tables.parts.insert(code, parts);
            }
            ["C", codes, class] => {
                let (first, last) = range(codes)?;
                let class = class.parse().ok()?;
                tables
                    .classes
                    .extend((first..=last).filter_map(char::from_u32).map(|mark| (mark, class)));
            }
            ["M", codes] => tables.marks.push(range(codes)?),
            _ => return None,
        }
    }
    Some(tables)
}

/// Returns the complete canonical decomposition of a text, with marks in canonical order.
fn decomposed(text: &str, tables: &Tables) -> Vec<char> {
    let mut out = Vec::with_capacity(text.len());
    for c in text.chars() {
        decompose(c, tables, &mut out);
    }
    let mut at = 0;
    while at < out.len() {
        let length = out[at..].iter().take_while(|c| tables.class(**c) != 0).count();
        out[at..at + length].sort_by_key(|c| tables.class(*c));
        at += length.max(1);
    }
    out
}

fn decompose(c: char, tables: &Tables, out: &mut Vec<char>) {
    let syllable = u32::from(c).wrapping_sub(HANGUL.syllables);
    if syllable < SYLLABLES {
        let (vowel, tail) = (syllable / TAILS % VOWELS, syllable % TAILS);
        let lead = HANGUL.lead + syllable / (VOWELS * TAILS);
        let tail = (tail > 0).then_some(HANGUL.tail + tail);
        let parts = [Some(lead), Some(HANGUL.vowel + vowel), tail];
        out.extend(parts.into_iter().flatten().filter_map(char::from_u32));
        return;
    }
    match tables.parts.get(&c) {
        // The recursion ends, because no character occurs in its own decomposition.
        Some(parts) => parts.iter().for_each(|part| decompose(*part, tables, out)),
        None => out.push(c),
    }
}

fn compose(chars: Vec<char>, tables: &Tables) -> String {
    let mut out: Vec<char> = Vec::with_capacity(chars.len());
    let mut starter: Option<usize> = None;
    let mut last_class = 0;
    for c in chars {
        let class = tables.class(c);
        if let Some(at) = starter {
            let adjacent = at + 1 == out.len();
            if (adjacent || last_class < class)
                && let Some(whole) = pair(out[at], c, tables)
            {
                out[at] = whole;
                continue;
            }
        }
        if class == 0 {
            starter = Some(out.len());
        }
        last_class = class;
        out.push(c);
    }
    out.into_iter().collect()
}

fn pair(first: char, second: char, tables: &Tables) -> Option<char> {
    let (a, b) = (u32::from(first), u32::from(second));
    let (lead, vowel) = (a.wrapping_sub(HANGUL.lead), b.wrapping_sub(HANGUL.vowel));
    if lead < 19 && vowel < VOWELS {
        return char::from_u32(HANGUL.syllables + (lead * VOWELS + vowel) * TAILS);
    }
    let (syllable, tail) = (a.wrapping_sub(HANGUL.syllables), b.wrapping_sub(HANGUL.tail));
    if syllable < SYLLABLES && syllable % TAILS == 0 && (1..TAILS).contains(&tail) {
        return char::from_u32(a + tail);
    }
    tables.wholes.get(&(first, second)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn composition_is_canonical() {
        let cases = [
            ("e\u{301}", "é"),
            ("a\u{302}\u{323}", "ậ"),
            ("\u{1100}\u{1161}\u{11A8}", "각"),
            ("\u{212B}", "Å"),
            ("\u{958}", "\u{915}\u{93C}"),
            ("plain", "plain"),
        ];
        for (given, wanted) in cases {
            assert_eq!(composed(given), wanted, "{given}");
        }
    }

    #[test]
    fn accents_go_and_letters_stay() {
        let cases = [
            ("dïäcríticš", "diacritics"),
            ("Ångström", "Angstrom"),
            ("äñḏ ţhéäter", "and theater"),
            ("각", "각"),
            ("ø ł ß", "ø ł ß"),
            ("й", "и"),
        ];
        for (given, wanted) in cases {
            assert_eq!(without_accents(given), wanted, "{given}");
        }
    }
}
