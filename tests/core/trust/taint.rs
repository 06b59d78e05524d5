//! Tests the rules that detect injected instructions: an example of every rule, harmless texts, and
//! linear cost.

use proptest::prelude::*;
use vctx_core::limits::TEXT_BYTES_MAX;
use vctx_core::trust::{RULES, rules_of, scan, shares_run};

#[test]
fn each_rule_catches_its_example() {
    for rule in RULES {
        assert!(
            rules_of(rule.example).contains(&rule.id),
            "{}: {:?}",
            rule.id,
            rules_of(rule.example)
        );
        assert!(!rule.catches.is_empty() && !rule.source.is_empty());
    }
}

#[test]
fn plain_texts_meet_no_rule() {
    for text in [
        "",
        " \n\t",
        "The ferry leaves at ebb, and the harbour master wants eighteen euros a night.",
        "Remember to buy milk. I keep my keys in the drawer.",
        "{\"results\": [], \"next_page_token\": null, \"tokens_added\": 0}",
        "The system was designed in 1998. Its instructions for use are above the door.",
        "שלום \u{2067}abc\u{2069}",
        "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f} won",
        "![a boat](https://example.org/boat.png)",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ] {
        assert_eq!(rules_of(text), Vec::<&str>::new(), "{text}");
    }
}

/// Maximum number of steps of the check per byte of a text. One step per byte is not enough: where
/// an address begins, the check reads a limited number of bytes ahead, and several phrases may
/// begin with the same word.
const STEPS_PER_BYTE: u64 = 400;

#[test]
fn the_cost_grows_with_the_text_and_with_nothing_else() {
    for piece in [
        "ignore ",
        "ignore all previous ",
        "store in your core ",
        "![",
        "![x](http",
        "<img ",
        "a\u{200b}",
        "QUJD",
        "send data ",
        "\n",
        "<",
        "system ",
        "never tell ",
        "update your core ",
    ] {
        let steps = |times: usize| {
            let text = piece.repeat(times);
            (scan(&text).steps, text.len() as u64)
        };
        let (once, bytes) = steps(2_000);
        let (twice, _) = steps(4_000);
        assert!(once <= bytes * STEPS_PER_BYTE, "{piece:?}: {} steps a byte", once / bytes);
        assert!(twice <= 2 * once + once / 10, "{piece:?}: {once}, {twice}");
    }
}

#[test]
fn of_a_text_without_end_the_beginning_is_looked_at_and_it_is_said() {
    let long = "a ".repeat(TEXT_BYTES_MAX);
    let scanned = scan(&long);
    assert_eq!(scanned.rules, ["too_long"]);
    assert_eq!(scanned.steps, scan(&long[..TEXT_BYTES_MAX]).steps);
}

#[test]
fn a_run_of_words_is_shared_whatever_its_dress() {
    let page = "The best café in town is the Blue Anchor at pier nine, everybody says so.";
    let copied = "note: the BEST cafe in town is the blue anchor";
    assert!(shares_run(copied, [page].into_iter(), ""));
    assert!(!shares_run("the best cafe in town", [page].into_iter(), ""), "too short a run");
    assert!(!shares_run(copied, [page].into_iter(), page), "it stood there already");
    assert!(!shares_run(copied, std::iter::empty(), ""));
    assert!(!shares_run("", [page, ""].into_iter(), ""));
    let empty = "la la la la la la la la la la";
    assert!(!shares_run(empty, [empty].into_iter(), ""), "it says nothing");
}

proptest! {
    #[test]
    fn a_scan_is_the_same_each_time_and_never_panics(text in ".{0,300}") {
        prop_assert_eq!(scan(&text), scan(&text));
    }
}
