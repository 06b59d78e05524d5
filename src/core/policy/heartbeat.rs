//! Heartbeats: whether a model may go on at once, and when a chain of such calls ends.
//!
//! Time is the server's. Servers that share a database may differ by [`CLOCK_SKEW_MS_MAX`]: up to there time stands still for
//! an agent until the slower clock has caught up; beyond, what lies in the future is taken for an error and forgotten, so that
//! no clock that once was wrong can keep an agent waiting.

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::limits::{
    CLOCK_SKEW_MS_MAX, HEARTBEAT_COOLDOWN_MS_MAX, HEARTBEAT_DEPTH_MAX, HEARTBEAT_DURATION_MS,
    HEARTBEAT_RPS_MAX, LOOP_CALLS_KEPT, LOOP_SAME_MAX, WINDOW_TOKENS_MAX,
};
use crate::memory::heartbeat::{
    ClosedBy, EndedChain, Heartbeat, HeartbeatLimits, MadeCall, OpenChain, Reason,
};

/// The span that `rps_limit` counts beats in, in milliseconds.
const RATE_MS: u64 = 1_000;

/// What a caller wants of its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// To be called again at once.
    Continue,
    /// To give control back.
    Yield,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Go on.
    Granted {
        /// The chain.
        chain: String,
        /// Whether it began with this beat.
        first: bool,
        /// Its beats, this one among them.
        depth: u64,
        /// Its age in milliseconds.
        duration_ms: u64,
    },
    /// The chain is over.
    Ended {
        /// How it ended.
        chain: EndedChain,
        /// Whether it began with this beat too: it found no room in the window.
        first: bool,
    },
    /// A yield without a chain: nothing to do.
    Idle,
    /// Too many beats in a second; the chain, if there is one, stays open.
    Limited {
        /// When the next beat may come.
        retry_after_ms: u64,
    },
    /// The last chain ended by depth, duration or a loop a moment ago.
    Cooling {
        /// When the next chain may start.
        retry_after_ms: u64,
    },
}

/// One beat. `now_ms` is server time, `tokens_free` what the window has left, `fresh_id` names a chain that starts.
pub fn beat(
    state: &mut Heartbeat,
    now_ms: u64,
    tokens_free: u64,
    intent: Intent,
    fresh_id: impl FnOnce() -> String,
) -> Outcome {
    let now = settle_time(state, now_ms);
    if let Some(chain) = close_dead(state, now, ClosedBy::Beat) {
        return Outcome::Ended { chain, first: false };
    }
    let first = state.chain.is_none();
    match intent {
        Intent::Yield => end(state, now, Reason::ExplicitYield, ClosedBy::Beat)
            .map_or(Outcome::Idle, |chain| Outcome::Ended { chain, first: false }),
        Intent::Continue => {
            // What ends a chain that runs asks for no further call, so no rate holds it back.
            if let Some(chain) = ended_by_caps(state, now, tokens_free) {
                return Outcome::Ended { chain, first };
            }
            if let Some(refused) = held_back(state, now) {
                return refused;
            }
            grant(state, now, fresh_id());
            match ended_by_floor(state, now, tokens_free) {
                Some(chain) => Outcome::Ended { chain, first },
                None => granted(state, first),
            }
        }
    }
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

fn held_back(state: &Heartbeat, now: u64) -> Option<Outcome> {
    if state.chain.is_none() && now < state.cooldown_until_ms {
        return Some(Outcome::Cooling { retry_after_ms: state.cooldown_until_ms - now });
    }
    let retry_after_ms = rate_wait(state, now);
    (retry_after_ms > 0).then_some(Outcome::Limited { retry_after_ms })
}

/// Milliseconds until the oldest of the last `rps_limit` beats is a second old; 0 when a beat may come.
fn rate_wait(state: &Heartbeat, now: u64) -> u64 {
    match state.recent_ms.len().checked_sub(rate(state)) {
        Some(at) => (state.recent_ms[at] + RATE_MS).saturating_sub(now),
        None => 0,
    }
}

/// Beats within a second; a state that was written by hand may say none.
fn rate(state: &Heartbeat) -> usize {
    usize::try_from(state.limits.rps_limit).unwrap_or(usize::MAX).max(1)
}

/// Only the last `rps_limit` beats matter to the rate.
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

/// A chain that starts without room ends at once, without a single beat.
fn ended_by_floor(state: &mut Heartbeat, now: u64, tokens_free: u64) -> Option<EndedChain> {
    if tokens_free >= state.limits.floor_tokens {
        return None;
    }
    if let Some(chain) = &mut state.chain {
        chain.depth = 0;
    }
    end(state, now, Reason::Tokens, ClosedBy::Beat)
}

fn granted(state: &Heartbeat, first: bool) -> Outcome {
    let chain = state.chain.as_ref().expect("a granted beat has a chain");
    Outcome::Granted {
        chain: chain.id.clone(),
        first,
        depth: chain.depth,
        duration_ms: chain.last_ms - chain.started_ms,
    }
}

/// Something happened outside: control is not the chain's any more.
pub fn interrupt(state: &mut Heartbeat, now_ms: u64) -> Option<EndedChain> {
    let now = settle_time(state, now_ms);
    close_dead(state, now, ClosedBy::Event)
        .or_else(|| end(state, now, Reason::ExplicitYield, ClosedBy::Event))
}

/// Counts a call of a chain that runs. The chain ends with the [`LOOP_SAME_MAX`]th call that asked and was answered the same (`digest`),
/// one after the other or not: it goes in circles. A chain that is dead already is left to those who bury it.
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
    end(state, now, Reason::LoopDetected, ClosedBy::Call)
}

/// Ends a chain that outlived its cap, whoever finds it.
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
    if matches!(reason, Reason::Depth | Reason::Duration | Reason::LoopDetected) {
        state.cooldown_until_ms = now + state.limits.cooldown_ms;
    }
    state.ended = Some(ended.clone());
    Some(ended)
}

/// Changes the limits, of a chain that runs too.
pub fn retune(state: &mut Heartbeat, limits: HeartbeatLimits) {
    state.limits = limits;
    forget_old_beats(state);
    if let Some(chain) = &mut state.chain {
        chain.deadline_ms = chain.started_ms + limits.max_chain_duration_ms;
    }
}

/// The time that counts for this agent: never before what is written, unless that lies too far in the future to be true.
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

/// The part of every answer that tells where the agent stands: whether a beat would be granted now (or after the wait that
/// `retry_after_ms` names), how deep and old the chain is, and how the last one ended when none runs.
pub fn report(state: &Heartbeat, now_ms: u64, tokens_free: u64) -> Map<String, Value> {
    let mut after = state.clone();
    let next = beat(&mut after, now_ms, tokens_free, Intent::Continue, String::new);
    let (opportunity, wait) = match next {
        Outcome::Granted { .. } => (true, None),
        Outcome::Limited { retry_after_ms } => {
            (tokens_free >= state.limits.floor_tokens, Some(retry_after_ms))
        }
        Outcome::Cooling { retry_after_ms } => (false, Some(retry_after_ms)),
        Outcome::Ended { .. } | Outcome::Idle => (false, None),
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

/// What a call did to the chain, for its answer.
pub(super) fn outcome_fields(outcome: &Outcome) -> Map<String, Value> {
    let fields = match outcome {
        Outcome::Granted { chain, depth, duration_ms, .. } => {
            json!({"granted": true, "chain": chain, "chain_depth": depth, "duration_ms": duration_ms})
        }
        Outcome::Ended { chain, .. } => {
            json!({"granted": false, "chain": chain.id, "chain_depth": chain.depth,
                "duration_ms": chain.duration_ms, "terminated_reason": chain.reason, "closed_by": chain.closed_by})
        }
        Outcome::Idle => json!({"granted": false}),
        Outcome::Limited { retry_after_ms } => {
            json!({"granted": false, "refused": "rate_limited", "retry_after_ms": retry_after_ms})
        }
        Outcome::Cooling { retry_after_ms } => {
            json!({"granted": false, "refused": "cooldown", "retry_after_ms": retry_after_ms})
        }
    };
    fields.as_object().cloned().unwrap_or_default()
}

/// Refuses limits outside their bounds, naming the first.
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

#[cfg(test)]
mod tests;
