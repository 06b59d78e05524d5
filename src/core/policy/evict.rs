//! Which messages leave the queue: the oldest, as few as reach the target, never one half of a tool call and its result.

use std::collections::HashMap;

use crate::limits::OPEN_CALL_ROWS_MAX;
use crate::memory::message::Message;

/// A message of the queue as the decision needs it.
#[derive(Clone, Debug, Default)]
pub struct Item {
    /// Place on the number line.
    pub seq: u64,
    /// Rendered cost.
    pub tokens: u64,
    /// Length of its text.
    pub bytes: usize,
    /// Tool calls it makes.
    pub calls: Vec<String>,
    /// Tool call it answers.
    pub answers: Option<String>,
}

/// What an eviction has to meet, in tokens of the whole window.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// What stands beside the queue, with the room that is set aside for a new summary.
    pub fixed: u64,
    /// The same where nothing leaves, so that no new summary is made.
    pub fixed_whole: u64,
    /// What is wanted.
    pub target: u64,
    /// What has to fit at all cost.
    pub must: u64,
}

/// What to evict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How many of the items leave, from the oldest on.
    pub leave: usize,
    /// Cost of those that stay.
    pub kept_tokens: u64,
    /// Whether the target is met.
    pub target_reached: bool,
}

impl From<&Message> for Item {
    fn from(message: &Message) -> Self {
        Self {
            seq: message.seq,
            tokens: message.token_estimate,
            bytes: message.content.len(),
            calls: message.tool_call_ids().map(str::to_owned).collect(),
            answers: message.answers().map(str::to_owned),
        }
    }
}

/// Picks the smallest cut that brings `fixed + kept` down to `target`; when none does, the largest cut there is, and the
/// plan says so. `keep_last` items at the end never leave. A call that still waits for its result is kept back only as long as
/// the rest fits into `must`.
pub fn plan(items: &[Item], bounds: Bounds, keep_last: usize) -> Plan {
    let held = pick(items, bounds, keep_last, true);
    let fixed = if held.leave == 0 { bounds.fixed_whole } else { bounds.fixed };
    if held.target_reached || fixed + held.kept_tokens <= bounds.must {
        return held;
    }
    pick(items, bounds, keep_last, false)
}

fn pick(items: &[Item], bounds: Bounds, keep_last: usize, hold_open: bool) -> Plan {
    let Bounds { fixed, target, .. } = bounds;
    let latest = items.len().saturating_sub(keep_last);
    let allowed = allowed_cuts(items, hold_open);
    let mut kept: u64 = items.iter().map(|i| i.tokens).sum();
    let mut best = Plan { leave: 0, kept_tokens: kept, target_reached: fixed + kept <= target };
    for cut in 1..=latest {
        if best.target_reached {
            break;
        }
        kept -= items[cut - 1].tokens;
        if allowed[cut] {
            best = Plan { leave: cut, kept_tokens: kept, target_reached: fixed + kept <= target };
        }
    }
    best
}

/// `allowed[c]`: no tool call before position `c` has a result at or after it, and (while `hold_open`) no call among the
/// newest messages that still waits for a result lies before it. A result belongs to the last call of its id before it:
/// some runtimes use the same ids again in each turn.
pub(super) fn allowed_cuts(items: &[Item], hold_open: bool) -> Vec<bool> {
    let mut answered_at: HashMap<&str, usize> = HashMap::new();
    let newest_from = items.len().saturating_sub(OPEN_CALL_ROWS_MAX);
    let mut allowed = vec![true; items.len() + 1];
    for (at, item) in items.iter().enumerate().rev() {
        if let Some(id) = &item.answers {
            answered_at.entry(id).or_insert(at);
        }
        for id in &item.calls {
            let last = match answered_at.remove(id.as_str()) {
                Some(answer) => answer,
                None if hold_open && at >= newest_from => items.len(),
                None => continue,
            };
            for cut in allowed.iter_mut().take(last + 1).skip(at + 1) {
                *cut = false;
            }
        }
    }
    allowed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(seq: u64, tokens: u64) -> Item {
        Item { seq, tokens, ..Item::default() }
    }

    fn items(tokens: &[u64]) -> Vec<Item> {
        tokens.iter().zip(1..).map(|(&t, seq)| item(seq, t)).collect()
    }

    fn bounds(fixed: u64, target: u64, must: u64) -> Bounds {
        Bounds { fixed, fixed_whole: fixed, target, must }
    }

    #[test]
    fn the_oldest_leave_and_no_more_than_needed() {
        let queue = items(&[10, 10, 10, 10]);
        let found = plan(&queue, bounds(5, 25, 100), 0);
        assert_eq!(found, Plan { leave: 2, kept_tokens: 20, target_reached: true });
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
        let whole = |fixed_whole| Bounds { fixed: 20, fixed_whole, target: 25, must: 40 };
        assert_eq!(plan(&queue, whole(10), 0).leave, 0);
        assert_eq!(plan(&queue, whole(11), 0).leave, 3);
        // What leaves is summed up, so that the room for it counts.
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
}
