//! Measures running calls for the whole server and for each agent's session: times, requests,
//! searches, probes and self-checks.
//!
//! Measurements begin again when the process restarts. A value that was never measured is absent,
//! not zero.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use crate::store::Trips;
use vctx_base::metric;
use vctx_core::conveyance::{Path, PathTime, Ratio, Tier, Times, Why};
use vctx_core::trust::Scope;

/// Maximum number of remembered probes of each storage tier, enough for one hour at the default
/// pause between two probes.
const PROBES_KEPT: usize = 720;
/// Maximum number of sessions measured at the same time. If one more session begins, the session
/// that has been quiet longest is closed.
const SESSIONS_MAX: usize = 1_024;
/// Default time without calls after which an agent's session ends, in milliseconds: 15 minutes.
const SESSION_IDLE_MS: u64 = 900_000;
/// Maximum number of sessions that are logged when the server stops; the others are closed without
/// a log line.
const SESSIONS_TOLD_MAX: usize = 64;

/// What one call adds to the measurements.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// Number of requests that the call sent to the database, and how many of them the database
    /// answered.
    pub(super) trips: Trips,
    /// The measured operation of the call, with its duration in milliseconds; `None` for a call
    /// without a time target.
    pub(super) took: Option<(Path, f64)>,
    /// Whether the call's search of recall storage found an entry.
    pub(super) found: Option<bool>,
    /// Whether the search of recall storage wrote nothing; such a search is missing from the core's
    /// counts.
    pub(super) only_read: bool,
    /// Share of fetched rows that the filters of an archival search dropped.
    pub(super) filtered: Ratio,
    /// Whether the call sent chunks without evidence of late chunking.
    pub(super) naive: bool,
}

/// Measurements of one session, or of the whole server.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    times: [Times; 3],
    requests: Ratio,
    searches: Ratio,
    filtered: Ratio,
    /// Number of searches of recall storage that the core did not count, and how many of them found
    /// an entry.
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
    /// The agent of the session.
    pub(super) scope: Scope,
    /// Time of the session's first call, in milliseconds since 1970.
    pub(super) began_ms: u64,
    last_ms: u64,
    pub(super) tally: Tally,
    naive: bool,
}

#[derive(Default)]
struct State {
    server: Tally,
    sessions: HashMap<String, Session>,
    /// Sessions that have ended but are not logged yet, with the reason for their end.
    closing: VecDeque<(Session, &'static str)>,
    /// Outcomes of the last probes of each storage tier, newest last.
    probes: [VecDeque<bool>; 3],
    guards: BTreeMap<&'static str, bool>,
}

/// All measurements of this server.
pub(super) struct Measures {
    state: Mutex<State>,
    /// Time without calls that ends a session, in milliseconds.
    pub(super) idle_ms: u64,
}

impl Default for Measures {
    fn default() -> Self {
        Self { state: Mutex::default(), idle_ms: SESSION_IDLE_MS }
    }
}

/// The measurements that a score needs.
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
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Adds a call to the measurements. First queues a session for closing if necessary: the
    /// agent's last session if it is over, or another agent's session if a new one would exceed the
    /// limit.
    pub(super) fn note(&self, scope: &Scope, now_ms: u64, idle_ms: u64, sample: &Sample) {
        let mut state = self.state();
        state.server.add(sample);
        state.show(sample);
        state.make_room(scope.key(), now_ms, idle_ms);
        let session = state.sessions.entry(scope.key().to_owned()).or_insert_with(|| Session {
            scope: scope.clone(),
            began_ms: now_ms,
            last_ms: now_ms,
            tally: Tally::default(),
            naive: false,
        });
        session.last_ms = session.last_ms.max(now_ms);
        session.tally.add(sample);
        session.naive |= sample.naive;
        state.show_sessions();
    }

    /// Takes the sessions to be closed, at most `SESSIONS_TOLD_MAX`: first the queued ones, then
    /// those without calls for `idle_ms`.
    pub(super) fn take_over(
        &self,
        now_ms: u64,
        idle_ms: u64,
        why: &'static str,
    ) -> Vec<(Session, &'static str)> {
        let mut state = self.state();
        let mut taken: Vec<(Session, &'static str)> = state.closing.drain(..).collect();
        let mut idle: Vec<(u64, String)> = state
            .sessions
            .iter()
            .filter(|(_, session)| now_ms.saturating_sub(session.last_ms) >= idle_ms)
            .map(|(key, session)| (session.last_ms, key.clone()))
            .collect();
        idle.sort_unstable();
        idle.truncate(SESSIONS_TOLD_MAX - taken.len().min(SESSIONS_TOLD_MAX));
        let sessions = idle.iter().filter_map(|(_, key)| state.sessions.remove(key));
        taken.extend(sessions.map(|session| (session, why)));
        state.show_sessions();
        taken
    }

    /// Records the outcome of a probe; returns `true` if it differs from the previous outcome.
    pub(super) fn probed(&self, tier: Tier, healthy: bool) -> bool {
        let outcome = if healthy { "healthy" } else { "failed" };
        metrics::counter!(metric::TIER_PROBES, "tier" => tier.text(), "outcome" => outcome)
            .increment(1);
        metrics::gauge!(metric::TIER_UP, "tier" => tier.text()).set(flag(healthy));
        metrics::gauge!(metric::ZERO_PROPAGATION, "why" => Why::TierDown(tier).text())
            .set(flag(!healthy));
        let mut state = self.state();
        let probes = &mut state.probes[tier as usize];
        let changed = probes.back().is_some_and(|last| *last != healthy);
        if probes.len() == PROBES_KEPT {
            probes.pop_front();
        }
        probes.push_back(healthy);
        changed
    }

    /// Records the outcome of a self-check.
    pub(super) fn guarded(&self, check: &'static str, green: bool) {
        metrics::gauge!(metric::GUARDS_GREEN, "check" => check).set(flag(green));
        self.state().guards.insert(check, green);
    }

    /// Returns an agent's open session, if there is one.
    pub(super) fn session(&self, key: &str) -> Option<Session> {
        self.state().sessions.get(key).cloned()
    }

    /// Returns the measurements of a session. Values that the session lacks are those of the whole
    /// server; without a session, all values are those of the server.
    pub(super) fn measured(&self, session: Option<&Session>) -> Measured {
        let state = self.state();
        let own = session.map(|session| &session.tally);
        let times = Path::ALL.map(|path| {
            let of_session = own.filter(|tally| tally.times[path as usize].samples() > 0);
            let tally = of_session.unwrap_or(&state.server);
            let times = tally.times[path as usize].clone();
            PathTime { path, times, of_session: of_session.is_some() }
        });
        let of_session = own.filter(|tally| tally.requests.denominator > 0);
        let probes = state.probes.iter().flatten();
        let healthy = probes.clone().filter(|healthy| **healthy).count() as u64;
        let green = state.guards.values().filter(|green| **green).count() as u64;
        Measured {
            times,
            requests: of_session.map_or(state.server.requests, |tally| tally.requests),
            requests_of_session: of_session.is_some(),
            read_searches: own.map(|tally| tally.read_searches).unwrap_or_default(),
            probes: Ratio::of(healthy, probes.count() as u64),
            guards: Ratio::of(green, state.guards.len() as u64),
            down: Tier::ALL
                .into_iter()
                .filter(|tier| state.probes[*tier as usize].back() == Some(&false))
                .map(Why::TierDown)
                .collect(),
        }
    }
}

impl State {
    /// Queues the agent's session for closing if it is over. If a new session would exceed the
    /// limit, queues the session that has been quiet longest.
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

    /// Queues a session for closing. If the queue is full, closes the session without a log line,
    /// and only counts it.
    fn set_aside(&mut self, key: &str, why: &'static str) {
        let Some(session) = self.sessions.remove(key) else { return };
        if self.closing.len() < SESSIONS_TOLD_MAX {
            self.closing.push_back((session, why));
        } else {
            metrics::counter!(metric::SESSIONS_CLOSED, "why" => "untold").increment(1);
        }
    }

    /// Shows the server's measurements as metrics.
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
    use vctx_core::trust::{Actor, Principal, admit};

    fn scope(agent: &str) -> Scope {
        let actor = Actor { uid: 0, pid: 0, label: None };
        admit(&Principal { actor, tenant: String::new(), called: None }, agent).unwrap()
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
