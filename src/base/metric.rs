//! Names, units, buckets and help of every metric, said once; `docs/reference/metrics.md` and the golden list are printed from here.
//!
//! A metric is recorded by its constant (`metrics::counter!(metric::FLUSHES)`); the exporter turns dots into underscores.

/// Whether a metric counts up, stands, or has buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Counts up.
    Counter,
    /// Stands.
    Gauge,
    /// Has buckets.
    Histogram,
}

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Meter {
    /// Name as it is recorded.
    pub name: &'static str,
    /// Name that the requirement gives it; empty where it gives none.
    pub seed: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// What it counts or measures in, as a plain noun.
    pub unit: &'static str,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// Upper ends of its buckets; empty for what has none.
    pub buckets: &'static [f64],
    /// What it tells.
    pub help: &'static str,
}

impl Meter {
    /// Name as Prometheus sees it.
    pub fn exported(&self) -> String {
        self.name.replace('.', "_")
    }
}

/// Durations in seconds, from a quarter of a millisecond to the longest call; 0.1, 0.25 and 0.75 are the promised limits.
const SECONDS: &[f64] = &[
    0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0,
    10.0, 30.0,
];
/// Durations that a proxy adds, in seconds, from ten microseconds on.
const ADDED_SECONDS: &[f64] = &[
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025,
    0.1, 1.0, 5.0,
];
/// Depths of chains (8 is the usual end) and of pages.
const DEPTHS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 16.0, 32.0];
/// Ages of chains in milliseconds (60 000 is the usual end).
const CHAIN_MS: &[f64] =
    &[10.0, 50.0, 100.0, 500.0, 1_000.0, 5_000.0, 10_000.0, 30_000.0, 60_000.0, 120_000.0];
/// Lists probed; 32 is the most.
const PROBES: &[f64] = &[0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
/// Rows of a search; 40 is the most that is answered.
const ROWS: &[f64] = &[0.0, 1.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0];
/// Shares between 0 and 1; 0.85 is the least similarity of a summary.
const SHARES: &[f64] = &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0];

/// Ratios of two counts of one thing; 0.91 and 1.09 are the bounds of what is not told of.
const RATIOS: &[f64] =
    &[0.5, 0.75, 0.9, 0.91, 0.95, 0.98, 1.0, 1.02, 1.05, 1.09, 1.1, 1.25, 1.5, 2.0, 4.0];

macro_rules! meters {
    ($(
        $constant:ident = $kind:ident $name:literal, $seed:literal, $unit:literal,
            [$($label:literal),*], $buckets:expr, $help:literal;
    )*) => {
        $(#[doc = $help] pub const $constant: &str = $name;)*

        /// Every metric.
        pub const ALL: &[Meter] = &[$(Meter {
            name: $name, seed: $seed, kind: Kind::$kind, unit: $unit, labels: &[$($label),*],
            buckets: $buckets, help: $help,
        },)*];
    };
}

// constant = kind name, name in the requirement, unit, labels, buckets, help.
meters! {
    // Prompts and their answers.
    PROMPTS = Counter "vctx_prompts_total", "", "prompts", ["outcome"], &[],
        "Prompts put on record and ended, by outcome (asked, answered, empty: without an answer to keep)";
    PROMPT_COUNTED = Histogram "vctx_prompt_counted_ratio", "TB-11", "ratio", [], RATIOS,
        "What the provider counted of a prompt for each token of our estimate";
    PROMPT_VARIANCE_FLAGS = Counter "vctx_prompt_variance_flags_total", "TB-11", "prompts", [], &[],
        "Prompts whose two counts differ by more than the bound";
    PROMPT_SECONDS = Histogram "vctx_prompt_seconds", "", "seconds", [], SECONDS,
        "Time from the record of a prompt to its answer, in seconds";
    // Forgetting.
    FORGET_STEPS = Counter "vctx_forget_steps_total", "", "steps", [], &[],
        "Steps of forgettings, each a whole transaction";
    // Calls and the database.
    STORE_REQUESTS = Counter "vctx_store_requests_total", "", "requests", ["path"], &[],
        "Database requests by way (typed through arangors, query and raw past it)";
    STORE_UNANSWERED = Counter "vctx_store_unanswered_total", "", "requests", ["why"], &[],
        "Database requests without a useful answer, by why (unreachable, lost, garbage, failed)";
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
        "Upward crossings of the warning threshold";
    RECOMPUTED = Counter "vctx_recomputed_total", "", "calls", ["why"], &[],
        "Calls computed anew after a conflict or a lost answer";
    REPLAYED = Counter "vctx_replayed_total", "", "calls", [], &[],
        "Answers replayed for a known idempotency key";
    SHED = Counter "vctx_calls_shed_total", "", "calls", [], &[],
        "Calls refused because too many ran";
    CONNECTIONS = Gauge "vctx_connections", "", "connections", [], &[],
        "Open connections of a server's sockets, API and metrics; of a proxy those of its metrics socket";
    BUILD = Gauge "vctx_build_info", "", "none", ["version"], &[],
        "1, labelled with the version";
    // Tokens of the window last written.
    TOKEN_SYSTEM = Gauge "token.system", "token.system", "tokens", [], &[],
        "Tokens of system instructions in the window last written";
    TOKEN_WORKING = Gauge "token.working", "token.working", "tokens", [], &[],
        "Tokens of working blocks in the window last written";
    TOKEN_FIFO = Gauge "token.fifo", "token.fifo", "tokens", [], &[],
        "Tokens of queued messages in the window last written";
    TOKEN_SUMMARY = Gauge "token.summary", "token.summary", "tokens", [], &[],
        "Tokens of the summary in the window last written";
    TOKEN_NOTICES = Gauge "token.notices", "token.notices", "tokens", [], &[],
        "Tokens of notices in the window last written";
    TOKEN_TOOLS = Gauge "token.tools", "token.tools", "tokens", [], &[],
        "Tokens of tools offered to the model in the window last written";
    TOKEN_FREE = Gauge "token.free", "token.free", "tokens", [], &[],
        "Tokens left in the window last written";
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
        "Heartbeat chains ended by reason (depth, duration, tokens, explicit_yield, loop_detected)";
    // Places.
    PLACE_UP = Gauge "vctx_place_up", "", "flag", ["place"], &[],
        "1 while a further place answered when it was last asked; those of tiers tell of the home place";
    MOVES = Counter "vctx_moves_total", "", "moves", ["outcome"], &[],
        "Moves of agents that this server drove, by outcome (done, stayed: given up with the agent where it was, cut: left to whoever takes it up)";
    MOVES_STANDING = Gauge "vctx_moves_standing", "", "moves", [], &[],
        "Moves whose mover had not been heard of at the last look of this server, at most 16";
    // Schedules.
    TICKS = Counter "vctx_ticks_total", "", "ticks", ["outcome"], &[],
        "Moments of schedules by what came of them here (fired, failed, run_failed, unrun)";
    TICKS_MISSED = Counter "vctx_ticks_missed_total", "", "ticks", [], &[],
        "Moments of schedules that passed without an event, since no server ran";
    // Recall storage.
    RECALL_SECONDS = Histogram "vctx_recall_seconds", "", "seconds", [], SECONDS,
        "Duration of recall searches in seconds";
    RECALL_P99_MS = Gauge "vctx_recall_p99_ms", "recall.p99_ms", "milliseconds", [], &[],
        "99th percentile of recall searches since the start, in milliseconds";
    RECALL_SEARCHES = Counter "vctx_recall_searches_total", "", "searches", [], &[],
        "Recall searches answered (replays not counted)";
    RECALL_HITS = Counter "vctx_recall_hits_total", "", "searches", [], &[],
        "Recall searches that found something";
    RECALL_HIT_RATE = Gauge "vctx_recall_hit_rate", "recall.hit_rate", "ratio", [], &[],
        "Recall searches that found something, over all since the start (0 to 1)";
    SPOOLED = Counter "vctx_spooled_total", "", "results", ["tool"], &[],
        "Results kept in recall storage because the window had no room, by tool";
    TAINTED = Counter "vctx_tainted_total", "", "texts", ["rule"], &[],
        "Messages and chunks that were marked as tainted, by rule; one that meets two counts in both";
    // Archival storage.
    ARCHIVAL_SECONDS = Histogram "vctx_archival_seconds", "", "seconds", [], SECONDS,
        "Duration of archival searches in seconds";
    ARCHIVAL_P99_MS = Gauge "vctx_archival_p99_ms", "archival.p99_ms", "milliseconds", [], &[],
        "99th percentile of archival searches since the start, in milliseconds";
    ARCHIVAL_NPROBE = Histogram "vctx_archival_nprobe", "archival.nProbe_distribution", "lists", [], PROBES,
        "Lists probed by a vector search (0: exact, no index used)";
    ARCHIVAL_PAGE_DEPTH = Histogram "vctx_archival_page_depth", "archival.page_depth", "pages", [], DEPTHS,
        "Number of the page that an archival search answered (1: the first)";
    ARCHIVAL_K_ACTUAL = Histogram "vctx_archival_k_actual", "archival.k_actual", "rows", [], ROWS,
        "Results of an archival search, behind its filters";
    ARCHIVAL_FETCHED = Counter "vctx_archival_fetched_total", "", "rows", [], &[],
        "Rows fetched by archival searches before filters";
    ARCHIVAL_DROPPED = Counter "vctx_archival_post_filter_dropped_total", "", "rows", [], &[],
        "Rows dropped by filters after the vector search";
    ARCHIVAL_DROP_RATE = Gauge "vctx_archival_post_filter_drop_rate", "archival.post_filter_drop_rate", "ratio", [], &[],
        "Rows dropped by filters over rows fetched, since the start (0 to 1)";
    ARCHIVAL_PLANS = Counter "vctx_archival_searches_total", "", "searches", ["plan"], &[],
        "Archival searches by plan (vector, vector_filters_first, exact)";
    CHUNKS = Counter "vctx_chunks_total", "", "chunks", ["outcome"], &[],
        "Chunks offered for ingestion (compliant, refused)";
    EMBEDDING_SECONDS = Histogram "vctx_embedding_seconds", "", "seconds", [], SECONDS,
        "Duration of embeddings of queries and chunks in seconds";
    EMBEDDER_TEXTS = Counter "vctx_embedder_texts_total", "", "texts", ["from"], &[],
        "Texts whose vector came from a model or an endpoint, by whether it was made or remembered (model, memory)";
    RECALL_VECTORS = Counter "vctx_recall_vectors_total", "", "passages", [], &[],
        "Passages of recall storage whose vectors were made in the background";
    REINDEX_DOCUMENTS = Counter "vctx_reindex_documents_total", "", "documents", [], &[],
        "Documents that got the vectors of the setting that the archive changes to";
    REINDEX_CHUNKS = Counter "vctx_reindex_chunks_total", "", "chunks", [], &[],
        "Chunks that got them; those of a document that was taken in anew meanwhile count twice";
    REINDEX_SWITCHES = Counter "vctx_reindex_switches_total", "", "changes", [], &[],
        "Changes of all vectors that this server finished";
    EMBEDDER_FAILURES = Counter "vctx_embedder_failures_total", "", "calls", ["of"], &[],
        "Embeddings that failed, by what was to be embedded (query, document, recall); a query goes on by text";
    // The vector index.
    VECTOR_FEATURE = Gauge "vctx_vector_feature", "flag presence", "flag", [], &[],
        "1 while the vector index feature of the database is on";
    VECTOR_READY = Gauge "vctx_vector_index_ready", "", "flag", [], &[],
        "1 while a trained vector index serves searches";
    VECTOR_LISTS = Gauge "vctx_vector_lists", "cluster counts", "lists", [], &[],
        "Lists (clusters) of the vector index in use";
    NPROBE_OVERRIDES = Counter "vctx_nprobe_overrides_total", "nProbe overrides", "searches", ["by"], &[],
        "Searches that did not use the default nProbe, by who chose (caller, retry)";
    // Summaries.
    SUMMARY_SECONDS = Histogram "vctx_summary_seconds", "", "seconds", ["by"], SECONDS,
        "Duration of making a summary in seconds, by summariser (local, model)";
    SUMMARY_SIMILARITY = Histogram "vctx_summary_similarity", "summarisation drift", "ratio", [], SHARES,
        "Line-centroid cosine of a new summary against the old summary and the evicted batch";
    SUMMARY_LOSS = Histogram "vctx_summary_information_drift", "", "ratio", [], SHARES,
        "Share of the idf-weighted stems of the evicted batch that the summary lost";
    SUMMARY_RETRIES = Counter "vctx_summary_retries_total", "", "summaries", [], &[],
        "Summaries asked for again because the first was empty or too far from its sources";
    DRIFT_ALARMS = Counter "vctx_drift_alarms_total", "", "alarms", ["why"], &[],
        "Flushes whose summary stayed too far from its sources (similarity), lost more than a random selection (information) or took up nothing (lost)";
    // Conveyance.
    CONVEYANCE = Gauge "vctx_conveyance", "", "score", [], &[],
        "Conveyance of the session last closed or asked for; not a number while a term is missing";
    CONVEYANCE_TERM = Gauge "vctx_conveyance_term", "", "score", ["term"], &[],
        "Its terms (W, R, H, T, L, I, A, G, Ctx); not a number while missing";
    ZERO_PROPAGATION = Gauge "vctx_zero_propagation", "", "flag", ["why"], &[],
        "1 while conveyance is zero, by why (tier_down_core, tier_down_recall, tier_down_archival, naive_chunking)";
    TIER_UP = Gauge "vctx_tier_up", "", "flag", ["tier"], &[],
        "1 while the last probe of a tier (core, recall, archival) was answered; of core, while the database takes writes too";
    TIER_PROBES = Counter "vctx_tier_probes_total", "", "probes", ["tier", "outcome"], &[],
        "Probes of the tiers by outcome (healthy, failed)";
    GUARDS_GREEN = Gauge "vctx_guard_green", "", "flag", ["check"], &[],
        "1 while a check of the inside eye passes";
    CORE_WRITE_SECONDS = Histogram "vctx_core_write_seconds", "", "seconds", [], SECONDS,
        "Duration of guarded core writes that evict nothing, in seconds";
    CORE_WRITE_P99_MS = Gauge "vctx_core_write_p99_ms", "", "milliseconds", [], &[],
        "99th percentile of guarded core writes since the start, in milliseconds";
    SESSIONS = Gauge "vctx_sessions", "", "sessions", [], &[],
        "Sessions of agents that are open on this server";
    SESSIONS_CLOSED = Counter "vctx_sessions_closed_total", "", "sessions", ["why"], &[],
        "Sessions closed by why (idle, drain, crowded, untold: without a line)";
    // Proxies between servers and the database.
    PROXY_REQUESTS = Counter "vctx_proxy_requests_total", "", "requests", ["outcome"], &[],
        "Requests to a proxy by outcome (passed, refused, busy, unreachable, lost, late, cut)";
    PROXY_REFUSED = Counter "vctx_proxy_refused_total", "", "requests", ["reason"], &[],
        "Requests that a proxy refused by reason (path, header, body, aql, function, writes, administration)";
    PROXY_RESENT = Counter "vctx_proxy_resent_total", "", "requests", [], &[],
        "Reads that a proxy sent again because their answer was lost";
    PROXY_SECONDS = Histogram "vctx_proxy_seconds", "", "seconds", [], SECONDS,
        "Time from a request to the beginning of its answer through a proxy, in seconds";
    PROXY_ADDED_SECONDS = Histogram "vctx_proxy_added_seconds", "", "seconds", [], ADDED_SECONDS,
        "What of that time was not the database's, in seconds";
    PROXY_IN_FLIGHT = Gauge "vctx_proxy_in_flight", "", "requests", [], &[],
        "Requests that a proxy has at the database";
    PROXY_WAITING = Gauge "vctx_proxy_waiting", "", "requests", [], &[],
        "Requests that wait for their turn in a proxy";
    PROXY_CONNECTIONS = Gauge "vctx_proxy_connections", "", "connections", [], &[],
        "Open connections of a proxy";
    PROXY_UPSTREAM_UP = Gauge "vctx_proxy_upstream_up", "", "flag", [], &[],
        "1 while the database answers on the socket behind a proxy, by the last request that asked";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{ALL, Kind};

    #[test]
    fn names_are_said_once_and_tell_what_they_are() {
        let names: BTreeSet<String> = ALL.iter().map(super::Meter::exported).collect();
        assert_eq!(names.len(), ALL.len(), "a name stands twice");
        for meter in ALL {
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
