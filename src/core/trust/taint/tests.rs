//! Tests that variants of each taint rule's example (case, spaces, look-alikes) match the rule, and
//! that the table of rules is consistent.

use super::*;

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
            // A web address with full-width or Cyrillic letters does not count as an address.
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
