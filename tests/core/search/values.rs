//! Tests small value types of search: sort order, words of a question, plans and stop words.

use vctx_core::search::{NearPlan, Order, StopWords, recall_plan, words_of_question};

#[test]
fn ranks_one_and_two_are_at_the_edges_and_the_last_is_in_the_middle() {
    for (count, wanted) in [
        (0, vec![]),
        (1, vec![1]),
        (2, vec![2, 1]),
        (3, vec![2, 3, 1]),
        (4, vec![2, 4, 3, 1]),
        (7, vec![2, 4, 6, 7, 5, 3, 1]),
    ] {
        assert_eq!(Order::Edges.arrange((1..=count).collect::<Vec<u32>>()), wanted);
    }
    assert_eq!(Order::Usual.arrange(vec![1, 2, 3]), [1, 2, 3]);
}

#[test]
fn who_is_further_from_an_edge_ranks_lower() {
    let placed = Order::Edges.arrange((0..41_usize).collect());
    let from_edge = |at: usize| at.min(placed.len() - 1 - at);
    let mut by_rank: Vec<(usize, usize)> =
        placed.iter().enumerate().map(|(at, rank)| (*rank, from_edge(at))).collect();
    by_rank.sort_unstable();
    assert!(by_rank.windows(2).all(|two| two[0].1 <= two[1].1), "{by_rank:?}");
}

#[test]
fn what_tells_nothing_is_not_looked_for_unless_nothing_else_is_there() {
    for (text, words, identifiers) in [
        ("who got the first nobel prize in physics", "got first nobel prize physics", vec![]),
        ("who is it?", "who is it?", vec![]),
        ("covid-19 in 2020", "covid-19 2020", vec![]),
        (
            "key = 94071d67-86df-455c-8ee9-691e492ff740?",
            "key 94071d67-86df-455c-8ee9-691e492ff740?",
            vec!["94071d67-86df-455c-8ee9-691e492ff740"],
        ),
        ("Akte 12-B/2024.0017", "Akte 12-B/2024.0017", vec!["12-B/2024.0017"]),
    ] {
        let expected: Vec<String> = identifiers.into_iter().map(str::to_owned).collect();
        assert_eq!(words_of_question(text), (words.to_owned(), expected), "{text}");
    }
}

#[test]
fn few_passages_are_compared_one_by_one_and_many_through_the_index() {
    assert_eq!(recall_plan(0, 100, 10), NearPlan::Exact);
    assert_eq!(recall_plan(100, 100, 10), NearPlan::Exact);
    assert_eq!(recall_plan(101, 100, 10), NearPlan::Vector { n_probe: 32, fetch: 80 });
}

#[test]
fn a_summary_keeps_negations_and_a_search_of_the_archive_keeps_most_words() {
    for (word, archive, recall, summary) in [
        ("the", true, true, true),
        ("not", false, true, false),
        ("much", true, false, true),
        ("before", false, true, true),
        ("perhaps", false, false, true),
        ("boat", false, false, false),
    ] {
        let lists = [StopWords::Archive, StopWords::Recall, StopWords::Summary];
        assert_eq!(lists.map(|list| list.contains(word)), [archive, recall, summary], "{word}");
    }
    let count = |list: StopWords| list.words().count();
    assert_eq!(
        [count(StopWords::Archive), count(StopWords::Recall), count(StopWords::Summary)],
        [58, 124, 275]
    );
}
