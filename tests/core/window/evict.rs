//! Tests which messages leave the queue, and which messages stay in it because they belong to the
//! same tool call.

use vctx_core::window::{Bounds, GrowingReserve, Plan, QueueItem, plan};

fn item(seq: u64, tokens: u64) -> QueueItem {
    QueueItem { seq, tokens, ..QueueItem::default() }
}

fn items(tokens: &[u64]) -> Vec<QueueItem> {
    tokens.iter().zip(1..).map(|(&t, seq)| item(seq, t)).collect()
}

fn bounds(fixed: u64, target: u64, must: u64) -> Bounds {
    Bounds { fixed, fixed_whole: fixed, target, must, relaxed: None, growing: None }
}

#[test]
fn the_oldest_leave_and_no_more_than_needed() {
    let queue = items(&[10, 10, 10, 10]);
    let found = plan(&queue, bounds(5, 25, 100), 0);
    assert_eq!(found, Plan { leave: 2, kept_tokens: 20, target_reached: true });
}

#[test]
fn an_eviction_on_request_reserves_no_more_than_its_summary_needs() {
    let queue = items(&[50; 20]);
    let growing = Some(GrowingReserve { least: 30, most: 400 });
    // 1000 tokens in the queue; the fixed part is 10 tokens, without the reserve.
    let bounds = |target| Bounds { growing, ..bounds(410, target, 4096) };
    for (target, leave) in [(1000, 2), (800, 8), (500, 18), (440, 20)] {
        let found = plan(&queue, bounds(target), 0);
        let kept = 1000 - 50 * leave as u64;
        assert_eq!(found, Plan { leave, kept_tokens: kept, target_reached: true }, "{target}");
    }
}

#[test]
fn an_unreachable_target_ends_with_the_truth() {
    let found = plan(&items(&[10, 10]), bounds(50, 25, 100), 0);
    assert_eq!(found, Plan { leave: 2, kept_tokens: 0, target_reached: false });
    let found = plan(&items(&[10, 90]), bounds(5, 25, 100), 1);
    assert_eq!(found, Plan { leave: 1, kept_tokens: 90, target_reached: false });
}

#[test]
fn a_call_and_its_result_leave_together() {
    let mut queue = items(&[10, 10, 10, 10]);
    queue[1].calls = vec!["c".into()];
    queue[2].answers = Some("c".into());
    assert_eq!(plan(&queue, bounds(0, 25, 100), 0).leave, 3);
    assert_eq!(plan(&queue, bounds(0, 35, 100), 0).leave, 1);
}

#[test]
fn an_id_that_is_used_again_binds_only_its_own_turn() {
    let mut queue = items(&[10, 10, 10, 10]);
    for turn in [0, 2] {
        queue[turn].calls = vec!["c".into()];
        queue[turn + 1].answers = Some("c".into());
    }
    assert_eq!(plan(&queue, bounds(0, 25, 100), 0).leave, 2);
    assert_eq!(plan(&queue, bounds(0, 25, 100), 1).leave, 2);
}

#[test]
fn a_call_that_waits_stays_while_the_rest_fits() {
    let mut queue = items(&[10, 10, 10]);
    queue[0].calls = vec!["c".into()];
    assert_eq!(plan(&queue, bounds(0, 5, 30), 0).leave, 0);
    assert_eq!(plan(&queue, bounds(0, 5, 29), 0).leave, 3);
}

#[test]
fn a_call_that_waits_needs_no_room_for_a_summary_while_nothing_leaves() {
    let mut queue = items(&[10, 10, 10]);
    queue[0].calls = vec!["c".into()];
    let whole = |fixed_whole| Bounds {
        fixed: 20,
        fixed_whole,
        target: 25,
        must: 40,
        relaxed: None,
        growing: None,
    };
    assert_eq!(plan(&queue, whole(10), 0).leave, 0);
    assert_eq!(plan(&queue, whole(11), 0).leave, 3);
    // Evicted messages are summarized, so the tokens reserved for the summary count too.
    queue.insert(0, item(0, 10));
    assert_eq!(plan(&queue, whole(10), 0).leave, 4);
}

#[test]
fn an_incoming_result_keeps_its_call() {
    let mut queue = items(&[10, 10, 10]);
    queue[0].calls = vec!["c".into()];
    queue[2].answers = Some("c".into());
    assert_eq!(plan(&queue, bounds(0, 15, 100), 1).leave, 0);
}

#[test]
fn a_target_that_cannot_be_reached_leaves_the_newest_messages() {
    let queue = items(&[10, 10, 10, 10]);
    let relaxed = Bounds { relaxed: Some(75), ..bounds(50, 25, 100) };
    let found = plan(&queue, relaxed, 1);
    assert_eq!(found, Plan { leave: 2, kept_tokens: 20, target_reached: false });
    let relaxed = Bounds { relaxed: Some(55), ..bounds(50, 25, 100) };
    assert_eq!(plan(&queue, relaxed, 1).leave, 3, "neither mark can be reached");
}

#[test]
fn an_automatic_eviction_ends_before_an_exchange() {
    let mut queue = items(&[10, 10, 10, 10, 10]);
    queue[3].begins = true;
    let found = plan(&queue, Bounds { relaxed: Some(90), ..bounds(0, 40, 100) }, 1);
    assert_eq!(found, Plan { leave: 3, kept_tokens: 20, target_reached: true });
    assert_eq!(plan(&queue, bounds(0, 40, 100), 1).leave, 1, "one on request takes what it must");
}
