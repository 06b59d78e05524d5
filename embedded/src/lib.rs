//! An ArangoDB-compatible engine: a library and a thin binary that answer ArangoDB's HTTP API on a Unix socket.
//!
//! # The life of a query
//!
//! `POST /_api/cursor` with a text, its binds and its options. Files are named from this folder.
//!
//! 1. **The request comes in.** `http/server.rs` accepts the connection, `http/own_threads.rs` gives the first 64 a thread of
//!    their own, where what follows runs too; the others share the listener's. `http/service.rs` reads the whole request within
//!    `http/limits.rs`, and `http/pool.rs` gives it a thread in one of four lanes, so that those who wait for a transaction
//!    never stand before those who end it. A full lane answers 503/21003.
//! 2. **Who asks, and for what.** `http/request.rs` decodes the path and the database, `http/auth/front_door.rs` finds the
//!    caller, `http/routes.rs` finds the handler: `http/cursor_calls.rs`, which has `http/queries.rs` read the body.
//! 3. **A kept plan.** `query/prepared.rs` looks in `query/cache.rs` for a plan of this very text that still holds for the
//!    collections and the binds that shaped it. With one, steps 4 to 6 are skipped.
//! 4. **Text to tree.** `syntax/lexer.rs` makes tokens; `syntax/parser.rs` (expressions) and `syntax/statements.rs` make the
//!    tree of `syntax/ast.rs`. A fault is 1501 with its place.
//! 5. **Tree to plan.** `plan/build.rs` makes the nodes of `plan/node.rs` from statements, `plan/scope.rs` makes registers
//!    from names, `plan/compile.rs` compiles expressions and folds constants. The schema is a value (`schema/`), so nothing is
//!    read here. What the engine does not have is refused now, by name (501/9).
//! 6. **Better plan.** `plan/rules/` moves filters up, reads indexes, drops sorts that an index already has, and puts a halt
//!    between a loop and a write of the same collection. The plan is kept by its text.
//! 7. **Permission.** `http/queries.rs` asks the caller's grants for every collection that the plan reads or writes.
//! 8. **A transaction.** Its own, or the stream transaction of the header `x-arango-trx-id`, lent by `txn/registry.rs` to one
//!    operation at a time. `txn/transaction.rs` takes the collection locks, then the snapshot.
//! 9. **The run.** `exec/executor.rs` pushes one row of registers down the nodes; loops repeat what is below them.
//!    `exec/source.rs` reads through `txn/read.rs`, where own writes lie over the snapshot; a document stays in its stored
//!    bytes (`txn/stored.rs`) and is decoded as far as an expression looks into it. `exec/view.rs` asks the segments
//!    of a view (`text/`), which `tick.rs` keeps up with the documents; `exec/near.rs` asks vector indexes; `expr/eval.rs`
//!    computes; `exec/budget.rs` counts bytes and time.
//! 10. **A write.** `exec/modify.rs` calls `data/write.rs`: lock the key (the first writer wins), look at what is there, check
//!     the schema, and set the document with all its index entries (`index/entries.rs`) in `txn/overlay.rs`. A failed query
//!     is taken back to its savepoint.
//! 11. **The commit** of a transaction of its own. The overlay becomes one batch; `storage/group.rs` merges the batches that
//!     wait; `storage/fjall.rs` writes them as one, with at most one sync. Then the locks are free. A stream transaction waits
//!     for its own commit.
//! 12. **The answer.** `http/cursors.rs` cuts the rows into batches and keeps the rest (before the commit, so that a result
//!     that cannot be kept changes nothing); `http/reply.rs` writes status, headers and JSON, documents that nobody decoded
//!     straight from their bytes (`encode/text.rs`).
//!
//! The bytes on disk are described in `docs/reference/embedded-format.md`, what is supported and what is refused in `embedded/README.md`.

mod catalog;
pub mod compat;
mod data;
mod disk;
mod encode;
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
