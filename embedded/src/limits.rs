//! Limits of all queues, waits, batches and buffers of the engine, as named constants.

crate::bound::bounds! {
/// Maximum length of one key in the store, in bytes (the journal stores key lengths in 16 bits).
pub const KEY_BYTES_MAX: usize = 65_000;
/// Maximum length of a document key (`_key`) in bytes, which is ArangoDB's limit.
pub const DOCUMENT_KEY_BYTES_MAX: usize = 254;
/// Maximum length of the name of a database, collection, view or index, in bytes (ArangoDB 3.12:
/// 256, for databases 128).
pub const NAME_BYTES_MAX: usize = 256;
/// Maximum size of one stored document, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 64 << 20;
/// Maximum nesting depth of arrays and objects in a stored value, slightly above the maximum for
/// JSON texts.
pub const VALUE_DEPTH_MAX: usize = 250;
/// Size of the store's block cache, in bytes.
pub const CACHE_BYTES: u64 = 64 << 20;
/// Size of one memtable, in bytes. Each key space has one active memtable, and at most four
/// memtables wait for their flush.
pub const MEMTABLE_BYTES: u64 = 16 << 20;
/// Maximum size of all journals together in bytes, and therefore the maximum that a start replays.
pub const JOURNAL_BYTES_MAX: u64 = 128 << 20;
/// Size of one batch of a rewrite, in bytes. A rewrite holds one batch and one further value in
/// memory.
pub const REWRITE_BATCH_BYTES: usize = 4 << 20;
/// Maximum number of files that the store keeps open.
pub const OPEN_FILES_MAX: usize = 400;
/// Number of background threads of the store, for flushes and compactions. With more than one
/// thread, the first thread puts each compaction back into the queue while other threads work
/// (fjall 3.1, `worker_tick`). That busy loop occupies a whole processor.
pub const STORE_THREADS: usize = 1;
/// Default of the maximum memory of all queries, open cursors and answers together, in bytes.
pub const QUERIES_BYTES_MAX: u64 = 4 << 30;
/// Maximum number of transactions merged into one journal write.
pub const GROUP_COMMITS_MAX: usize = 256;
/// Maximum number of bytes merged into one journal write (a larger transaction is written alone).
pub const GROUP_BYTES_MAX: usize = 32 << 20;
/// Maximum number of commits that wait to be merged into a journal write; further commits are
/// refused with error 21003.
pub const GROUP_WAITING_MAX: usize = 4096;
/// Milliseconds until an unsynced commit is synced in the background (ArangoDB:
/// `--rocksdb.sync-interval` 100).
pub const SYNC_INTERVAL_MS: u64 = 100;
/// Maximum number of bytes that one AQL or document API request may write; stream transactions have
/// their own limit.
pub const REQUEST_WRITES_BYTES_MAX: u64 = 512 << 20;
/// Milliseconds that a request waits for a collection that another transaction has locked
/// exclusively (ArangoDB: 900 s).
pub const COLLECTION_LOCK_WAIT_MS: u64 = 900_000;
/// Milliseconds that a write of a request waits for another writer of the same key (ArangoDB:
/// `--rocksdb.transaction-lock-timeout` 1000).
pub const KEY_LOCK_WAIT_MS: u64 = 1_000;
/// Milliseconds that the commit or abort of a stream transaction waits for a running operation of
/// that transaction.
pub const STREAM_FINISH_WAIT_MS: u64 = 3_000;
/// Maximum number of open stream transactions; each transaction keeps a snapshot.
pub const STREAMS_MAX: usize = 1024;
/// Maximum number of finished stream transactions whose status is kept.
pub const TOMBSTONES_MAX: usize = 16_384;
/// Number of documents per step of a truncation, an index build or the TTL sweeper.
pub const STEP_DOCUMENTS: usize = 1000;
/// Number of keys removed per step when the data of dropped collections is removed.
pub const STEP_KEYS: usize = 10_000;
/// Maximum number of documents that the TTL sweeper removes from one collection per round (3.12:
/// 100 000).
pub const TTL_COLLECTION_MAX: usize = 100_000;
/// Maximum number of documents that the TTL sweeper removes per round (3.12: 1 000 000).
pub const TTL_ROUND_MAX: usize = 1_000_000;
/// Milliseconds between two rounds of the TTL sweeper (3.12: `--ttl.frequency` 30 000).
pub const TTL_INTERVAL_MS: u64 = 30_000;
/// How far, in milliseconds, the stored upper bound of revisions is set above the newest revision.
pub const CLOCK_CEILING_MS: u64 = 10_000;
/// How far the stored upper bound of ids is set above the newest id.
pub const ID_CEILING_STEP: u64 = 10_000;
/// Maximum number of index entries of one document in one array index.
pub const ARRAY_ENTRIES_MAX: usize = 10_000;
/// Maximum number of indexes of one collection (ArangoDB: 64, not counting the primary and edge
/// index).
pub const COLLECTION_INDEXES_MAX: usize = 64;
/// Maximum number of collections and views of one database.
pub const COLLECTIONS_MAX: usize = 10_000;
/// Maximum number of databases.
pub const DATABASES_MAX: usize = 4096;
/// Milliseconds that a change of a collection's definition or indexes waits for writers of the
/// collection (arangod: 900 s). The wait is longer than the lifetime of an unused stream
/// transaction.
pub const DEFINITION_LOCK_WAIT_MS: u64 = 75_000;
/// Milliseconds between two searches for transactions that must be aborted because their database
/// is being dropped.
pub const DROP_LOCK_TURN_MS: u64 = 50;
/// Maximum number of edges on one path of a traversal.
pub const TRAVERSAL_DEPTH_MAX: u64 = 10_000;
/// Maximum number of edges that one traversal may read.
pub const TRAVERSAL_EDGES_MAX: u64 = 100_000_000;
/// Maximum number of times that a transaction retakes its snapshot because a commit is in progress.
/// After these attempts, the transaction waits for the commit.
pub const SNAPSHOT_TRIES_MAX: usize = 64;
/// Maximum memory for a view's score bounds of frequent terms, in bytes; each thousand postings of
/// a term take about 80 bytes.
pub const VIEW_BOUNDS_BYTES_MAX: usize = 32 << 20;
/// Maximum memory for the cached term frequencies of a view's most frequent terms, in bytes; each
/// term takes half a byte per document.
pub const VIEW_FREQUENCIES_BYTES_MAX: usize = 16 << 20;
/// Maximum memory for the tokens of fields that a view caches for patterns and edit distances, in
/// bytes; a field with more than half of it is read from the dictionary in each search.
pub const VIEW_VOCABULARY_BYTES_MAX: usize = 32 << 20;
/// Maximum memory for the field lengths that a view caches, in bytes; each field takes two bytes
/// per document.
pub const VIEW_LENGTHS_BYTES_MAX: usize = 256 << 20;
/// Stack size of a query thread, in bytes; only touched pages take memory. In an unoptimised build,
/// the most deeply nested accepted query uses less than half of the stack.
pub const QUERY_STACK_BYTES: usize = 16 << 20;
/// Milliseconds between two searches for idle stream transactions.
pub const SWEEP_INTERVAL_MS: u64 = 1_000;
/// Maximum size of the centroids of one vector index, in bytes. Centroids stay in memory after
/// their first use.
pub const VECTOR_CENTROIDS_BYTES_MAX: u64 = 64 << 20;
/// Smallest default size, in bytes, of the vector cache that all vector indexes share. On a larger
/// machine, the default is an eighth of the memory.
pub const VECTOR_CACHE_BYTES: u64 = 256 << 20;
/// Maximum number of document keys cached for vector searches. With cached keys, a search that
/// returns only keys reads no document.
pub const VECTOR_KEYS_MAX: usize = 200_000;
/// Maximum number of entries of `nLists.tiers` in the definition of a vector index.
pub const VECTOR_TIERS_MAX: usize = 64;
/// Maximum size of the training sample of a vector index, in bytes; if more vectors are available,
/// the sample is a random selection of them.
pub const VECTOR_SAMPLE_BYTES_MAX: u64 = 256 << 20;
/// Maximum number of k-means rounds in one training.
pub const VECTOR_TRAINING_ROUNDS_MAX: u32 = 1_000;
/// Number of documents that one step of building a vector index adds to the index, or of vectors
/// that one step moves into their lists. Writers of the collection wait during a step.
pub const VECTOR_STEP: usize = 1_000;
/// Milliseconds that one step of building a vector index waits for the running writers of the
/// collection. New writers of the collection wait for the step.
pub const VECTOR_LOCK_WAIT_MS: u64 = 250;
/// Pause between two attempts of one step of building a vector index, in milliseconds. Waiting
/// writers run during the pause.
pub const VECTOR_LOCK_PAUSE_MS: u64 = 50;
/// Milliseconds between two checks of vector indexes that are not ready.
pub const VECTOR_INTERVAL_MS: u64 = 1_000;
/// Milliseconds until a failed training is tried again (3.12.10:
/// `--vector-index-build-retry-backoff` 60 s).
pub const VECTOR_RETRY_MS: u64 = 60_000;
/// Maximum number of attempts to lock the collection in a training that a request started. After
/// these attempts, the background thread continues the training.
pub const VECTOR_LOCK_TRIES_MAX: u32 = 20;
/// Number of vectors that a search reads from a list between two checks whether the query has
/// exceeded its time limit or was killed.
pub const VECTORS_PER_LOOK: usize = 4_096;
/// Maximum number of differences returned by a comparison of a vector index with its documents.
pub const VECTOR_FAULTS_MAX: usize = 100;
/// Size of the buffer of a view's writer, in bytes, which is the minimum that tantivy allows. A
/// full buffer becomes a segment.
pub const VIEW_WRITER_BYTES: usize = 15_000_000;
/// Maximum number of pending rows (changes that are not indexed yet) that one commit of a view
/// processes.
pub const VIEW_BATCH_ROWS: usize = 10_000;
/// Maximum size of the documents that one commit of a view processes, in bytes (a larger document
/// is processed alone).
pub const VIEW_BATCH_BYTES: usize = 16 << 20;
/// Maximum number of batches of pending rows that one round of the thread that commits views
/// processes; the next round continues.
pub const VIEW_DRAIN_BATCHES_MAX: usize = 1000;
/// Maximum number of terms of one document in a view.
pub const VIEW_DOCUMENT_TERMS_MAX: usize = 1_000_000;
/// Maximum number of words whose stems a thread caches for one language; a full cache is cleared.
pub const VIEW_STEMS_MAX: usize = 32_768;
/// Maximum length of a word whose stem is cached, in bytes.
pub const VIEW_STEM_BYTES_MAX: usize = 32;
/// Maximum size of the recent texts and token lists that one analyzer caches for `TOKENS()`, in
/// bytes.
pub const TOKENS_REMEMBERED_BYTES: usize = 4 << 20;
/// Maximum length of a text whose token list is cached, in bytes.
pub const TOKENS_REMEMBERED_TEXT_BYTES_MAX: usize = 16 << 10;
/// Maximum size of the terms of one document in a view, in bytes; each term includes its path.
pub const VIEW_DOCUMENT_TERM_BYTES_MAX: usize = 64 << 20;
/// Maximum number of terms of a range, prefix or pattern that contribute to scores (ArangoDB: 128).
/// The most frequent terms contribute; all other terms match without a score.
pub const VIEW_SCORED_TERMS_MAX: usize = 128;
/// Maximum number of rows that the query of an `aql` analyzer may keep in memory.
pub const ANALYZER_ROWS_MAX: usize = 100_000;
/// Maximum number of rows that the query of an `aql` analyzer may read.
pub const ANALYZER_STEPS_MAX: usize = 1_000_000;
/// Maximum number of terms that a prefix, range or pattern at one position of a phrase may match; a
/// search reads the positions of each term.
pub const VIEW_PHRASE_TERMS_MAX: usize = 10_000;
/// Milliseconds between two commits of views (ArangoDB: `commitIntervalMsec` 1000).
pub const VIEW_COMMIT_MS: u64 = 1_000;
/// Maximum pause before a failed view commit is tried again, in milliseconds.
pub const VIEW_RETRY_MS_MAX: u64 = 60_000;
/// Number of consecutive rounds (of the thread that commits views) without pending rows of a view.
/// After this number of rounds, the view merges its segments and computes score bounds of frequent
/// terms.
pub const VIEW_QUIET_DRAINS: u32 = 2;
/// Maximum number of documents that an idle view merges into one segment. Merging a million
/// documents takes one processor about seven seconds.
pub const VIEW_QUIET_MERGE_DOCUMENTS_MAX: u64 = 4_000_000;
/// Number of consecutive rounds (of the thread that commits views) without pending rows of a view.
/// After this number of rounds, the view closes its writer.
pub const VIEW_WRITER_IDLE_DRAINS: u32 = 60;
/// Milliseconds that closing a view waits for running merges of segments; unfinished merges are
/// discarded.
pub const VIEW_CLOSE_MS: u64 = 5_000;
/// Maximum number of computed values of one collection (ArangoDB: no limit).
pub const COMPUTED_VALUES_MAX: usize = 256;
}
