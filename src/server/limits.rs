//! Limits shared by several modules of the server.

vctx_core::bounds! {
/// Maximum length of a request with a complete chat history, in bytes: about ten thousand turns.
pub(crate) const HISTORY_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Maximum memory of all large request bodies that are received, parsed or used, in bytes.
pub(crate) const BODIES_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Length up to which a request body is small, in bytes. Small bodies always have room: their
/// number is limited by the number of calls.
pub(crate) const BODY_BYTES_SMALL: usize = 64 * 1024;
/// Memory of the values of a small body, in bytes, by the server's estimate.
pub(crate) const BODY_VALUES_BYTES_SMALL: u64 = 512 * 1024;
/// Maximum memory that the values of one body count for, in bytes: half of all, so that a body of
/// maximum length has room while no other is there.
pub(crate) const BODY_VALUES_BYTES_MAX: u64 = BODIES_BYTES_MAX / 2;
/// Longest wait of a body for room, in milliseconds. After this time, it is refused with 503.
pub(crate) const BODY_ROOM_MS_MAX: u64 = 2_000;
/// Longest wait for one answer of the database, in milliseconds.
pub(crate) const STORE_ANSWER_MS_MAX: u64 = 10_000;
/// Age at which an open transaction of the server's user counts as left behind by a dead server, in
/// milliseconds; normally a transaction takes a few milliseconds.
pub(crate) const LEFTOVER_MS: u64 = 2_000;
/// Maximum number of concurrent requests to one database socket.
pub(crate) const STORE_IN_FLIGHT_MAX: usize = 256;
/// Maximum number of concurrent calls on the API socket; more calls are refused with 503.
pub(crate) const CALLS_IN_FLIGHT_MAX: usize = 512;
/// Default and maximum of `limit` in requests to `/quarantine`.
pub(crate) const QUARANTINE_PAGE: (u64, u64) = (50, 200);
/// Maximum number of agents that one search of a person's agents looks at.
pub(crate) const USER_AGENTS_MAX: u64 = 64;
/// Default and maximum number of results of each store in a search of a person's agents.
pub(crate) const USER_SEARCH_PAGE: (u64, u64) = (5, 20);
/// Default and maximum of `limit` in requests for a document: the number of its chunks.
pub(crate) const DOCUMENT_PAGE: (u64, u64) = (64, 64);
/// Default and maximum of `limit` in requests for a list of documents.
pub(crate) const DOCUMENTS_PAGE: (u64, u64) = (100, 1_000);
/// Default and maximum of `limit` in requests for a list of documents with their texts.
pub(crate) const DOCUMENT_TEXTS_PAGE: (u64, u64) = (100, 100);
/// Length after which a list of documents with their texts ends, in bytes.
pub(crate) const DOCUMENT_TEXTS_BYTES_MAX: usize = 1024 * 1024;
/// Age below which an entry of recall storage may be missing from the view, in milliseconds. A view
/// shows a commit after about a second; the rest is a reserve for slow commits and busy machines.
pub(crate) const RECALL_TAIL_MS: u64 = 15_000;
/// Longest wait of a run for the end of the agent's previous run, and pause between two polls, in
/// milliseconds.
pub(crate) const RUN_WAIT_MS: (u64, u64) = (60_000, 50);
/// Maximum number of a run's events that wait to be read by the caller.
pub(crate) const RUN_EVENTS_WAITING: usize = 256;
/// Age below which a chunk may be missing from the view, in milliseconds.
pub(crate) const ARCHIVAL_TAIL_MS: u64 = RECALL_TAIL_MS;
/// Maximum number of schedules of one agent.
pub(crate) const SCHEDULES_PER_AGENT_MAX: u64 = 32;
/// Maximum number of ticks fired, and maximum number of runs taken over, in one round of the
/// schedules job.
pub(crate) const TICKS_LOOKED: u64 = 64;
/// Lease of a scheduled run, in milliseconds.
pub(crate) const TICK_RUN_LEASE_MS: u64 = 15_000;
/// Maximum number of agents that one round of a job examines.
pub(crate) const EXPIRE_AGENTS_LOOKED: u64 = 256;
/// Maximum number of rows in a page when a whole collection is read.
pub(crate) const FORGET_SCAN_ROWS: u64 = 1_024;
/// Number of an agent's newest events that its score counts.
pub(crate) const SCORE_EVENTS_MAX: u64 = 10_000;
/// Number of an agent's newest messages that `why` compares exactly with a text; older messages are
/// found only by search.
pub(crate) const WHY_SCAN_ROWS: u64 = 20_000;
/// Target size of an export's page and an import's batch, in bytes; a single longer row exceeds it.
pub(crate) const EXPORT_PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Number of rows in the first page or batch of an export or import, and maximum number in each
/// later one.
pub(crate) const EXPORT_PAGE_ROWS: (u64, u64) = (2, 512);
/// A page of an export has at most this many times as many rows as the page before.
pub(crate) const EXPORT_PAGE_GROWTH: u64 = 8;
/// Number of stored answers that one request of an export returns.
pub(crate) const EXPORT_ANSWERS: usize = 16;
/// Lease of the server that moves an agent, in milliseconds.
pub(crate) const MOVE_LEASE_MS: u64 = 10_000;
/// Longest time that a move waits for a run or a forget operation of its agent, in milliseconds.
pub(crate) const MOVE_BUSY_MS_MAX: u64 = 10_000;
/// Maximum number of manifests of forget operations that can move with an agent.
pub(crate) const MOVE_MANIFESTS_MAX: u64 = 10_000;
/// Maximum length of all large answers that wait for their clients, in bytes.
pub(crate) const ANSWERS_BYTES_MAX: u64 = 96 * 1024 * 1024;
/// Length up to which an answer is small, in bytes. Small answers are not counted: their number is
/// limited by the number of connections.
pub(crate) const ANSWER_BYTES_SMALL: u64 = 64 * 1024;
/// Maximum memory of all large reading calls that run, in bytes.
pub(crate) const LARGE_CALLS_BYTES_MAX: u64 = 192 * 1024 * 1024;
/// Maximum number of large calls that wait; more are refused with 503.
pub(crate) const LARGE_CALLS_WAITING_MAX: usize = 128;
/// Longest wait of a large call, in milliseconds.
pub(crate) const LARGE_CALL_WAIT_MS: u64 = 10_000;
/// Maximum number of calls with paths of which no answer is known yet that run at once.
pub(crate) const UNKNOWN_CALLS_AT_ONCE: usize = 8;
/// Maximum length of the texts of one page, in bytes; the last step may exceed it.
pub(crate) const PAGE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Maximum number of concurrent exports and imports of one server. Each has an open file; an import
/// also holds the ids of the imported messages in memory.
pub(crate) const EXPORTS_AT_ONCE: usize = 2;
/// Longest wait for the next piece of a transfer, in milliseconds: for bytes of an import's body,
/// or for a client to take a piece of an export.
pub(crate) const IMPORT_PIECE_MS_MAX: u64 = 30_000;
/// Lowest average speed of a transfer, in bytes per second; the first `IMPORT_PIECE_MS_MAX`
/// milliseconds do not count. A slower transfer is ended, since a slow client would hold one of the
/// few permits for exports and imports.
pub(crate) const TRANSFER_BYTES_PER_S_MIN: u64 = 256 * 1024;
/// Longest time of a whole transfer, in milliseconds.
pub(crate) const TRANSFER_MS_MAX: u64 = 3_600_000;
/// Maximum number of change feeds of one server. Each has a connection, and at most one request to
/// the database at a time.
pub(crate) const FEEDS_MAX: usize = 256;
/// Maximum number of change feeds of one agent on one server.
pub(crate) const FEEDS_PER_AGENT_MAX: usize = 32;
/// Maximum number of changes that a feed reads in one request.
pub(crate) const FEED_ROWS: u64 = 64;
/// Pause between two looks of a feed at the database, in milliseconds. A change of the same server
/// ends the pause; changes of other servers of the database wait until its end.
pub(crate) const FEED_LOOK_MS: u64 = 1_000;
/// Time without a message after which a feed sends a comment, in milliseconds, so that the client
/// knows that the connection works.
pub(crate) const FEED_ALIVE_MS: u64 = 10_000;
/// Time after which a feed ends, in milliseconds; the client then continues with a new request. A
/// client that reads too slowly holds a feed no longer than this.
pub(crate) const FEED_MS_MAX: u64 = 900_000;
/// Pause before a client continues a feed that has ended, in milliseconds, as the feed tells it.
pub(crate) const FEED_RETRY_MS: u64 = 500;
/// Maximum length of a database answer, in bytes.
pub(crate) const STORE_ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;
}
