//! Derives the metrics of a call, and what the call adds to the session's measurements.

use std::time::Duration;

use serde_json::Value;

use super::heartbeat;
use super::measures::Sample;
use super::request::CallRequest;
use crate::store::Trips;
use vctx_base::metric;
use vctx_core::conveyance::{Path, Ratio};
use vctx_core::error::{Code, Result};
use vctx_core::memory::change::{Change, Part};
use vctx_core::memory::event::{Event, EventType};
use vctx_core::memory::message::tainted;
use vctx_core::policy::found_by_search;
use vctx_core::window::{Section, tokens};

/// Returns what a call adds to the measurements. A replayed call adds only its database requests,
/// since it only repeats a stored answer.
pub(super) fn sample(
    request: &CallRequest,
    outcome: &Result<Value>,
    trips: Trips,
    took: Duration,
) -> Sample {
    let ms = took.as_secs_f64() * 1000.0;
    let naive = outcome.as_ref().is_err_and(|e| e.code == Code::LateChunkingRequired);
    let mut sample = Sample { trips, naive, ..Sample::default() };
    let Ok(body) = outcome else { return sample };
    if body["replayed"] == true {
        return sample;
    }
    match request.call.spec().path {
        Some(Path::Recall) => {
            let found = body["result"].as_object().is_some_and(|r| found_by_search(r) > 0);
            sample.took = Some((Path::Recall, ms));
            sample.found = Some(found);
            // Only the answer to a change has the field `flush`, which may be null.
            sample.only_read = body.get("flush").is_none();
        }
        Some(Path::Archival) => {
            let count = |name: &str| body["result"][name].as_u64().unwrap_or(0);
            let dropped = count("post_filter_dropped");
            sample.took = Some((Path::Archival, ms));
            sample.filtered = Ratio::of(dropped, dropped + count("k_actual"));
        }
        Some(Path::CoreWrite) if request.call.writes() && body["flush"].is_null() => {
            sample.took = Some((Path::CoreWrite, ms));
        }
        Some(Path::CoreWrite) | None => {}
    }
    sample
}

/// Returns the window's occupancy in tokens after a call, or `None` if the call was refused.
pub(super) fn occupancy(outcome: &Result<Value>) -> Option<u64> {
    outcome.as_ref().ok()?["tokens"]["occupancy"].as_u64()
}

/// Records the metrics of a completed archival search.
pub(super) fn report_search(n_probe_given: bool, body: &Value) {
    if let Some(found) = body["result"]["k_actual"].as_u64() {
        #[allow(clippy::cast_precision_loss, reason = "at most a few dozen results")]
        metrics::histogram!(metric::ARCHIVAL_K_ACTUAL).record(found as f64);
    }
    if let Some(page) = body["result"]["page"].as_u64() {
        #[allow(clippy::cast_precision_loss, reason = "pages are few")]
        metrics::histogram!(metric::ARCHIVAL_PAGE_DEPTH).record(page as f64);
    }
    if n_probe_given && body["result"]["nProbe"].is_u64() {
        metrics::counter!(metric::NPROBE_OVERRIDES, "by" => "caller").increment(1);
    }
}

/// Records the metrics of a written change.
pub(super) fn report(change: &Change, tool: &'static str) {
    metrics::counter!(metric::SPOOLED, "tool" => tool).increment(u64::from(change.spooled()));
    let said = change.messages.iter().filter(|message| message.tainted_seq.is_some());
    let kept = change.ingest().into_iter().flat_map(|ingest| &ingest.passages);
    let rules = said.flat_map(|message| tainted(&message.meta));
    for rule in rules.chain(kept.flat_map(|passage| passage.taint.iter().copied())) {
        metrics::counter!(metric::TAINTED, "rule" => rule.to_owned()).increment(1);
    }
    let now = tokens(&change.after);
    // Only a prompt has a context, so the core notes the cost of the newest one.
    let context = change.after.context.as_ref().map_or(0, |context| context.token_estimate);
    let cost = |section: Section| if section == Section::Context { context } else { now[section] };
    let sections = Section::ALL.into_iter().map(|section| (section.spec().gauge, cost(section)));
    for (name, value) in sections.chain([(metric::TOKEN_FREE, now.free)]) {
        #[allow(
            clippy::cast_precision_loss,
            reason = "a gauge is a double; windows are far below 2^53"
        )]
        metrics::gauge!(name).set(value as f64);
    }
    heartbeat::count(change);
    report_prompts(change);
    #[allow(
        clippy::cast_precision_loss,
        reason = "a share is a double; windows are far below 2^53"
    )]
    let share = now.occupancy as f64 / change.after.context_window.max(1) as f64;
    metrics::gauge!(metric::WINDOW_SHARE).set(share);
    let warned = change.after.counters.warnings - change.before.counters.warnings;
    metrics::counter!(metric::WARNINGS).increment(warned);
    if let Some(ingest) = change.ingest() {
        metrics::counter!(metric::CHUNKS, "outcome" => "compliant")
            .increment(ingest.manifest.chunks);
    }
    if let Some(evict) = change.evict() {
        metrics::counter!(metric::FLUSHES).increment(1);
        metrics::counter!(metric::EVICTED).increment(evict.evicted_count);
        change.events.iter().filter(|e| e.kind == EventType::Flush).for_each(report_drift);
    }
}

/// Records the metrics of prompts that a change recorded or ended.
fn report_prompts(change: &Change) {
    for part in &change.parts {
        let Part::Prompt(row) = part else { continue };
        let outcome = match (row.get("ended_at"), &row["answer_seq"]) {
            (None, _) => "asked",
            (Some(_), Value::Null) => "empty",
            (Some(_), _) => "answered",
        };
        metrics::counter!(metric::PROMPTS, "outcome" => outcome).increment(1);
        if let Some(permille) = row["counted_permille"].as_f64() {
            metrics::histogram!(metric::PROMPT_COUNTED).record(permille / 1000.0);
        }
        if row["variance_flag"] == true {
            metrics::counter!(metric::PROMPT_VARIANCE_FLAGS).increment(1);
        }
        if let Some(ms) = row["duration_ms"].as_f64().filter(|_| outcome == "answered") {
            metrics::histogram!(metric::PROMPT_SECONDS).record(ms / 1000.0);
        }
    }
}

/// Records how dissimilar the summary of a flush is to the evicted messages.
fn report_drift(flush: &Event) {
    let number = |name: &str| flush.details.get(name).and_then(Value::as_f64);
    if let Some(similarity) = number("similarity") {
        metrics::histogram!(metric::SUMMARY_SIMILARITY).record(similarity);
    }
    if let Some(lost) = number("information_drift") {
        metrics::histogram!(metric::SUMMARY_LOSS).record(lost);
    }
    if let Some(alarm) = flush.details.get("alarm").and_then(Value::as_str) {
        metrics::counter!(metric::DRIFT_ALARMS, "why" => alarm.to_owned()).increment(1);
    }
}
