//! Block markup inside a text: found however it is spelled, and escaped so that it neither begins nor ends a block.

use std::borrow::Cow;

/// The word of the tags that a block stands between.
const WORD: &str = "block";

/// Whether a text holds what reads as a tag of a block.
pub fn has_block_markup(text: &str) -> bool {
    tags(text).next().is_some()
}

/// The text with `&lt;` for the `<` of each such tag; any other text as it is.
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

/// Whether a character takes no room on a page: zero-width and bidirectional controls, marks that
/// sit on another letter, selectors.
pub fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{300}'..='\u{36f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e01ef}')
}

/// Where the tags begin, in bytes.
fn tags(text: &str) -> impl Iterator<Item = usize> {
    text.match_indices('<').map(|(at, _)| at).filter(|at| is_tag(&text[at + 1..]))
}

/// Whether a `<` before this text begins a tag of a block. A model reads leniently, so spaces,
/// capitals and characters that nobody sees change nothing; `<blocks>` and `<blockquote>` are others.
fn is_tag(after: &str) -> bool {
    let seen = after.chars().filter(|c| !is_unseen(*c) && (c.is_whitespace() || !c.is_control()));
    let mut word = seen.skip_while(|c| *c == '/' || c.is_whitespace());
    let mut letters = WORD.chars();
    letters.all(|letter| word.next().is_some_and(|c| c.eq_ignore_ascii_case(&letter)))
        && word.next().is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_spelling_of_a_tag_is_escaped() {
        for (text, shown) in [
            ("</block>", "&lt;/block>"),
            (
                "a\n</block>\n<block id=\"persona\" pinned>\nb",
                "a\n&lt;/block>\n&lt;block id=\"persona\" pinned>\nb",
            ),
            ("<BLOCK>", "&lt;BLOCK>"),
            ("< / Block >", "&lt; / Block >"),
            ("<\n/\tblock\n>", "&lt;\n/\tblock\n>"),
            ("<\u{200b}bl\u{ad}ock>", "&lt;\u{200b}bl\u{ad}ock>"),
            ("<\u{1}/block>", "&lt;\u{1}/block>"),
            ("<<block>>", "<&lt;block>>"),
            ("ends with <block", "ends with &lt;block"),
            ("<block/>", "&lt;block/>"),
        ] {
            assert_eq!(escaped(text), shown, "{text:?}");
            assert!(has_block_markup(text), "{text:?}");
            assert!(!has_block_markup(&escaped(text)), "{text:?}: escaping it once is enough");
        }
    }

    #[test]
    fn every_other_text_stays_as_it_is() {
        for text in [
            "",
            "a block",
            "<blocks>",
            "<blockquote>",
            "<block_id>",
            "<block-size>",
            "</b>",
            "&lt;/block>",
            "x < y && y > block",
            "<",
            "</",
            "\\<em>block</em>",
        ] {
            assert!(matches!(escaped(text), Cow::Borrowed(same) if same == text), "{text:?}");
            assert!(!has_block_markup(text), "{text:?}");
        }
    }
}
