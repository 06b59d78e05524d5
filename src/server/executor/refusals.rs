//! Refusals that are noted as events: a flood of them is counted, and does not flood the events of its agent.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use vctx_core::limits::{REFUSALS_KEPT, REFUSALS_NOTED, REFUSALS_NOTED_MS};

/// What was refused, by agent and code.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<HashMap<(String, &'static str), Lately>>);

/// Refusals of one kind.
#[derive(Debug)]
struct Lately {
    /// When the time began in which so many are noted.
    since: Instant,
    noted: u32,
    /// What was not noted yet.
    held: Refused,
}

/// Refused calls, and the chunks in them.
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
    /// Counts a refusal. Gives what is to be noted now: with it what came before and was held back. None while enough was noted.
    pub(super) fn count(
        &self,
        agent: &str,
        code: &'static str,
        one: Refused,
        now: Instant,
    ) -> Option<Refused> {
        let mut all = self.0.lock().expect("nothing panics while it is held");
        if all.len() >= REFUSALS_KEPT {
            // What was held back of others is lost to their events; the metrics have it.
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
        // Others have their own.
        assert_eq!(at("bob", 1_000), Some(one));
        // The next one that is noted tells of all that were not.
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
