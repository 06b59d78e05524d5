//! Limits of the server's queues, bodies, loops and pages; the name of a limit contains its unit
//! (`BYTES`, `TOKENS`, `MS`).

crate::bounds! {
/// Maximum length of a request body, in bytes (2 MiB is twice the text of a 128k-token window). A
/// longer body gets the status 413.
pub const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Maximum number of JSON values in a request body or a message of an MCP client, since a value
/// takes many times the memory of its text. Counted are arrays, objects and commas. A body of
/// [`BODY_BYTES_MAX`] with numbers of four decimals has fewer.
pub const BODY_VALUES_MAX: u64 = 300_000;
/// Maximum number of bytes of a refused body that the server reads and discards, so that the client
/// can finish sending and read the answer.
pub const BODY_DRAINED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum length of the text of one message or block, in bytes.
pub const TEXT_BYTES_MAX: usize = 1024 * 1024;
/// Maximum length of the name of an agent, a block, a tool or a similar item, in bytes. Allowed
/// names match `[A-Za-z0-9_.-]{1,128}`.
pub const NAME_BYTES_MAX: usize = 128;
/// Maximum number of agents that one name can have had, one after another. The number has three
/// digits, so that a key made from it still fits into a key of the database, with the tenant.
pub const INCARNATIONS_MAX: u64 = 999;
/// Maximum number of names that an agent is given after it was made.
pub const NAMES_PER_AGENT_MAX: usize = 8;
/// Maximum length of the question for which a context is built, in bytes.
pub const CONTEXT_QUESTION_BYTES_MAX: usize = 32 * 1024;
/// Maximum number of documents that a caller gives for one context.
pub const CONTEXT_DOCUMENTS_MAX: usize = 256;
/// Maximum length of an idempotency key, in bytes; all characters are allowed, because the key is
/// hashed.
pub const KEY_BYTES_MAX: usize = 256;
/// Smallest window of an agent, in tokens. It has room for a pressure notice and one message.
pub const WINDOW_TOKENS_MIN: u64 = 256;
/// Share of the window, in percent, that the fixed sections (system text, tools, blocks, notices
/// and clock) should leave for the conversation. If they leave less, the agent's state and the
/// result of a run have a warning. With less than half of the window, no eviction reaches its
/// target.
pub const CONVERSATION_PERCENT_MIN: u64 = 50;
/// Largest window of an agent, in tokens.
pub const WINDOW_TOKENS_MAX: u64 = 4_000_000;
/// Default of `core.blocks_bytes_max`, the maximum length of the texts of all blocks of an agent
/// together, in bytes. Each change of the core writes the texts of all blocks again.
pub const BLOCKS_BYTES_MAX: u64 = 1024 * 1024;
/// Smallest and largest value of `core.blocks_bytes_max`, in bytes. With the largest, the core is
/// still smaller than the largest document of the embedded engine, 64 MiB.
pub const BLOCKS_BYTES: (u64, u64) = (1_024, 32 * 1024 * 1024);
/// Length from which a stored version refers to an unchanged text instead of copying it, in bytes.
/// A reference takes about 60 bytes, in the version and in the core.
pub const HELD_BYTES_MIN: usize = 256;
/// Maximum number of blocks of an agent.
pub const BLOCKS_MAX: usize = 64;
/// Maximum number of lines of a block that a tool shows with line numbers. Anthropic's memory tool
/// shows numbers of at most six digits.
pub const VIEW_LINES_MAX: usize = 999_999;
/// Maximum number of entries in one call to `write_recall`.
pub const RECALL_ENTRIES_MAX: usize = 256;
/// Maximum number of messages in one call that appends several.
pub const APPENDED_MAX: usize = 256;
/// Maximum number of tool calls in one message.
pub const TOOL_CALLS_MAX: usize = 128;
/// Smallest value of the setting `summary.batch_messages`.
pub const BATCH_MESSAGES_MIN: usize = 16;
/// Maximum number of messages that one transaction evicts, and default and largest value of the
/// setting `summary.batch_messages`; a larger flush uses several transactions.
pub const EVICT_ROWS_MAX: usize = 2_000;
/// Maximum number of evicted messages that are read to make a summary again: the newest ones.
pub const SUMMARY_ROWS_MAX: u64 = 512;
/// The `maxTransactionSize` of each stream transaction, in bytes: the 128 MB that the specification
/// of this project requires.
pub const TRANSACTION_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Number of earlier revisions that the core keeps. For each of these revisions, the server can
/// list the changes since that revision.
pub const REVISIONS_KEPT: usize = 24;
/// Longest duration of a call that uses no model, in milliseconds.
pub const CALL_MS_MAX: u64 = 30_000;
/// Maximum number of idle connections that are kept per socket.
pub const POOL_IDLE_MAX: usize = 64;
/// Time after which the server closes an idle connection to the database, in seconds. arangod
/// closes an idle connection after 300 s.
pub const POOL_IDLE_S: u64 = 20;
/// Time within which a client must have sent the whole body of a request, in milliseconds.
pub const BODY_MS_MAX: u64 = 30_000;
/// Time after which the server closes a connection whose client reads nothing of the answer, in
/// milliseconds (nginx's `send_timeout` is 60 s).
pub const ANSWER_STALL_MS: u64 = 60_000;
/// Longest wait for running calls when the server stops, in milliseconds.
pub const DRAIN_MS_MAX: u64 = 10_000;
/// Pause after a failed `accept` on a socket, in milliseconds.
pub const ACCEPT_PAUSE_MS: u64 = 50;
/// Default and largest `limit` of `/history`, which lists stored versions of the core. The limits
/// are small, because each version contains all texts of the core.
pub const HISTORY_PAGE: (u64, u64) = (10, 20);
/// Default and largest `limit` of `search_recall`.
pub const RECALL_LIMIT: (u64, u64) = (10, 20);
/// Maximum number of counted entries, and largest offset, of a search by date in recall storage.
pub const RECALL_DATED_OFFSET_MAX: u64 = 1_000_000;
/// Maximum length of a search query, in bytes.
pub const QUERY_BYTES_MAX: usize = 1_024;
/// Maximum number of passages that a search of recall storage finds by vector.
pub const RECALL_NEAR_MAX: usize = 200;
/// Maximum number of results of one search of recall storage, over all pages.
pub const RECALL_HITS_MAX: usize = 200;
/// Number of characters that a search reads of a recent entry that is not yet in the ArangoSearch
/// view.
pub const RECALL_TAIL_CHARS_MAX: usize = 16_384;
/// Smallest token limit for the preview of a spooled result, used when the window is full.
pub const PREVIEW_TOKENS_MIN: u64 = 32;
/// Maximum length of a Unix socket's path, in bytes (`sun_path` of Linux has 108 bytes, including
/// the closing NUL).
pub const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Longest wait for a model's answer, such as a summary, in milliseconds.
pub const MODEL_MS_MAX: u64 = 120_000;
/// Maximum number of consecutive unusable answers of a model; one more unusable answer ends the
/// run.
pub const RUN_REPAIRS_MAX: u32 = 3;
/// Maximum number of chunks that a caller gives in one ingest call; a larger document needs several
/// calls with `part`, or is given as a text that the server splits.
pub const CHUNKS_MAX: usize = 512;
/// Maximum size of the texts and vectors of one document, in bytes. A component of a vector counts
/// as eight bytes. The limit is half of the limit of a transaction, because an index stores the
/// vectors a second time.
pub const DOCUMENT_BYTES_MAX: usize = TRANSACTION_BYTES_MAX / 2;
/// Number of chunks in one part of a document that the server splits; if a document has more
/// chunks, its vectors are computed and stored part by part.
pub const PART_CHUNKS: usize = 256;
/// Maximum length of the text of one chunk, in bytes.
pub const CHUNK_BYTES_MAX: usize = 32 * 1024;
/// Maximum length of a user, a session or a tag of a message or document, in bytes. It is the limit
/// of `metadata.user_id` in Anthropic's messages API.
pub const LABEL_BYTES_MAX: usize = 256;
/// Maximum number of tags of a message or document.
pub const TAGS_MAX: usize = 16;
/// Maximum number of attributes in the metadata of a message or document. Like the next two limits,
/// it is the limit of OpenAI's `metadata`.
pub const METADATA_PAIRS_MAX: usize = 16;
/// Maximum length of the name of such an attribute, in bytes.
pub const METADATA_KEY_BYTES_MAX: usize = 64;
/// Maximum length of the value of such an attribute, in bytes.
pub const METADATA_VALUE_BYTES_MAX: usize = 512;
/// Maximum length of the name of an archived document, in bytes; all characters are allowed,
/// because the name is hashed.
pub const DOC_ID_BYTES_MAX: usize = 256;
/// Default, smallest and largest number of edges that a trace follows from its start.
pub const TRACE_DEPTH: (u64, u64, u64) = (1, 1, 3);
/// Default, smallest and largest number of neighbours that a trace shows on each side of a message
/// or chunk.
pub const TRACE_AROUND: (u64, u64, u64) = (2, 1, 8);
/// Default, smallest and largest number of items that a trace lists after its start.
pub const TRACE_LIMIT: (u64, u64, u64) = (20, 1, 40);
/// Maximum number of characters that a trace shows of a text; for a longer text, the trace also
/// gives the length.
pub const TRACE_CHARS_MAX: u64 = 8_192;
/// Maximum number of components of a vector.
pub const DIMENSION_MAX: u32 = 4_096;
/// Maximum number of newest chunks that a search reads from the collection itself, because the
/// ArangoSearch view may not contain them yet. One ingest cannot add more chunks than this number.
pub const ARCHIVAL_TAIL_ROWS_MAX: usize = 4_096;
/// Longest expected time from the computation of an ingest's writes to their commit, in
/// milliseconds. A document of thousands of chunks takes several seconds, and longer on a busy
/// machine. The value equals the longest idle time of a stream transaction.
pub const INGEST_COMMIT_MS: u64 = 45_000;
/// Maximum number of tokens of a page of `search_archival`, from this project's specification.
pub const PAGE_TOKENS_MAX: u64 = 512;
/// Maximum number of lists of the vector index that a search may read: an eighth of the lists of an
/// index for a million chunks.
pub const N_PROBE_MAX: u32 = 512;
/// Number of rows that a search reads from the vector index for each wanted result, because filters
/// drop some rows.
pub const NEAR_FETCH: u64 = 8;
/// Total number of rows that a search reads from the vector index at its second attempt, if the
/// first attempt found too few chunks.
pub const NEAR_FETCH_MAX: u64 = 1_280;
/// Default number of lists of the vector index that a search reads (`defaultNProbe` of a new vector
/// setting).
pub const N_PROBE_DEFAULT: u32 = 8;
/// Largest `cooldown_ms` (pause after a chain of heartbeats) that an agent may have.
pub const HEARTBEAT_COOLDOWN_MS_MAX: u64 = 60_000;
/// Maximum number of messages that one request can forget. The limit exists because one row of the
/// database lists all these messages.
pub const FORGET_MESSAGES_MAX: usize = 4_096;
/// Maximum number of rows of one kind, such as messages, that one step of a forget operation
/// removes.
pub const FORGET_ROWS: u64 = 64;
/// Largest allowed clock difference between two servers on one database, in milliseconds.
pub const CLOCK_SKEW_MS_MAX: u64 = 2_000;
/// Longest wait for the embedded database when the server starts, in milliseconds.
pub const START_MS_MAX: u64 = 30_000;
/// Longest wait for a configured database when the server starts, in milliseconds. The time
/// suffices for a restart of the database's host. After this time, the server ends, and the service
/// manager starts it again.
pub const REMOTE_START_MS_MAX: u64 = 600_000;
/// Maximum number of concurrent MCP clients on one socket.
pub const MCP_CLIENTS_MAX: usize = 64;
/// Maximum length of a message of an MCP client, in bytes.
pub const MCP_LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum memory of all large messages of MCP clients that are received or answered, in bytes. A
/// further large message is answered with an error.
pub const MCP_MESSAGES_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Length up to which a message of an MCP client is small, in bytes. Small messages always have
/// room: their number is limited by the number of clients and answers.
pub const MCP_MESSAGE_BYTES_SMALL: usize = 64 * 1024;
/// Maximum number of requests of one MCP client that are not answered yet. The program reads no
/// further message of this client until the client has taken an answer.
pub const MCP_REQUESTS_PER_CLIENT_MAX: usize = 8;
/// Maximum number of unanswered requests of all MCP clients, besides one of each client.
pub const MCP_REQUESTS_MAX: usize = 64;
/// Longest time from the start of an MCP client's connection on a socket to the client's first
/// message, in milliseconds.
pub const MCP_FIRST_MS_MAX: u64 = 10_000;
/// Longest time without a message of an MCP client on a socket, in milliseconds. After this time,
/// the server closes the connection.
pub const MCP_IDLE_MS_MAX: u64 = 3_600_000;
/// Default window, in tokens, of an agent that an MCP client creates with its first write.
pub const MCP_WINDOW_TOKENS: u64 = 32_768;
/// Longest wait for the answer to a probe of one storage tier, in milliseconds.
pub const PROBE_MS_MAX: u64 = 2_000;
/// Shortest and longest lease that a caller may set for a run, in milliseconds.
pub const LEASE_MS_BOUNDS: (u64, u64) = (1_000, 3_600_000);
/// Default and largest `limit` of `/prompts`.
pub const PROMPTS_PAGE: (u64, u64) = (20, 200);
/// Maximum number of rows in the export of one agent; it suffices for a million messages with all
/// related rows.
pub const EXPORT_ROWS_MAX: u64 = 8_000_000;
/// Maximum size of an export or an import, in bytes.
pub const EXPORT_BYTES_MAX: u64 = 16 * 1024 * 1024 * 1024;
/// Maximum length of one line of an export, in bytes: enough for a core with 64 blocks of maximum
/// length.
pub const EXPORT_LINE_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Maximum number of JSON values in one line of an import, counted like those of a body. A row has
/// the values of one body at most, and those that the server adds.
pub const EXPORT_LINE_VALUES_MAX: u64 = 2 * BODY_VALUES_MAX;
/// Maximum number of pieces of an export that the server holds in main memory until the client
/// reads them.
pub const EXPORT_PIECES_WAITING: usize = 8;
/// Size of one piece of an export's text, in bytes.
pub const EXPORT_PIECE_BYTES: usize = 64 * 1024;
/// Maximum number of connections to the API socket.
pub const CONNECTIONS_MAX: usize = 2_048;
/// Maximum number of connections of one user to the API socket: three quarters of all, so that one
/// user cannot keep the others out.
pub const CONNECTIONS_PER_USER_MAX: usize = 1_536;
/// Time within which a client must send the head of a request, in milliseconds.
pub const HEAD_MS_MAX: u64 = 10_000;
/// Time in milliseconds for which a client may let the server wait before the server closes the
/// connection for the sake of other clients.
pub const CLIENT_GRACE_MS: u64 = 1_000;
/// Maximum number of bytes that all queries and answers of the engine use together. The engine
/// counts values without their overhead, so the process grows by up to twice as much.
pub const ENGINE_QUERIES_BYTES_MAX: u64 = 96 << 20;
}
