//! Writes logs to stderr, and serves metrics as Prometheus text on a separate Unix socket.
//!
//! The log and the metrics are the only global state of the process.

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse as _;
use axum::routing::get;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

use crate::metric::{self, Kind};

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text lines for people.
    Text,
    /// One JSON object per line of the log.
    Json,
}

/// Settings of the log: filter and format.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Log filter in tracing's syntax (`info`, `vctx=debug`).
    pub filter: String,
    /// Format of the log lines.
    pub format: LogFormat,
}

/// Installs the log subscriber. A second call in one process has no effect.
pub fn start_logs(settings: &Settings) -> Result<(), String> {
    let filter = EnvFilter::try_new(&settings.filter).map_err(|e| format!("log.filter: {e}"))?;
    let base = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let installed = match settings.format {
        LogFormat::Text => base.with_ansi(false).try_init(),
        LogFormat::Json => base.json().flatten_event(true).with_current_span(true).try_init(),
    };
    // An error means that a subscriber is already installed. This happens only if one process
    // starts the logs twice, as tests do.
    drop(installed);
    Ok(())
}

/// Installs the metrics recorder and describes every metric.
pub fn start_metrics() -> Result<PrometheusHandle, String> {
    let mut builder = PrometheusBuilder::new();
    for meter in metric::ALL.iter().filter(|meter| meter.kind == Kind::Histogram) {
        let whole = Matcher::Full(meter.exported());
        builder =
            builder.set_buckets_for_metric(whole, meter.buckets).map_err(|e| e.to_string())?;
    }
    let handle = builder.install_recorder().map_err(|e| e.to_string())?;
    for meter in metric::ALL.iter() {
        match meter.kind {
            Kind::Counter => metrics::describe_counter!(meter.name, meter.help),
            Kind::Gauge => metrics::describe_gauge!(meter.name, meter.help),
            Kind::Histogram => metrics::describe_histogram!(meter.name, meter.help),
        }
    }
    start_counters();
    metrics::gauge!(metric::BUILD, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(handle)
}

/// Counters whose first increment triggers an alert, each with its label and the label's values.
const STARTED: &[(&str, &str, &[&str])] = &[
    (metric::STORE_UNANSWERED, "why", &["unreachable", "lost", "garbage", "failed"]),
    (metric::TRANSACTIONS, "outcome", &["committed", "aborted", "unknown"]),
    (metric::HB_TERMINATED, "reason", &["depth", "duration", "tokens", "explicit_yield"]),
    (metric::TICKS, "outcome", &["fired", "failed", "run_failed", "unrun"]),
    (metric::HB_RATE_LIMITED, "why", &["rate", "cooldown"]),
    (metric::CHUNKS, "outcome", &["compliant", "refused"]),
    (metric::DRIFT_ALARMS, "why", &["similarity", "information", "lost"]),
    (metric::NPROBE_OVERRIDES, "by", &["caller", "retry"]),
    (
        metric::PROXY_REQUESTS,
        "outcome",
        &["passed", "refused", "busy", "unreachable", "lost", "late", "cut"],
    ),
    (
        metric::PROXY_REFUSED,
        "reason",
        &["path", "header", "body", "aql", "function", "writes", "administration"],
    ),
];

/// Sets counters to zero at the start, because Prometheus's `rate` does not count the step from no
/// value to the value 1.
fn start_counters() {
    for meter in metric::ALL.iter().filter(|m| m.kind == Kind::Counter && m.labels.is_empty()) {
        metrics::counter!(meter.name).increment(0);
    }
    for (name, label, values) in STARTED {
        for value in *values {
            metrics::counter!(*name, *label => *value).increment(0);
        }
    }
}

/// Returns the only route of the metrics socket.
pub fn metrics_router(handle: PrometheusHandle) -> Router {
    let render = move || async move {
        handle.run_upkeep();
        ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], handle.render()).into_response()
    };
    Router::new().route("/metrics", get(render))
}
