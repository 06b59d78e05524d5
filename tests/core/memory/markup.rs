//! Tests that only block tags in a text are escaped.

use std::borrow::Cow;

use vctx_core::memory::markup::{escaped, has_block_markup};

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
