//! vctx: a memory server for language models on ArangoDB over Unix sockets.
//!
//! # The life of a call
//!
//! `POST /v1/agents/{agent}/tools/{tool}` from the socket to the answer. Files are named from `src/`.
//!
//! 1. **Accept.** `base/socket.rs` takes a connection when one of its permits is free, and asks the kernel who is there.
//! 2. **Decode.** `server/http/http.rs` sheds what is too much (503), runs the call on a task of its own, reads the body up to a
//!    limit, takes key and revision from headers or arguments, and decodes the rest once (`core/tools/spec.rs`).
//! 3. **Admit.** `server/executor/run.rs` begins here. `core/policy/admit.rs` makes the `Scope`: nothing reads or writes without one.
//!    `server/executor/request.rs` demands an idempotency key and a revision from every call that writes; searches and heartbeats
//!    get a key when they bring none, and mean any revision. (A call that only reads now loads the core, asks and answers on
//!    the socket for reads, and is done; a search that finds that it has a list to keep goes on as a write.)
//! 4. **Take the turn.** `server/executor/turns.rs`: one write in flight for each agent on this server, in order of arrival.
//! 5. **Load, or trust.** `server/executor/cache.rs` may have the core; it is a guess that the write will check. Otherwise
//!    `server/store/core.rs` sends `aql/core_load.aql`: the core *and* the record of the key. A known key ends the call here with
//!    its stored answer.
//! 6. **Does the revision hold?** `core/policy/staleness.rs` compares what the call depends on with what changed since the
//!    caller's revision. Only a real change is 412.
//! 7. **Think.** The tool's `step` (`core/tools/`) drafts the change; `core/policy/draft.rs` lets the budget have its say: notice,
//!    eviction, refusal. No clock, socket or file.
//! 8. **Ask,** if the step asks: `server/executor/answer.rs` fetches the queue (`server/store/message.rs`), what a search found
//!    (`server/store/recall.rs`, `server/store/archive.rs`), vectors or a summary (`server/models/`), and the tool thinks again. While a model is
//!    asked the turn is given back. On a guess nothing is asked and no error is believed: the core is loaded fresh first.
//! 9. **Apply.** `server/store/change.rs`: one request with `aql/core_change.aql`, or one stream transaction
//!    (`server/store/transaction.rs`) when messages leave the queue, are counted anew, or the write mode says so. Revision and key
//!    guard it; core, record, messages, edges, copies and events are written together or not at all.
//! 10. **What became of it.** Written: the cache has the new core. Another writer was faster, or the answer was lost: back to
//!     5 with a fresh core and the key looked up, within bounds. A part of a large eviction: think on.
//! 11. **Reply.** `server/executor/envelope.rs` made the answer before the write, so that it is stored with it; the revision is
//!     filled in. `server/executor/run.rs` writes one log line and the metrics, `server/http/http.rs` sets the `ETag`.
//!
//! # The crates
//!
//! From the ground up; a crate uses crates named before it only (`tests/house` holds the table).
//!
//! - `core` thinks: values, decisions, texts, tools. It has no clock, socket, file or `async`.
//! - `base`: clock, random ids, Unix sockets, logs, metrics, the service manager.
//! - `client`: this server's API from outside.
//! - `mcp`: the tools for MCP clients, over the client.
//! - `proxy`: what passes between servers and the database.
//! - `embed-bert`: a BERT model in this process, an optional embedder.
//! - `server` acts: calls, store, models, jobs, the agent loop, HTTP.
//! - `cli`: the commands, the configuration and the composition of a server.
//! - `importers`: readers of other systems' memories.
//! - `lab`: demo, benchmarks, the scripted model, the report.

mod completions;
mod man;
mod run;

pub use run::run;

pub use vctx_base::{clock, ids, metric, socket, telemetry};
pub use vctx_cli::{self as cli, app, config};
pub use vctx_client as client;
pub use vctx_core::{
    chunk, context, conveyance, dialect, error, limits, memory, openai, policy, text, tools,
};
pub use vctx_lab as lab;
pub use vctx_mcp as mcp;
pub use vctx_proxy as proxy;
pub use vctx_server::{
    agent_loop, databases, dispatch, doctor, executor, http, jobs, models, pulse, startup, store,
};
