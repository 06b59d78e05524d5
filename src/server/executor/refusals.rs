//! Records refused calls as events.
//!
//! So that refusals do not flood an agent's events, many refusals of one kind are only counted.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Maximum number of refusals of one kind and agent that become events within
/// [`REFUSALS_NOTED_MS`]. The first event of the next interval also counts the refusals above this
/// number.
const REFUSALS_NOTED: u32 = 16;
/// Length of the interval to which [`REFUSALS_NOTED`] applies, in milliseconds.
const REFUSALS_NOTED_MS: u64 = 60_000;
/// Maximum number of pairs of agent and refusal kind that are counted at the same time.
const REFUSALS_KEPT: usize = 4_096;

/// Recent refusals of calls, by agent and error code.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<HashMap<(String, &'static str), Lately>>);

/// The recent refusals of one agent and kind.
#[derive(Debug)]
struct Lately {
    /// Beginning of the current interval for counting refusals.
    since: Instant,
    noted: u32,
    /// The refusals that no event counts yet.
    held: Refused,
}

/// Numbers of refused calls, and of the offered and the refused chunks in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) calls: u64,
    pub(super) offered_chunks: u64,
    pub(super) refused_chunks: u64,
}

impl Refused {
    fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            offered_chunks: self.offered_chunks + other.offered_chunks,
            refused_chunks: self.refused_chunks + other.refused_chunks,
        }
    }
}

impl Refusals {
    /// Counts a refusal. Returns the refusals that the caller must record as one event now,
    /// including earlier uncounted ones; `None` if the current interval already has enough events.
    pub(super) fn count(
        &self,
        agent: &str,
        code: &'static str,
        one: Refused,
        now: Instant,
    ) -> Option<Refused> {
        let mut all = self.0.lock().expect("nothing panics while the lock is held");
        if all.len() >= REFUSALS_KEPT {
            // Refusals that no event has counted yet will be missing from the events, but the
            // metrics include them.
            all.clear();
        }
        let fresh = || Lately { since: now, noted: 0, held: Refused::default() };
        let lately = all.entry((agent.to_owned(), code)).or_insert_with(fresh);
        if now.duration_since(lately.since) >= Duration::from_millis(REFUSALS_NOTED_MS) {
            (lately.since, lately.noted) = (now, 0);
        }
        lately.held = lately.held.plus(one);
        if lately.noted >= REFUSALS_NOTED {
            return None;
        }
        lately.noted += 1;
        Some(std::mem::take(&mut lately.held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vctx_base::clock;

    #[test]
    fn a_flood_is_counted_and_noted_a_bounded_number_of_times() {
        let (refusals, begun) = (Refusals::default(), clock::now());
        let one = Refused { calls: 1, offered_chunks: 3, refused_chunks: 2 };
        let at = |agent: &str, ms: u64| {
            refusals.count(agent, "A_CODE", one, begun + Duration::from_millis(ms))
        };
        let noted = (0..1_000).filter(|ms| at("ada", *ms).is_some()).count();
        assert_eq!(noted, REFUSALS_NOTED as usize);
        // Another agent's refusals are counted separately.
        assert_eq!(at("bob", 1_000), Some(one));
        // The next event also counts the refusals that did not become events.
        let rest = 1_000 - u64::from(REFUSALS_NOTED) + 1;
        let wanted = Refused { calls: rest, offered_chunks: 3 * rest, refused_chunks: 2 * rest };
        assert_eq!(at("ada", REFUSALS_NOTED_MS), Some(wanted));
        assert_eq!(at("ada", REFUSALS_NOTED_MS + 1), Some(one));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (refusals, now) = (Refusals::default(), clock::now());
        for at in 0..2 * REFUSALS_KEPT {
            refusals.count(&format!("agent-{at}"), "A_CODE", Refused::default(), now);
        }
        assert!(refusals.0.lock().unwrap().len() <= REFUSALS_KEPT);
    }
}
