//! What a reader of a page does not see: characters without room, images that carry something, text in base64.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::memory::markup::is_unseen;

/// Characters of base64 in a row that are decoded: 18 bytes of text, a short order.
const BLOB_CHARS_MIN: usize = 24;
/// Bytes of an address that are looked at.
const ADDRESS_BYTES_MAX: usize = 1_024;
/// Bytes before an address in which its image begins.
const ALT_BYTES_MAX: usize = 256;

/// Whether characters stand there that nobody sees and no script needs: tag characters outside of flags (UTS 51, emoji tag sequences),
/// overrides of direction, other controls of direction in a text without letters that run from right to left, zero-width characters
/// between two letters of ASCII.
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

/// Whether an image's address has a query with a value: what is there leaves when the image is shown.
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

/// Texts that stand there in base64, in either alphabet, with or without padding.
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
        // A run whose last character is alone holds no whole byte there.
        let run = run.trim_end_matches('=');
        let run = &run[..run.len() - usize::from(run.len() % 4 == 1)];
        let bytes = standard.decode(run).or_else(|_| for_urls.decode(run)).ok()?;
        String::from_utf8(bytes).ok()
    })
    .collect()
}
