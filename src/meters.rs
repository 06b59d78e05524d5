//! Names and help of every metric; the exporter turns dots into underscores.

/// Database requests by way: `typed` through arangors' own calls, `raw` where it has no right one.
pub const STORE_REQUESTS: &str = "vctx_store_requests_total";
/// Queries sent, by socket.
pub const STORE_TRIPS: &str = "vctx_store_trips_total";
/// Stream transactions by outcome.
pub const TRANSACTIONS: &str = "vctx_transactions_total";
/// Tool calls by tool and outcome code.
pub const TOOL_CALLS: &str = "vctx_tool_calls_total";
/// Duration of a tool call.
pub const TOOL_SECONDS: &str = "vctx_tool_duration_seconds";
/// Evictions.
pub const FLUSHES: &str = "vctx_evictions_total";
/// Messages evicted.
pub const EVICTED: &str = "vctx_evicted_messages_total";
/// Upward crossings of the warning threshold.
pub const WARNINGS: &str = "vctx_pressure_warnings_total";
/// Writes that were computed anew after another writer was faster.
pub const RECOMPUTED: &str = "vctx_recomputed_total";
/// Answers replayed for a known key.
pub const REPLAYED: &str = "vctx_replayed_total";
/// Calls shed because too many ran.
pub const SHED: &str = "vctx_calls_shed_total";
/// Open connections of the API socket.
pub const CONNECTIONS: &str = "vctx_connections";
/// 1, with version.
pub const BUILD: &str = "vctx_build_info";
/// Tokens of the system section of the window last written.
pub const TOKEN_SYSTEM: &str = "token.system";
/// Tokens of its working blocks.
pub const TOKEN_WORKING: &str = "token.working";
/// Tokens of its queue.
pub const TOKEN_FIFO: &str = "token.fifo";
/// Tokens of its summary.
pub const TOKEN_SUMMARY: &str = "token.summary";
/// Tokens of its notices.
pub const TOKEN_NOTICES: &str = "token.notices";
/// Tokens left in it.
pub const TOKEN_FREE: &str = "token.free";

/// Chunks offered to the archive, by whether their evidence held (`late`, `naive`).
pub const CHUNKS_OFFERED: &str = "vctx_archival_chunks_offered_total";

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

/// Every metric with its kind and help.
pub const ALL: &[(&str, Kind, &str)] = &[
    (
        STORE_REQUESTS,
        Kind::Counter,
        "Database requests by way (typed through arangors, raw past it)",
    ),
    (STORE_TRIPS, Kind::Counter, "Queries sent to the database by socket"),
    (TRANSACTIONS, Kind::Counter, "Stream transactions by outcome"),
    (TOOL_CALLS, Kind::Counter, "Tool calls by tool and outcome code"),
    (TOOL_SECONDS, Kind::Histogram, "Duration of tool calls in seconds"),
    (FLUSHES, Kind::Counter, "Evictions"),
    (EVICTED, Kind::Counter, "Messages moved from the queue to recall storage"),
    (WARNINGS, Kind::Counter, "Upward crossings of the warning threshold"),
    (RECOMPUTED, Kind::Counter, "Calls computed anew after a conflict or a lost answer"),
    (REPLAYED, Kind::Counter, "Answers replayed for a known idempotency key"),
    (SHED, Kind::Counter, "Calls refused because too many ran"),
    (CONNECTIONS, Kind::Gauge, "Open connections of the API socket"),
    (BUILD, Kind::Gauge, "1, labelled with the version"),
    (TOKEN_SYSTEM, Kind::Gauge, "Tokens of system instructions in the window last written"),
    (TOKEN_WORKING, Kind::Gauge, "Tokens of working blocks in the window last written"),
    (TOKEN_FIFO, Kind::Gauge, "Tokens of queued messages in the window last written"),
    (TOKEN_SUMMARY, Kind::Gauge, "Tokens of the summary in the window last written"),
    (TOKEN_NOTICES, Kind::Gauge, "Tokens of notices in the window last written"),
    (CHUNKS_OFFERED, Kind::Counter, "Chunks offered to the archive by evidence (late, naive)"),
    (TOKEN_FREE, Kind::Gauge, "Tokens left in the window last written"),
];
