//! Makes sort keys of texts in a language's order. This order compares letters first, then accents,
//! then case.

use crate::error::{Error, Result};
use crate::text::normal;

/// Supported languages that sort Latin letters like the root locale.
const ROOT: [&str; 9] = ["", "root", "en", "de", "fr", "it", "nl", "pt", "id"];
/// Supported languages with additional letters after `z`, and these letters in order.
const BEHIND_Z: [(&str, &str); 6] =
    [("sv", "åäö"), ("fi", "åäö"), ("da", "æøå"), ("no", "æøå"), ("nb", "æøå"), ("nn", "æøå")];

/// The sort order of a locale.
#[derive(Clone, Copy, Debug)]
pub(in crate::text) struct Collation {
    /// The language's additional letters after `z`, in order.
    behind_z: &'static str,
}

impl Collation {
    /// Returns the sort order of a locale's language, or error 9 for an unsupported language.
    pub(in crate::text) fn of(locale: &str) -> Result<Self> {
        let language = locale.split(['_', '-', '.', '@']).next().unwrap_or_default();
        let tailored = BEHIND_Z.iter().find(|(name, _)| *name == language);
        match tailored {
            _ if locale.contains('@') => {}
            Some((_, behind_z)) => return Ok(Self { behind_z }),
            None if ROOT.contains(&language) => return Ok(Self { behind_z: "" }),
            None => {}
        }
        Err(Error::unsupported(format!(
            "the order of the locale '{locale}' in a collation analyzer"
        )))
    }

    /// Returns the sort key of a text. The bytes of two sort keys compare as the texts do in this
    /// sort order.
    pub(in crate::text) fn key(self, text: &str) -> String {
        let (mut letters, mut accents, mut cases) = (String::new(), String::new(), String::new());
        for c in normal::composed(text).chars() {
            let lower: String = c.to_lowercase().collect();
            let is_upper = !lower.chars().eq([c]);
            let own = self.behind_z.chars().position(|own| lower.chars().eq([own]));
            let parts = match (own, plain(&lower)) {
                (Some(place), _) => {
                    // An additional letter becomes a character after `z`.
                    char::from_u32(u32::from('z') + 1 + place as u32).into_iter().collect()
                }
                (None, Some(parts)) => parts.to_owned(),
                (None, None) => normal::decomposed_text(&lower),
            };
            for part in parts.chars() {
                if normal::is_mark(part) {
                    accents.push(part);
                    continue;
                }
                accents.push('\u{1}');
                cases.push(if is_upper { '\u{2}' } else { '\u{1}' });
                letters.push(class(part));
                letters.push(part);
            }
        }
        format!("{letters}\u{0}{accents}\u{0}{cases}")
    }
}

/// Returns the base letters of a letter that Unicode does not decompose, such as `ss` for `ß`.
fn plain(letter: &str) -> Option<&'static str> {
    Some(match letter {
        "ß" => "ss",
        "æ" => "ae",
        "œ" => "oe",
        "ø" => "o\u{338}",
        "đ" => "d\u{335}",
        "ł" => "l\u{335}",
        _ => return None,
    })
}

/// Returns the rank of a character: blanks come first, then punctuation and symbols, then digits,
/// then letters.
fn class(c: char) -> char {
    match c {
        'z'..='\u{7F}' => '\u{4}',
        c if c.is_whitespace() || c.is_control() => '\u{1}',
        c if c.is_numeric() => '\u{3}',
        c if c.is_alphabetic() => '\u{4}',
        _ => '\u{2}',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_come_before_accents_and_accents_before_case() {
        let sorted = |locale: &str, words: &[&'static str]| {
            let collation = Collation::of(locale).unwrap();
            let mut words = words.to_vec();
            words.sort_by_key(|word| collation.key(word));
            words
        };
        let words = ["z", "ö", "b", "Å", "a", "å", "ab", "A", "1", " ", "-"];
        assert_eq!(sorted("en", &words), [" ", "-", "1", "a", "A", "å", "Å", "ab", "b", "ö", "z"]);
        assert_eq!(sorted("sv", &words), [" ", "-", "1", "a", "A", "ab", "b", "z", "å", "Å", "ö"]);
        assert!(Collation::of("pl").is_err());
    }
}
