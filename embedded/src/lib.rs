//! An ArangoDB-compatible engine: a library and a thin binary that answer ArangoDB's HTTP API on a
//! Unix socket.
//!
//! # The steps of a query
//!
//! A client sends `POST /_api/cursor` with a query text, bind parameters and options. The paths
//! below are relative to this folder.
//!
//! 1. **Receive.** `http/server.rs` accepts the connection. `http/own_threads.rs` gives each of the
//!    first 64 connections a thread, which also runs the following steps; further connections share
//!    the listener's event loop. `http/service.rs` reads the request within the limits of
//!    `http/limits.rs`. `http/pool.rs` gives the request a thread in one of four lanes, so that
//!    requests that wait for a transaction never block the commit or abort of this transaction. If
//!    the lane is full, the answer has HTTP status 503 and error 21003.
//! 2. **Find caller and handler.** `http/request.rs` decodes the path and the database, and
//!    `http/auth/front_door.rs` authenticates the caller. `http/routes.rs` selects the handler in
//!    `http/cursor_calls.rs`, which calls `http/queries.rs` to read the body.
//! 3. **Search the plan cache.** `query/prepared.rs` searches `query/cache.rs` for a plan of the
//!    same query text that is valid for the current collections and bind parameters. If there is
//!    one, steps 4 to 6 are skipped.
//! 4. **Parse.** `syntax/lexer.rs` produces tokens; `syntax/parser.rs` (expressions) and
//!    `syntax/statements.rs` build the tree of `syntax/ast.rs`. A syntax error is answered with
//!    error 1501 and its position.
//! 5. **Plan.** `plan/build.rs` turns statements into the nodes of `plan/node.rs`. `plan/scope.rs`
//!    turns names into registers, and `plan/compile.rs` compiles expressions and folds constants.
//!    The schema is held in memory (`schema/`), so planning reads no stored data. A query with an
//!    unsupported feature is refused with an error that names the feature (HTTP status 501, error
//!    9).
//! 6. **Improve the plan.** The optimizer rules in `plan/rules/` move filters up, replace loops by
//!    index lookups, drop sorts whose order an index provides, and buffer a loop's rows before a
//!    write to the same collection. The plan is cached, with the query's text as the key.
//! 7. **Check permissions.** `http/queries.rs` checks the caller's grants for every collection that
//!    the plan reads or writes.
//! 8. **Begin a transaction.** The request begins a new transaction or uses the stream transaction
//!    that the header `x-arango-trx-id` names. `txn/registry.rs` lets only one operation at a time
//!    use a stream transaction. `txn/transaction.rs` takes the collection locks, then the snapshot.
//! 9. **Execute.** `exec/executor.rs` passes one row of registers through the nodes; a loop node
//!    runs the following nodes once per item. `exec/source.rs` reads through `txn/read.rs`, where
//!    the transaction's own writes override the snapshot. A document stays in its stored form
//!    (`txn/stored.rs`) until an expression needs decoded attributes. `exec/view.rs` searches the
//!    segments of a view (`text/`), which `tick.rs` keeps up to date; `exec/near.rs` searches
//!    vector indexes; `expr/eval.rs` evaluates expressions; `exec/budget.rs` counts time and bytes.
//! 10. **Write.** `exec/modify.rs` calls `data/write.rs`, which locks the key (the first writer
//!     wins), reads the stored document, checks the schema, and puts the document with all its
//!     index entries (`index/entries.rs`) into the transaction's overlay of uncommitted writes
//!     (`txn/overlay.rs`). After a failed query, its writes are undone: the transaction rolls back
//!     to a savepoint taken before the query.
//! 11. **Commit.** If the request began its own transaction, the overlay of this transaction
//!     becomes one batch. `storage/group.rs` merges waiting batches, and `storage/fjall.rs` writes
//!     them with at most one sync. Then the locks are released. A stream transaction is committed
//!     by a later request.
//! 12. **Answer.** `http/cursors.rs` splits the rows into batches. It stores the second and all
//!     later batches before the commit, so that a query whose result cannot be stored changes
//!     nothing. `http/reply.rs` writes status, headers and JSON; documents that were not decoded
//!     are written from their stored form (`encode/text.rs`).
//!
//! `docs/reference/embedded-format.md` describes the bytes on disk; `embedded/README.md` describes
//! the supported and refused features.
//!
//! The Cargo feature `conformance` adds parts of ArangoDB that no program of this repository uses.
//! These parts are in folders named `conformance`; in builds without the feature, files named
//! `absent` replace these folders.

pub mod bound;
mod catalog;
pub mod compat;
mod data;
mod disk;
pub mod encode;
mod engine;
pub mod error;
pub mod exec;
pub mod expr;
pub mod functions;
pub mod http;
mod index;
pub mod limits;
#[cfg(test)]
#[path = "../tests/fuzz/mutator.rs"]
mod mutator;
pub mod plan;
pub mod query;
mod random;
mod rewrite;
pub mod schema;
mod storage;
pub mod syntax;
mod text;
mod tick;
pub mod txn;
pub mod value;
mod vector;

pub use catalog::Training;
pub use engine::{Engine, Options, vector_cache_bytes};
pub use rewrite::{Rewritten, rewrite};
