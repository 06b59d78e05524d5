//! Tests the local summarizer on conversations, on unusual texts, and at every limit.

use crate::share;
use proptest::prelude::*;
use serde_json::Value;
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

/// Returns a line of a conversation in which each day has six messages.
fn line<'a>(seq: u64, speaker: &'a str, text: &'a str) -> Line<'a> {
    let day = format!("2023-05-{:02}", 8 + seq / 6).parse().unwrap();
    Line { seq, day, speaker, text }
}

fn conversation() -> Vec<Line<'static>> {
    let lines = CONVERSATION.lines().filter_map(|line| line.split_once(": "));
    lines.zip(1..).map(|((speaker, text), seq)| line(seq, speaker, text)).collect()
}

fn counter() -> Tiktoken {
    Tiktoken::default()
}

/// Summarises messages of a user.
fn summary_of(texts: &[&str]) -> String {
    let batch: Vec<Line<'_>> =
        texts.iter().zip(1..).map(|(text, seq)| line(seq, "user", text)).collect();
    summarise("", &batch, 0..=200, &counter()).content
}

/// Returns the texts of a summary's speakers, without days, positions and names.
fn said(summary: &str) -> Vec<&str> {
    let bodies = summary.lines().filter_map(|line| line.split_once(": "));
    bodies
        .flat_map(|(_, body)| body.split(" | "))
        .map(|said| said.split_once(": ").map_or(said, |two| two.1))
        .collect()
}

#[test]
fn it_keeps_more_of_a_conversation_than_chance_does() {
    for tokens_max in [60, 80, 120, 200] {
        let summary = summarise("", &conversation(), 0..=tokens_max, &counter());
        assert!(summary.token_estimate <= tokens_max);
        assert!(summary.information_drift < summary.random_drift, "{tokens_max}: {summary:?}");
    }
}

#[test]
fn names_and_numbers_survive_and_small_talk_does_not() {
    let summary = summarise("", &conversation(), 0..=240, &counter());
    let facts = "Lindenstrasse 14|1,350 euros a month|Ostrava until Thursday|3rd of May|Kettwig|25 kilos|Marta";
    for fact in facts.split('|') {
        assert!(summary.content.contains(fact), "no {fact} in\n{}", summary.content);
    }
    let small_talk = ["funny", "Wow", "lovely"].iter().any(|word| summary.content.contains(word));
    assert!(!small_talk, "{}", summary.content);
}

#[test]
fn a_line_has_days_positions_and_speakers() {
    let batch = [
        line(1, "Mira", "We live in Rotterdam now. The flat costs 1,350 euros a month."),
        line(2, "Tom", "My blood group is O negative."),
        line(90, "Tom", "I fly to Lisbon on 3 December."),
    ];
    let summary = summarise("", &batch, 0..=200, &counter());
    assert_eq!(
        summary.content,
        "8-23 May 2023 #1-90 Mira: We live in Rotterdam now. The flat costs 1,350 euros a month. \
         | Tom: My blood group is O negative. I fly to Lisbon on 3 December."
    );
}

#[test]
fn a_negation_stays_with_its_clause() {
    let content = summary_of(&["I don't eat cashews. Peanuts are not a problem."]);
    assert_eq!(content, "8 May 2023 #1 user: I don't eat cashews. Peanuts are not a problem.");
}

#[test]
fn clauses_are_split_only_where_both_parts_stand_alone() {
    let content = |text: &str| summary_of(&[text]).split_once(": ").map(|two| two.1.to_owned());
    for (text, kept) in [
        (
            "Well, we moved to Rotterdam in May, and my sister is a nurse in Delft.",
            "we moved to Rotterdam in May, and my sister is a nurse in Delft.",
        ),
        ("Wow, congrats! That's great!", ""),
        (
            "If I win the lottery, I'll move to Lisbon.",
            "If I win the lottery, I'll move to Lisbon.",
        ),
        ("Dr. Smith sees me at 5 p.m. on Monday.", "Dr. Smith sees me at 5 p.m. on Monday."),
        (
            "It was nice to see the dentist, but my knee hurts.",
            "It was nice to see the dentist, but my knee hurts.",
        ),
        ("Der Zahnarzttermin ist am 19. November.", "Der Zahnarzttermin ist am 19. November."),
        ("Hello! Yes, my sister and I have a beagle 😊", "my sister and I have a beagle"),
    ] {
        assert_eq!(content(text).unwrap_or_default(), kept, "{text}");
    }
}

#[test]
fn code_tables_and_logs_are_left_out() {
    let texts = [
        "I wrote a parser in Rust.\n```\nfn main() { parse(4711) }\n```",
        "| berth | price |\n| 12 | 40 euros |",
        "{\"berth\": 12, \"price\": 40}",
        "2026-05-08T10:11:12Z ERROR core::disk=full path=/var/lib",
        "- **Boats**: see the harbour\n# Berths and their prices\nThe berths are:\n1. Berth 12",
    ];
    assert_eq!(summary_of(&texts), "8 May 2023 #1 user: I wrote a parser in Rust.");
}

#[test]
fn an_earlier_statement_never_stands_without_the_later_one() {
    let batch = [
        line(1, "user", "My dentist appointment is on 12 November at 15:30."),
        line(
            7,
            "user",
            "I feed the parrot at noon, the goldfish at six and the tortoise on Sundays.",
        ),
        line(13, "user", "The dentist called, they moved me to 19 November at 09:00."),
    ];
    for tokens_max in 0..120 {
        let content = summarise("", &batch, 0..=tokens_max, &counter()).content;
        let (old, new) = (content.contains("12 November"), content.contains("19 November"));
        assert!(new || !old, "{tokens_max}: {content}");
    }
    let batch = [
        line(1, "user", "We live in Utrecht, in the quarter Lombok."),
        line(2, "user", "We have four bicycles, two parrots and a boat."),
        line(90, "user", "We moved to Rotterdam last week."),
    ];
    for tokens_max in 0..80 {
        let content = summarise("", &batch, 0..=tokens_max, &counter()).content;
        let (old, new) = (content.contains("Utrecht"), content.contains("Rotterdam"));
        assert!(new || !old, "{tokens_max}: {content}");
    }
}

#[test]
fn a_message_that_says_what_changed_replaces_a_clause_about_the_same_thing() {
    let batch = [
        line(
            1,
            "user",
            "The registry office in Eutin confirmed us for Saturday, 12 September, at 14:30.",
        ),
        line(2, "assistant", "How lovely, congratulations to both of you!"),
        line(3, "user", "My cousin married in Segeberg on 5 September at 15:00."),
        line(
            8,
            "user",
            "The registry office in Eutin has just phoned, rather embarrassed. So on our Saturday we \
             say yes at 11:15, with the same registrar.",
        ),
    ];
    for tokens_max in 0..120 {
        let content = summarise("", &batch, 0..=tokens_max, &counter()).content;
        let (old, new) = (content.contains("14:30"), content.contains("11:15"));
        assert!(new || !old, "{tokens_max}: {content}");
    }
}

#[test]
fn a_remark_gives_way_and_a_pronoun_stays_with_what_it_means() {
    let batch = [
        line(
            1,
            "user",
            "The flight leaves on 3 April at 06:35, which is brutal with two children.",
        ),
        line(2, "user", "Our cat Marzipan drinks a lot of water. She turned 11 in the winter."),
        line(3, "user", "It never rains at 4711 metres on the far side of the Andes."),
    ];
    let (mut without, mut with_both) = (false, false);
    for tokens_max in 0..100 {
        let content = summarise("", &batch, 0..=tokens_max, &counter()).content;
        without |= content.contains("06:35") && !content.contains("brutal");
        with_both |= content.contains("Marzipan");
        let parts = [("brutal", "06:35"), ("turned 11", "Marzipan")];
        for (part, whole) in parts {
            assert!(!content.contains(part) || content.contains(whole), "{content}");
        }
    }
    assert!(without && with_both);
}

/// Number of messages of the month that leave the queue together.
const MONTH_BATCH: usize = 60;
/// Size of a summary in a window of 8192 tokens.
const MONTH_TOKENS_MAX: u64 = 1_168;
/// Number of the 26 facts of the month that a reader of nothing but the summary must know.
const FACTS_MIN: usize = 20;
/// Number of bytes around a word of a fact in which its other words must be.
const FACT_BYTES: usize = 160;

/// Whether all parts of a fact are near each other.
fn says(summary: &str, parts: &Value) -> bool {
    let parts: Vec<String> = parts
        .as_array()
        .expect("a list")
        .iter()
        .map(|part| part.as_str().expect("a text").to_lowercase())
        .collect();
    let Some(first) = parts.first() else { return false };
    summary.match_indices(first).any(|(at, _)| {
        let from = summary.floor_char_boundary(at.saturating_sub(FACT_BYTES));
        let to = summary.floor_char_boundary(at + FACT_BYTES);
        parts.iter().all(|part| summary[from..to].contains(part))
    })
}

/// Returns how many facts of a month its summary states, and how many only as they were before.
fn known(month: &str) -> (usize, usize) {
    let month: Value = serde_json::from_str(month).expect("JSON");
    let said = month["messages"].as_array().expect("a list");
    let lines: Vec<Line<'_>> = said
        .iter()
        .zip(1..)
        .map(|(message, seq)| {
            let text = |name: &str| message[name].as_str().expect("a text");
            let day = text("said_at")[..10].parse().expect("a day");
            Line { seq, day, speaker: text("role"), text: text("content") }
        })
        .collect();
    let mut summary = String::new();
    for batch in lines.chunks(MONTH_BATCH) {
        summary = summarise(&summary, batch, 0..=MONTH_TOKENS_MAX, &counter()).content;
    }
    let read = summary.to_lowercase();
    let (mut known, mut outdated) = (0, 0);
    for question in month["questions"].as_array().expect("a list") {
        let (right, stale) = (says(&read, &question["right"]), says(&read, &question["stale"]));
        known += usize::from(right);
        outdated += usize::from(stale && !right);
    }
    println!("known {known}, outdated {outdated}:\n{summary}");
    (known, outdated)
}

#[test]
fn a_reader_of_nothing_but_the_summary_of_a_month_knows_its_facts_and_none_is_outdated() {
    let (known, outdated) = known(include_str!("../../fixtures/month/month.json"));
    assert!(known >= FACTS_MIN && outdated == 0);
}

/// Minimum number of the 36 facts of each month by another writer, and maximum number of outdated
/// facts. These months have more facts than their summaries have room for.
const OTHERS_FACTS_MIN: [usize; 2] = [18, 12];
const OTHERS_OUTDATED_MAX: usize = 2;

#[test]
fn months_of_other_writers_are_summarised_as_well_as_their_length_allows() {
    let carpenter = known(include_str!("../../fixtures/month/carpenter.json"));
    let project_lead = known(include_str!("../../fixtures/month/project-lead.json"));
    for ((known, outdated), least) in [carpenter, project_lead].into_iter().zip(OTHERS_FACTS_MIN) {
        assert!(known >= least && outdated <= OTHERS_OUTDATED_MAX, "{known}, {outdated}");
    }
}

#[test]
fn what_the_user_said_comes_before_advice_of_the_model() {
    let batch = [
        line(1, "assistant", "You could visit a dentist twice a year and floss daily."),
        line(2, "user", "My dentist is Anna Vermeer in Delft."),
        line(3, "assistant", "You can book a cheap hotel near the harbour museum."),
    ];
    let content = summarise("", &batch, 0..=26, &counter()).content;
    assert_eq!(content, "8 May 2023 #2 user: My dentist is Anna Vermeer in Delft.");
}

#[test]
fn a_summary_consists_of_the_words_of_the_log() {
    let log = CONVERSATION.replace('\n', " ");
    let (mut words, mut in_runs) = (0, 0);
    let mut previous = String::new();
    for batch in conversation().chunks(6) {
        previous = summarise(&previous, batch, 0..=400, &counter()).content;
        for said in said(&previous) {
            for clause in said.split("; ").flat_map(|part| part.split_inclusive(['.', '!', '?'])) {
                assert!(log.contains(clause.trim()), "{clause} in\n{previous}");
            }
        }
    }
    let log: Vec<&str> = log.split(' ').collect();
    let new: Vec<&str> = previous.split_whitespace().collect();
    let mut is_run = vec![false; new.len()];
    for (at, four) in new.windows(4).enumerate() {
        if log.windows(4).any(|said| said == four) {
            is_run[at..at + 4].fill(true);
        }
    }
    words += new.len();
    in_runs += is_run.iter().filter(|is| **is).count();
    assert!(in_runs * 10 >= words * 9, "{in_runs} of {words} in\n{previous}");
}

#[test]
fn a_summary_of_an_earlier_version_is_read_and_gives_way() {
    let old = "user: flight KL1699 December seat 14C; hotel Zagreb\nassistant: negative donors demand\n- The cat is called Whiskers";
    let wide = summarise(old, &conversation(), 0..=600, &counter()).content;
    assert!(wide.starts_with(&format!("{old}\n8-")), "{wide}");
    let narrow = summarise(old, &conversation(), 0..=120, &counter()).content;
    assert!(!narrow.contains("donors"), "{narrow}");
}

#[test]
fn folding_again_and_again_keeps_the_old_beside_the_new() {
    let lines = conversation();
    let (early, late) = lines.split_at(9);
    let first = summarise("", early, 0..=120, &counter());
    let second = summarise(&first.content, late, 0..=160, &counter());
    for fact in ["Lindenstrasse", "Kettwig"] {
        assert!(second.content.contains(fact), "no {fact} in\n{}", second.content);
    }
    assert!(
        second.token_estimate <= 160 && second.information_drift < second.random_drift,
        "{second:?}"
    );
}

#[test]
fn where_the_old_summary_has_nearly_all_the_room_it_stands() {
    let lines = conversation();
    let (early, late) = lines.split_at(9);
    let first = summarise("", early, 0..=120, &counter());
    let old = first.token_estimate;
    let short = [line(12, "Tom", "The miller is 61.")];
    let stands = summarise(&first.content, &short, old + 60..=old + 60, &counter());
    assert_eq!((&stands.content, stands.token_estimate), (&first.content, old));
    assert!(stands.information_drift > stands.random_drift, "the batch is lost: {stands:?}");
    let smaller = summarise(&first.content, late, 0..=old, &counter());
    assert!(smaller.token_estimate <= old && smaller.content != first.content, "{smaller:?}");
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
                let batch = [line(1, speaker, text), line(2, "Zoë", text)];
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
fn sentences_in_other_scripts_stay_whole() {
    let batch = [line(1, "user", "我对花生过敏,密码是四七一一。我住在柏林。")];
    let summary = summarise("", &batch, 0..=90, &counter());
    assert_eq!(summary.content, "8 May 2023 #1 user: 我对花生过敏,密码是四七一一。我住在柏林。");
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
        let lines: Vec<Line<'_>> = batch.iter().zip(1..).map(|((speaker, text), seq)| line(seq, speaker, text)).collect();
        let summary = summarise(&previous, &lines, 0..=tokens_max, &counter());
        prop_assert!(summary.token_estimate <= tokens_max);
        prop_assert_eq!(counter().count(&summary.content), summary.token_estimate);
        prop_assert!((0.0..=1.0).contains(&summary.information_drift), "{}", summary.information_drift);
        prop_assert!((0.0..=1.0).contains(&summary.random_drift), "{}", summary.random_drift);
        prop_assert_eq!(summarise(&previous, &lines, 0..=tokens_max, &counter()), summary);
    }
}
