//! Heartbeats: decides whether a model may continue immediately, and when a chain of heartbeats
//! ends.
//!
//! All times of heartbeats are server times. The clocks of servers that share a database may differ
//! by up to [`CLOCK_SKEW_MS_MAX`]. If a stored time is ahead of the server's clock by at most this
//! difference, the agent's time does not advance until the server's clock has caught up. A stored
//! time that is ahead by more than this difference is dropped as an error, so that a wrong clock
//! cannot block an agent.

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::limits::{CLOCK_SKEW_MS_MAX, HEARTBEAT_COOLDOWN_MS_MAX, WINDOW_TOKENS_MAX};
use crate::memory::heartbeat::{
    ClosedBy, EndedChain, Heartbeat, HeartbeatLimits, MadeCall, OpenChain, Reason,
};

/// Largest allowed `max_chain_depth` of an agent.
const HEARTBEAT_DEPTH_MAX: u64 = 1_024;
/// Smallest and largest allowed `max_chain_duration_ms` of an agent.
const HEARTBEAT_DURATION_MS: (u64, u64) = (100, 3_600_000);
/// Largest allowed `rps_limit` of an agent; the core stores the times of at most this number of
/// beats.
const HEARTBEAT_RPS_MAX: u64 = 64;
/// Number of equal calls with equal results after which a chain counts as a loop and ends.
const LOOP_SAME_MAX: u64 = 3;
/// Number of different calls that a chain remembers to detect loops. A loop of more different calls
/// is not detected, and ends only when the chain reaches its maximum depth.
const LOOP_CALLS_KEPT: usize = 16;

/// The span of time in which `rps_limit` counts beats, in milliseconds.
const RATE_MS: u64 = 1_000;

/// What a caller requests: another inference, or the end of the heartbeat chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// The model asks for another inference.
    Continue,
    /// The model gives control back, which ends the chain.
    Yield,
}

/// The result of a beat or of a yield.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeatResult {
    /// The model may continue with another inference.
    Granted {
        /// Id of the chain.
        chain: String,
        /// Whether the heartbeat chain began with this beat.
        first: bool,
        /// Number of beats of the heartbeat chain.
        depth: u64,
        /// Age of the heartbeat chain in milliseconds.
        duration_ms: u64,
    },
    /// The heartbeat chain is over.
    Ended {
        /// The ended heartbeat chain.
        chain: EndedChain,
        /// Whether the chain both began and ended with this beat, because the window has too few
        /// free tokens.
        first: bool,
    },
    /// A yield without an open chain, which has no effect.
    Idle,
    /// The agent had too many beats in a second; an open chain stays open.
    Limited {
        /// Time in milliseconds until the next beat may be sent.
        retry_after_ms: u64,
    },
    /// The agent is still in the cooldown after a chain that ended by depth, duration or a loop.
    Cooling {
        /// Time in milliseconds until the next chain may start.
        retry_after_ms: u64,
    },
}

/// Applies a beat or a yield. `now_ms` is the server time, `tokens_free` is the number of free
/// tokens in the window, and `fresh_id` generates the id of a new chain.
pub fn beat(
    state: &mut Heartbeat,
    now_ms: u64,
    tokens_free: u64,
    intent: Intent,
    fresh_id: impl FnOnce() -> String,
) -> BeatResult {
    let now = settle_time(state, now_ms);
    if let Some(chain) = close_dead(state, now, ClosedBy::Beat) {
        return BeatResult::Ended { chain, first: false };
    }
    let first = state.chain.is_none();
    match intent {
        Intent::Yield => end(state, now, Reason::ExplicitYield, ClosedBy::Beat)
            .map_or(BeatResult::Idle, |chain| BeatResult::Ended { chain, first: false }),
        Intent::Continue => {
            // A beat that ends the chain causes no further inference, so the rate limit does not
            // apply.
            if let Some(chain) = ended_by_caps(state, now, tokens_free) {
                return BeatResult::Ended { chain, first };
            }
            if let Some(refused) = held_back(state, now) {
                return refused;
            }
            grant(state, now, fresh_id());
            match ended_by_floor(state, now, tokens_free) {
                Some(chain) => BeatResult::Ended { chain, first },
                None => granted(state, first),
            }
        }
    }
}

/// Counts a yield without an open chain like a beat, because it is written like a beat. Returns the
/// milliseconds until such a yield is allowed; 0 if it is allowed now. A yield that ends a chain
/// never waits.
pub fn spare_yield(state: &mut Heartbeat, now_ms: u64) -> u64 {
    let now = settle_time(state, now_ms);
    if state.chain.is_some() {
        return 0;
    }
    let retry_after_ms = rate_wait(state, now);
    if retry_after_ms == 0 {
        state.recent_ms.push(now);
        forget_old_beats(state);
    }
    retry_after_ms
}

fn ended_by_caps(state: &mut Heartbeat, now: u64, tokens_free: u64) -> Option<EndedChain> {
    let depth = state.chain.as_ref()?.depth;
    if tokens_free < state.limits.floor_tokens {
        return end(state, now, Reason::Tokens, ClosedBy::Beat);
    }
    if depth >= state.limits.max_chain_depth {
        return end(state, now, Reason::Depth, ClosedBy::Beat);
    }
    None
}

fn held_back(state: &Heartbeat, now: u64) -> Option<BeatResult> {
    if state.chain.is_none() && now < state.cooldown_until_ms {
        return Some(BeatResult::Cooling { retry_after_ms: state.cooldown_until_ms - now });
    }
    let retry_after_ms = rate_wait(state, now);
    (retry_after_ms > 0).then_some(BeatResult::Limited { retry_after_ms })
}

/// Returns the milliseconds until another beat is allowed; 0 if a beat is allowed now. A beat is
/// allowed when the oldest of the last `rps_limit` beats is at least a second old.
fn rate_wait(state: &Heartbeat, now: u64) -> u64 {
    match state.recent_ms.len().checked_sub(rate(state)) {
        Some(at) => (state.recent_ms[at] + RATE_MS).saturating_sub(now),
        None => 0,
    }
}

/// Returns the maximum number of beats per second. The result is at least one, even if a stored
/// limit was edited to 0.
fn rate(state: &Heartbeat) -> usize {
    usize::try_from(state.limits.rps_limit).unwrap_or(usize::MAX).max(1)
}

/// Keeps only the times of the last `rps_limit` beats, because older beats do not affect the rate
/// limit.
fn forget_old_beats(state: &mut Heartbeat) {
    let surplus = state.recent_ms.len().saturating_sub(rate(state));
    state.recent_ms.drain(..surplus);
}

fn grant(state: &mut Heartbeat, now: u64, fresh_id: String) {
    state.recent_ms.push(now);
    forget_old_beats(state);
    let deadline_ms = now + state.limits.max_chain_duration_ms;
    let chain = state.chain.get_or_insert(OpenChain {
        id: fresh_id,
        started_ms: now,
        depth: 0,
        last_ms: now,
        deadline_ms,
        calls: Vec::new(),
    });
    chain.depth += 1;
    chain.last_ms = now;
}

/// Ends a chain that has just begun if the window has too few free tokens. A chain that ends in
/// this way counts no beat.
fn ended_by_floor(state: &mut Heartbeat, now: u64, tokens_free: u64) -> Option<EndedChain> {
    if tokens_free >= state.limits.floor_tokens {
        return None;
    }
    if let Some(chain) = &mut state.chain {
        chain.depth = 0;
    }
    end(state, now, Reason::Tokens, ClosedBy::Beat)
}

fn granted(state: &Heartbeat, first: bool) -> BeatResult {
    let chain = state.chain.as_ref().expect("a granted beat has a chain");
    BeatResult::Granted {
        chain: chain.id.clone(),
        first,
        depth: chain.depth,
        duration_ms: chain.last_ms - chain.started_ms,
    }
}

/// Ends the open heartbeat chain, if any, because an event arrived.
pub fn interrupt(state: &mut Heartbeat, now_ms: u64) -> Option<EndedChain> {
    let now = settle_time(state, now_ms);
    close_dead(state, now, ClosedBy::Event)
        .or_else(|| end(state, now, Reason::ExplicitYield, ClosedBy::Event))
}

/// Counts a call in the open heartbeat chain. The chain ends when the same `digest` (of call and
/// result) occurs for the `LOOP_SAME_MAX`th time, even if other calls occurred in between. A call
/// in an expired chain is not counted; [`bury`] ends such a chain.
pub fn repeated(state: &mut Heartbeat, now_ms: u64, digest: String) -> Option<EndedChain> {
    let now = settle_time(state, now_ms);
    let chain = state.chain.as_mut().filter(|chain| now <= chain.deadline_ms)?;
    let times = match chain.calls.iter_mut().find(|call| call.digest == digest) {
        Some(call) => {
            call.times += 1;
            call.times
        }
        None => {
            chain.calls.push(MadeCall { digest, times: 1 });
            let surplus = chain.calls.len().saturating_sub(LOOP_CALLS_KEPT);
            chain.calls.drain(..surplus);
            1
        }
    };
    if times < LOOP_SAME_MAX {
        return None;
    }
    end(state, now, Reason::Depth, ClosedBy::Call)
}

/// Ends the open heartbeat chain if it exceeded its maximum duration.
pub fn bury(state: &mut Heartbeat, now_ms: u64, closed_by: ClosedBy) -> Option<EndedChain> {
    let now = settle_time(state, now_ms);
    close_dead(state, now, closed_by)
}

fn close_dead(state: &mut Heartbeat, now: u64, closed_by: ClosedBy) -> Option<EndedChain> {
    let dead = state.chain.as_ref().is_some_and(|chain| now > chain.deadline_ms);
    if dead { end(state, now, Reason::Duration, closed_by) } else { None }
}

fn end(state: &mut Heartbeat, now: u64, reason: Reason, closed_by: ClosedBy) -> Option<EndedChain> {
    let chain = state.chain.take()?;
    let ended = EndedChain {
        id: chain.id,
        reason,
        closed_by,
        depth: chain.depth,
        duration_ms: now - chain.started_ms,
        ended_ms: now,
    };
    if matches!(reason, Reason::Depth | Reason::Duration) {
        state.cooldown_until_ms = now + state.limits.cooldown_ms;
    }
    state.ended = Some(ended.clone());
    Some(ended)
}

/// Changes the limits of heartbeat chains; the limits also apply to an open chain.
pub fn retune(state: &mut Heartbeat, limits: HeartbeatLimits) {
    state.limits = limits;
    forget_old_beats(state);
    if let Some(chain) = &mut state.chain {
        chain.deadline_ms = chain.started_ms + limits.max_chain_duration_ms;
    }
}

/// Returns the agent's time. This is the newest stored time if it is ahead of the server time by at
/// most the allowed clock difference, otherwise the server time.
fn settle_time(state: &mut Heartbeat, now: u64) -> u64 {
    let times = [
        state.chain.as_ref().map(|chain| chain.last_ms),
        state.recent_ms.last().copied(),
        state.ended.as_ref().map(|chain| chain.ended_ms),
    ];
    let newest = times.into_iter().flatten().max().unwrap_or(0);
    if newest <= now {
        return now;
    }
    if newest - now <= CLOCK_SKEW_MS_MAX {
        return newest;
    }
    let longest = state.limits.max_chain_duration_ms;
    state.recent_ms.retain(|at| *at <= now);
    state.cooldown_until_ms = 0;
    if let Some(chain) = &mut state.chain {
        chain.started_ms = chain.started_ms.min(now);
        chain.last_ms = chain.last_ms.min(now);
        chain.deadline_ms = chain.started_ms + longest;
    }
    if let Some(chain) = &mut state.ended {
        chain.ended_ms = chain.ended_ms.min(now);
    }
    now
}

/// Returns the heartbeat state that every answer reports: whether a beat would be granted now (or
/// after `retry_after_ms`), depth and age of the chain, and the end of the last chain.
pub fn report(state: &Heartbeat, now_ms: u64, tokens_free: u64) -> Map<String, Value> {
    let mut after = state.clone();
    let next = beat(&mut after, now_ms, tokens_free, Intent::Continue, String::new);
    let (opportunity, wait) = match next {
        BeatResult::Granted { .. } => (true, None),
        BeatResult::Limited { retry_after_ms } => {
            (tokens_free >= state.limits.floor_tokens, Some(retry_after_ms))
        }
        BeatResult::Cooling { retry_after_ms } => (false, Some(retry_after_ms)),
        BeatResult::Ended { .. } | BeatResult::Idle => (false, None),
    };
    let mut map = Map::new();
    map.insert("opportunity".into(), opportunity.into());
    map.insert("tokens_remaining".into(), tokens_free.into());
    let (depth, duration_ms) = match &state.chain {
        Some(chain) => {
            map.insert("chain".into(), chain.id.as_str().into());
            (chain.depth, now_ms.max(chain.last_ms).saturating_sub(chain.started_ms))
        }
        None => (0, 0),
    };
    map.insert("chain_depth".into(), depth.into());
    map.insert("duration_ms".into(), duration_ms.into());
    if let Some(ended) = state.ended.as_ref().filter(|_| state.chain.is_none()) {
        map.insert("last_ended".into(), json!({"chain": ended.id, "reason": ended.reason,
            "closed_by": ended.closed_by, "chain_depth": ended.depth, "duration_ms": ended.duration_ms}));
    }
    if let Some(wait) = wait {
        map.insert("retry_after_ms".into(), wait.into());
    }
    map
}

/// Returns the answer's fields about the result of a beat or of a yield.
pub(super) fn outcome_fields(outcome: &BeatResult) -> Map<String, Value> {
    let fields = match outcome {
        BeatResult::Granted { chain, depth, duration_ms, .. } => {
            json!({"granted": true, "chain": chain, "chain_depth": depth, "duration_ms": duration_ms})
        }
        BeatResult::Ended { chain, .. } => {
            json!({"granted": false, "chain": chain.id, "chain_depth": chain.depth,
                "duration_ms": chain.duration_ms, "terminated_reason": chain.reason, "closed_by": chain.closed_by})
        }
        BeatResult::Idle => json!({"granted": false}),
        BeatResult::Limited { retry_after_ms } => {
            json!({"granted": false, "refused": "rate_limited", "retry_after_ms": retry_after_ms})
        }
        BeatResult::Cooling { retry_after_ms } => {
            json!({"granted": false, "refused": "cooldown", "retry_after_ms": retry_after_ms})
        }
    };
    fields.as_object().cloned().unwrap_or_default()
}

/// Refuses heartbeat limits outside the allowed bounds, and names the first such limit.
pub fn check_limits(limits: &HeartbeatLimits) -> Result<()> {
    let (shortest, longest) = HEARTBEAT_DURATION_MS;
    let bounds = [
        ("max_chain_depth", limits.max_chain_depth, 1, HEARTBEAT_DEPTH_MAX),
        ("max_chain_duration_ms", limits.max_chain_duration_ms, shortest, longest),
        ("floor_tokens", limits.floor_tokens, 0, WINDOW_TOKENS_MAX),
        ("rps_limit", limits.rps_limit, 1, HEARTBEAT_RPS_MAX),
        ("cooldown_ms", limits.cooldown_ms, 0, HEARTBEAT_COOLDOWN_MS_MAX),
    ];
    for (name, value, least, most) in bounds {
        if value < least || value > most {
            let text = format!("{value}: use {least} to {most}");
            return Err(Error::argument(&format!("heartbeat.{name}"), text));
        }
    }
    Ok(())
}
