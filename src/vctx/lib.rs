//! vctx: a memory server for language models on ArangoDB over Unix sockets.
//!
//! # The life of a call
//!
//! `POST /v1/agents/{agent}/tools/{tool}` goes through these steps from the socket to the answer.
//! Paths in this text are below `src/`.
//!
//! 1. **Accept.** `base/socket.rs` accepts a connection when a connection permit is free, and asks
//!    the kernel for the user at the other end.
//! 2. **Decode.** `server/http/` refuses calls above the load limit with 503, and runs each call on
//!    a separate task. The task reads the body up to a limit, takes the idempotency key and the
//!    revision from headers or arguments, and decodes the other arguments (`core/tools/`).
//! 3. **Admit.** `server/executor/run.rs` starts the call. `core/trust/admit.rs` makes the `Scope`,
//!    which every query needs. `server/executor/request.rs` requires an idempotency key and a
//!    revision of every writing call. Searches and heartbeats without key and revision get a new
//!    key and accept any revision. A reading call then loads the core and runs its queries, all on
//!    the read-only socket, and returns its answer. A search that must store a list of results
//!    continues as a write.
//! 4. **Wait for other writes.** `server/executor/turns.rs` executes this server's writes to one
//!    agent one after another, in order of arrival.
//! 5. **Load the core.** The cache in `server/executor/cache.rs` may contain the agent's core. A
//!    cached core may be outdated; the write in step 9 detects this. Without a cached core,
//!    `server/store/core.rs` sends `aql/core_load.aql`, which reads the core and the record of the
//!    idempotency key. A known idempotency key ends the call with the stored answer.
//! 6. **Compare the revision.** `core/policy/staleness.rs` compares the data on which the call
//!    depends with the changes since the caller's revision. If a change concerns that data, the
//!    call is refused with 412.
//! 7. **Decide.** The tool's `step` (`core/tools/`) drafts the change. `core/policy/draft.rs`
//!    applies the token budget: notice, eviction or refusal. Neither the tool nor the policy uses a
//!    clock, socket or file.
//! 8. **Ask.** The tool's `step` may ask for the queue, search results, vectors or a summary. The
//!    executor gets the requested data (`server/executor/answer.rs`), and `step` runs again. While
//!    a model computes vectors or a summary, other calls may write to the agent. A `step` that used
//!    a cached core may ask for data or fail. In both cases, the core is loaded from the database,
//!    and `step` runs again with the loaded core.
//! 9. **Write.** `server/store/change.rs` sends one request with `aql/core_change.aql`. An
//!    eviction, a recount of tokens, or the configuration may require a stream transaction instead
//!    (`server/store/transaction.rs`). Revision and idempotency key protect the write, and all rows
//!    are written together or not at all.
//! 10. **Outcome.** After a successful write, the cache gets the new core. After a conflict or a
//!     lost answer, the call returns to step 5 with a newly loaded core. The number of such returns
//!     is limited. If the write was only a part of a large eviction, the call returns to step 7.
//! 11. **Reply.** `server/executor/envelope.rs` made the answer before the write, because the
//!     answer is stored with the change. `server/executor/run.rs` writes one log line and the
//!     metrics, and `server/http/reply.rs` sets the `ETag`.
//!
//! # The crates
//!
//! This list shows the crates in the order of their dependencies. A crate uses only crates earlier
//! in the list (a table in `tests/house` defines this).
//!
//! - `core`: values, decisions, text functions and tools, without clock, socket, file or `async`.
//! - `steady`: a wall clock that follows a jump of the system clock only if the jump lasts.
//! - `base`: clock, random ids, Unix sockets, logs, metrics, the service manager.
//! - `client`: a client of the server's API.
//! - `mcp`: the tools for MCP clients, which use `client`.
//! - `proxy`: forwards requests of known kinds from servers to the database, and refuses all
//!   others.
//! - `embed-bert`: a BERT model in this process, an optional embedder.
//! - `server`: calls, store, models, jobs, the agent loop and HTTP.
//! - `cli`: the commands, the configuration, and the code that puts a server together from its
//!   parts.
//! - `importers`: readers of other systems' memories.
//! - `lab`, in `loadtest/`: demo, benchmarks, the scripted model, the report.

mod completions;
mod man;
mod run;

pub use run::{BOUNDS, run, tree};

pub use vctx_base::{clock, ids, metric, socket, telemetry};
pub use vctx_cli::{self as cli, app, config};
pub use vctx_client as client;
pub use vctx_core::{
    chunk, conveyance, dialect, error, ledger, limits, memory, openai, policy, proof, search, text,
    tools, trust, window,
};
pub use vctx_lab as lab;
pub use vctx_mcp as mcp;
pub use vctx_proxy as proxy;
pub use vctx_server::{agent_loop, checks, databases, doctor, executor, http, jobs, models, store};
