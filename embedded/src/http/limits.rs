//! Every number that bounds the HTTP front, with its source.

use std::time::Duration;

/// Connections served at once on one listener; more wait in the socket's backlog.
pub(super) const CONNECTIONS_MAX: usize = 1024;
/// Connections of one listener that have a thread and an event loop (some four descriptors) of their own; the others share one.
pub(super) const CONNECTION_THREADS_MAX: usize = 64;
/// Requests that do engine work at once; each occupies one blocking thread.
pub(super) const WORKERS_MAX: usize = 128;
/// Begins of stream transactions at once; they may wait long for locks, so they have their own threads.
pub(super) const BEGINNERS_MAX: usize = 32;
/// Commits and aborts at once; apart from the others, so that an end is never queued behind those who wait for it.
pub(super) const FINISHERS_MAX: usize = 32;
/// Operations inside stream transactions at once; apart from those who may wait for what these transactions hold.
pub(super) const STREAM_WORKERS_MAX: usize = 64;
/// Requests that wait for a thread (`--server.maximal-queue-size` of arangod); one more is answered 503/21003.
pub(super) const QUEUE_MAX: usize = 4096;
/// Bytes of a request body (arangod: 1 GiB; here a tenth is plenty for a local engine).
pub(super) const BODY_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Bytes of all request bodies that are held at once on one listener; one more is answered 503/21003.
pub(super) const BODIES_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Bytes in which the room for bodies is counted.
pub(super) const BODY_UNIT: usize = 1024;
/// Bytes of a request target (arangod: 16 KiB).
pub(super) const TARGET_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a header block (arangod: 1 MiB).
pub(super) const HEAD_BYTES_MAX: usize = 1024 * 1024;
/// Wait for a request's head, idle time between requests included (`--http.keep-alive-timeout` of arangod: 300 s).
pub(super) const HEAD_WAIT: Duration = Duration::from_secs(300);
/// Wait for a request's body after its head.
pub(super) const BODY_WAIT: Duration = Duration::from_secs(60);
/// Longest time in which a client takes nothing of an answer that waits for it (`send_timeout` of nginx: 60 s).
pub(super) const ANSWER_STALL: Duration = Duration::from_secs(60);
/// Open requests may take this long to finish when the server stops.
pub(super) const DRAIN_WAIT: Duration = Duration::from_secs(10);
/// First pause after a failed accept; doubled up to `ACCEPT_PAUSE_MAX`.
pub(super) const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(5);
/// Longest pause after a failed accept.
pub(super) const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// How often expired cursors are dropped.
pub(super) const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Cursors kept at once on one listener; one more is refused with 500/32.
pub(super) const CURSORS_MAX: usize = 1024;
/// Bytes that the queries of all kept cursors of one listener held; a result above is refused with 500/32.
pub(super) const CURSOR_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;
/// `batchSize` when the request names none (ArangoDB's default).
pub(super) const BATCH_SIZE_DEFAULT: usize = 1000;
/// Longest `ttl` of a cursor in seconds.
pub(super) const CURSOR_TTL_S_MAX: f64 = 3600.0;

/// Elements of a document array in one request.
pub(super) const ARRAY_MAX: usize = 1_000_000;
/// Documents read at once by a scan of the front (truncate in a transaction, checksum).
pub(super) const SCAN_BATCH: usize = 1000;
/// Stream transactions that the read-only listener remembers as its own.
pub(super) const READ_STREAMS_MAX: usize = 65_536;
/// Collections in one `collections` object of a stream transaction (ArangoDB: 2048 per query).
pub(super) const DECLARED_MAX: usize = 2048;

/// Rounds of SHA-256 over a password.
pub(super) const PASSWORD_ROUNDS: u32 = 20_000;
/// Verified Basic credentials that are remembered.
pub(super) const CREDENTIALS_KEPT: usize = 1024;
/// Seconds that a token of `/_open/auth` is good for (`--server.session-timeout`).
pub(super) const SESSION_S: u64 = 3600;
/// Users that can exist.
pub(super) const USERS_MAX: usize = 10_000;
/// Bytes of a user name or password.
pub(super) const CREDENTIAL_BYTES_MAX: usize = 4096;
/// Fields of one persistent index, and its `storedValues` (ArangoDB: 32).
pub(super) const INDEX_FIELDS_MAX: usize = 32;
/// Shards of one collection (`--cluster.max-number-of-shards` 1000).
pub(super) const SHARDS_MAX: u32 = 1000;
/// Shard keys of one collection (ArangoDB: 8).
pub(super) const SHARD_KEYS_MAX: usize = 8;
/// Faults that are ordered and have not come yet.
pub(super) const FAULT_ORDERS_MAX: usize = 64;
/// Times that one ordered fault comes.
pub(super) const FAULT_TIMES_MAX: u64 = 10_000;
/// Bytes of a refused document in the details of an import (arangod: 255).
pub(super) const IMPORT_EXCERPT_BYTES: usize = 255;
/// Jobs of `x-arango-async: store` that are at work or whose answers are kept, on one listener; one more is 503/21003.
pub(super) const JOBS_MAX: usize = 10_000;
/// Bytes of all kept answers of jobs; one that does not fit is replaced by 500/32.
pub(super) const JOB_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Jobs listed when the request does not say how many (ArangoDB's default).
pub(super) const JOBS_LISTED: usize = 100;
/// Queries at work that are listed; more run unlisted.
pub(super) const QUERIES_LISTED_MAX: usize = 4096;
/// Plans listed as shared in one database (ArangoDB: `--query.plan-cache-max-entries` 128).
pub(super) const PLANS_LISTED_MAX: usize = 128;
/// Slow queries that are remembered for a database (ArangoDB's default of `maxSlowQueries`), and the most that can be asked for.
pub(super) const SLOW_QUERIES: i64 = 64;
/// Most slow queries that can be asked for.
pub(super) const SLOW_QUERIES_MAX: i64 = 16_384;
/// Bytes of a query's text that are remembered (ArangoDB's default of `maxQueryStringLength`).
pub(super) const QUERY_TEXT_BYTES: i64 = 4096;
/// Access tokens of one user (ArangoDB: no bound).
pub(super) const TOKENS_MAX: usize = 256;
/// Seconds that an access token is good for when nothing else is asked (a year).
pub(super) const TOKEN_S: u64 = 31_536_000;
