//! Every queue, body, loop and page of the server has its number here, unit last.

/// Longest body of a request, in bytes; a longer one is refused with 413 (2 MiB holds a 128k window twice).
pub const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Bytes of a refused body that are still read, so that its sender gets the answer instead of a broken connection.
pub const BODY_DRAINED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Longest request of a client that sends its whole history with every call, in bytes: some ten thousand turns.
pub const HISTORY_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Messages of such a history.
pub const THREAD_MESSAGES_MAX: usize = 32_768;
/// Places of such a history that are looked for at once, the newest first; the next look takes so many times more as [`THREAD_LOOK_GROWTH`] says.
pub const THREAD_LOOK: usize = 64;
/// See [`THREAD_LOOK`]: all places of the longest history are looked for in four looks.
pub const THREAD_LOOK_GROWTH: usize = 8;
/// Messages that one look gives: the agents that know the same place.
pub const THREAD_FOUND_MAX: u64 = 16;
/// Messages after a known one that are told with it.
pub const THREAD_NEXT_MAX: u64 = 16;
/// Messages of one run that are read to put its answer together.
pub const THREAD_ANSWER_ROWS: u64 = 1_000;
/// Times a request looks anew where it goes on, because somebody else wrote to the agent just then.
pub const THREAD_TRIES_MAX: usize = 64;
/// Pieces of an answer that wait for a client to read them.
pub const PIECES_WAITING: usize = 64;
/// Tools that a client may pass on with one request.
pub const CLIENT_TOOLS_MAX: usize = 128;
/// Longest text of one message or block, in bytes.
pub const TEXT_BYTES_MAX: usize = 1024 * 1024;
/// Longest name of an agent, block or key: `design` gives `[A-Za-z0-9_.-]{1,128}`.
pub const NAME_BYTES_MAX: usize = 128;
/// Longest name of a tenant, in bytes: with an agent's name and a colon it is a document key, and those end at 254.
pub const TENANT_BYTES_MAX: usize = 64;
/// Longest idempotency key, in bytes; it is hashed, so its characters are free.
pub const KEY_BYTES_MAX: usize = 256;
/// Smallest window an agent may have, in tokens; below it not even a pressure notice and a message fit together.
pub const WINDOW_TOKENS_MIN: u64 = 256;
/// Largest window an agent may have, in tokens.
pub const WINDOW_TOKENS_MAX: u64 = 4_000_000;
/// Window of an agent that `vctx agent create` makes without naming one, in tokens: the schemas of
/// five tools for a chat take less than a tenth of it.
pub const AGENT_WINDOW_TOKENS: u64 = 32_768;
/// Blocks an agent may have.
pub const BLOCKS_MAX: usize = 64;
/// Lines that a refusal names, of a text that stands in a block more than once.
pub const LINES_NAMED_MAX: usize = 64;
/// Lines of a block that are shown with their numbers (Anthropic's memory tool counts with six digits).
pub const VIEW_LINES_MAX: usize = 999_999;
/// Entries of one `write_recall`.
pub const RECALL_ENTRIES_MAX: usize = 256;
/// Tool calls in one message.
pub const TOOL_CALLS_MAX: usize = 128;
/// Messages read for one eviction step or one context, in rows: no message costs less than 4 tokens, so that no window holds more.
pub const QUEUE_ROWS_MAX: u64 = WINDOW_TOKENS_MAX / 4;
/// Rows of one database batch.
pub const BATCH_ROWS: u32 = 5_000;
/// Batches of one query.
pub const BATCHES_MAX: usize = 1_000;
/// Messages one eviction transaction moves; a larger flush is made of several, each whole.
pub const EVICT_ROWS_MAX: usize = 2_000;
/// Bytes of message text one eviction transaction moves; far below the 128 MB of the requirement, since each row is written twice.
pub const EVICT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// `maxTransactionSize` sent with each stream transaction, in bytes (the 128 MB of seed 002).
pub const TRANSACTION_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Parts of one eviction.
pub const EVICT_PARTS_MAX: u32 = 64;
/// Newest queue messages in which a tool call without its result is kept back from eviction: some
/// ten exchanges, so that a call that nobody answers does not stop evictions for long.
pub const OPEN_CALL_ROWS_MAX: usize = 32;
/// Newest messages among which the call of a result is looked for that answers none that waits.
pub const CALL_LOOK_SEQS: u64 = 4_096;
/// Earlier revisions that the core remembers, to tell what changed since one.
pub const REVISIONS_KEPT: usize = 24;
/// Questions one call may ask before it must decide.
pub const QUESTIONS_MAX: usize = 16;
/// Times a call is thought anew after another writer was faster or an answer was lost.
pub const ATTEMPTS_MAX: u32 = 64;
/// Times a call that builds on any revision (`*`) is recomputed after a conflict (`conflict_retries_max`).
pub const CONFLICT_RETRIES_MAX: u32 = 48;
/// Calls that may wait for one agent's turn on this server.
pub const WAITERS_PER_AGENT_MAX: usize = 256;
/// Cores kept in the cache.
pub const CORES_CACHED_MAX: usize = 4_096;
/// Longest wait of one call for everything, in milliseconds, when no model is asked.
pub const CALL_MS_MAX: u64 = 30_000;
/// Longest wait for one answer of the database, in milliseconds.
pub const STORE_ANSWER_MS_MAX: u64 = 10_000;
/// Longest idle time of a stream transaction by our own clock, in milliseconds; the server's is 60 s and a late commit may lie (server source).
pub const TRANSACTION_IDLE_MS_MAX: u64 = 45_000;
/// Age at which a running transaction of ours counts as left behind by a server that died, in milliseconds; one of a living
/// server takes a few.
pub const LEFTOVER_MS: u64 = 2_000;
/// Conflicts of one call after which it looks for transactions that were left behind.
pub const LEFTOVER_CONFLICTS: u32 = 6;
/// Age of a call, in milliseconds, from which one conflict is enough for that look: a writer waits for a key that somebody holds
/// (ArangoDB: `--rocksdb.transaction-lock-timeout` 1000), so that conflicts come a second apart then.
pub const LEFTOVER_CALL_MS: u64 = 500;
/// Pause between two looks for them while a call waits, in milliseconds.
pub const LEFTOVER_LOOK_MS: u64 = 250;
/// First and longest pause before a database request is repeated, in milliseconds.
pub const BACKOFF_MS: (u64, u64) = (5, 1_000);
/// Longest answer of the database, in bytes.
pub const STORE_ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Idle connections kept per socket.
pub const POOL_IDLE_MAX: usize = 64;
/// How long an idle connection to the database is kept, in seconds (arangod closes after 300).
pub const POOL_IDLE_S: u64 = 20;
/// Requests in flight per database socket.
pub const STORE_IN_FLIGHT_MAX: usize = 256;
/// Connections of the API socket.
pub const CONNECTIONS_MAX: usize = 1_024;
/// Calls answered at the same time on the API socket; more are shed with 503.
pub const CALLS_IN_FLIGHT_MAX: usize = 512;
/// Time a client has to send its request head, in milliseconds.
pub const HEAD_MS_MAX: u64 = 10_000;
/// Time a client has to send its body, in milliseconds.
pub const BODY_MS_MAX: u64 = 30_000;
/// Longest time in which a client takes nothing of an answer that waits for it, in milliseconds (`send_timeout` of nginx: 60 s);
/// then its connection ends, and what is held for it is free.
pub const ANSWER_STALL_MS: u64 = 60_000;
/// Time running calls have to end when the server stops, in milliseconds.
pub const DRAIN_MS_MAX: u64 = 10_000;
/// Pause after a failed accept, in milliseconds.
pub const ACCEPT_PAUSE_MS: u64 = 50;
/// `limit` of `/messages`: default and largest.
pub const MESSAGES_PAGE: (u64, u64) = (100, 1_000);
/// `limit` of `/events`: default, smallest and largest. A page ends between two moments, and one moment has a handful of events.
pub const EVENTS_PAGE: (u64, u64, u64) = (200, 64, 1_000);
/// `limit` of `/history`: default and largest. One copy holds all texts of a core, which a window bounds.
pub const HISTORY_PAGE: (u64, u64) = (10, 20);
/// Bytes of a text that the rules of tainted text look at: one message or block whole ([`TEXT_BYTES_MAX`]).
pub const TAINT_BYTES_MAX: usize = TEXT_BYTES_MAX;
/// Words in a row that a text for the core may share with tainted text in view, less one: shorter runs are phrases of the language (copied text
/// is told from chance by runs of about this length; Broder 1997, On the resemblance and containment of documents).
pub const TAINT_RUN_WORDS: usize = 8;
/// Different words that such a run has at least: one word over and over was copied from nowhere.
pub const TAINT_RUN_DIFFERENT: usize = 4;
/// Longest justification of tainted text in the core, in bytes: a sentence.
pub const JUSTIFICATION_BYTES_MAX: usize = 400;
/// Tainted items of one agent that may be released at the same time; each takes a digest of its name in the core.
pub const RELEASED_MAX: usize = 256;
/// `limit` of `/quarantine`: default and largest.
pub const QUARANTINE_PAGE: (u64, u64) = (50, 200);
/// Agents listed at once.
pub const AGENTS_PAGE_MAX: u64 = 10_000;
/// `limit` of `search_recall`: default and largest.
pub const RECALL_LIMIT: (u64, u64) = (10, 20);
/// Entries of a span of time that are counted, and places of the list of them that may be passed over.
pub const RECALL_DATED_OFFSET_MAX: u64 = 1_000_000;
/// Longest query of a search, in bytes.
pub const QUERY_BYTES_MAX: usize = 1_024;
/// `tokens_max` of a page of `search_recall`: smallest and largest.
pub const RECALL_PAGE_TOKENS: (u64, u64) = (64, 16_384);
/// Passages near to a question that count in a search of recall storage.
pub const RECALL_NEAR_MAX: usize = 200;
/// Places within which the reply to an entry, or what it replies to, is looked for.
pub const RECALL_PAIR_SEQS_MAX: u64 = 8;
/// Facts that an answer proposes for the core.
pub const PROPOSALS_MAX: usize = 2;
/// Quoted phrases of one query.
pub const PHRASES_MAX: usize = 2;
/// Results that one search of recall storage lists; they are walked by page tokens.
pub const RECALL_HITS_MAX: usize = 200;
/// How long an entry counts as one that the view may not show yet, in milliseconds. A view lags a second behind what is committed; the
/// rest is for a commit that took long after the moment which its entries bear, and for a view that is late on a busy machine.
pub const RECALL_TAIL_MS: u64 = 15_000;
/// Newest entries that are looked at beside the view, in rows: what one transaction of an eviction moves. Each is cut into words for
/// every search of that time, so more of them would cost more than they are worth.
pub const RECALL_TAIL_ROWS_MAX: usize = EVICT_ROWS_MAX;
/// Best hits of the view that are weighed word by word; on conversations of 400 to 700 messages nearly all evidence stands among them or
/// beside them.
pub const RECALL_WEIGHED_MAX: usize = 100;
/// Entries too recent for the view that are weighed with them.
pub const RECALL_FRESH_MAX: usize = 100;
/// Places before and behind an entry that are looked at beside it.
pub const RECALL_AROUND_SEQS: u64 = 2;
/// Words of a query that are looked for; of a longer one the first.
pub const RECALL_TERMS_MAX: usize = 64;
/// Words whose stems a thread remembers from one search to the next; then it begins anew.
pub const RANK_FORMS_MAX: usize = 32_768;
/// Longest of these words, in bytes.
pub const RANK_FORM_BYTES_MAX: usize = 32;
/// Beginning of what was said beside an entry that is looked at, in characters: of a longer text only a share counts there.
pub const RECALL_AROUND_CHARS_MAX: usize = 2_048;
/// Beginning of such an entry that is looked at, in characters; the rest is found as soon as the view shows it.
pub const RECALL_TAIL_CHARS_MAX: usize = 16_384;
/// Best hits of the view whose texts are weighed whole, however long: of the others only the beginning is.
pub const RECALL_DEEP_MAX: usize = 4;
/// Long messages that one page looks through for the passage that matters, since only their beginning was weighed, in bytes.
pub const RECALL_DEEP_BYTES_MAX: usize = 4 * TEXT_BYTES_MAX;
/// Lag of a view within which a search says that there were too many of them to look at, in milliseconds.
pub const RECALL_LAG_MS: u64 = 5_000;
/// Entries that setup dates in one request.
pub const SETUP_ROWS: u64 = 5_000;
/// Such requests of one setup: a thousand million entries.
pub const SETUP_ROUNDS_MAX: usize = 200_000;
/// Tokens of a preview in a window that has no room at all.
pub const PREVIEW_TOKENS_MIN: u64 = 32;
/// Ids that a spool notice names; more are only counted.
pub const SPOOL_IDS_NAMED_MAX: usize = 8;
/// Tokens up to which a captured result is never spooled: a notice of where it lies would cost as much.
pub const CAPTURED_TOKENS_MIN: u64 = 128;
/// Times the result of a captured eviction is put into the queue until it tells the occupancy that it
/// leads to: the first tells it without itself, the second with itself, more add a digit.
pub const CAPTURED_TRIES_MAX: usize = 4;
/// Tokens that a captured page of results keeps for what stands around them.
pub const CAPTURED_FRAME_TOKENS: u64 = 128;
/// Times a preview is shortened to meet its tokens before it is left out.
pub const PREVIEW_TRIES_MAX: usize = 16;
/// Life of a stored result list, in seconds; its page tokens end with it.
pub const PAGE_S: u64 = 3600;
/// Longest page token, in bytes.
pub const PAGE_TOKEN_BYTES_MAX: usize = 128;
/// Life of an idempotency record, in seconds: seven days, after that a retry is a new call.
pub const REPLAY_S: u64 = 7 * 24 * 3600;
/// Longest path of a Unix socket, in bytes (`sun_path` of Linux holds 108 with its NUL).
pub const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Longest wait for a model's summary, in milliseconds.
pub const MODEL_MS_MAX: u64 = 120_000;
/// Longest answer of a model, in bytes.
pub const MODEL_ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest answer of a chat model, in bytes, frames of its stream counted.
pub const CHAT_ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Times one request is sent to a chat model while nothing of an answer came.
pub const CHAT_ATTEMPTS_MAX: u32 = 4;
/// Half of the pause before the first repetition, in milliseconds; it doubles. What the server asks for counts instead.
pub const CHAT_PAUSE_MS: u64 = 50;
/// Longest pause that a server may ask for, in milliseconds; a longer one is told to the caller instead.
pub const CHAT_WAIT_MS_MAX: u64 = 20_000;
/// Least and most of `chat.timeout_ms`.
pub const CHAT_MS: (u64, u64) = (10, 600_000);
/// Least and most of `chat.max_tokens`.
pub const CHAT_TOKENS: (u64, u64) = (16, 131_072);
/// Calls of one answer that a run makes; a model that asks for more is told so.
pub const RUN_CALLS_MAX: usize = 32;
/// Answers in a row that could not be understood before a run ends.
pub const RUN_REPAIRS_MAX: u32 = 3;
/// Inferences of one run, whatever its chains allow.
pub const RUN_TURNS_MAX: u64 = 1_100;
/// Longest run, in milliseconds; no inference begins afterwards.
pub const RUN_MS_MAX: u64 = 1_800_000;
/// How long a run counts as alive without being renewed, in milliseconds: one whose server died is waited for so long.
pub const RUN_LEASE_MS: u64 = 6_000;
/// Pause between two renewals while a model is waited for, in milliseconds.
pub const RUN_RENEW_MS: u64 = 2_000;
/// Longest wait of a run for the one before it, in milliseconds, and the pause between two looks.
pub const RUN_WAIT_MS: (u64, u64) = (60_000, 50);
/// Longest wait of a run for a beat, in milliseconds: the longest cool-down, and a second for the rate.
pub const RUN_BEAT_MS_MAX: u64 = HEARTBEAT_COOLDOWN_MS_MAX + 1_000;
/// Messages that one run begins with.
pub const RUN_INPUT_MAX: usize = 1_024;
/// Tools of the client that one run may name.
pub const RUN_TOOLS_MAX: usize = 128;
/// Events of a run that wait for a reader.
pub const RUN_EVENTS_WAITING: usize = 256;
/// Longest wait for a reader that takes no events, in milliseconds; then it counts as gone.
pub const RUN_READER_MS_MAX: u64 = 4_000;
/// Times a run makes room in the window for one inference.
pub const RUN_ROOM_TRIES_MAX: u32 = 3;
/// Tokens below the flush threshold that a run with tools of the memory sees to before it asks: a page of results, its call and its frame.
pub const RUN_PAGE_TOKENS: u64 = PAGE_TOKENS_MAX + 256;
/// Fewest tokens of an answer for which a model is asked; a window with less is made room in first.
pub const RUN_ANSWER_TOKENS_MIN: u64 = 256;
/// Messages of a run that are looked at for results when it is gone on with.
pub const RUN_SAID_MAX: u64 = 1_000;
/// Longest answer of an embedder to one batch, in bytes: 64 vectors of 4 096 components at some 20 bytes each, and room for more digits.
pub const EMBED_ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Texts of one batch for an embedder.
pub const EMBED_BATCH_TEXTS_MAX: usize = 64;
/// Bytes of text of one batch, unless a single text has more.
pub const EMBED_BATCH_BYTES_MAX: usize = 256 * 1024;
/// Times one batch is asked for, while its time is not over.
pub const EMBED_ATTEMPTS_MAX: u32 = 3;
/// Half of the pause before the first repetition of a batch, in milliseconds; it doubles.
pub const EMBED_PAUSE_MS: u64 = 25;
/// Least and most of `embedder.timeout_ms`.
pub const EMBED_MS: (u64, u64) = (10, MODEL_MS_MAX);
/// Tokens of one window of a local model, marks included (256: what all-MiniLM-L6-v2 was made for); fewer where the model has fewer places.
pub const BERT_TOKENS_MAX: usize = 256;
/// Tokens that a local model computes at once, filled up ones included.
pub const BERT_BATCH_TOKENS_MAX: usize = 4_096;
/// Largest file of a local model, in bytes.
pub const BERT_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Calls that may wait for the local model.
pub const EMBED_WAITING_MAX: usize = 64;
/// Pause between two looks for entries of recall storage without vectors, in milliseconds.
pub const RECALL_EMBED_PAUSE_MS: u64 = 500;
/// Time of one look after which it begins no further entry, in milliseconds; well below a job's end.
pub const RECALL_EMBED_MS: u64 = 20_000;
/// Agents of one look.
pub const RECALL_AGENTS_LOOKED: u64 = 256;
/// Entries asked for at once.
pub const RECALL_EMBED_ENTRIES: u64 = 128;
/// How long a server is taken to be making an agent's vectors after it said so, in milliseconds: one that was killed is waited for so long.
pub const RECALL_CLAIM_MS: u64 = 5_000;
/// Passages of several entries that are embedded together; an entry of more stands alone.
pub const RECALL_EMBED_PASSAGES: usize = 256;
/// Entries of one agent that a model may refuse before no more are passed over.
pub const RECALL_REFUSED_MAX: usize = 256;
/// Pause after which refused entries are tried again, in milliseconds.
pub const RECALL_REFUSED_MS: u64 = 3_600_000;
/// Agents whose last complete look is remembered.
pub const RECALL_VERSIONS_KEPT: usize = 65_536;
/// Vectors of one look for those whose entries are gone, in rows.
pub const RECALL_TRIM_ROWS: u64 = 256;
/// Pause between two looks after the vector index of recall storage, in milliseconds.
pub const RECALL_INDEX_MS: u64 = 30_000;
/// Cells that a look through the vector index of recall storage goes into: real questions need 32 where invented ones need 8.
pub const RECALL_N_PROBE: u32 = 32;
/// Rows that the vector index of recall storage gives for each passage wanted, since those of other agents are dropped.
pub const RECALL_NEAR_FETCH: u64 = 8;
/// Vectors that a server remembers by the hash of their texts (25 MB of 384 components).
pub const EMBED_CACHED_MAX: usize = 16_384;
/// Times a rendered summary is shortened to meet its cap before it is left out.
pub const SUMMARY_TRIES_MAX: usize = 6;
/// Chunks of a document that are embedded alone, to see whether its vectors were made so.
pub const NAIVE_SAMPLES_MAX: usize = 4;
/// Chunks of one ingest; a document of more is given in several, each with a `doc_id` of its own.
pub const CHUNKS_MAX: usize = 512;
/// Chunks that a document may have which the server splits.
pub const DOCUMENT_CHUNKS_MAX: usize = 16_384;
/// Bytes that the texts and vectors of one document may take, at eight for each component: half of what a transaction may, since an index
/// keeps them too.
pub const DOCUMENT_BYTES_MAX: usize = TRANSACTION_BYTES_MAX / 2;
/// Parts that a caller may send a document in.
pub const PARTS_MAX: u64 = 1_024;
/// Missing parts that an answer names.
pub const PARTS_NAMED_MAX: usize = 32;
/// Chunks of a part of a document that has more than [`CHUNKS_MAX`]: their vectors are made and kept part by part.
pub const PART_CHUNKS: usize = 256;
/// Chunks beyond both ends of a part in whose light its vectors are made.
pub const PART_MARGIN: usize = 2;
/// Longest time that one call makes vectors of parts, in milliseconds; the next one goes on.
pub const PARTS_MS_MAX: u64 = 120_000;
/// Life of a part that nobody goes on with, in seconds.
pub const PART_S: u64 = 24 * 3600;
/// Longest text of one chunk, in bytes.
pub const CHUNK_BYTES_MAX: usize = 32 * 1024;
/// Most tokens of a chunk that a splitter makes: usually, least and most that may be asked for. The usual one lets four chunks stand on a page.
pub const SPLIT_TOKENS: (u64, u64, u64) = (128, 16, 2_048);
/// Most characters of a chunk of the splitter that counts them: usually, least and most that may be asked for. The largest is below
/// [`CHUNK_BYTES_MAX`] whatever the characters.
pub const SPLIT_CHARS: (u64, u64, u64) = (512, 16, 8_192);
/// Sentences of a document that is cut by meaning: as many vectors as the embedder remembers, so that a call that ran out of time is gone on with.
pub const SPLIT_SENTENCES_MAX: usize = 16_384;
/// Documents longer than this are cut beside the loop that answers calls, in bytes.
pub const SPLIT_INLINE_BYTES: usize = 64 * 1024;
/// Depths of indentation at which code is parted; what is nested deeper is cut by lines.
pub const SPLIT_DEPTHS: u8 = 8;
/// A chunk may repeat of the one before at most its limit divided by this.
pub const SPLIT_OVERLAP_SHARE: u64 = 2;
/// Tokens of a parent for each of its children's, unless asked for.
pub const SPLIT_PARENTS: u64 = 4;
/// Longest name of an archived document, in bytes; it is hashed, so its characters are free.
pub const DOC_ID_BYTES_MAX: usize = 256;
/// Refusals of one kind and agent that are noted as events within [`REFUSALS_NOTED_MS`]; more are told by the next one that is.
pub const REFUSALS_NOTED: u32 = 16;
/// Time in which so many are noted, in milliseconds.
pub const REFUSALS_NOTED_MS: u64 = 60_000;
/// Kinds and agents whose refusals are counted at once.
pub const REFUSALS_KEPT: usize = 4_096;
/// Longest provenance of a document or chunk, in bytes of its JSON.
pub const PROVENANCE_BYTES_MAX: usize = 4 * 1024;
/// Chunks that one query of an ingest writes, in rows; the transaction holds several queries.
pub const INGEST_ROWS: usize = 128;
/// Chunks that one message may cite: as many as a search shows at most, less those that nobody reads.
pub const CITES_MAX: usize = 32;
/// Longest id of a chunk as it is cited, in bytes: collection, `/` and the longest key there is.
pub const CITE_BYTES_MAX: usize = 14 + 254;
/// Citations that one query of an ingest takes away, in rows.
pub const CITES_TRIM_ROWS: u64 = 1_000;
/// Such queries of one ingest: so many citations one document may lose at once.
pub const CITES_TRIMS_MAX: usize = 1_000;
/// Steps of a trace: usual, least and most.
pub const TRACE_DEPTH: (u64, u64, u64) = (1, 1, 3);
/// Messages before and after a message, and chunks before and behind a chunk: usual, least and most.
pub const TRACE_AROUND: (u64, u64, u64) = (2, 1, 8);
/// Entries of a trace beside the first: usual, least and most.
pub const TRACE_LIMIT: (u64, u64, u64) = (20, 1, 40);
/// Places on the number line among which the messages around one are looked for: copies and spooled entries between them are passed over.
pub const TRACE_REACH_SEQS: u64 = 64;
/// Chunks made from one message that are put in order, in rows.
pub const TRACE_EDGES_MAX: u64 = 1_024;
/// Beginning of an entry's text that a trace gives, in characters; a longer one says how long it is.
pub const TRACE_CHARS_MAX: u64 = 8_192;
/// Longest id that a trace begins with, in bytes: collection, `/` and the longest key there is.
pub const TRACE_FROM_BYTES_MAX: usize = 14 + 254;
/// Messages that one ingest may be derived from.
pub const DERIVED_MAX: usize = 512;
/// Most components of a vector.
pub const DIMENSION_MAX: u32 = 4_096;
/// Largest component of a vector: the squares of any two sum up within a float of four bytes, which is what an index computes in.
pub const COMPONENT_MAX: f64 = 1e15;
/// `limit` of `search_archival`: default and largest (40: seed 002).
pub const ARCHIVAL_LIMIT: (u64, u64) = (10, 40);
/// Chunks of a search by words that are ranked, in rows: three times as many as are ever shown, since the ranking moves them; the same however
/// few are wanted, so that a short list is the beginning of a long one.
pub const ARCHIVAL_CANDIDATES: u64 = 120;
/// The best of them, off whose scores the weights of words are read, in rows.
pub const ARCHIVAL_WEIGHED: usize = 60;
/// Nearest chunks that are fused with what was found by words, in rows.
pub const HYBRID_NEAREST: u64 = 40;
/// How long a chunk counts as one that the view may not show yet, in milliseconds; as for recall storage.
pub const ARCHIVAL_TAIL_MS: u64 = RECALL_TAIL_MS;
/// Newest chunks that are looked at beside the view, in rows: more than a document has that is taken in at once.
pub const ARCHIVAL_TAIL_ROWS_MAX: usize = 4_096;
/// Beginning of a chunk that is looked at token by token, in characters; BM25 counts all of it.
pub const ARCHIVAL_CHARS_MAX: usize = 8_192;
/// Words of a question that are weighed one by one.
pub const RANKED_WORDS_MAX: usize = 32;
/// Identifiers of a question that are looked for whole.
pub const IDENTIFIERS_MAX: usize = 2;
/// Tokens of a page of `search_archival` (seed 002).
pub const PAGE_TOKENS_MAX: u64 = 512;
/// Tokens of a page that what is said of one passage may take beside its text.
pub const PAGE_META_TOKENS_MAX: u64 = 256;
/// Times a part of a passage is shortened to fit its page before it is halved instead.
pub const PAGE_CUT_TRIES_MAX: usize = 8;
/// Longest `query_text` of `search_archival`, in bytes.
pub const SEARCH_TEXT_BYTES_MAX: usize = 8 * 1024;
/// Most cells that a search may look into: an eighth of those of a million chunks.
pub const N_PROBE_MAX: u32 = 512;
/// Most cells for which the service level of `search_archival` is promised (seed 002: p99 ≤ 750 ms at `nProbe` ≤ 32); a search that looks
/// into more says so.
pub const N_PROBE_SLO: u32 = 32;
/// Vectors that a measurement of the index draws; three make a question.
pub const SAMPLE_ROWS: u64 = 144;
/// The nearest that a question of a measurement wants.
pub const SAMPLE_NEAREST: u64 = 10;
/// Longest measurement, in milliseconds; what is not known by then stays as it was.
pub const SAMPLE_MS_MAX: u64 = 60_000;
/// Questions of a measurement for which it is counted how many vectors lie in the cells looked into.
pub const SAMPLE_SCANNED: usize = 16;
/// Longest wait for an index that is trained anew, in milliseconds, and the pause between two looks at it; a later look goes on.
pub const RETRAIN_MS: (u64, u64) = (3_600_000, 500);
/// Time after which an index that cannot be trained anew is told of, in milliseconds.
pub const RETRAIN_PATIENCE_MS: u64 = 10_000;
/// Fewest questions that a measurement may rest on.
pub const SAMPLE_QUESTIONS_MIN: usize = 16;
/// Rows that a search takes from the vector index for each result wanted, since filters drop some.
pub const NEAR_FETCH: u64 = 8;
/// Rows that a search by nearness alone reads of those for each result wanted.
pub const NEAR_ROWS: u64 = 2;
/// Rows that the second, wider look takes.
pub const NEAR_FETCH_MAX: u64 = 1_280;
/// Length of the id of a spooled entry (a UUID), to know beforehand what a notice of it costs at most.
pub const SPOOL_ID_BYTES: u64 = 36;
/// Cells that a search looks into unless it or the database says otherwise (`defaultNProbe` of a new vector setting).
pub const N_PROBE_DEFAULT: u32 = 8;
/// Largest `max_chain_depth` an agent may have.
pub const HEARTBEAT_DEPTH_MAX: u64 = 1_024;
/// Smallest and largest `max_chain_duration_ms` an agent may have.
pub const HEARTBEAT_DURATION_MS: (u64, u64) = (100, 3_600_000);
/// Largest `rps_limit` an agent may have; so many times are kept in its core.
pub const HEARTBEAT_RPS_MAX: u64 = 64;
/// Largest `cooldown_ms` an agent may have.
pub const HEARTBEAT_COOLDOWN_MS_MAX: u64 = 60_000;
/// Times that a call with the same answer is made in one chain of heartbeats before the chain ends as a loop.
pub const LOOP_SAME_MAX: u64 = 3;
/// Different calls of a chain that are remembered to find its loops; a longer way round is left to the cap of depth.
pub const LOOP_CALLS_KEPT: usize = 16;
/// Schedules that an agent may have.
pub const SCHEDULES_PER_AGENT_MAX: u64 = 32;
/// Bytes of what a schedule's event says.
pub const SCHEDULE_BYTES_MAX: usize = 16_384;
/// Least and greatest distance of a schedule's moments, in milliseconds: a second, and 366 days.
pub const SCHEDULE_EVERY_MS: (u64, u64) = (1_000, 31_622_400_000);
/// Latest moment of a schedule, in milliseconds since 1970: the end of the year 2999.
pub const SCHEDULE_AT_MS_MAX: u64 = 32_503_679_999_999;
/// Tries of a small write to a schedule that others write to.
pub const SCHEDULE_RACES_MAX: u32 = 32;
/// Pause between two looks for moments that have come, in milliseconds.
pub const TICK_LOOK_MS: u64 = 500;
/// Moments fired, and runs taken over, in one look; what is left waits for the next.
pub const TICKS_LOOKED: u64 = 64;
/// Agents for whom ticks are fired at a time.
pub const TICKS_AT_ONCE: usize = 8;
/// First and longest wait of a moment that could not be fired, in milliseconds; each wait is twice the one before.
pub const TICK_WAIT_MS: (u64, u64) = (1_000, 300_000);
/// Runs because of ticks on one server at a time; others wait.
pub const TICK_RUNS_MAX: usize = 8;
/// How long a run belongs to the server that has it, in milliseconds, unless it is renewed.
pub const TICK_RUN_LEASE_MS: u64 = 15_000;
/// How long a run waits where no server has a model, in milliseconds.
pub const TICK_RUN_LATE_MS_MAX: u64 = 3_600_000;
/// Pause between two looks for dead chains, in milliseconds.
pub const SWEEP_MS: u64 = 2_000;
/// Dead chains closed in one look; what is left waits for the next.
pub const SWEEP_CHAINS_MAX: u64 = 256;
/// Pause between two looks for texts whose time is over, in milliseconds.
pub const EXPIRE_PAUSE_MS: u64 = 5_000;
/// Agents of one look.
pub const EXPIRE_AGENTS_LOOKED: u64 = 256;
/// Messages, copies of texts and stored answers that one write takes the texts of, in rows of each.
pub const EXPIRE_ROWS: u64 = 256;
/// Old messages that are looked at for those whose entry is gone, in rows: entries go oldest first.
pub const EXPIRE_SCAN_ROWS: u64 = 2_048;
/// Writes for one agent in one look; what is left waits for the next.
pub const EXPIRE_BATCHES_MAX: usize = 16;
/// Messages of one forgetting: its row names each of them.
pub const FORGET_MESSAGES_MAX: usize = 4_096;
/// Bytes of a text that is looked for to be forgotten, least and most: a shorter one would stand in anything.
pub const FORGET_MATCH_BYTES: (usize, usize) = (4, 4_096);
/// Characters of a run of a message that is looked for elsewhere; a shorter message is not.
pub const FORGET_RUN_CHARS: u64 = 32;
/// Runs that are looked for at a time.
pub const FORGET_RUNS: usize = 128;
/// Runs of one forgetting; what is beyond is told as not looked for.
pub const FORGET_RUNS_MAX: usize = 1_024;
/// Rows of a page that is looked through.
pub const FORGET_SCAN_ROWS: u64 = 1_024;
/// Quotes of each kind that are found at most.
pub const FORGET_QUOTES_MAX: u64 = 1_000;
/// Messages, or copies of texts, of one step.
pub const FORGET_ROWS: u64 = 64;
/// Rows of each collection that go at a time with a whole agent.
pub const FORGET_AGENT_ROWS: u64 = 500;
/// Manifests of one answer.
pub const FORGET_LISTED: u64 = 200;
/// Time that a call goes on with a forgetting before it answers that it is under way, in milliseconds.
pub const FORGET_CALL_MS: u64 = 20_000;
/// Places before and behind a call of a tool where its result is looked for.
pub const FORGET_PAIR_SEQS: u64 = 64;
/// Steps of one look: more than any forgetting has but that of a whole agent, which the next look goes on with.
pub const FORGET_STEPS_MAX: u32 = 100_000;
/// Time after which a forgetting that nobody goes on with is taken up, in milliseconds.
pub const FORGET_IDLE_MS: u64 = 10_000;
/// Pause between two looks for such, in milliseconds.
pub const FORGET_PAUSE_MS: u64 = 5_000;
/// Forgettings of one look.
pub const FORGET_DUE_MAX: u64 = 16;
/// Pause between two looks for a change of all vectors, in milliseconds.
pub const REINDEX_PAUSE_MS: u64 = 1_000;
/// Time of one look after which it begins no further document, in milliseconds; well below a job's end.
pub const REINDEX_MS: u64 = 10_000;
/// Documents without the next vectors that are asked for at once.
pub const REINDEX_DOCUMENTS: u64 = 256;
/// Chunks of an agent that a server changes within [`ARCHIVAL_TAIL_MS`]: a view shows none that was changed a moment ago, so all of them, of several
/// servers too, must find room in what is looked at beside it.
pub const REINDEX_TAIL_ROWS: u64 = ARCHIVAL_TAIL_ROWS_MAX as u64 / 4;
/// Agents whose chunks are counted at once.
pub const REINDEX_AGENTS_KEPT: usize = 4_096;
/// Documents in one look whose embedder may fail before the look ends.
pub const REINDEX_FAILURES_MAX: u32 = 3;
/// Longest measurement of a new index before it serves, in milliseconds; what takes longer is measured when it serves.
pub const REINDEX_MEASURE_MS: u64 = 30_000;
/// Time between the last moment at which a search may have begun with the vectors of before and the first at which they are taken away, in
/// milliseconds: the longest call, and the longest answer of the database.
pub const REINDEX_SETTLE_MS: u64 = CALL_MS_MAX + STORE_ANSWER_MS_MAX;
/// Chunks looked at, and manifests described, in one step when vectors are taken away.
pub const REINDEX_CLEAN_ROWS: u64 = 256;
/// Times a change is begun, stopped or given up anew when somebody else wrote the setting just then.
pub const REINDEX_TRIES_MAX: u32 = 8;
/// Longest run of a job, in milliseconds; a run that is cut off leaves whole writes behind.
pub const JOB_MS_MAX: u64 = 60_000;
/// How far the clocks of two servers on one database may differ, in milliseconds, before one of them counts as wrong.
pub const CLOCK_SKEW_MS_MAX: u64 = 2_000;
/// Longest wait for readiness of the database at the start, in milliseconds.
pub const START_MS_MAX: u64 = 30_000;
/// A server that was started for a client ends when no connection has been open for this time, in seconds.
pub const IDLE_EXIT_S: u64 = 300;
/// Longest wait of a client for a server that is being started, in milliseconds: the server's own limit and what the process takes.
pub const START_WAIT_MS_MAX: u64 = START_MS_MAX + 10_000;
/// Processes that one client starts for one call; an engine that is just being closed lets the next one in after a moment.
pub const STARTS_MAX: u32 = 8;
/// First and longest pause between two of them, in milliseconds.
pub const STARTS_PAUSE_MS: (u64, u64) = (100, 2_000);
/// Pause between two looks at a server that is being started, in milliseconds.
pub const START_LOOK_MS: u64 = 20;
/// Longest wait for the answer to one such look, in milliseconds.
pub const START_ANSWER_MS_MAX: u64 = 5_000;
/// Length from which the log of a started server is set aside at the next start, in bytes; one older log is kept.
pub const SERVER_LOG_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Attempts of one MCP call when the server is lost or busy; all carry the same key.
pub const MCP_ATTEMPTS_MAX: u32 = 5;
/// Time after which no further attempt is made, in milliseconds; below what MCP clients usually wait.
pub const MCP_ATTEMPTS_MS_MAX: u64 = 50_000;
/// Pause before an MCP call is repeated at a busy server, in milliseconds; it grows with the attempts.
pub const MCP_PAUSE_MS: u64 = 100;
/// Longest wait of an MCP call for one answer, in milliseconds: an explicit eviction may ask a model.
pub const MCP_ANSWER_MS_MAX: u64 = CALL_MS_MAX + MODEL_MS_MAX;
/// MCP calls of one client that run or wait for their turn.
pub const MCP_CALLS_MAX: usize = 64;
/// MCP clients on one socket at the same time.
pub const MCP_CLIENTS_MAX: usize = 64;
/// Longest text that a prompt takes up, in bytes.
pub const MCP_PROMPT_BYTES_MAX: usize = 256 * 1024;
/// Blocks whose revision one MCP conversation remembers.
pub const MCP_BLOCKS_MAX: usize = 1_024;
/// Archived documents whose revision one MCP conversation remembers.
pub const MCP_DOCUMENTS_MAX: usize = 4_096;
/// Bytes of one current text that a model is shown after a conflict; a longer one is cut and says so.
pub const MCP_CURRENT_BYTES_MAX: usize = 16 * 1024;
/// Newest messages that a model is shown after a conflict about the queue.
pub const MCP_CURRENT_MESSAGES: u64 = 5;
/// Window of an agent that an MCP client makes by its first write, in tokens, unless told otherwise.
pub const MCP_WINDOW_TOKENS: u64 = 32_768;
/// Newest messages that the score of an agent looks for; `vctx verify` looks at all.
pub const SCORE_MESSAGES_MAX: u64 = 20_000;
/// Newest events that the score of an agent counts.
pub const SCORE_EVENTS_MAX: u64 = 10_000;
/// Longest wait for the probe of one tier, in milliseconds.
pub const PROBE_MS_MAX: u64 = 2_000;
/// Probes of each tier that are remembered, newest first: an hour at the usual pace.
pub const PROBES_KEPT: usize = 720;
/// Pause between two runs of the inside eye, in milliseconds.
pub const GUARDS_MS: u64 = 60_000;
/// Longest wait for one run of the inside eye, in milliseconds; what takes longer counts as a database that does not answer.
pub const GUARDS_MS_MAX: u64 = 10_000;
/// Longest text that the service manager is told as status, in characters.
pub const STATUS_CHARS_MAX: usize = 200;
/// Sessions of agents measured at the same time; the one that was quiet longest is closed for a new one.
pub const SESSIONS_MAX: usize = 1_024;
/// Quiet time after which an agent's session is over, unless configured, in milliseconds: fifteen minutes.
pub const SESSION_IDLE_MS: u64 = 900_000;
/// Sessions closed with their figures when the server stops; the rest are closed without a line.
pub const SESSIONS_TOLD_MAX: usize = 64;
/// Longest time for that, in milliseconds.
pub const SESSIONS_TOLD_MS: u64 = 3_000;
/// Times a model is asked for one summary, the first one counted (never a loop).
pub const SUMMARY_ATTEMPTS_MAX: usize = 3;
/// Longest file that an import reads, in bytes.
pub const IMPORT_FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Blocks, entries and documents of one import.
pub const IMPORT_ITEMS_MAX: usize = 1_000_000;
/// Files of a directory that is imported.
pub const IMPORT_FILES_MAX: usize = 10_000;
/// Directories in each other of one that is imported.
pub const IMPORT_DEPTH_MAX: usize = 16;
/// Longest text that an import makes a block of, in bytes, unless told otherwise; a longer one is archived.
pub const IMPORT_BLOCK_BYTES: usize = 8 * 1024;
/// Longest text that an import sends as one document, in bytes: with what JSON adds to it, it stays below `BODY_BYTES_MAX`.
pub const IMPORT_PIECE_BYTES: usize = 768 * 1024;
/// Entries that an import sends in one call, in bytes of JSON.
pub const IMPORT_BATCH_BYTES: usize = 1024 * 1024;
/// Blocks that an import writes on one revision: fewer than `REVISIONS_KEPT`.
pub const IMPORT_BLOCKS_AT_ONCE: usize = 16;
/// Messages among which an import looks for what is there already.
pub const IMPORT_LOOKED_MAX: u64 = 1_000_000;
/// Shortest and longest lease of a run that a caller may name, in milliseconds.
pub const LEASE_MS_BOUNDS: (u64, u64) = (1_000, 3_600_000);
/// Expired runs told of in one look; what is left waits for the next.
pub const RUNS_EXPIRED_MAX: u64 = 256;
/// Longest set of tools that a prompt offers, in bytes of its JSON.
pub const TOOL_SET_BYTES_MAX: usize = 512 * 1024;
/// Tool sets whose digests a core remembers, so that one that is kept is not written again.
pub const TOOL_SETS_REMEMBERED: usize = 8;
/// Longest options of a prompt, in bytes of their JSON.
pub const PROMPT_OPTIONS_BYTES_MAX: usize = 64 * 1024;
/// Models of which an agent's core keeps what it learned of their counting.
pub const LEARNED_MAX: usize = 16;
/// Least and most that a model's count may be learned to be for each thousand of our tokens; what lies beyond is held to be a mistake of its teller.
pub const FACTOR_PERMILLE: (u64, u64) = (500, 4_000);
/// Share of a lower count that the learned factor goes down by with each prompt, as one of so many; up it goes at once.
pub const FACTOR_EASE: u64 = 8;
/// Difference between the provider's count of a prompt and ours above which it is told as an event, in thousandths of ours: up to it the tenth of the
/// window above the flush threshold is enough.
pub const VARIANCE_PERMILLE_MAX: u64 = 90;
/// `limit` of `/prompts`: default and largest.
pub const PROMPTS_PAGE: (u64, u64) = (20, 200);
/// Newest messages of an agent that are looked through for a text letter by letter; of older ones what a search finds.
pub const WHY_SCAN_ROWS: u64 = 20_000;
/// Messages that the life of a fact tells of, newest first.
pub const WHY_SAID_MAX: u64 = 50;
/// Entries of recall storage looked at for the last one that was evicted; the others were written there directly.
pub const WHY_LOOKED_MAX: u64 = 1_024;
/// Copies of texts asked for at once, and such requests of one answer.
pub const WHY_TEXTS: (u64, u64) = (200, 50);
/// Prompts that one answer looks through; a further one begins with `next_turn`.
pub const WHY_PROMPTS_MAX: u64 = 20_000;
/// Ranges of turns that one answer tells of.
pub const WHY_RANGES_MAX: usize = 200;

/// Rows of one agent in an export: a million messages with all that belongs to them.
pub const EXPORT_ROWS_MAX: u64 = 8_000_000;
/// Bytes of an export, and of what is sent to be imported.
pub const EXPORT_BYTES_MAX: u64 = 16 * 1024 * 1024 * 1024;
/// Bytes of one line of an export: a core of 64 blocks, or an answer, of the longest texts that there are.
pub const EXPORT_LINE_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Bytes that a page of rows is to have on the way out and a batch on the way in; one row may be longer.
pub const EXPORT_PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Rows of a page or batch: first of all, and at most.
pub const EXPORT_PAGE_ROWS: (u64, u64) = (16, 512);
/// Rows that say little (names of documents, keys of records) read at once.
pub const EXPORT_LIST_ROWS: u64 = 5_000;
/// Events of one moment that can be told apart.
pub const EXPORT_MOMENT_ROWS_MAX: u64 = 65_536;
/// Pages of one part of an export.
pub const EXPORT_PAGES_MAX: usize = 10_000_000;
/// Times that an export is begun anew when its view of the database was lost.
pub const EXPORT_TRIES_MAX: u32 = 5;
/// Exports and imports of one server at once: each holds a file, and an import the ids of its messages.
pub const EXPORTS_AT_ONCE: usize = 2;
/// Pieces of an export that wait for its reader, 64 KiB each.
pub const EXPORT_PIECES_WAITING: usize = 8;
/// Bytes of such a piece.
pub const EXPORT_PIECE_BYTES: usize = 64 * 1024;
/// Longest wait for the next bytes of a file that is sent to be imported.
pub const IMPORT_PIECE_MS_MAX: u64 = 30_000;
/// How long an import has the place of an agent after its last sign of life.
pub const IMPORT_LEASE_MS: u64 = 15_000;
/// Rows of each kind that go at once when an import is taken back.
pub const IMPORT_TRIM_ROWS: u64 = 256;
/// Longest wait of a client for the end of an export or import.
pub const EXPORT_CLIENT_MS_MAX: u64 = 6 * 3_600_000;
/// Bytes that a packed export may always unpack to.
pub const EXPORT_GZIP_FREE_BYTES: u64 = 64 * 1024 * 1024;
/// How many times longer than itself it may be beyond that.
pub const EXPORT_GZIP_RATIO_MAX: u64 = 200;

// Agents in several databases (`docs/how-to/several-databases.md`).

/// Name of the home place unless it is given another one.
pub const HOME_PLACE: &str = "home";
/// Places beside the home place.
pub const PLACES_MAX: usize = 64;
/// Longest name of a place, in bytes.
pub const PLACE_NAME_BYTES_MAX: usize = 64;
/// Agents whose place a server remembers; when there are more, all are forgotten and asked for again.
pub const PLACES_KNOWN_MAX: usize = 100_000;
/// How long a mover is believed to live that has not been heard of, in milliseconds.
pub const MOVE_LEASE_MS: u64 = 10_000;
/// Pause between two looks for moves that stand still, in milliseconds.
pub const MOVES_PAUSE_MS: u64 = 1_000;
/// Moves that are taken up in one look.
pub const MOVES_DUE_MAX: u64 = 16;
/// Moves of one server at once: each holds a file.
pub const MOVES_AT_ONCE: usize = 4;
/// How long a move waits for a run of its agent, or for what it is forgetting, in milliseconds.
pub const MOVE_BUSY_MS_MAX: u64 = 10_000;
/// How long writes that began before an agent was about to leave have to end, in milliseconds.
pub const MOVE_SETTLE_MS: u64 = 20;
/// Times an agent is copied again because something was still written beside its core.
pub const MOVE_TRIES_MAX: u32 = 5;
/// Manifests of what an agent forgot that go with it.
pub const MOVE_MANIFESTS_MAX: u64 = 10_000;
/// How long a call waits for an agent that is being moved, in milliseconds.
pub const MOVE_WAIT_MS_MAX: u64 = 20_000;
/// First and longest pause of such a wait, in milliseconds.
pub const MOVE_WAIT_PAUSE_MS: (u64, u64) = (5, 100);
/// Places that one call is sent to before it is given up.
pub const HOPS_MAX: u32 = 8;

// What stands between servers and their database (`vctx proxy`).

/// Least and most of `proxy.in_flight_max`: the engine has 128 threads for requests, arangod as many as it is told.
pub const PROXY_IN_FLIGHT: (u64, u64) = (1, 4_096);
/// Least and most of `proxy.waiting_max`.
pub const PROXY_WAITING: (u64, u64) = (0, 65_536);
/// Least and most of the waits of a proxy, in milliseconds.
pub const PROXY_MS: (u64, u64) = (10, 600_000);
/// Least and most of `proxy.query_bytes_max`.
pub const PROXY_QUERY_BYTES: (u64, u64) = (1_024, 128 * 1024 * 1024);
/// Connections of one proxy.
pub const PROXY_CONNECTIONS_MAX: usize = 1_024;
/// Longest idle time of a connection and wait for a request's head, in milliseconds; above [`POOL_IDLE_S`], so that no server writes into a
/// connection that ends just then.
pub const PROXY_HEAD_MS_MAX: u64 = 60_000;
/// Longest head of a request, in bytes.
pub const PROXY_HEAD_BYTES_MAX: usize = 64 * 1024;
/// Longest target of a request, in bytes: names of ours are shorter by far.
pub const PROXY_TARGET_BYTES_MAX: usize = 2_048;
/// Longest body of a request that passes without being looked into, in bytes; arangod takes 1 GiB, the engine 128 MiB.
pub const PROXY_BODY_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Longest body that is held, so that it can be sent once the database listens again, in bytes; a longer one passes as it comes.
pub const PROXY_HELD_BYTES_MAX: usize = 1024 * 1024;
/// Longest wait for a body that is held, and for each further piece of one that passes, in milliseconds.
pub const PROXY_BODY_MS_MAX: u64 = 15_000;
/// Longest answer that passes, in bytes.
pub const PROXY_ANSWER_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Longest wait for each further piece of an answer, in milliseconds.
pub const PROXY_ANSWER_PIECE_MS_MAX: u64 = 60_000;
/// Longest time in which a server takes nothing of an answer that waits for it, in milliseconds.
pub const PROXY_ANSWER_STALL_MS: u64 = ANSWER_STALL_MS;
/// Times a request that changes nothing is sent again after its answer was lost.
pub const PROXY_RESENDS_MAX: u32 = 3;
/// First and longest pause before the database is tried again, in milliseconds.
pub const PROXY_PAUSE_MS: (u64, u64) = (2, 200);
/// Texts of queries that are remembered to read; when there are more, all are forgotten.
pub const PROXY_TEXTS_KEPT: usize = 512;
/// Longest of them, in bytes.
pub const PROXY_TEXT_KEPT_BYTES_MAX: usize = 32 * 1024;
/// Time that requests under way have when a proxy stops, in milliseconds; as long as a server gives its calls.
pub const PROXY_DRAIN_MS_MAX: u64 = DRAIN_MS_MAX;
