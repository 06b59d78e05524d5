//! The rules: their examples, what they leave alone, and that their cost grows with the text alone.

use super::*;

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

#[test]
fn what_looks_alike_meets_the_same_rules() {
    for rule in RULES.iter().filter(|rule| matches!(rule.how, How::Phrases(_))) {
        let plain = rules_of(rule.example);
        let wide: String = rule
            .example
            .chars()
            .map(|c| {
                if c.is_ascii_alphabetic() {
                    char::from_u32(u32::from(c) + 0xfee0).unwrap()
                } else {
                    c
                }
            })
            .collect();
        for other in [
            rule.example.to_uppercase(),
            rule.example.replace(' ', "\u{a0} \n\t"),
            rule.example.replace('e', "\u{435}").replace('o', "\u{43e}"),
            wide,
            Folded::of(rule.example).text,
        ] {
            // An address is none in wide letters or with other letters in it.
            if rule.id != "exfiltration" || other.contains("https://collect.example") {
                assert_eq!(rules_of(&other), plain, "{other}");
            }
        }
        let spaced: String = rule.example.chars().flat_map(|c| [c, '\u{200b}']).collect::<String>();
        let found = rules_of(&spaced);
        assert!(found.contains(&"hidden_text"), "{spaced}");
        assert!(plain.iter().all(|id| found.contains(id)), "{}: {found:?}", rule.id);
    }
}

#[test]
fn each_mark_begins_with_what_is_looked_for() {
    for rule in RULES {
        if let How::Marks(marks) = rule.how {
            for mark in marks {
                assert!(mark.starts_with(BEGINNINGS), "{mark}");
                assert!(
                    rules_of(&format!("a {} b", mark.to_uppercase())).contains(&rule.id),
                    "{mark}"
                );
            }
        }
    }
}

/// Steps for each byte of a text, at most: an image's address is looked at up to a bound, and each word may begin some phrases.
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
    let long = "a ".repeat(TAINT_BYTES_MAX);
    let scanned = scan(&long);
    assert_eq!(scanned.rules, [TOO_LONG]);
    assert_eq!(scanned.steps, scan(&long[..TAINT_BYTES_MAX]).steps);
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

proptest::proptest! {
    #[test]
    fn a_scan_is_the_same_each_time_and_never_panics(text in ".{0,300}") {
        proptest::prop_assert_eq!(scan(&text), scan(&text));
    }
}
