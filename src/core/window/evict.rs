//! Chooses the messages that leave the queue: the oldest ones, as few as needed, without separating
//! a tool call from its result.

use std::collections::HashMap;

use crate::memory::message::{Kind, Message, Role};

/// A tool call without a result keeps its message in the queue while the message is among this
/// number of newest messages. That is about ten exchanges, so an unanswered call does not block
/// evictions for long.
const OPEN_CALL_ROWS_MAX: usize = 32;

/// Maximum number of further messages that leave, so that the queue begins with an exchange.
const EXCHANGE_ROWS_MAX: usize = 8;

/// Share of the tokens of evicted messages that their summary needs, in percent: about the share
/// that an automatic eviction has in a window of 8192 tokens.
const SUMMARY_SHARE_PERCENT: u64 = 40;

/// A message of the queue, reduced to the fields on which an eviction depends.
#[derive(Clone, Debug, Default)]
pub struct QueueItem {
    /// Position of the message in the log.
    pub seq: u64,
    /// Cost of the rendered message in tokens.
    pub tokens: u64,
    /// Length of the message's text in bytes.
    pub bytes: usize,
    /// Ids of the tool calls in the message.
    pub calls: Vec<String>,
    /// Id of the tool call that the message answers.
    pub answers: Option<String>,
    /// Whether the window shows the message as a part of the message before.
    pub joins: bool,
    /// Whether the message begins an exchange: a user's message or an event.
    pub begins: bool,
}

/// The bounds of an eviction, in tokens of the whole window.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Cost of all sections except the queue, including the tokens reserved for a new summary.
    pub fixed: u64,
    /// Cost of all sections except the queue for an eviction in which no message leaves, so that no
    /// new summary is written.
    pub fixed_whole: u64,
    /// The occupancy that the eviction aims at.
    pub target: u64,
    /// The occupancy that the window must not exceed after the eviction.
    pub must: u64,
    /// The occupancy that the eviction aims at if it cannot reach `target`, so that the newest
    /// messages stay; `None` for an eviction on request, which takes what it can.
    pub relaxed: Option<u64>,
    /// For an eviction on request: the reserve for a new summary grows with the messages that
    /// leave. `None` if `fixed` contains the whole reserve for every eviction.
    pub growing: Option<GrowingReserve>,
}

/// A reserve for a new summary of an eviction on request, so that no more messages leave than the
/// target needs.
#[derive(Clone, Copy, Debug)]
pub struct GrowingReserve {
    /// Tokens of the summary so far, or the minimum of a new one.
    pub least: u64,
    /// Maximum of the reserve, which [`Bounds::fixed`] contains.
    pub most: u64,
}

impl Bounds {
    /// Returns the cost of all sections except the queue after messages with the given number of
    /// tokens have left.
    fn fixed_after(&self, leaving: u64) -> u64 {
        self.growing.map_or(self.fixed, |reserve| {
            let grown = reserve.least + leaving * SUMMARY_SHARE_PERCENT / 100;
            self.fixed - reserve.most + grown.min(reserve.most)
        })
    }
}

/// The result of [`plan`]: which messages leave the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Number of messages that leave the queue; these are the oldest ones.
    pub leave: usize,
    /// Cost of the messages that stay in the queue, in tokens.
    pub kept_tokens: u64,
    /// Whether the occupancy after the eviction is at most [`Bounds::target`].
    pub target_reached: bool,
}

impl From<&Message> for QueueItem {
    fn from(message: &Message) -> Self {
        Self {
            seq: message.seq,
            tokens: message.token_estimate,
            bytes: message.content.len(),
            calls: message.tool_call_ids().map(str::to_owned).collect(),
            answers: message.answers().map(str::to_owned),
            joins: message.kind == Kind::Copy && message.frame_tokens == 0,
            begins: (message.kind == Kind::Event || message.role == Role::User)
                && !message.is_frame(),
        }
    }
}

/// Plans the smallest eviction that brings the occupancy down to `target`. If no permitted eviction
/// reaches `target`, `target_reached` is false, and the eviction goes on until `relaxed`, or if
/// that is absent or not reached either, as far as it may. The last `keep_last` messages of the
/// queue never leave. A message with a recent unanswered call stays in the queue unless the window
/// would then exceed `must` tokens. An automatic eviction leaves whole exchanges, if few more
/// messages have to leave for that.
pub fn plan(items: &[QueueItem], bounds: Bounds, keep_last: usize) -> Plan {
    let held = pick(items, bounds, keep_last, true);
    if let Some(target) = bounds.relaxed.filter(|_| !held.target_reached) {
        let found = pick(items, Bounds { target, ..bounds }, keep_last, true);
        if found.target_reached {
            return Plan { target_reached: false, ..found };
        }
    }
    let fixed = if held.leave == 0 { bounds.fixed_whole } else { bounds.fixed };
    if held.target_reached || fixed + held.kept_tokens <= bounds.must {
        return held;
    }
    pick(items, bounds, keep_last, false)
}

fn pick(items: &[QueueItem], bounds: Bounds, keep_last: usize, hold_open: bool) -> Plan {
    let target = bounds.target;
    let latest = items.len().saturating_sub(keep_last);
    let allowed = allowed_cuts(items, hold_open);
    let all: u64 = items.iter().map(|i| i.tokens).sum();
    let reaches = |kept: u64| bounds.fixed_after(all - kept) + kept <= target;
    let mut kept = all;
    let mut best = Plan { leave: 0, kept_tokens: kept, target_reached: reaches(kept) };
    for cut in 1..=latest {
        if best.target_reached {
            break;
        }
        kept -= items[cut - 1].tokens;
        if allowed[cut] {
            best = Plan { leave: cut, kept_tokens: kept, target_reached: reaches(kept) };
        }
    }
    let begins = |cut: &usize| allowed[*cut] && items.get(*cut).is_some_and(|item| item.begins);
    let ahead = best.leave..=latest.min(best.leave + EXCHANGE_ROWS_MAX);
    if bounds.relaxed.is_some()
        && best.leave > 0
        && best.target_reached
        && let Some(cut) = ahead.into_iter().find(begins)
    {
        let more: u64 = items[best.leave..cut].iter().map(|item| item.tokens).sum();
        best = Plan { leave: cut, kept_tokens: best.kept_tokens - more, target_reached: true };
    }
    best
}

/// Returns, for each index `c`, whether the messages before `c` may leave the queue. They may not
/// leave if one of their tool calls has its result at `c` or later. With `hold_open`, they also may
/// not leave if they contain a recent call without a result. A result belongs to the last call with
/// its id, because some runtimes reuse ids in each turn.
pub fn allowed_cuts(items: &[QueueItem], hold_open: bool) -> Vec<bool> {
    let mut answered_at: HashMap<&str, usize> = HashMap::new();
    let newest_from = items.len().saturating_sub(OPEN_CALL_ROWS_MAX);
    let mut allowed = vec![true; items.len() + 1];
    for (at, item) in items.iter().enumerate().rev() {
        if item.joins {
            allowed[at] = false;
        }
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
