//! Interfaces to the machine for all crates that do I/O: clock, random ids, Unix sockets, logs,
//! metrics, signatures, the service manager.

pub mod clock;
pub mod crowd;
pub mod embedder;
pub mod endpoint;
pub mod held;
pub mod ids;
pub mod metric;
mod refusal;
pub mod responder;
pub mod room;
pub mod secret;
pub mod signing;
pub mod socket;
pub mod sse;
pub mod systemd;
pub mod telemetry;
pub mod trace_context;
mod unread;
