//! Tests the ranking of recall entries by answers, quotes, names, neighbours, passages and vectors.

use vctx_core::memory::recall_vector::NearPassage;
use vctx_core::search::{
    RecallEntry, RecallHit, RecallMode, RecallQuery, RecallRows, listed, part_names,
};

fn said(seq: u64, role: &str, name: &str, content: &str) -> RecallEntry {
    RecallEntry {
        id: format!("m{seq}"),
        seq,
        role: role.into(),
        name: (!name.is_empty()).then(|| name.into()),
        content: content.into(),
        dialog: true,
        ..RecallEntry::default()
    }
}

/// A query and the rows that are ranked for it.
#[derive(Clone)]
struct Material {
    query: RecallQuery,
    found: RecallRows,
}

/// Makes test data in which every row is a hit of the query.
fn material(query: &str, rows: Vec<RecallEntry>) -> Material {
    let weighed = rows.iter().map(|row| row.seq).collect();
    let query = RecallQuery::parse(query).unwrap();
    Material { query, found: RecallRows { rows, weighed, ..RecallRows::default() } }
}

fn ranked(material: &Material) -> Vec<RecallHit> {
    listed(&material.query, material.found.clone(), 2_000).hits
}

fn order(material: &Material) -> Vec<u64> {
    ranked(material).iter().map(|entry| entry.seq).collect()
}

fn part(entry: &RecallHit, name: &str) -> f64 {
    let at = part_names().iter().position(|known| *known == name).unwrap();
    entry.parts.unwrap()[at]
}

fn talk() -> Vec<RecallEntry> {
    vec![
        said(1, "user", "Ida", "Otto, what did you paint last summer?"),
        said(2, "assistant", "Otto", "A harbour with three red cranes."),
        said(3, "user", "Ida", "Lovely. I paint a lake each summer."),
        said(4, "assistant", "Otto", "The weather was dreadful this morning."),
    ]
}

#[test]
fn the_answer_by_the_one_who_is_named_stands_before_the_words_of_the_question() {
    assert_eq!(order(&material("What did Otto paint in summer?", talk()))[0], 2);
    assert_eq!(order(&material("What does Ida paint in summer?", talk()))[0], 3);
}

#[test]
fn what_was_said_is_found_first_by_its_own_text() {
    let mut rows = talk();
    rows.push(said(5, "user", "Ida", "Thanks!"));
    rows.push(said(6, "user", "Ida", "Thanks a lot, Otto, 3 cranes at 9 am! Thanks, thanks."));
    for row in rows.clone() {
        assert_eq!(order(&material(&row.content, rows.clone()))[0], row.seq, "{}", row.content);
    }
}

#[test]
fn other_names_in_the_same_places_give_the_same_order_and_no_names_still_one() {
    let renamed = |text: &str| text.replace("Ida", "Zora").replace("Otto", "Piet");
    let rows: Vec<RecallEntry> = talk()
        .into_iter()
        .map(|row| RecallEntry {
            name: row.name.as_deref().map(renamed),
            content: renamed(&row.content),
            seq: row.seq + 40,
            ..row
        })
        .collect();
    for query in ["What did Otto paint in summer?", "When did Ida paint a lake?"] {
        let theirs = order(&material(&renamed(query), rows.clone()));
        let ours = order(&material(query, talk()));
        assert_eq!(theirs, ours.iter().map(|seq| seq + 40).collect::<Vec<_>>(), "{query}");
    }
    let bare = |row: RecallEntry| RecallEntry { name: None, dialog: false, ..row };
    let found = order(&material("lake paint", talk().into_iter().map(bare).collect()));
    assert_eq!(found[0], 3);
}

#[test]
fn what_was_said_beside_a_hit_is_listed_and_what_stands_alone_is_not() {
    let mut beside = material("painted cranes", talk());
    beside.found.weighed = vec![2];
    assert_eq!(order(&beside).len(), 3);
    beside.found.rows.iter_mut().for_each(|row| row.dialog = false);
    assert_eq!(order(&beside), [2]);
    beside.found.rows.iter_mut().for_each(|row| row.dialog = true);
    beside.found.rows[0].said_at = Some("8 May 2023".into());
    beside.found.rows[1].said_at = Some("9 May 2023".into());
    assert_eq!(order(&beside), [2, 3], "another day is another conversation");
}

#[test]
fn of_a_long_entry_the_best_passage_is_shown_and_scored() {
    let noise = "Nothing of that kind was ever said here. ".repeat(30);
    let long = format!("{noise}The harbour code is marigold. {noise}");
    let found = material("harbour code", vec![said(7, "assistant", "", &long)]);
    let entry = ranked(&found).remove(0);
    let passage = entry.passage.clone().unwrap();
    assert!(long[passage.clone()].contains("marigold"));
    assert!(passage.len() < 500);
    assert!((entry.parts.unwrap().iter().sum::<f64>() - entry.score).abs() < 1e-9);
    assert!(part(&entry, "coverage") > 0.0 && part(&entry, "verbatim") > 0.0);
}

#[test]
fn what_is_the_question_to_the_letter_stands_before_what_differs_by_a_comma() {
    let query = "Thanks, Ada! I'll keep you updated.";
    let others = ["Thanks Ada! I'll keep you updated.", "thanks, Ada! I'll keep you updated"];
    let same = said(1, "user", "", query);
    let rows = (2..9).map(|n| said(n, "user", "ada", others[n as usize % 2]));
    let found = material(query, std::iter::once(same).chain(rows).collect());
    let first = &ranked(&found)[0];
    assert_eq!((first.seq, part(first, "verbatim")), (1, 5.0 * 24.0));
}

#[test]
fn equal_texts_have_equal_scores_and_the_newest_stands_first() {
    let text = "seven grey boats left the old stone harbour before the cold morning tide came in";
    let query = "grey boats old stone harbour cold morning tide came late again";
    let rows: Vec<RecallEntry> = (1..=60)
        .map(|n| RecallEntry { dialog: false, ..said(n, "user", &format!("s{n}"), text) })
        .collect();
    let mut same = material(query, rows);
    same.found.rarity = (1..=10).map(|n| Some(7.0 * f64::from(n).sin().abs())).collect();
    let first = ranked(&same);
    assert!(first.iter().all(|entry| entry.parts == first[0].parts), "to the last bit");
    assert_eq!(
        first.iter().map(|entry| entry.seq).collect::<Vec<_>>(),
        (1..=60).rev().collect::<Vec<_>>()
    );
}

#[test]
fn a_text_that_was_said_twice_stands_once() {
    let text = "The ferry to the island leaves from pier 4 at seven every morning";
    let rows = [
        text,
        "the ferry to the island leaves from pier 4 at seven every morning!",
        "The ferry to the island leaves from pier 5 at seven every morning",
    ];
    let rows = (1..).zip(rows).map(|(n, text)| said(n, "user", "", text));
    assert_eq!(
        order(&material("ferry pier", rows.collect())).len(),
        2,
        "another pier is another text"
    );
}

#[test]
fn similar_words_are_found_and_count_less() {
    let rows = vec![
        said(1, "user", "", "Our flat is near the harbour."),
        said(2, "user", "", "My flight leaves at seven."),
        said(3, "user", "", "I love my wiskers, said the cat."),
        said(4, "user", "", "The plane is late."),
    ];
    let rows: Vec<RecallEntry> =
        rows.into_iter().map(|row| RecallEntry { dialog: false, ..row }).collect();
    assert_eq!(order(&material("plane", rows.clone()))[..2], [4, 2]);
    let mut typed = material("whiskers", rows);
    typed.found.rarity = vec![None];
    assert_eq!(order(&typed)[0], 3);
}

#[test]
fn quotes_outrank_everything_and_rare_words_common_ones() {
    let rows = vec![
        said(1, "user", "", "blue boat blue boat, a boat so blue"),
        said(
            2,
            "user",
            "",
            "At dawn they saw that the boat was blue as ever, over there in the bay",
        ),
    ];
    let quoted = material("boat \"blue as ever\"", rows.clone());
    assert_eq!(order(&quoted), [2, 1]);
    let rows = vec![said(1, "user", "", "a boat, a boat"), said(2, "user", "", "a marigold")];
    let mut rare = material("boat marigold", rows);
    rare.found.rarity = vec![Some(0.5), Some(7.0)];
    assert_eq!(order(&rare), [2, 1]);
}

#[test]
fn the_newer_statement_stands_before_the_stale_one_when_the_question_is_about_now() {
    let rows = vec![
        said(1, "user", "", "My weekly word target for the essay is 1200 words per week."),
        said(
            9,
            "user",
            "",
            "My weekly word target for the essay is now 1350 words, a bit more than before.",
        ),
        said(20, "assistant", "", "Essays have words."),
    ];
    let now =
        order(&material("What is my weekly word target for the essay per week?", rows.clone()));
    assert_eq!(now[..2], [9, 1]);
    let then = order(&material("What was my weekly word target of 1200 words per week?", rows));
    assert_eq!(then[0], 1);
}

#[test]
fn vectors_lift_what_no_word_matches_and_alone_they_are_the_order() {
    let rows = vec![
        said(1, "user", "", "The boat is blue."),
        said(5, "user", "", "She owns a sailing yacht."),
        said(9, "user", "", "A boat."),
    ];
    let near = |seq, similarity| NearPassage {
        id: format!("m{seq}"),
        seq,
        passage: 0,
        start: 0,
        end: 5,
        similarity,
    };
    let mut found = material("boat", rows);
    found.found.near = vec![near(5, 0.9), near(1, 0.3)];
    let hybrid = ranked(&found);
    let yacht = hybrid.iter().find(|entry| entry.seq == 5).unwrap();
    assert!(part(yacht, "similarity") > 0.0);
    let least = |least| RecallMode::Vector { similarity_min: Some(least) };
    let mut seqs = |mode| {
        found.query.mode = mode;
        order(&found)
    };
    assert_eq!(seqs(least(0)), [5, 1]);
    assert_eq!(seqs(least(900)), [5]);
    assert_eq!(seqs(least(901)), Vec::<u64>::new());
}
