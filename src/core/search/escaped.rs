//! Finds a text also where a JSON string spells it with escapes: `é` is `\u00e9` there, and a quote
//! has a backslash before it.
//!
//! A stored text may be JSON, such as the arguments of a tool call, may hold JSON inside other
//! JSON, or may be cut in the middle. So nothing is parsed: each character of the sought text may
//! be spelled plainly or by any of its escapes.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Maximum number of backslashes before an escaped character. Each level of JSON inside a JSON
/// string doubles them and adds at most one, so this covers four levels.
const BACKSLASHES_MAX: usize = 15;
/// Maximum number of characters of the text that one regular expression finds.
const PIECE_CHARS: usize = 256;

/// Whether a text contains the sought text, plainly or with escapes of JSON.
pub fn contains(text: &str, sought: &str) -> bool {
    text.contains(sought)
        || (text.contains('\\')
            && text.char_indices().any(|(at, _)| !ends(text, at, sought).is_empty()))
}

/// Returns where a sought text that begins at the byte `at` of a text may end; empty if it does not
/// begin there.
pub fn ends(text: &str, at: usize, sought: &str) -> BTreeSet<usize> {
    let mut places = BTreeSet::from([at]);
    for c in sought.chars() {
        places = places.into_iter().flat_map(|at| steps(text, at, c)).collect();
        if places.is_empty() {
            break;
        }
    }
    places
}

/// Returns where one spelling of a character that begins at `at` may end.
fn steps(text: &str, at: usize, c: char) -> Vec<usize> {
    let rest = &text[at..];
    let backslashes = rest.bytes().take_while(|byte| *byte == b'\\').count();
    let mut ends = match c {
        '\\' => (at + 1..=at + backslashes.min(BACKSLASHES_MAX + 1)).collect(),
        _ if rest.starts_with(c) => vec![at + c.len_utf8()],
        _ => Vec::new(),
    };
    if (1..=BACKSLASHES_MAX).contains(&backslashes) {
        let behind = &rest[backslashes..];
        if letter(c).is_some_and(|letter| behind.starts_with(letter)) {
            ends.push(at + backslashes + 1);
        }
        ends.extend(units(text, at, c));
    }
    ends
}

/// Returns the end of a character that is spelled by the numbers of its UTF-16 units.
fn units(text: &str, mut at: usize, c: char) -> Option<usize> {
    for unit in c.encode_utf16(&mut [0; 2]) {
        let rest = text.get(at..)?;
        let backslashes = rest.bytes().take_while(|byte| *byte == b'\\').count();
        let digits = rest.get(backslashes..)?.strip_prefix('u')?.get(..4)?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_escaped = (1..=BACKSLASHES_MAX).contains(&backslashes) && is_hex;
        if !is_escaped || u16::from_str_radix(digits, 16).ok() != Some(*unit) {
            return None;
        }
        at += backslashes + 1 + digits.len();
    }
    Some(at)
}

/// Returns the character that follows the backslash in the short escape of a character (RFC 8259,
/// section 7), except a backslash itself.
fn letter(c: char) -> Option<char> {
    match c {
        '"' | '/' => Some(c),
        '\u{8}' => Some('b'),
        '\u{c}' => Some('f'),
        '\n' => Some('n'),
        '\r' => Some('r'),
        '\t' => Some('t'),
        _ => None,
    }
}

/// Returns regular expressions that match the pieces of a text, plainly or with escapes of JSON.
/// They use only what ICU and `fancy_regex` read in the same way.
pub fn patterns(sought: &str) -> Vec<String> {
    let chars: Vec<char> = sought.chars().collect();
    chars.chunks(PIECE_CHARS).map(|piece| piece.iter().map(|c| pattern(*c)).collect()).collect()
}

fn pattern(c: char) -> String {
    let most = BACKSLASHES_MAX;
    let mut out = match c {
        '\\' => format!(r"(?:\\{{1,{}}}", most + 1),
        _ => format!(r"(?:\x{{{:x}}}", u32::from(c)),
    };
    if let Some(letter) = letter(c) {
        write!(out, r"|\\{{1,{most}}}\x{{{:x}}}", u32::from(letter)).expect("a text takes all");
    }
    out.push('|');
    for unit in c.encode_utf16(&mut [0; 2]) {
        write!(out, r"\\{{1,{most}}}u").expect("a text takes all");
        for digit in format!("{unit:04x}").chars() {
            match digit.is_ascii_digit() {
                true => out.push(digit),
                false => out.extend(['[', digit, digit.to_ascii_uppercase(), ']']),
            }
        }
    }
    out.push(')');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_in_each_spelling_that_json_allows() {
        for (text, sought) in [
            ("to José Roe", "José Roe"),
            (r#"{"to":"Jos\u00e9 Roe"}"#, "José Roe"),
            (r#"{"to":"Jos\u00E9\u0020Roe"}"#, "José Roe"),
            (r#"{\"to\":\"Jos\\u00e9 Roe\"}"#, "José Roe"),
            (r#""say \"no\"""#, r#"say "no""#),
            (r#""{\"say\": \"say \\\"no\\\"\"}""#, r#"say "no""#),
            (r#""quay 4\nJetty""#, "quay 4\nJetty"),
            (r#""C:\\berths\\four""#, r"C:\berths\four"),
            (r#""a\/b/c""#, "a/b/c"),
            (r#""\ud83d\uDE80 ahoy""#, "\u{1f680} ahoy"),
            (r#""\u004aane""#, "Jane"),
        ] {
            assert!(contains(text, sought), "{sought} in {text}");
        }
    }

    #[test]
    fn other_texts_are_not_found() {
        for (text, sought) in [
            (r#""Jos\u00ea Roe""#, "José Roe"),
            (r#""Jos\u00e""#, "José"),
            (r"Ja\ne", "Jane"),
            (r#""\ud83d ahoy""#, "\u{1f680} ahoy"),
            ("quay 4nJetty", "quay 4\nJetty"),
            ("", "Jane"),
        ] {
            assert!(!contains(text, sought), "{sought} in {text}");
        }
    }

    #[test]
    fn a_long_text_is_cut_into_expressions_of_bounded_length() {
        let patterns = patterns(&"\u{1f680}".repeat(PIECE_CHARS + 1));
        assert_eq!(patterns.len(), 2);
        assert!(patterns[0].len() < 32 * 1024, "{}", patterns[0].len());
        assert_eq!(
            super::patterns("J\n"),
            [r"(?:\x{4a}|\\{1,15}u004[aA])(?:\x{a}|\\{1,15}\x{6e}|\\{1,15}u000[aA])"]
        );
    }
}
