//! Recognizes block tags (`<block>`, `</block>`) in a text, in any spelling, and escapes these
//! tags, so that the text cannot begin or end a block.

use std::borrow::Cow;

/// Name of the tags that enclose a block in the window.
const WORD: &str = "block";

/// Whether a text contains a block tag.
pub fn has_block_markup(text: &str) -> bool {
    tags(text).next().is_some()
}

/// Returns the text with `&lt;` for the `<` of each block tag.
pub fn escaped(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    for at in tags(text) {
        out.push_str(&text[copied..at]);
        out.push_str("&lt;");
        copied = at + 1;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// Returns the text as a window shows it: with escaped block tags if `is_escaped` is true,
/// otherwise unchanged.
pub fn display_text(text: &str, is_escaped: bool) -> Cow<'_, str> {
    if is_escaped { escaped(text) } else { Cow::Borrowed(text) }
}

/// Returns whether a reader may overlook the character. This holds for zero-width characters,
/// bidirectional controls, combining marks, variation selectors and Unicode's tag characters.
pub fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{300}'..='\u{36f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e01ef}')
}

/// Returns the byte positions of the block tags in a text.
fn tags(text: &str) -> impl Iterator<Item = usize> {
    text.match_indices('<').map(|(at, _)| at).filter(|at| is_tag(&text[at + 1..]))
}

/// Returns whether a `<` that is followed by the text `after` begins a block tag. Models read tags
/// leniently, so spaces, capitals and invisible characters in a tag are ignored. `<blocks>` and
/// `<blockquote>` are not block tags.
fn is_tag(after: &str) -> bool {
    let seen = after.chars().filter(|c| !is_unseen(*c) && (c.is_whitespace() || !c.is_control()));
    let mut word = seen.skip_while(|c| *c == '/' || c.is_whitespace());
    let mut letters = WORD.chars();
    letters.all(|letter| word.next().is_some_and(|c| c.eq_ignore_ascii_case(&letter)))
        && word.next().is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != '-')
}
