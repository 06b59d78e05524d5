//! Named limits of the engine: each queue, wait, batch and buffer has its end here.

/// Bytes of one key in the store (the journal keeps key lengths in 16 bits).
pub const KEY_BYTES_MAX: usize = 65_000;
/// Bytes of a document key (`_key`), as ArangoDB has it.
pub const DOCUMENT_KEY_BYTES_MAX: usize = 254;
/// Bytes of a name of a database, collection, view or index (3.12: 256, databases 128).
pub const NAME_BYTES_MAX: usize = 256;
/// Bytes of one stored document.
pub const DOCUMENT_BYTES_MAX: usize = 64 << 20;
/// Nesting of arrays and objects in a stored value; somewhat more than JSON texts may have.
pub const VALUE_DEPTH_MAX: usize = 250;
/// Bytes of the block cache of the store.
pub const CACHE_BYTES: u64 = 64 << 20;
/// Bytes of one memtable; there is one per key space, and at most four wait for their flush.
pub const MEMTABLE_BYTES: u64 = 16 << 20;
/// Bytes of all journals: what a reopening replays at most.
pub const JOURNAL_BYTES_MAX: u64 = 128 << 20;
/// Bytes of a batch of a rewrite; so many are in memory at a time, beside one more value.
pub const REWRITE_BATCH_BYTES: usize = 4 << 20;
/// Open files of the store.
pub const OPEN_FILES_MAX: usize = 400;
/// Background threads of the store (flush and compaction). Of several the first one hands each compaction back to the queue (fjall 3.1,
/// `worker_tick`): it turns without a pause as long as the others are busy, and takes a whole processor from the requests.
pub const STORE_THREADS: usize = 1;
/// Transactions merged into one write of the journal.
pub const GROUP_COMMITS_MAX: usize = 256;
/// Bytes merged into one write of the journal (a single larger transaction is written alone).
pub const GROUP_BYTES_MAX: usize = 32 << 20;
/// Commits that may wait for their group; more are refused with 21003.
pub const GROUP_WAITING_MAX: usize = 4096;
/// Milliseconds until an unsynced commit is synced in the background (ArangoDB: `--rocksdb.sync-interval` 100).
pub const SYNC_INTERVAL_MS: u64 = 100;
/// Bytes of writes of one request (AQL or document API); a stream transaction has its own setting.
pub const REQUEST_WRITES_BYTES_MAX: u64 = 512 << 20;
/// Milliseconds a request waits for a collection that another transaction holds exclusively (ArangoDB: 900 s).
pub const COLLECTION_LOCK_WAIT_MS: u64 = 900_000;
/// Milliseconds that a write of a request waits for another writer of the same key (ArangoDB:
/// `--rocksdb.transaction-lock-timeout` 1000).
pub const KEY_LOCK_WAIT_MS: u64 = 1_000;
/// Milliseconds that commit and abort of a stream transaction wait for a running operation.
pub const STREAM_FINISH_WAIT_MS: u64 = 3_000;
/// Stream transactions open at once; each pins a snapshot.
pub const STREAMS_MAX: usize = 1024;
/// Finished stream transactions that are remembered.
pub const TOMBSTONES_MAX: usize = 16_384;
/// Documents handled in one step of a truncation, of an index build and of the TTL sweeper.
pub const STEP_DOCUMENTS: usize = 1000;
/// Keys removed in one step when dropped data is cleared away.
pub const STEP_KEYS: usize = 10_000;
/// Documents that the TTL sweeper removes from one collection in one round (3.12: 100 000).
pub const TTL_COLLECTION_MAX: usize = 100_000;
/// Documents that the TTL sweeper removes in one round (3.12: 1 000 000).
pub const TTL_ROUND_MAX: usize = 1_000_000;
/// Milliseconds between two rounds of the TTL sweeper (3.12: `--ttl.frequency` 30 000).
pub const TTL_INTERVAL_MS: u64 = 30_000;
/// Milliseconds that revisions may run ahead of their durable ceiling.
pub const CLOCK_CEILING_MS: u64 = 10_000;
/// Numbers that may be given out ahead of their durable ceiling.
pub const ID_CEILING_STEP: u64 = 10_000;
/// Index entries that one document may have in one array index.
pub const ARRAY_ENTRIES_MAX: usize = 10_000;
/// Indexes of one collection (ArangoDB: 64 without primary and edge index).
pub const COLLECTION_INDEXES_MAX: usize = 64;
/// Collections and views of one database.
pub const COLLECTIONS_MAX: usize = 10_000;
/// Databases of the server.
pub const DATABASES_MAX: usize = 4096;
/// Milliseconds that a change of definitions waits for writers of its collection (arangod: 900 s): longer than a forgotten stream
/// transaction lives.
pub const DEFINITION_LOCK_WAIT_MS: u64 = 75_000;
/// Milliseconds after which a database that is dropped looks again for transactions to abort.
pub const DROP_LOCK_TURN_MS: u64 = 50;
/// Edges on one path of a traversal.
pub const TRAVERSAL_DEPTH_MAX: u64 = 10_000;
/// Edges that one traversal may look at.
pub const TRAVERSAL_EDGES_MAX: u64 = 100_000_000;
/// Times a snapshot is taken again when a commit was on its way meanwhile, before it waits for the commit's end.
pub const SNAPSHOT_TRIES_MAX: usize = 64;
/// Bytes of the bounds of frequent terms that a view keeps, some 80 for each thousand postings that a search walked.
pub const VIEW_BOUNDS_BYTES_MAX: usize = 32 << 20;
/// Bytes of the frequencies that a view keeps of its most frequent terms, half a byte for each term and document.
pub const VIEW_FREQUENCIES_BYTES_MAX: usize = 16 << 20;
/// Bytes of lengths of fields that a view keeps, two for each document.
pub const VIEW_LENGTHS_BYTES_MAX: usize = 256 << 20;
/// Stack of a thread that runs queries, in bytes: the deepest text that is parsed takes less than half of it in a build without
/// optimisation (only what is touched takes memory).
pub const QUERY_STACK_BYTES: usize = 16 << 20;
/// Milliseconds between two looks at idle stream transactions.
pub const SWEEP_INTERVAL_MS: u64 = 1_000;
/// Bytes of the centroids of one vector index; they are kept in memory once a query or a write has asked for them.
pub const VECTOR_CENTROIDS_BYTES_MAX: u64 = 64 << 20;
/// Bytes of vectors that all vector indexes together keep in memory at least, unless the engine is told otherwise.
pub const VECTOR_CACHE_BYTES: u64 = 256 << 20;
/// Keys of documents that vector searches remember, so that a search that asks for nothing else reads no document.
pub const VECTOR_KEYS_MAX: usize = 200_000;
/// Tiers of a vector index whose number of cells scales.
pub const VECTOR_TIERS_MAX: usize = 64;
/// Bytes of the sample that a vector index is trained on; a larger one is drawn smaller, by chance.
pub const VECTOR_SAMPLE_BYTES_MAX: u64 = 256 << 20;
/// Rounds of k-means of one training.
pub const VECTOR_TRAINING_ROUNDS_MAX: u32 = 1_000;
/// Documents that are taken into a vector index, and vectors that are moved into their lists, in one step, while writers of the
/// collection wait.
pub const VECTOR_STEP: usize = 1_000;
/// Milliseconds that a step of a vector index waits for the writers of its collection (new ones wait behind it).
pub const VECTOR_LOCK_WAIT_MS: u64 = 250;
/// Milliseconds that it leaves to those writers before it asks again.
pub const VECTOR_LOCK_PAUSE_MS: u64 = 50;
/// Milliseconds between two looks at vector indexes that are not ready.
pub const VECTOR_INTERVAL_MS: u64 = 1_000;
/// Milliseconds until a failed training is tried again (3.12.10: `--vector-index-build-retry-backoff` 60 s).
pub const VECTOR_RETRY_MS: u64 = 60_000;
/// Tries to get past the writers of a collection before a training in the foreground is left to the background.
pub const VECTOR_LOCK_TRIES_MAX: u32 = 20;
/// Vectors of a list between two looks at deadline and kill.
pub const VECTORS_PER_LOOK: usize = 4_096;
/// Disagreements between a vector index and its documents that a comparison tells.
pub const VECTOR_FAULTS_MAX: usize = 100;
/// Bytes that the writer of one view buffers before it begins another segment (the least that tantivy takes).
pub const VIEW_WRITER_BYTES: usize = 15_000_000;
/// Pending rows that one commit of a view takes in.
pub const VIEW_BATCH_ROWS: usize = 10_000;
/// Bytes of documents that one commit of a view takes in (a single larger document is taken in alone).
pub const VIEW_BATCH_BYTES: usize = 16 << 20;
/// Batches of pending rows that one tick takes in; the next tick goes on.
pub const VIEW_DRAIN_BATCHES_MAX: usize = 1000;
/// Terms that a view holds of one document.
pub const VIEW_DOCUMENT_TERMS_MAX: usize = 1_000_000;
/// Words whose stems a thread remembers for one language; then it begins anew.
pub const VIEW_STEMS_MAX: usize = 32_768;
/// Longest of these words, in bytes.
pub const VIEW_STEM_BYTES_MAX: usize = 32;
/// Bytes of texts and token lists that one analyzer remembers of what `TOKENS()` was asked for lately.
pub const TOKENS_REMEMBERED_BYTES: usize = 4 << 20;
/// Longest of these texts, in bytes.
pub const TOKENS_REMEMBERED_TEXT_BYTES_MAX: usize = 16 << 10;
/// Bytes of the terms that a view holds of one document; each of them has its path in front.
pub const VIEW_DOCUMENT_TERM_BYTES_MAX: usize = 64 << 20;
/// Terms of a range, prefix or pattern that add to scores, the most frequent ones; the others match alone (ArangoDB: 128).
pub const VIEW_SCORED_TERMS_MAX: usize = 128;
/// Rows that the query of an analyzer may hold.
pub const ANALYZER_ROWS_MAX: usize = 100_000;
/// Rows that the query of an analyzer may look at.
pub const ANALYZER_STEPS_MAX: usize = 1_000_000;
/// Terms that may stand in one place of a phrase (those of a prefix, a range or a pattern): each is read with its places.
pub const VIEW_PHRASE_TERMS_MAX: usize = 10_000;
/// Milliseconds between two commits of views (ArangoDB: `commitIntervalMsec` 1000).
pub const VIEW_COMMIT_MS: u64 = 1_000;
/// Longest pause in milliseconds before a view whose commit failed is tried again.
pub const VIEW_RETRY_MS_MAX: u64 = 60_000;
/// Ticks without work after which a view counts as quiet: its segments become few, and bounds of frequent terms are made.
pub const VIEW_QUIET_DRAINS: u32 = 2;
/// Documents of the segments that a quiet view makes one of at once, some seven seconds of one processor for each million.
pub const VIEW_QUIET_MERGE_DOCUMENTS_MAX: u64 = 4_000_000;
/// Ticks without work after which a view lets its writer go.
pub const VIEW_WRITER_IDLE_DRAINS: u32 = 60;
/// Milliseconds that closing waits for merges of segments that are under way; what is not through by then is left out.
pub const VIEW_CLOSE_MS: u64 = 5_000;
/// Computed values of one collection (ArangoDB: no bound).
pub const COMPUTED_VALUES_MAX: usize = 256;
