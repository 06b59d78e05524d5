//! What is measured while calls run: times, requests, searches, probes, guards; for the whole server and for each agent's session.
//!
//! Measurements, not memory: after a restart they begin anew, and what was never measured is missing, not zero.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use crate::store::Trips;
use vctx_base::metric;
use vctx_core::conveyance::{Path, PathTime, Ratio, Tier, Times, Why};
use vctx_core::limits::{PROBES_KEPT, SESSIONS_MAX, SESSIONS_TOLD_MAX};
use vctx_core::policy::Scope;

/// What one call adds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// Requests to the database.
    pub(super) trips: Trips,
    /// How long it took, if its way has a promised time.
    pub(super) took: Option<(Path, f64)>,
    /// Whether a recall search found something.
    pub(super) found: Option<bool>,
    /// Whether that search only read, so that no core counted it.
    pub(super) only_read: bool,
    /// Rows that filters dropped from an archival search, of those fetched.
    pub(super) filtered: Ratio,
    /// Whether chunks without late-chunking evidence were offered.
    pub(super) naive: bool,
}

/// Measurements of a session or of the server.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    times: [Times; 3],
    requests: Ratio,
    searches: Ratio,
    filtered: Ratio,
    /// Those searches that no core counted.
    pub(super) read_searches: Ratio,
}

impl Tally {
    fn add(&mut self, sample: &Sample) {
        self.requests.numerator += sample.trips.answered;
        self.requests.denominator += sample.trips.sent;
        self.filtered = self.filtered.plus(sample.filtered);
        if let Some((path, ms)) = sample.took {
            self.times[path as usize].record(ms);
        }
        if let Some(found) = sample.found {
            count(&mut self.searches, found);
            if sample.only_read {
                count(&mut self.read_searches, found);
            }
        }
    }
}

fn count(ratio: &mut Ratio, good: bool) {
    ratio.numerator += u64::from(good);
    ratio.denominator += 1;
}

/// The session of one agent on this server.
#[derive(Clone, Debug)]
pub(super) struct Session {
    /// Whose.
    pub(super) scope: Scope,
    /// First call, in milliseconds since 1970.
    pub(super) began_ms: u64,
    last_ms: u64,
    pub(super) tally: Tally,
    naive: bool,
}

#[derive(Default)]
struct Held {
    server: Tally,
    sessions: HashMap<String, Session>,
    /// Sessions that are over and wait for their line, with the reason.
    closing: VecDeque<(Session, &'static str)>,
    /// Outcomes of the last probes by tier, newest last.
    probes: [VecDeque<bool>; 3],
    guards: BTreeMap<&'static str, bool>,
}

/// All measurements of this server.
#[derive(Default)]
pub(super) struct Measures {
    held: Mutex<Held>,
}

/// What the score takes from here.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) times: [PathTime; 3],
    pub(super) requests: Ratio,
    pub(super) requests_of_session: bool,
    pub(super) read_searches: Ratio,
    pub(super) probes: Ratio,
    pub(super) guards: Ratio,
    pub(super) down: Vec<Why>,
}

impl Measures {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().expect("no holder panics")
    }

    /// Takes a call into account. A session that was quiet for `idle_ms`, or has to give way to this agent's, is set aside to be closed.
    pub(super) fn note(&self, scope: &Scope, now_ms: u64, idle_ms: u64, sample: &Sample) {
        let mut held = self.held();
        held.server.add(sample);
        held.show(sample);
        held.make_room(scope.key(), now_ms, idle_ms);
        let session = held.sessions.entry(scope.key().to_owned()).or_insert_with(|| Session {
            scope: scope.clone(),
            began_ms: now_ms,
            last_ms: now_ms,
            tally: Tally::default(),
            naive: false,
        });
        session.last_ms = session.last_ms.max(now_ms);
        session.tally.add(sample);
        session.naive |= sample.naive;
        held.show_sessions();
    }

    /// Sessions to be closed: those set aside, and those that were quiet for `idle_ms`, longest first; at most `SESSIONS_TOLD_MAX`.
    pub(super) fn take_over(
        &self,
        now_ms: u64,
        idle_ms: u64,
        why: &'static str,
    ) -> Vec<(Session, &'static str)> {
        let mut held = self.held();
        let mut taken: Vec<(Session, &'static str)> = held.closing.drain(..).collect();
        let mut idle: Vec<(u64, String)> = held
            .sessions
            .iter()
            .filter(|(_, session)| now_ms.saturating_sub(session.last_ms) >= idle_ms)
            .map(|(key, session)| (session.last_ms, key.clone()))
            .collect();
        idle.sort_unstable();
        idle.truncate(SESSIONS_TOLD_MAX - taken.len().min(SESSIONS_TOLD_MAX));
        let sessions = idle.iter().filter_map(|(_, key)| held.sessions.remove(key));
        taken.extend(sessions.map(|session| (session, why)));
        held.show_sessions();
        taken
    }

    /// Takes the outcome of a probe into account; true if it differs from the one before.
    pub(super) fn probed(&self, tier: Tier, healthy: bool) -> bool {
        let outcome = if healthy { "healthy" } else { "failed" };
        metrics::counter!(metric::TIER_PROBES, "tier" => tier.text(), "outcome" => outcome)
            .increment(1);
        metrics::gauge!(metric::TIER_UP, "tier" => tier.text()).set(flag(healthy));
        metrics::gauge!(metric::ZERO_PROPAGATION, "why" => Why::TierDown(tier).text())
            .set(flag(!healthy));
        let mut held = self.held();
        let probes = &mut held.probes[tier as usize];
        let changed = probes.back().is_some_and(|last| *last != healthy);
        if probes.len() == PROBES_KEPT {
            probes.pop_front();
        }
        probes.push_back(healthy);
        changed
    }

    /// Takes a check of the inside eye into account.
    pub(super) fn guarded(&self, check: &'static str, green: bool) {
        metrics::gauge!(metric::GUARDS_GREEN, "check" => check).set(flag(green));
        self.held().guards.insert(check, green);
    }

    /// The session of an agent, if one is open.
    pub(super) fn session(&self, key: &str) -> Option<Session> {
        self.held().sessions.get(key).cloned()
    }

    /// What was measured for a session, and for the server where the session has nothing. `None`: the server alone.
    pub(super) fn measured(&self, session: Option<&Session>) -> Measured {
        let held = self.held();
        let own = session.map(|session| &session.tally);
        let times = Path::ALL.map(|path| {
            let of_session = own.filter(|tally| tally.times[path as usize].samples() > 0);
            let tally = of_session.unwrap_or(&held.server);
            let times = tally.times[path as usize].clone();
            PathTime { path, times, of_session: of_session.is_some() }
        });
        let of_session = own.filter(|tally| tally.requests.denominator > 0);
        let probes = held.probes.iter().flatten();
        let healthy = probes.clone().filter(|healthy| **healthy).count() as u64;
        let green = held.guards.values().filter(|green| **green).count() as u64;
        Measured {
            times,
            requests: of_session.map_or(held.server.requests, |tally| tally.requests),
            requests_of_session: of_session.is_some(),
            read_searches: own.map(|tally| tally.read_searches).unwrap_or_default(),
            probes: Ratio::of(healthy, probes.count() as u64),
            guards: Ratio::of(green, held.guards.len() as u64),
            down: Tier::ALL
                .into_iter()
                .filter(|tier| held.probes[*tier as usize].back() == Some(&false))
                .map(Why::TierDown)
                .collect(),
        }
    }
}

impl Held {
    /// Sets the agent's own session aside if it is over, or the one that was quiet longest if there is no room for another.
    fn make_room(&mut self, key: &str, now_ms: u64, idle_ms: u64) {
        if let Some(session) = self.sessions.get(key) {
            if now_ms.saturating_sub(session.last_ms) >= idle_ms {
                self.set_aside(key, "idle");
            }
            return;
        }
        if self.sessions.len() >= SESSIONS_MAX {
            let longest = self.sessions.iter().min_by_key(|(_, session)| session.last_ms);
            if let Some(key) = longest.map(|(key, _)| key.clone()) {
                self.set_aside(&key, "crowded");
            }
        }
    }

    /// A session without room for its line is closed without one, and counted.
    fn set_aside(&mut self, key: &str, why: &'static str) {
        let Some(session) = self.sessions.remove(key) else { return };
        if self.closing.len() < SESSIONS_TOLD_MAX {
            self.closing.push_back((session, why));
        } else {
            metrics::counter!(metric::SESSIONS_CLOSED, "why" => "untold").increment(1);
        }
    }

    /// The server's own figures, as metrics.
    fn show(&self, sample: &Sample) {
        if let Some((path, ms)) = sample.took {
            let (seconds, p99) = match path {
                Path::Recall => (metric::RECALL_SECONDS, metric::RECALL_P99_MS),
                Path::Archival => (metric::ARCHIVAL_SECONDS, metric::ARCHIVAL_P99_MS),
                Path::CoreWrite => (metric::CORE_WRITE_SECONDS, metric::CORE_WRITE_P99_MS),
            };
            metrics::histogram!(seconds).record(ms / 1000.0);
            let known = self.server.times[path as usize].p99_ms();
            metrics::gauge!(p99).set(known.unwrap_or(f64::NAN));
        }
        if sample.filtered.denominator > 0 {
            let rate = self.server.filtered.value();
            metrics::gauge!(metric::ARCHIVAL_DROP_RATE).set(rate.unwrap_or(f64::NAN));
        }
        if let Some(found) = sample.found {
            metrics::counter!(metric::RECALL_SEARCHES).increment(1);
            metrics::counter!(metric::RECALL_HITS).increment(u64::from(found));
            let rate = self.server.searches.value();
            metrics::gauge!(metric::RECALL_HIT_RATE).set(rate.unwrap_or(f64::NAN));
        }
    }

    fn show_sessions(&self) {
        metrics::gauge!(metric::SESSIONS).set(self.sessions.len() as f64);
        let naive = self.sessions.values().any(|session| session.naive);
        metrics::gauge!(metric::ZERO_PROPAGATION, "why" => Why::NaiveChunking.text())
            .set(flag(naive));
    }
}

fn flag(on: bool) -> f64 {
    if on { 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vctx_core::policy::{Actor, Principal, admit};

    fn scope(agent: &str) -> Scope {
        let actor = Actor { uid: 0, pid: 0, label: None };
        admit(&Principal { actor, tenant: String::new() }, agent).unwrap()
    }

    fn write(ms: f64) -> Sample {
        let trips = Trips { sent: 2, answered: 1 };
        Sample { trips, took: Some((Path::CoreWrite, ms)), ..Sample::default() }
    }

    #[test]
    fn a_session_measures_its_own_calls_and_borrows_what_it_never_did() {
        let measures = Measures::default();
        measures.note(&scope("a"), 0, 100, &write(10.0));
        let found = Sample { found: Some(true), only_read: true, ..Sample::default() };
        measures.note(&scope("b"), 0, 100, &found);
        let b = measures.session("b").unwrap();
        let measured = measures.measured(Some(&b));
        let write = &measured.times[Path::CoreWrite as usize];
        assert_eq!((write.times.samples(), write.of_session), (1, false));
        assert_eq!(measured.times[Path::Recall as usize].times.samples(), 0);
        assert_eq!((measured.requests, measured.requests_of_session), (Ratio::of(1, 2), false));
        assert_eq!(measured.read_searches, Ratio::of(1, 1));
    }

    #[test]
    fn a_pause_ends_a_session_and_the_next_call_begins_another() {
        let measures = Measures::default();
        for ms in [0, 99, 199] {
            measures.note(&scope("a"), ms, 100, &write(1.0));
        }
        let closed = measures.take_over(250, 100, "idle");
        assert_eq!((closed.len(), closed[0].0.began_ms, closed[0].1), (1, 0, "idle"));
        assert_eq!(measures.session("a").unwrap().began_ms, 199);
        assert_eq!(measures.take_over(298, 100, "idle").len(), 0);
        assert_eq!(measures.take_over(299, 100, "idle").len(), 1);
        assert!(measures.session("a").is_none());
    }

    #[test]
    fn too_many_sessions_close_the_quietest() {
        let measures = Measures::default();
        for number in 0..=SESSIONS_MAX as u64 {
            measures.note(&scope(&format!("a{number}")), number, 1 << 40, &write(1.0));
        }
        let closed = measures.take_over(1 << 20, 1 << 40, "idle");
        let closed: Vec<_> = closed.iter().map(|(s, why)| (s.scope.key(), *why)).collect();
        assert_eq!(closed, [("a0", "crowded")]);
        assert!(measures.session(&format!("a{SESSIONS_MAX}")).is_some());
    }

    #[test]
    fn what_waits_to_be_closed_is_bounded() {
        let measures = Measures::default();
        for number in 0..10 * SESSIONS_TOLD_MAX as u64 {
            measures.note(&scope("a"), number * 100, 100, &write(1.0));
        }
        assert_eq!(measures.take_over(0, 100, "idle").len(), SESSIONS_TOLD_MAX);
    }

    #[test]
    fn a_tier_is_down_while_its_last_probe_was_not_answered() {
        let measures = Measures::default();
        let down = || measures.measured(None).down;
        assert!(!measures.probed(Tier::Recall, false), "the first probe is no change");
        assert_eq!(down(), [Why::TierDown(Tier::Recall)]);
        assert!(measures.probed(Tier::Recall, true));
        assert!(down().is_empty());
        for _ in 0..2 * PROBES_KEPT {
            measures.probed(Tier::Core, true);
        }
        let kept = PROBES_KEPT as u64;
        assert_eq!(measures.measured(None).probes, Ratio::of(kept + 1, kept + 2));
    }

    #[test]
    fn guards_are_counted_by_name() {
        let measures = Measures::default();
        for (check, green) in [("uds", true), ("modes", false), ("uds", true), ("modes", true)] {
            measures.guarded(check, green);
        }
        assert_eq!(measures.measured(None).guards, Ratio::of(2, 2));
    }
}
