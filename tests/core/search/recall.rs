//! Tests the result list of a search in recall storage: ranking, filters, copies and limits.

use vctx_core::limits::RECALL_HITS_MAX;
use vctx_core::memory::archive::Span;
use vctx_core::search::{
    ListedEntry, QueueCopy, RecallEntry, RecallFilter, RecallList, RecallQuery, RecallRows, listed,
};

/// Maximum time in milliseconds between the write of an entry and its appearance in the view.
const RECALL_LAG_MS: u64 = 5_000;

fn view(seqs: &[u64]) -> Vec<ListedEntry> {
    seqs.iter().map(|seq| recent(*seq, 0)).collect()
}

fn recent(seq: u64, held: u64) -> ListedEntry {
    ListedEntry { id: format!("m{seq}"), seq, held }
}

fn said(seq: u64, content: &str) -> RecallEntry {
    RecallEntry { id: format!("m{seq}"), seq, content: content.into(), ..RecallEntry::default() }
}

fn list(
    query: &RecallQuery,
    view: Vec<ListedEntry>,
    tail: &[ListedEntry],
    rows: Vec<RecallEntry>,
) -> RecallList {
    let weighed = view.iter().map(|hit| hit.seq).chain(tail.iter().map(|row| row.seq)).collect();
    let tail = tail.to_vec();
    listed(query, RecallRows { view, tail, weighed, rows, ..RecallRows::default() }, 2_000)
}

fn order(found: &RecallList) -> Vec<u64> {
    found.hits.iter().map(|hit| hit.seq).collect()
}

#[test]
fn a_recent_entry_stands_by_its_words_among_those_of_the_view() {
    let query = RecallQuery::parse("blue boat").unwrap();
    let rows = vec![
        said(1, "a red boat"),
        said(5, "one boat of many others far out at sea"),
        said(9, "a blue boat"),
    ];
    let found = list(&query, view(&[5, 1]), &[recent(9, 2)], rows);
    assert_eq!(order(&found), [9, 1, 5]);
    assert!(!found.capped && !found.tail_capped);
    assert!(found.hits.iter().all(|hit| hit.passage.is_some() && hit.parts.is_some()));
}

#[test]
fn what_was_not_weighed_comes_behind_in_its_order_and_once() {
    let query = RecallQuery::parse("boat").unwrap();
    let rows = vec![said(7, "a boat")];
    let found = list(&query, view(&[3, 7, 4]), &[recent(4, 1), recent(8, 1)], rows);
    assert_eq!(order(&found), [7, 3, 4, 8]);
    assert!(found.hits.windows(2).all(|two| two[0].score > two[1].score));
}

#[test]
fn what_stands_beside_is_listed_only_if_it_meets_the_filter() {
    let mut query = RecallQuery::parse("boat").unwrap();
    let beside = |seq, content: &str, role: &str| RecallEntry {
        dialog: true,
        role: role.into(),
        ..said(seq, content)
    };
    let rows = vec![beside(1, "Where is the boat?", "user"), beside(2, "At pier 4.", "assistant")];
    let all = list(&query, view(&[1]), &[], rows.clone());
    assert_eq!(all.hits.len(), 2);
    query.filter.role = Some("user".into());
    assert_eq!(order(&list(&query, view(&[1]), &[], rows)), [1]);
    let entry =
        RecallEntry { at: "2026-03-04".into(), name: Some("Ida".into()), ..RecallEntry::default() };
    let times = |after: Option<&str>, before: Option<&str>| RecallFilter {
        after: after.map(Into::into),
        before: before.map(Into::into),
        ..RecallFilter::default()
    };
    for (filter, met) in [
        (times(Some("2026-03-04"), Some("2026-03-05")), true),
        (times(Some("2026-03-05"), None), false),
        (times(None, Some("2026-03-04")), false),
        (RecallFilter { name: Some("Ida".into()), ..RecallFilter::default() }, true),
        (RecallFilter { name: Some("Otto".into()), ..RecallFilter::default() }, false),
    ] {
        assert_eq!(filter.meets(&entry), met, "{filter:?}");
    }
}

#[test]
fn a_copy_holds_what_lies_within_its_part() {
    let copy = |excerpt: Option<(u64, u64)>| QueueCopy {
        of: "m".into(),
        seq: 9,
        excerpt: excerpt.map(|(start, end)| Span { start, end }),
    };
    for (held, part, holds) in [
        (None, None, true),
        (None, Some(3..9), true),
        (Some((3, 9)), Some(3..9), true),
        (Some((3, 9)), Some(2..9), false),
        (Some((3, 9)), Some(3..10), false),
        (Some((3, 9)), None, false),
    ] {
        assert_eq!(copy(held).holds(part.as_ref()), holds, "{held:?} {part:?}");
    }
}

#[test]
fn a_list_says_when_it_is_not_all() {
    let query = RecallQuery::parse("boat").unwrap();
    let seqs: Vec<u64> = (1..=RECALL_HITS_MAX as u64 + 1).collect();
    let found = list(&query, view(&seqs), &[], Vec::new());
    assert_eq!((found.hits.len(), found.capped), (RECALL_HITS_MAX, true));
    let at = |now_ms| {
        let sources = RecallRows { oldest_ms: Some(1_000), ..RecallRows::default() };
        listed(&query, sources, now_ms).tail_capped
    };
    assert!(at(1_000 + RECALL_LAG_MS - 1));
    assert!(!at(1_000 + RECALL_LAG_MS));
}
