//! Tests the local summarizer on conversations, on unusual texts, and at every limit.

use crate::share;
use proptest::prelude::*;
use vctx_core::memory::TokenCounter as _;
use vctx_core::text::Tiktoken;
use vctx_core::text::local::{Line, summarise};

const CONVERSATION: &str = "\
Ilse: Good morning! I finally signed the lease for the bakery on Lindenstrasse 14 yesterday.
Tom: Wow, that is great news! Congratulations! How do you feel about it?
Ilse: Nervous, to be honest. The oven is from 1987 and the landlord wants 1,350 euros a month.
Tom: That sounds like a lot, but I think it is going to be all right. Do you want me to help with anything?
Ilse: Could you ask your cousin Pavel to look at the wiring? He did the electrics at the brewery, didn't he?
Tom: Yes, he did. I will call him tonight. He is in Ostrava until Thursday, so it may take a few days.
Ilse: No hurry. By the way, the opening day will be the 3rd of May, my grandmother's birthday.
Tom: What a lovely idea! She would have been so happy about it. Will you bake her poppy seed cake?
Ilse: Of course. And rye bread, and the plum tart. But nothing with hazelnuts, because Jonas is allergic.
Tom: I did not know that. Thanks for telling me! I have been giving him nougat all winter, oh no.
Ilse: Ha! He told me he feeds it to the dog. The dog is called Biscuit, it was bound to happen.
Tom: That is so funny. I really have to laugh now. You always have the best stories.
Ilse: The flour comes from the mill in Kettwig, 25 kilos each Tuesday. The miller is a very quiet man.
Tom: I think I know him. He plays the accordion in the church hall, and not badly at all.
Ilse: Then he must play at the opening! I would love that so much. Will you ask him for me, please?
Tom: I will ask him. What colour are you going to paint the shutters? They were green when I was a child.
Ilse: Dark blue, I think, with a yellow sign. My sister Marta is painting it this weekend in her garage.
Tom: That will look wonderful. I will bring the ladder on Saturday if you want me to, just tell me when.";

fn conversation() -> Vec<Line<'static>> {
    let lines = CONVERSATION.lines().filter_map(|line| line.split_once(": "));
    lines.map(|(speaker, text)| Line { speaker, text }).collect()
}

fn counter() -> Tiktoken {
    Tiktoken::default()
}

#[test]
fn it_keeps_more_of_a_conversation_than_chance_does() {
    for tokens_max in [40, 80, 120, 200] {
        let summary = summarise("", &conversation(), 0..=tokens_max, &counter());
        assert!(summary.token_estimate <= tokens_max);
        let is_better = summary.information_drift + 0.1 < summary.random_drift;
        assert!(is_better, "{tokens_max}: {summary:?}");
    }
}

#[test]
fn names_and_numbers_survive_and_small_talk_does_not() {
    let summary = summarise("", &conversation(), 0..=160, &counter());
    let facts = "Lindenstrasse 14|1,350|Pavel|Ostrava|3rd|May|Kettwig|Jonas|Marta";
    for fact in facts.split('|') {
        assert!(summary.content.contains(fact), "no {fact} in\n{}", summary.content);
    }
    let small_talk = ["funny", "Wow"].iter().any(|word| summary.content.contains(word));
    assert!(!small_talk, "{}", summary.content);
}

#[test]
fn a_negation_stays_with_its_fact() {
    let batch = [Line { speaker: "user", text: "I don't eat cashews. Peanuts are not a problem." }];
    let summary = summarise("", &batch, 0..=100, &counter());
    assert_eq!(summary.content, "user: not eat cashews; Peanuts not problem");
    assert_eq!((summary.facts_kept, summary.information_drift), (2, 0.0));
}

#[test]
fn folding_again_and_again_keeps_the_old_beside_the_new() {
    let lines = conversation();
    let (early, late) = lines.split_at(9);
    let first = summarise("", early, 0..=120, &counter());
    let second = summarise(&first.content, late, 0..=120, &counter());
    for fact in ["Lindenstrasse", "Kettwig"] {
        assert!(second.content.contains(fact), "no {fact} in\n{}", second.content);
    }
    assert!(second.token_estimate <= 120 && second.information_drift < second.random_drift);
}

#[test]
fn where_the_old_summary_has_nearly_all_the_room_it_stands() {
    let lines = conversation();
    let (early, late) = lines.split_at(9);
    let first = summarise("", early, 0..=120, &counter());
    let old = first.token_estimate;
    let stands = summarise(&first.content, late, old..=old, &counter());
    assert_eq!((&stands.content, stands.token_estimate), (&first.content, old));
    assert!(stands.information_drift > stands.random_drift, "the batch is lost: {stands:?}");
    let smaller = summarise(&first.content, late, 0..=old, &counter());
    assert!(smaller.token_estimate < old && smaller.content != first.content, "{smaller:?}");
    let folded = summarise(&first.content, late, old..=2 * old, &counter());
    assert!(folded.token_estimate >= old && folded.content != first.content, "{folded:?}");
    let short = summarise(&first.content, late, old..=old - 1, &counter());
    assert!(short.token_estimate < old && !short.content.is_empty(), "{short:?}");
}

#[test]
fn an_empty_batch_leaves_the_summary_as_it_is() {
    let first = summarise("", &conversation(), 0..=150, &counter());
    let second = summarise(&first.content, &[], 0..=150, &counter());
    assert_eq!(second.content, first.content);
    assert_eq!((second.information_drift, second.random_drift), (0.0, 0.0));
}

#[test]
fn odd_texts_meet_every_cap() {
    let giant = format!("start {} end", "the quick brown fox 4711 ".repeat(4_000));
    let blob = "QUJD".repeat(10_000);
    let texts = [
        "",
        "   \n\t ",
        "…—!?",
        "🦀🎉👨‍👩‍👧‍👦",
        "我对花生过敏,密码是四七一一。请记住!",
        "すみません、駅はどこですか",
        "fn main() { let x = vec![1, 2, 3]; println!(\"{x:?}\"); }",
        "a: b: c; d; e",
        "é\u{301}\u{0}\u{feff}",
        "ฉันแพ้ถั่วลิสงและชอบแล่นเรือในวันเสาร์",
        &giant,
        &blob,
    ];
    for text in texts {
        for speaker in ["user", "", ": ;\n", "a very long name of somebody who has many names"] {
            for tokens_max in [0, 1, 2, 5, 17, 300] {
                let batch = [Line { speaker, text }, Line { speaker: "Zoë", text }];
                let summary = summarise(text, &batch, 0..=tokens_max, &counter());
                let head: String = text.chars().take(20).collect();
                assert!(
                    counter().count(&summary.content) <= tokens_max,
                    "{head:?} by {speaker:?} at {tokens_max}"
                );
            }
        }
    }
}

#[test]
fn ideographs_are_kept_in_short_words() {
    let batch = [Line { speaker: "user", text: "我对花生过敏,密码是四七一一。" }];
    let summary = summarise("", &batch, 0..=60, &counter());
    assert!(summary.content.contains("四七一一"), "{}", summary.content);
    assert_eq!(summary.information_drift, 0.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(share(128)))]

    #[test]
    fn the_cap_holds_and_equal_input_gives_equal_output(
        previous in "(\\PC{0,12}(: |; |\n| )){0,12}",
        batch in prop::collection::vec(("\\PC{0,8}", "([A-Za-z0-9]{1,9}[ .?\n]|\\PC{0,6} ){0,40}"), 0..8),
        tokens_max in 0_u64..120,
    ) {
        let lines: Vec<Line<'_>> = batch.iter().map(|(speaker, text)| Line { speaker, text }).collect();
        let summary = summarise(&previous, &lines, 0..=tokens_max, &counter());
        prop_assert!(summary.token_estimate <= tokens_max);
        prop_assert_eq!(counter().count(&summary.content), summary.token_estimate);
        prop_assert!((0.0..=1.0).contains(&summary.information_drift), "{}", summary.information_drift);
        prop_assert!((0.0..=1.0).contains(&summary.random_drift), "{}", summary.random_drift);
        prop_assert_eq!(summarise(&previous, &lines, 0..=tokens_max, &counter()), summary);
    }
}
