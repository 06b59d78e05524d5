//! vctx: a memory server for language models on ArangoDB over Unix sockets.
//!
//! # The life of a call
//!
//! `POST /v1/agents/{agent}/tools/{tool}` from the socket to the answer. Files are named from this folder.
//!
//! 1. **Accept.** `server/socket.rs` takes a connection when one of its permits is free, and asks the kernel who is there.
//! 2. **Decode.** `server/http.rs` sheds what is too much (503), runs the call on a task of its own, reads the body up to a
//!    limit, takes key and revision from headers or arguments, and decodes the rest once (`tools/spec.rs`).
//! 3. **Admit.** `executor/run.rs` begins here. `policy/admit.rs` makes the `Scope`: nothing reads or writes without one.
//!    `executor/request.rs` demands an idempotency key and a revision from every call that writes; searches and heartbeats
//!    get a key when they bring none, and mean any revision. (A call that only reads now loads the core, asks and answers on
//!    the socket for reads, and is done; a search that finds that it has a list to keep goes on as a write.)
//! 4. **Take the turn.** `executor/turns.rs`: one write in flight for each agent on this server, in order of arrival.
//! 5. **Load, or trust.** `executor/cache.rs` may have the core; it is a guess that the write will check. Otherwise
//!    `store/core.rs` sends `aql/core_load.aql`: the core *and* the record of the key. A known key ends the call here with
//!    its stored answer.
//! 6. **Does the revision hold?** `policy/staleness.rs` compares what the call depends on with what changed since the
//!    caller's revision. Only a real change is 412.
//! 7. **Think.** The tool's `step` (`tools/`) drafts the change; `policy/draft.rs` lets the budget have its say: notice,
//!    eviction, refusal. No clock, socket or file.
//! 8. **Ask,** if the step asks: `executor/answer.rs` fetches the queue (`store/message.rs`), what a search found
//!    (`store/recall.rs`, `store/archive.rs`), vectors or a summary (`models/`), and the tool thinks again. While a model is
//!    asked the turn is given back. On a guess nothing is asked and no error is believed: the core is loaded fresh first.
//! 9. **Apply.** `store/change.rs`: one request with `aql/core_change.aql`, or one stream transaction
//!    (`store/transaction.rs`) when messages leave the queue, are counted anew, or the write mode says so. Revision and key
//!    guard it; core, record, messages, edges, copies and events are written together or not at all.
//! 10. **What became of it.** Written: the cache has the new core. Another writer was faster, or the answer was lost: back to
//!     5 with a fresh core and the key looked up, within bounds. A part of a large eviction: think on.
//! 11. **Reply.** `executor/envelope.rs` made the answer before the write, so that it is stored with it; the revision is
//!     filled in. `executor/run.rs` writes one log line and the metrics, `server/http.rs` sets the `ETag`.
//!
//! # The rooms
//!
//! From the ground up; a room uses rooms below it only (the floors stand in `docs/explanation/architecture.md` and are tested).
//!
//! - [`error`]: one error with a code that says what the caller can do.
//! - [`clock`]: the only time, real or set by a test.
//! - [`ids`]: the only chance, real or seeded.
//! - [`limits`]: the numbers that bound queues, bodies, loops and pages.
//! - [`meters`]: names and help of all metrics.
//! - [`memory`]: plain values: core, message, event, change, receipt, and how each part is rendered.
//! - [`policy`]: decisions: who may, what fits, what leaves the queue, what is stale.
//! - [`chunk`]: the evidence that chunks were embedded late, and the pages of passages.
//! - [`context`]: the rendered window and its receipt.
//! - [`conveyance`]: one number for what the memory carries, from plain counts.
//! - [`models`]: counts tokens, makes summaries and vectors; answers and never decides.
//! - [`store`]: the only room that speaks AQL; two sockets, two types.
//! - [`tools`]: what each tool does to a core; one file each.
//! - [`dialect`]: the tools under other names and in providers' formats; what a call under such a name means here.
//! - [`dropin`]: what clients of OpenAI send and read, and where their conversation goes on.
//! - [`executor`]: the bridge: everything above, in the order of the steps.
//! - [`startup`]: what `guards/` check from outside, checked from inside before serving.
//! - [`jobs`]: what a server does by itself, now and then.
//! - [`pulse`]: what the server looks at every few seconds: tiers, guards, sessions.
//! - [`doctor`]: tries on a database everything the server relies on, and looks at a running deployment.
//! - [`processor`]: drives a model from an event to its yield.
//! - [`server`]: sockets, routes, bytes, problem details.
//! - [`telemetry`]: where logs and metrics go.
//! - [`host`]: the service manager: sockets that it hands over, what it is told.
//! - [`client`]: this server's API from outside, for commands, demo and load test.
//! - [`mcp`]: the tools for MCP clients, on stdin and stdout, over the client.
//! - [`config`]: defaults, file, environment; read once.
//! - [`app`]: puts the rooms together and may start the embedded engine.
//! - [`cli`]: the subcommands of `vctx`.

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
