//! The limits of the HTTP server, with the corresponding limits of ArangoDB where they exist.

use std::time::Duration;

crate::bound::bounds! {
/// Maximum number of open connections of one listener; further connections wait in the socket's
/// backlog.
pub(super) const CONNECTIONS_MAX: usize = 1024;
/// Maximum number of connections of one listener that have their own thread and event loop (about
/// four descriptors each); further connections share one event loop.
pub(super) const CONNECTION_THREADS_MAX: usize = 64;
/// Maximum number of concurrent requests outside of stream transactions; each occupies one thread.
pub(super) const WORKERS_MAX: usize = 128;
/// Maximum number of concurrent begins of stream transactions. A begin may wait long for locks, so
/// begins have their own threads.
pub(super) const BEGINNERS_MAX: usize = 32;
/// Maximum number of concurrent commits and aborts of stream transactions. They have their own
/// threads, so that a commit is not queued after requests that wait for it.
pub(super) const FINISHERS_MAX: usize = 32;
/// Maximum number of concurrent operations inside stream transactions. They have their own threads,
/// apart from requests that may wait for stream transactions.
pub(super) const STREAM_WORKERS_MAX: usize = 64;
/// Maximum number of requests that wait for a thread (arangod: `--server.maximal-queue-size`); a
/// further request is answered 503/21003.
pub(super) const QUEUE_MAX: usize = 4096;
/// Maximum size of a request body in bytes (arangod: 1 GiB).
pub(super) const BODY_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Maximum total size of the request bodies of one listener in memory, in bytes; a request beyond
/// this limit is answered 503/21003.
pub(super) const BODIES_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Size in bytes of the unit in which the memory for bodies is counted.
pub(super) const BODY_UNIT: usize = 1024;
/// Maximum length of a request target in bytes (arangod: 16 KiB).
pub(super) const TARGET_BYTES_MAX: usize = 16 * 1024;
/// Maximum size of a header block in bytes (arangod: 1 MiB).
pub(super) const HEAD_BYTES_MAX: usize = 1024 * 1024;
/// Maximum wait for a request's head, including the idle time between requests (arangod:
/// `--http.keep-alive-timeout`, 300 s).
pub(super) const HEAD_WAIT: Duration = Duration::from_secs(300);
/// Maximum wait for a request's body after its head.
pub(super) const BODY_WAIT: Duration = Duration::from_secs(60);
/// Time after which a connection is closed if the client reads nothing of its answer (nginx:
/// `send_timeout`, 60 s).
pub(super) const ANSWER_STALL: Duration = Duration::from_secs(60);
/// Time that open requests have to finish when the server stops.
pub(super) const DRAIN_WAIT: Duration = Duration::from_secs(10);
/// First pause after a failed accept; doubled up to `ACCEPT_PAUSE_MAX`.
pub(super) const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(5);
/// Maximum pause after a failed accept.
pub(super) const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Interval at which expired cursors are removed.
pub(super) const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of cursors of one listener; a further cursor is refused with 500/32.
pub(super) const CURSORS_MAX: usize = 1024;
/// Maximum total size of the cursors of one listener, in bytes; a cursor counts with the peak
/// memory of its query. A cursor beyond this limit is refused with 500/32.
pub(super) const CURSOR_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;
/// Default `batchSize` (ArangoDB's).
pub(super) const BATCH_SIZE_DEFAULT: usize = 1000;
/// Maximum `ttl` of a cursor in seconds.
pub(super) const CURSOR_TTL_S_MAX: f64 = 3600.0;
/// Maximum number of documents in the list of one request.
pub(super) const ARRAY_MAX: usize = 1_000_000;
/// Number of documents that a handler reads in one batch of a scan (truncate in a transaction,
/// checksum).
pub(super) const SCAN_BATCH: usize = 1000;
/// Maximum number of stream transactions that a read-only listener records as its own.
pub(super) const READ_STREAMS_MAX: usize = 65_536;
/// Maximum number of collections in the `collections` object of a stream transaction (ArangoDB:
/// 2048 per query).
pub(super) const DECLARED_MAX: usize = 2048;
/// Number of SHA-256 rounds to hash a password.
pub(super) const PASSWORD_ROUNDS: u32 = 20_000;
/// Maximum number of verified Basic credentials in the cache.
pub(super) const CREDENTIALS_KEPT: usize = 1024;
/// Lifetime of a token of `/_open/auth` in seconds (arangod: `--server.session-timeout`).
pub(super) const SESSION_S: u64 = 3600;
/// Maximum number of users of one server.
pub(super) const USERS_MAX: usize = 10_000;
/// Maximum length of a user name or password in bytes.
pub(super) const CREDENTIAL_BYTES_MAX: usize = 4096;
/// Maximum number of fields, and of `storedValues`, of one persistent index (ArangoDB: 32).
pub(super) const INDEX_FIELDS_MAX: usize = 32;
/// Maximum number of shards of one collection (arangod: `--cluster.max-number-of-shards`, 1000).
pub(super) const SHARDS_MAX: u32 = 1000;
/// Maximum number of shard keys of one collection (ArangoDB: 8).
pub(super) const SHARD_KEYS_MAX: usize = 8;
/// Maximum number of pending orders for simulated faults.
pub(super) const FAULT_ORDERS_MAX: usize = 64;
/// Maximum number of requests that one order for a fault can affect.
pub(super) const FAULT_TIMES_MAX: u64 = 10_000;
/// Maximum number of access tokens of one user (ArangoDB: no limit).
pub(super) const TOKENS_MAX: usize = 256;
/// Default lifetime of an access token in seconds (365 days).
pub(super) const TOKEN_S: u64 = 31_536_000;
}
