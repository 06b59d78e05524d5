//! Finds content that a person reading a page does not notice: invisible characters, image
//! addresses that carry data, and base64 text.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::memory::markup::is_unseen;

/// Minimum length of a sequence of base64 characters that is decoded. 24 characters encode a short
/// instruction of 18 bytes.
const BLOB_CHARS_MIN: usize = 24;
/// Maximum number of bytes of an image's address that are read.
const ADDRESS_BYTES_MAX: usize = 1_024;
/// Maximum distance in bytes from the beginning of a Markdown image (`![`) to its address.
const ALT_BYTES_MAX: usize = 256;

/// Whether a text contains invisible characters that no script needs. These are tag characters
/// outside flag emojis (UTS 51), direction overrides, other direction controls in a text without
/// right-to-left letters, and zero-width characters between two ASCII letters or digits.
pub(super) fn hides(text: &str, steps: &mut u64) -> bool {
    *steps += text.len() as u64;
    let mut rtl = false;
    let mut directed = false;
    let mut flag = false;
    let mut before = ' ';
    let mut held = false;
    for c in text.chars() {
        match c {
            '\u{1f3f4}' => flag = true,
            '\u{e0020}'..='\u{e007f}' if flag => {}
            '\u{e0000}'..='\u{e007f}' | '\u{202d}' | '\u{202e}' => return true,
            '\u{202a}'..='\u{202c}' | '\u{2066}'..='\u{2069}' => directed = true,
            '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' => rtl = true,
            _ => {}
        }
        flag &= matches!(c, '\u{1f3f4}' | '\u{e0020}'..='\u{e007e}');
        if c != '\u{ad}' && !('\u{300}'..='\u{36f}').contains(&c) && is_unseen(c) {
            held |= before.is_ascii_alphanumeric();
            continue;
        }
        if held && c.is_ascii_alphanumeric() {
            return true;
        }
        held = false;
        before = c;
    }
    directed && !rtl
}

/// Whether the text contains an image whose address has a query with a value; showing the image
/// would send this value to another server.
pub(super) fn carries(folded: &str, steps: &mut u64) -> bool {
    *steps += 2 * folded.len() as u64;
    let query = |address: &str| {
        let query = address.split_once('?').map_or("", |(_, query)| query);
        query
            .split('&')
            .any(|pair| pair.split_once('=').is_some_and(|(_, value)| !value.is_empty()))
    };
    let until = |at: usize, ends: &[char]| {
        let rest = &folded[at..folded.floor_char_boundary(at + ADDRESS_BYTES_MAX)];
        &rest[..rest.find(ends).unwrap_or(rest.len())]
    };
    let mut looked = |bytes: usize| *steps += bytes as u64;
    for (at, _) in folded.match_indices("](http") {
        let from = folded.floor_char_boundary(at.saturating_sub(ALT_BYTES_MAX));
        let address = until(at + 2, &[')', ' ', '\n']);
        looked(at - from + address.len());
        if folded[from..at].contains("![") && query(address) {
            return true;
        }
    }
    for (at, tag) in folded.match_indices("<img ") {
        let attributes = until(at + tag.len(), &['>']);
        looked(attributes.len());
        let source = attributes.split_once("src=").map_or("", |(_, source)| source);
        let source = source.trim_start_matches(['"', '\'']);
        let source = source.split(['"', '\'', ' ']).next().unwrap_or_default();
        if source.starts_with("http") && query(source) {
            return true;
        }
    }
    false
}

/// Returns the base64 parts of a text in decoded form; accepts both base64 alphabets, with or
/// without padding.
pub(super) fn decoded(text: &str, steps: &mut u64) -> Vec<String> {
    *steps += text.len() as u64;
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let standard = GeneralPurpose::new(&alphabet::STANDARD, config);
    let for_urls = GeneralPurpose::new(&alphabet::URL_SAFE, config);
    let one_of = |c: char| c.is_ascii_alphanumeric() || "+/-_=".contains(c);
    let runs = text.split(|c: char| !one_of(c)).filter(|run| run.len() >= BLOB_CHARS_MIN);
    runs.filter_map(|run| {
        // A single character after the last group of four encodes no whole byte, so it is dropped.
        let run = run.trim_end_matches('=');
        let run = &run[..run.len() - usize::from(run.len() % 4 == 1)];
        let bytes = standard.decode(run).or_else(|_| for_urls.decode(run)).ok()?;
        String::from_utf8(bytes).ok()
    })
    .collect()
}

/// Beginnings of escapes that stand for one character, each with the base of the number that
/// follows, the most digits of the number, and the end of the escape.
const ESCAPES: [(&str, u32, usize, &str); 7] = [
    ("&#x", 16, 6, ";"),
    ("&#X", 16, 6, ";"),
    ("&#", 10, 7, ";"),
    ("\\u", 16, 4, ""),
    ("\\x", 16, 2, ""),
    ("%", 16, 2, ""),
    ("=", 16, 2, ""),
];

/// Returns the text with the escapes of HTML, JSON, URLs and quoted-printable decoded; `None` if it
/// has none.
pub(super) fn unescaped(text: &str, steps: &mut u64) -> Option<String> {
    *steps += text.len() as u64;
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut found = false;
    while let Some(at) = rest.find(['&', '\\', '%', '=']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (decoded, length) = escape(rest).unwrap_or((None, 0));
        if length == 0 {
            let plain = rest.chars().next().map_or(0, char::len_utf8);
            out.push_str(&rest[..plain]);
            rest = &rest[plain..];
            continue;
        }
        found = true;
        out.extend(decoded);
        rest = &rest[length..];
    }
    out.push_str(rest);
    found.then_some(out)
}

/// Returns the character of the escape at the beginning of a text and the escape's length. A soft
/// line break of quoted-printable (`=` before a line end) has no character.
fn escape(text: &str) -> Option<(Option<char>, usize)> {
    if text.starts_with("=\n") {
        return Some((None, 2));
    }
    ESCAPES.iter().find_map(|(begin, base, digits_max, end)| {
        let number = text.strip_prefix(begin)?;
        let digits = number.chars().take(*digits_max).take_while(|c| c.is_digit(*base)).count();
        let fits = if end.is_empty() { digits == *digits_max } else { digits > 0 };
        if !fits || !number[digits..].starts_with(end) {
            return None;
        }
        let code = u32::from_str_radix(&number[..digits], *base).ok()?;
        Some((char::from_u32(code), begin.len() + digits + end.len()))
    })
}
