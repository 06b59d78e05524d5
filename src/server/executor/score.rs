//! Computes an agent's score from measurements and counted rows, and reports it in answers, log
//! lines and gauges.
//!
//! Also probes the storage tiers.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::archive_index::ArchiveIndex;
use super::kernel::{Kernel, no_agent};
use super::measures::{Measured, Measures, Session};
use crate::limits::SCORE_EVENTS_MAX;
use crate::store::{self, ScoreRows};
use vctx_base::clock::iso8601;
use vctx_base::metric;
use vctx_core::conveyance::{
    Considered, Inputs, Noted, Places, Ratio, Tier, Why, report, session_start, tally,
};
use vctx_core::error::Result;
use vctx_core::limits::PROBE_MS_MAX;
use vctx_core::memory::message::Kind;
use vctx_core::policy::Retention;
use vctx_core::trust::{Principal, Scope, admit};

/// Longest time spent on logging sessions when the server stops, in milliseconds.
const SESSIONS_TOLD_MS: u64 = 3_000;

/// The configuration section `[conveyance]`: probes of the storage tiers, and when a session ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConveyanceSettings {
    /// Pause between two background probes of the storage tiers, in milliseconds; with 0, there are
    /// no probes.
    pub probe_ms: u64,
    /// Time without calls that ends the session of an agent, in milliseconds.
    pub session_idle_ms: u64,
}

impl ConveyanceSettings {
    /// Returns one sentence for each invalid value in this section of the configuration.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.probe_ms != 0 && !(500..=60_000).contains(&self.probe_ms) {
            faults.push("conveyance.probe_ms: use 500 to 60000, or 0 for none".into());
        }
        if self.session_idle_ms == 0 {
            faults.push("conveyance.session_idle_ms: use 1 or more".into());
        }
        faults
    }
}

/// The period of an agent's life that a score covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// The agent's current session, which began after the last long pause.
    Session,
    /// The agent's whole life, as far as the counters go back.
    Life,
}

impl Span {
    fn text(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Life => "life",
        }
    }
}

/// Computes agents' scores, and records the measurements for them.
pub struct Scores<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) archive: &'a Arc<ArchiveIndex>,
    pub(super) measures: &'a Measures,
    pub(super) retention: Retention,
}

impl Scores<'_> {
    /// Probes every storage tier once, each within a time limit, and records the outcomes.
    pub async fn probe(&self) {
        let limit = Duration::from_millis(PROBE_MS_MAX);
        let (core, recall, archival) = tokio::join!(
            tokio::time::timeout(limit, store::probe_core(&self.kernel.ro, &self.kernel.rw)),
            tokio::time::timeout(limit, store::probe_recall(&self.kernel.ro)),
            tokio::time::timeout(limit, store::probe_archival(&self.kernel.ro)),
        );
        for (tier, outcome) in Tier::ALL.into_iter().zip([core, recall, archival]) {
            let healthy = matches!(outcome, Ok(Ok(())));
            if self.measures.probed(tier, healthy) || !healthy {
                let why = match &outcome {
                    Ok(Ok(())) => String::new(),
                    Ok(Err(fault)) => fault.to_string(),
                    Err(late) => late.to_string(),
                };
                // The metric of failed probes triggers the alarm. A log warning for each failed
                // probe would flood the log.
                tracing::debug!(tier = tier.text(), healthy, why, "probe of a tier");
            }
        }
    }

    /// Sets the gauges of the vector index. With `starts`, also starts the index job if there is no
    /// index or if its state is unknown. If the database does not answer, the gauges keep their
    /// values; the probes report that a storage tier is unavailable.
    pub async fn show_vector_index(&self, starts: bool) {
        match store::serving_index(&self.kernel.ro).await {
            Ok(index) => {
                metrics::gauge!(metric::VECTOR_READY).set(if index.ready() { 1.0 } else { 0.0 });
                metrics::gauge!(metric::VECTOR_LISTS).set(index.n_lists.unwrap_or(0) as f64);
                if starts && (index.id.is_none() || self.archive.is_unchecked()) {
                    // An ingest normally starts the index job. The job is also started here, in
                    // case that start failed.
                    self.archive.nudge();
                }
            }
            Err(fault) => tracing::debug!(%fault, "cannot read the state of the vector index"),
        }
    }

    /// Records the outcome of a self-check.
    pub fn guarded(&self, check: &'static str, green: bool) {
        self.measures.guarded(check, green);
    }

    /// Probes the storage tiers, and returns the current score of an agent.
    pub async fn of(&self, principal: &Principal, agent: &str, span: Span) -> Result<Value> {
        let scope = admit(principal, agent)?;
        self.probe().await;
        let session = self.measures.session(scope.key());
        let report = self.scored(&scope, session.as_ref(), span).await?;
        show(&report);
        Ok(Value::Object(report))
    }

    async fn scored(
        &self,
        scope: &Scope,
        session: Option<&Session>,
        span: Span,
    ) -> Result<Map<String, Value>> {
        let measured = self.measures.measured(session);
        let kept_since = self.retention.before(self.kernel.clock.unix_ms());
        let loaded = if measured.down.contains(&Why::TierDown(Tier::Core)) {
            None
        } else {
            match self.kernel.read(|ro| store::load_score(ro, scope, &kept_since)).await {
                Ok(Some(rows)) => Some(rows),
                Ok(None) => return Err(no_agent()),
                // While a storage tier is unavailable the score is zero, so no counts are needed.
                Err(_) if !measured.down.is_empty() => None,
                Err(error) => return Err(error),
            }
        };
        let now_ms = self.kernel.clock.unix_ms();
        let (inputs, considered) = self.inputs(loaded, measured, session, span, now_ms);
        let mut report = report(&inputs, &considered);
        report.insert("agent".into(), scope.agent().into());
        Ok(report)
    }

    fn inputs(
        &self,
        rows: Option<ScoreRows>,
        measured: Measured,
        session: Option<&Session>,
        span: Span,
        now_ms: u64,
    ) -> (Inputs, Considered) {
        let began = session.map(|session| session.began_ms);
        let places = rows.as_ref().map(places).unwrap_or_default();
        let marks = rows.as_ref().and_then(|rows| rows.core.clone());
        let mut events: Vec<Noted> = rows.map(noted).unwrap_or_default();
        let events_cut = events.len() as u64 == SCORE_EVENTS_MAX;
        let since = match span {
            Span::Life => None,
            Span::Session => session_start(&events, self.measures.idle_ms, began),
        };
        events.retain(|event| since.is_none_or(|since| event.ms >= since));
        let version = marks.as_ref().map_or(0, |marks| marks.version);
        let counted = tally(&events, version);
        let written = match (span, &marks) {
            (Span::Life, Some(marks)) => {
                Ratio::of(marks.counters.recall_hits, marks.counters.recall_searches)
            }
            _ => counted.searches,
        };
        let mut zero = measured.down;
        if counted.naive_offers > 0 {
            zero.push(Why::NaiveChunking);
        }
        let created_at = marks.map(|marks| marks.created_at);
        let considered = Considered {
            of: span.text(),
            since: since.map(iso8601).or(created_at).unwrap_or_else(|| iso8601(now_ms)),
            until: iso8601(now_ms),
            events: events.len() as u64,
            events_cut,
        };
        let inputs = Inputs {
            places,
            recall_hits: written.plus(measured.read_searches),
            store_requests: measured.requests,
            store_requests_of_session: measured.requests_of_session,
            chains: counted.chains,
            times: measured.times,
            chunks: counted.chunks,
            probes: measured.probes,
            flushes: counted.flushes,
            guards: measured.guards,
            audited: counted.audited,
            zero,
        };
        (inputs, considered)
    }

    /// Closes the sessions that are idle or were displaced by new sessions, each with a log line.
    pub async fn close_idle_sessions(&self) {
        let now_ms = self.kernel.clock.unix_ms();
        for (session, why) in self.measures.take_over(now_ms, self.measures.idle_ms, "idle") {
            self.close_session(&session, why).await;
        }
    }

    /// Closes all sessions when the server stops, those without calls for the longest time first.
    /// Logs as many sessions as the time limit allows.
    pub async fn close_sessions(&self) {
        let sessions = self.measures.take_over(u64::MAX, 0, "drain");
        let told = async {
            for (session, why) in &sessions {
                self.close_session(session, why).await;
            }
        };
        let limit = Duration::from_millis(SESSIONS_TOLD_MS);
        if tokio::time::timeout(limit, told).await.is_err() {
            tracing::info!("not every session could be scored before the stop");
        }
    }

    /// Closes a session with one log line that has every term and flag of its score, but no memory
    /// text.
    async fn close_session(&self, session: &Session, why: &'static str) {
        metrics::counter!(metric::SESSIONS_CLOSED, "why" => why).increment(1);
        let agent = session.scope.agent();
        match self.scored(&session.scope, Some(session), Span::Session).await {
            Ok(report) => {
                show(&report);
                log(agent, why, &report);
            }
            // If the database is unavailable at the end of a session, only this session's score is
            // lost.
            Err(error) => {
                tracing::info!(agent, why, code = error.code.text(), "conveyance unknown");
            }
        }
    }
}

fn places(rows: &ScoreRows) -> Places {
    let sum = |wanted: &dyn Fn(Kind, bool) -> bool| {
        let counts = rows.kinds.iter().filter(|row| wanted(row.kind, row.queued));
        counts.map(|row| row.count).sum()
    };
    Places {
        from_seq: rows.from_seq,
        next_seq: rows.core.as_ref().map_or(rows.from_seq, |core| core.queue.next_seq),
        stored: sum(&|_, _| true),
        queued: sum(&|kind, queued| queued && kind.queued()),
        logged: rows.logged,
        expired: rows.kinds.iter().filter(|row| row.expired).map(|row| row.count).sum(),
        copies: sum(&|kind, queued| !queued && kind.queued() && !kind.logged()),
    }
}

fn noted(rows: ScoreRows) -> Vec<Noted> {
    let event = |row: store::EventRow| Noted { kind: row.kind, ms: row.ms, details: row.details };
    rows.events.into_iter().map(event).collect()
}

/// Sets the score's gauges from a report; a missing value becomes NaN.
fn show(report: &Map<String, Value>) {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    metrics::gauge!(metric::CONVEYANCE).set(number(&report["c"]));
    for (term, told) in report["terms"].as_object().into_iter().flatten() {
        metrics::gauge!(metric::CONVEYANCE_TERM, "term" => term.clone())
            .set(number(&told["value"]));
    }
}

fn log(agent: &str, why: &str, report: &Map<String, Value>) {
    let text = |pointer: &str| report.get(pointer).map(Value::to_string).unwrap_or_default();
    let term = |name: &str| report["terms"][name]["value"].as_f64();
    let missing: Vec<&str> = report["missing"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|missing| missing["term"].as_str())
        .collect();
    tracing::info!(
        agent,
        why,
        since = report["considered"]["since"].as_str(),
        c = report["c"].as_f64(),
        w = term("W"),
        r = term("R"),
        h = term("H"),
        t = term("T"),
        l = term("L"),
        i = term("I"),
        a = term("A"),
        g = term("G"),
        ctx = term("Ctx"),
        missing = missing.join(","),
        zero = %text("zero"),
        flags = %text("flags"),
        terms = %text("terms"),
        "conveyance"
    );
}
