//! Defines the name, unit, buckets and help text of every metric. `docs/reference/metrics.md` and
//! the golden list of metrics are generated from this file.
//!
//! Code records a metric under its constant (`metrics::counter!(metric::FLUSHES)`); the exporter
//! turns dots in names into underscores.

use std::sync::LazyLock;

use vctx_core::window::{Section, Spec};

/// Whether a metric is a counter, a gauge or a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A current value, which may grow and shrink.
    Gauge,
    /// Counts of recorded values, one count for each range of values (bucket).
    Histogram,
}

/// The definition of one metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Meter {
    /// Name under which the metric is recorded.
    pub name: &'static str,
    /// Name of this metric in the requirements; empty if the requirements do not mention it.
    pub seed: &'static str,
    /// Whether the metric is a counter, a gauge or a histogram.
    pub kind: Kind,
    /// The unit of measurement or the counted things, as a plain noun.
    pub unit: &'static str,
    /// Names of the metric's labels.
    pub labels: &'static [&'static str],
    /// Upper bounds of the buckets; empty for a metric without buckets.
    pub buckets: &'static [f64],
    /// Help text of the metric.
    pub help: &'static str,
}

impl Meter {
    /// Returns the name of the metric in Prometheus.
    pub fn exported(&self) -> String {
        self.name.replace('.', "_")
    }
}

/// Buckets for durations in seconds, from a quarter of a millisecond to the longest call. The
/// promised maximum durations are 0.1, 0.25 and 0.75 s.
const SECONDS: &[f64] = &[
    0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0,
    10.0, 30.0,
];
/// Buckets for durations added by a proxy, in seconds, from ten microseconds on.
const ADDED_SECONDS: &[f64] = &[
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025,
    0.1, 1.0, 5.0,
];
/// Buckets for depths of heartbeat chains (the default maximum is 8) and for page numbers.
const DEPTHS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 16.0, 32.0];
/// Buckets for ages of heartbeat chains in milliseconds (the default maximum is 60 000).
const CHAIN_MS: &[f64] =
    &[10.0, 50.0, 100.0, 500.0, 1_000.0, 5_000.0, 10_000.0, 30_000.0, 60_000.0, 120_000.0];
/// Buckets for the number of lists of the vector index that one search reads. The promised
/// latencies hold for searches that read at most 32 lists.
const PROBES: &[f64] = &[0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
/// Buckets for numbers of rows of a search; an answer has at most 40 rows.
const ROWS: &[f64] = &[0.0, 1.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0];
/// Buckets for shares between 0 and 1; 0.85 is the minimum similarity of a summary to its sources.
const SHARES: &[f64] = &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0];

/// Buckets for tokens of a context.
const TOKENS: &[f64] =
    &[64.0, 128.0, 256.0, 512.0, 1_024.0, 2_048.0, 4_096.0, 8_192.0, 16_384.0, 65_536.0];

/// Buckets for ratios between two token counts of the same text; ratios outside 0.91 to 1.09 are
/// reported.
const RATIOS: &[f64] =
    &[0.5, 0.75, 0.9, 0.91, 0.95, 0.98, 1.0, 1.02, 1.05, 1.09, 1.1, 1.25, 1.5, 2.0, 4.0];

/// All metrics: the metrics defined with `meters!`, and a gauge for each section of the window.
pub static ALL: LazyLock<Vec<Meter>> = LazyLock::new(|| {
    let gauge = |section: Section| {
        let Spec { gauge, help, .. } = section.spec();
        let (kind, unit) = (Kind::Gauge, "tokens");
        Meter { name: gauge, seed: gauge, kind, unit, labels: &[], buckets: &[], help }
    };
    let at = TABLE.iter().position(|meter| meter.name == TOKEN_FREE).unwrap_or(TABLE.len());
    let mut all = TABLE.to_vec();
    all.splice(at..at, Section::reported().map(gauge));
    all
});

macro_rules! meters {
    ($(
        $constant:ident = $kind:ident $name:literal, $seed:literal, $unit:literal,
            [$($label:literal),*], $buckets:expr, $help:literal;
    )*) => {
        $(#[doc = $help] pub const $constant: &str = $name;)*

        const TABLE: &[Meter] = &[$(Meter {
            name: $name, seed: $seed, kind: Kind::$kind, unit: $unit, labels: &[$($label),*],
            buckets: $buckets, help: $help,
        },)*];
    };
}

// Each row has the form: constant = kind and name, name in the requirements, unit, labels, buckets,
// help text.
meters! {
    // Metrics of prompts and of answers to prompts.
    PROMPTS = Counter "vctx_prompts_total", "", "prompts", ["outcome"], &[],
        "Recorded prompts by outcome (asked, answered, empty: the answer is not stored)";
    PROMPT_COUNTED = Histogram "vctx_prompt_counted_ratio", "TB-11", "ratio", [], RATIOS,
        "Tokens that the provider counted for each token of this server's estimate of a prompt";
    PROMPT_VARIANCE_FLAGS = Counter "vctx_prompt_variance_flags_total", "TB-11", "prompts", [], &[],
        "Prompts for which the counts of server and provider differ by more than the bound";
    PROMPT_SECONDS = Histogram "vctx_prompt_seconds", "", "seconds", [], SECONDS,
        "Time from the record of a prompt to its answer, in seconds";
    // Forget operations.
    FORGET_STEPS = Counter "vctx_forget_steps_total", "", "steps", [], &[],
        "Steps of forget operations, each a whole transaction";
    // Metrics of calls and of the database.
    STORE_REQUESTS = Counter "vctx_store_requests_total", "", "requests", ["path"], &[],
        "Database requests by kind (typed: sent with the library arangors; query and raw: sent without it)";
    STORE_UNANSWERED = Counter "vctx_store_unanswered_total", "", "requests", ["why"], &[],
        "Database requests without a useful answer, by reason (unreachable, lost, garbage, failed)";
    STORE_TRIPS = Counter "vctx_store_trips_total", "", "queries", ["socket"], &[],
        "Queries sent to the database by socket";
    TRANSACTIONS = Counter "vctx_transactions_total", "", "transactions", ["outcome"], &[],
        "Stream transactions by outcome";
    TOOL_CALLS = Counter "vctx_tool_calls_total", "", "calls", ["tool", "outcome"], &[],
        "Tool calls by tool and outcome code";
    TOOL_SECONDS = Histogram "vctx_tool_duration_seconds", "", "seconds", ["tool"], SECONDS,
        "Duration of tool calls in seconds";
    FLUSHES = Counter "vctx_evictions_total", "", "evictions", [], &[],
        "Evictions";
    EVICTED = Counter "vctx_evicted_messages_total", "", "messages", [], &[],
        "Messages moved from the queue to recall storage";
    WARNINGS = Counter "vctx_pressure_warnings_total", "", "crossings", [], &[],
        "Number of times that a window rose above its warning mark";
    RECOMPUTED = Counter "vctx_recomputed_total", "", "calls", ["why"], &[],
        "Calls computed again after a conflict or a lost answer";
    REPLAYED = Counter "vctx_replayed_total", "", "calls", [], &[],
        "Answers replayed for a known idempotency key";
    SHED = Counter "vctx_calls_shed_total", "", "calls", [], &[],
        "Calls refused because too many calls were running, and connections refused because their user has too many";
    CONNECTIONS = Gauge "vctx_connections", "", "connections", [], &[],
        "Open connections: of a server, to its API socket and its metrics socket; of a proxy, to its metrics socket";
    BUILD = Gauge "vctx_build_info", "", "none", ["version"], &[],
        "1, labelled with the version";
    // The gauges of the window's sections precede `TOKEN_FREE`.
    TOKEN_FREE = Gauge "token.free", "token.free", "tokens", [], &[],
        "Free tokens in the window that was written last";
    WINDOW_SHARE = Gauge "vctx_window_share", "", "ratio", [], &[],
        "Share of the window in use, of the window last written (0 to 1)";
    // Heartbeats.
    HB_DEPTH = Histogram "vctx_hb_depth", "hb.depth", "beats", [], DEPTHS,
        "Depth that each granted heartbeat reached in its chain";
    HB_DURATION_MS = Histogram "vctx_hb_duration_ms", "hb.duration_ms", "milliseconds", [], CHAIN_MS,
        "Age of the chain at each granted heartbeat, in milliseconds";
    HB_STARTED = Counter "vctx_hb_started_total", "", "chains", [], &[],
        "Heartbeat chains started";
    HB_RATE_LIMITED = Counter "vctx_hb_rate_limited_total", "hb.rate_limited", "beats", ["why"], &[],
        "Heartbeats refused by rate limit or cooldown (rate, cooldown)";
    HB_TERMINATED = Counter "vctx_hb_terminated_total", "hb.terminated_reason", "chains", ["reason"], &[],
        "Heartbeat chains ended by reason (depth, duration, tokens, explicit_yield)";
    // Metrics of databases, and of moves of agents between databases.
    PLACE_UP = Gauge "vctx_place_up", "", "flag", ["place"], &[],
        "1 while a database other than the home database answered its last probe; the tiers' gauges cover the home database";
    MOVES = Counter "vctx_moves_total", "", "moves", ["outcome"], &[],
        "Moves of agents that this server carried out, by outcome (done; stayed: the move was given up, and the agent stays in its old database; cut: another server continues the move)";
    MOVES_STANDING = Gauge "vctx_moves_standing", "", "moves", [], &[],
        "Interrupted moves that no running server continued at this server's last check (counted up to 16)";
    // Schedules.
    TICKS = Counter "vctx_ticks_total", "", "ticks", ["outcome"], &[],
        "Ticks of schedules by their outcome on this server (fired, failed, run_failed, unrun)";
    TICKS_MISSED = Counter "vctx_ticks_missed_total", "", "ticks", [], &[],
        "Ticks of schedules that passed without an event, because no server was running";
    // Recall storage.
    RECALL_SECONDS = Histogram "vctx_recall_seconds", "", "seconds", [], SECONDS,
        "Duration of recall searches in seconds";
    RECALL_P99_MS = Gauge "vctx_recall_p99_ms", "recall.p99_ms", "milliseconds", [], &[],
        "99th percentile of recall searches since the start, in milliseconds";
    RECALL_SEARCHES = Counter "vctx_recall_searches_total", "", "searches", [], &[],
        "Recall searches answered (replays not counted)";
    RECALL_HITS = Counter "vctx_recall_hits_total", "", "searches", [], &[],
        "Recall searches that found at least one result";
    RECALL_HIT_RATE = Gauge "vctx_recall_hit_rate", "recall.hit_rate", "ratio", [], &[],
        "Share of recall searches with a result since the start (0 to 1)";
    SPOOLED = Counter "vctx_spooled_total", "", "results", ["tool"], &[],
        "Results kept in recall storage because the window had no room, by tool";
    TAINTED = Counter "vctx_tainted_total", "", "texts", ["rule"], &[],
        "Messages and chunks that were marked as tainted, by rule; an item that meets two rules counts in both";
    // Archival storage.
    ARCHIVAL_SECONDS = Histogram "vctx_archival_seconds", "", "seconds", [], SECONDS,
        "Duration of archival searches in seconds";
    ARCHIVAL_P99_MS = Gauge "vctx_archival_p99_ms", "archival.p99_ms", "milliseconds", [], &[],
        "99th percentile of archival searches since the start, in milliseconds";
    ARCHIVAL_NPROBE = Histogram "vctx_archival_nprobe", "archival.nProbe_distribution", "lists", [], PROBES,
        "Number of lists that a vector search read (0: exact search without the index)";
    ARCHIVAL_PAGE_DEPTH = Histogram "vctx_archival_page_depth", "archival.page_depth", "pages", [], DEPTHS,
        "Number of the page that an archival search answered (1: the first)";
    ARCHIVAL_K_ACTUAL = Histogram "vctx_archival_k_actual", "archival.k_actual", "rows", [], ROWS,
        "Results of an archival search after its filters";
    ARCHIVAL_FETCHED = Counter "vctx_archival_fetched_total", "", "rows", [], &[],
        "Rows fetched by archival searches before filters";
    ARCHIVAL_DROPPED = Counter "vctx_archival_post_filter_dropped_total", "", "rows", [], &[],
        "Rows dropped by filters after the vector search";
    ARCHIVAL_DROP_RATE = Gauge "vctx_archival_post_filter_drop_rate", "archival.post_filter_drop_rate", "ratio", [], &[],
        "Ratio of the rows that filters dropped to the rows fetched, since the start (0 to 1)";
    ARCHIVAL_PLANS = Counter "vctx_archival_searches_total", "", "searches", ["plan"], &[],
        "Archival searches by plan (vector, vector_filters_first, exact)";
    CHUNKS = Counter "vctx_chunks_total", "", "chunks", ["outcome"], &[],
        "Chunks offered for ingestion (compliant, refused)";
    LEDGER_BROKEN = Counter "vctx_ledger_broken_total", "", "agents", [], &[],
        "Agents whose ledger contradicted the last signed entry; run vctx verify";
    WITNESS_REFUSED = Counter "vctx_witness_refused_total", "", "refusals", [], &[],
        "Times that the witness began to refuse the checkpoints; see the log, and compare the data with a backup";
    WITNESS_FAILED = Counter "vctx_witness_failed_total", "", "failures", [], &[],
        "Times that the witness stopped answering";
    EMBEDDING_SECONDS = Histogram "vctx_embedding_seconds", "", "seconds", [], SECONDS,
        "Duration of embeddings of queries and chunks in seconds";
    EMBEDDER_TEXTS = Counter "vctx_embedder_texts_total", "", "texts", ["from"], &[],
        "Texts whose vector came from a model or an endpoint, by its source (model: computed, memory: cached)";
    RECALL_VECTORS = Counter "vctx_recall_vectors_total", "", "passages", [], &[],
        "Passages of recall storage whose vectors were made in the background";
    REINDEX_DOCUMENTS = Counter "vctx_reindex_documents_total", "", "documents", [], &[],
        "Documents that got vectors of the next vector setting";
    REINDEX_CHUNKS = Counter "vctx_reindex_chunks_total", "", "chunks", [], &[],
        "Chunks that got new vectors; chunks of a document that was ingested again during the reindex count twice";
    REINDEX_SWITCHES = Counter "vctx_reindex_switches_total", "", "changes", [], &[],
        "Reindexes that this server finished";
    EMBEDDER_FAILURES = Counter "vctx_embedder_failures_total", "", "calls", ["of"], &[],
        "Embeddings that failed, by their input (query, document, recall, queue, caller); a search continues by text";
    // The vector index.
    VECTOR_FEATURE = Gauge "vctx_vector_feature", "flag presence", "flag", [], &[],
        "1 while the vector index feature of the database is on";
    VECTOR_READY = Gauge "vctx_vector_index_ready", "", "flag", [], &[],
        "1 while a trained vector index serves searches";
    VECTOR_LISTS = Gauge "vctx_vector_lists", "cluster counts", "lists", [], &[],
        "Lists (clusters) of the vector index in use";
    NPROBE_OVERRIDES = Counter "vctx_nprobe_overrides_total", "nProbe overrides", "searches", ["by"], &[],
        "Searches that did not use the default nProbe, by the source of the value (caller, retry)";
    // Summaries.
    SUMMARY_SECONDS = Histogram "vctx_summary_seconds", "", "seconds", ["by"], SECONDS,
        "Duration of making a summary in seconds, by summariser (local, model)";
    SUMMARY_SIMILARITY = Histogram "vctx_summary_similarity", "summarisation drift", "ratio", [], SHARES,
        "Cosine between the mean statement vector of a new summary and that of the old summary and the evicted batch";
    SUMMARY_LOSS = Histogram "vctx_summary_information_drift", "", "ratio", [], SHARES,
        "Share of the idf-weighted stems of the evicted batch that the summary lost";
    SUMMARY_RETRIES = Counter "vctx_summary_retries_total", "", "summaries", [], &[],
        "Summaries requested again because the first was not usable or too far from its sources";
    SUMMARIES_REFINED = Counter "vctx_summaries_refined_total", "", "summaries", ["outcome"], &[],
        "Summaries that a model was to write in the background, by outcome (written, refused, outdated, failed, dropped)";
    SUMMARY_DEGRADED = Gauge "vctx_summary_model_degraded", "", "flag", [], &[],
        "1 while the last answer of the summary model was not usable";
    DRIFT_ALARMS = Counter "vctx_drift_alarms_total", "", "alarms", ["why"], &[],
        "Flushes whose summary stayed too far from its sources (similarity), lost more than a random selection (information) or contained nothing of the batch (lost)";
    // Built contexts.
    CONTEXT_SECONDS = Histogram "vctx_context_step_seconds", "", "seconds", ["step"], SECONDS,
        "Duration of the steps of context builds that look or ask, in seconds, by step (gather, compare, planner, rewriter, grader, reranker, summariser)";
    CONTEXT_TEXTS = Counter "vctx_context_texts_total", "", "texts", ["fate"], &[],
        "Texts that context builds found, by fate (shown, or the reason why not)";
    CONTEXT_GRADE = Histogram "vctx_context_best_grade", "", "ratio", [], SHARES,
        "Grade of the best text of each context";
    CONTEXT_TOKENS = Histogram "vctx_context_tokens", "", "tokens", [], TOKENS,
        "Tokens of each context";
    CONTEXT_DEGRADED = Counter "vctx_context_degraded_total", "", "steps", ["step"], &[],
        "Steps of context builds whose model gave no usable answer in time, by step";
    // Conveyance.
    CONVEYANCE = Gauge "vctx_conveyance", "", "score", [], &[],
        "Conveyance of the session that was last closed or requested; not a number while a term is missing";
    CONVEYANCE_TERM = Gauge "vctx_conveyance_term", "", "score", ["term"], &[],
        "Terms of Conveyance (W, R, H, T, L, I, A, G, Ctx); not a number while missing";
    ZERO_PROPAGATION = Gauge "vctx_zero_propagation", "", "flag", ["why"], &[],
        "1 while conveyance is zero, by why (tier_down_core, tier_down_recall, tier_down_archival, naive_chunking)";
    TIER_UP = Gauge "vctx_tier_up", "", "flag", ["tier"], &[],
        "1 while the last probe of a tier (core, recall, archival) was answered; for core, only while the database also takes writes";
    TIER_PROBES = Counter "vctx_tier_probes_total", "", "probes", ["tier", "outcome"], &[],
        "Probes of the tiers by outcome (healthy, failed)";
    GUARDS_GREEN = Gauge "vctx_guard_green", "", "flag", ["check"], &[],
        "1 while a check of the self-check passes";
    CORE_WRITE_SECONDS = Histogram "vctx_core_write_seconds", "", "seconds", [], SECONDS,
        "Duration of guarded core writes that evict nothing, in seconds";
    CORE_WRITE_P99_MS = Gauge "vctx_core_write_p99_ms", "", "milliseconds", [], &[],
        "99th percentile of guarded core writes since the start, in milliseconds";
    SESSIONS = Gauge "vctx_sessions", "", "sessions", [], &[],
        "Sessions of agents that are open on this server";
    SESSIONS_CLOSED = Counter "vctx_sessions_closed_total", "", "sessions", ["why"], &[],
        "Closed sessions by reason (idle; drain; crowded; untold: closed without a log line)";
    // Metrics of proxies between servers and the database.
    PROXY_REQUESTS = Counter "vctx_proxy_requests_total", "", "requests", ["outcome"], &[],
        "Requests to a proxy by outcome (passed, refused, busy, unreachable, lost, late, cut)";
    PROXY_REFUSED = Counter "vctx_proxy_refused_total", "", "requests", ["reason"], &[],
        "Requests that a proxy refused by reason (path, header, body, aql, function, writes, administration)";
    PROXY_RESENT = Counter "vctx_proxy_resent_total", "", "requests", [], &[],
        "Reads that a proxy sent again because their answer was lost";
    PROXY_SECONDS = Histogram "vctx_proxy_seconds", "", "seconds", [], SECONDS,
        "Time from a request to the beginning of its answer through a proxy, in seconds";
    PROXY_ADDED_SECONDS = Histogram "vctx_proxy_added_seconds", "", "seconds", [], ADDED_SECONDS,
        "Part of the time of a request that the proxy added, in seconds";
    PROXY_IN_FLIGHT = Gauge "vctx_proxy_in_flight", "", "requests", [], &[],
        "Requests that a proxy has at the database";
    PROXY_WAITING = Gauge "vctx_proxy_waiting", "", "requests", [], &[],
        "Requests that wait for their turn in a proxy";
    PROXY_CONNECTIONS = Gauge "vctx_proxy_connections", "", "connections", [], &[],
        "Open connections of a proxy";
    PROXY_UPSTREAM_UP = Gauge "vctx_proxy_upstream_up", "", "flag", [], &[],
        "1 while the database answers a proxy, by the last request";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{ALL, Kind};

    #[test]
    fn names_are_said_once_and_tell_what_they_are() {
        let names: BTreeSet<String> = ALL.iter().map(super::Meter::exported).collect();
        assert_eq!(names.len(), ALL.len(), "a name stands twice");
        for meter in ALL.iter() {
            let name = meter.exported();
            let plain =
                name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            assert!(plain, "{name}");
            assert_eq!(meter.kind == Kind::Counter, name.ends_with("_total"), "{name}");
            assert_eq!(meter.kind == Kind::Histogram, !meter.buckets.is_empty(), "{name}");
            assert!(meter.buckets.windows(2).all(|pair| pair[0] < pair[1]), "{name}");
        }
    }
}
